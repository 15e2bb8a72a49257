"""Transforms of images, with ``torchvision.transforms``' names.

Source: https://docs.pytorch.org/vision/stable/transforms.html
"""

from jtorch.vision.transforms import functional as functional
from jtorch.vision.transforms.blurring import GaussianBlur as GaussianBlur
from jtorch.vision.transforms.color import (
    ColorJitter as ColorJitter,
    Grayscale as Grayscale,
    RandomGrayscale as RandomGrayscale,
)
from jtorch.vision.transforms.combining import (
    Compose as Compose,
    Lambda as Lambda,
    RandomApply as RandomApply,
    RandomChoice as RandomChoice,
    RandomOrder as RandomOrder,
)
from jtorch.vision.transforms.dtypes import (
    ConvertImageDtype as ConvertImageDtype,
    Normalize as Normalize,
    PILToTensor as PILToTensor,
    ToPILImage as ToPILImage,
    ToTensor as ToTensor,
)
from jtorch.vision.transforms.erasing import RandomErasing as RandomErasing
from jtorch.vision.transforms.functional import InterpolationMode as InterpolationMode
from jtorch.vision.transforms.geometry import (
    CenterCrop as CenterCrop,
    Pad as Pad,
    RandomCrop as RandomCrop,
    RandomHorizontalFlip as RandomHorizontalFlip,
    RandomResizedCrop as RandomResizedCrop,
    RandomRotation as RandomRotation,
    RandomVerticalFlip as RandomVerticalFlip,
    Resize as Resize,
)
