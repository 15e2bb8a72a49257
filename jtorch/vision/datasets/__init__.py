"""Image datasets, with ``torchvision.datasets``' names. Items: (image, class), see ``jtorch.vision.image``.

Source: https://docs.pytorch.org/vision/stable/datasets.html
"""

from jtorch.vision.datasets.base import VisionDataset
from jtorch.vision.datasets.cifar import CIFAR10, CIFAR100
from jtorch.vision.datasets.fake import FakeData
from jtorch.vision.datasets.folder import DatasetFolder, ImageFolder
from jtorch.vision.datasets.idx import read_idx
from jtorch.vision.datasets.mnist import KMNIST, MNIST, FashionMNIST
