"""Image datasets, with ``torchvision.datasets``' names. Items: (image, class), see ``jtorch.vision.image``.

Source: https://docs.pytorch.org/vision/stable/datasets.html
"""

from jtorch.vision.datasets.base import VisionDataset as VisionDataset
from jtorch.vision.datasets.cifar import CIFAR10 as CIFAR10, CIFAR100 as CIFAR100
from jtorch.vision.datasets.fake import FakeData as FakeData
from jtorch.vision.datasets.folder import DatasetFolder as DatasetFolder, ImageFolder as ImageFolder
from jtorch.vision.datasets.idx import read_idx as read_idx
from jtorch.vision.datasets.mnist import KMNIST as KMNIST, MNIST as MNIST, FashionMNIST as FashionMNIST
