"""Transforms of images, with ``torchvision.transforms``' names.

Source: https://docs.pytorch.org/vision/stable/transforms.html
"""

from jtorch.vision.transforms import functional
from jtorch.vision.transforms.color import ColorJitter, Grayscale, RandomGrayscale
from jtorch.vision.transforms.combining import Compose, Lambda, RandomApply, RandomChoice, RandomOrder
from jtorch.vision.transforms.dtypes import (
    ConvertImageDtype,
    Normalize,
    PILToTensor,
    ToPILImage,
    ToTensor,
)
from jtorch.vision.transforms.erasing import RandomErasing
from jtorch.vision.transforms.functional import InterpolationMode
from jtorch.vision.transforms.geometry import (
    CenterCrop,
    Pad,
    RandomCrop,
    RandomHorizontalFlip,
    RandomResizedCrop,
    RandomRotation,
    RandomVerticalFlip,
    Resize,
)
