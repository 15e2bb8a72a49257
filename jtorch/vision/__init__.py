"""Image datasets, transforms of images, and grids of them, with ``torchvision``'s names."""

from jtorch.vision import datasets as datasets, models as models, transforms as transforms, utils as utils
