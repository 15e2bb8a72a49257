"""Image datasets, transforms of images, and grids of them, with ``torchvision``'s names."""

from jtorch.vision import datasets, models, transforms, utils
