"""Transforms of place and size."""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence
from typing import Any

from jtorch import nn
from jtorch.vision.transforms import functional as F
from jtorch.vision.transforms.arguments import TWO_SIZES, happens, two, uniform, whole
from jtorch.vision.transforms.functional import InterpolationMode


class Resize(nn.Module):
    """See ``functional.resize``."""

    def __init__(
        self,
        size: int | Sequence[int],
        interpolation: Any = InterpolationMode.BILINEAR,
        max_size: int | None = None,
        antialias: bool | None = True,
    ) -> None:
        super().__init__()
        if not isinstance(size, (int, Sequence)):
            raise TypeError(f"Size should be int or sequence. Got {type(size)}")
        if isinstance(size, Sequence) and len(size) not in (1, 2):
            raise ValueError("If size is a sequence, it should have 1 or 2 values")
        self.size = size
        self.max_size = max_size
        self.interpolation = F.interpolation_mode(interpolation)
        self.antialias = antialias

    def forward(self, img: Any) -> Any:
        return F.resize(img, self.size, self.interpolation, self.max_size, self.antialias)

    def __repr__(self) -> str:
        return (
            f"{type(self).__name__}(size={self.size}, interpolation={self.interpolation.value}, "
            f"max_size={self.max_size}, antialias={self.antialias})"
        )


class CenterCrop(nn.Module):
    """See ``functional.center_crop``."""

    def __init__(self, size: int | Sequence[int]) -> None:
        super().__init__()
        self.size = two(size, TWO_SIZES)

    def forward(self, img: Any) -> Any:
        return F.center_crop(img, self.size)

    def __repr__(self) -> str:
        return f"{type(self).__name__}(size={self.size})"


class Pad(nn.Module):
    """See ``functional.pad``."""

    def __init__(self, padding: int | Sequence[int], fill: Any = 0, padding_mode: str = "constant") -> None:
        super().__init__()
        if padding_mode not in ("constant", "edge", "reflect", "symmetric"):
            raise ValueError("Padding mode should be either constant, edge, reflect or symmetric")
        if isinstance(padding, Sequence) and len(padding) not in (1, 2, 4):
            raise ValueError(
                f"Padding must be an int or a 1, 2, or 4 element tuple, not a {len(padding)} element tuple"
            )
        self.padding = padding
        self.fill = fill
        self.padding_mode = padding_mode

    def forward(self, img: Any) -> Any:
        return F.pad(img, self.padding, self.fill, self.padding_mode)

    def __repr__(self) -> str:
        return (
            f"{type(self).__name__}(padding={self.padding}, fill={self.fill}, "
            f"padding_mode={self.padding_mode})"
        )


class RandomCrop(nn.Module):
    """A part of the image at a random place, after padding.

    Raises ValueError where the image is smaller than the part, unless ``pad_if_needed``.
    """

    def __init__(
        self,
        size: int | Sequence[int],
        padding: Any = None,
        pad_if_needed: bool = False,
        fill: Any = 0,
        padding_mode: str = "constant",
    ) -> None:
        super().__init__()
        self.size = tuple(two(size, TWO_SIZES))
        self.padding = padding
        self.pad_if_needed = pad_if_needed
        self.fill = fill
        self.padding_mode = padding_mode

    @staticmethod
    def get_params(img: Any, output_size: tuple[int, int]) -> tuple[int, int, int, int]:
        """(top, left, height, width)"""
        width, height = F.get_image_size(img)
        h, w = output_size
        if height < h or width < w:
            raise ValueError(f"Required crop size {(h, w)} is larger than input image size {(height, width)}")
        if (width, height) == (w, h):
            return 0, 0, height, width
        return whole(0, height - h + 1), whole(0, width - w + 1), h, w

    def forward(self, img: Any) -> Any:
        if self.padding is not None:
            img = F.pad(img, self.padding, self.fill, self.padding_mode)
        width, height = F.get_image_size(img)
        if self.pad_if_needed and width < self.size[1]:
            img = F.pad(img, [self.size[1] - width, 0], self.fill, self.padding_mode)
        if self.pad_if_needed and height < self.size[0]:
            img = F.pad(img, [0, self.size[0] - height], self.fill, self.padding_mode)
        return F.crop(img, *self.get_params(img, self.size))

    def __repr__(self) -> str:
        return f"{type(self).__name__}(size={self.size}, padding={self.padding})"


class RandomHorizontalFlip(nn.Module):
    """Left and right exchanged, with probability ``p``."""

    def __init__(self, p: float = 0.5) -> None:
        super().__init__()
        self.p = p

    def forward(self, img: Any) -> Any:
        return F.hflip(img) if happens(self.p) else img

    def __repr__(self) -> str:
        return f"{type(self).__name__}(p={self.p})"


class RandomVerticalFlip(nn.Module):
    """Top and bottom exchanged, with probability ``p``."""

    def __init__(self, p: float = 0.5) -> None:
        super().__init__()
        self.p = p

    def forward(self, img: Any) -> Any:
        return F.vflip(img) if happens(self.p) else img

    def __repr__(self) -> str:
        return f"{type(self).__name__}(p={self.p})"


class RandomResizedCrop(nn.Module):
    """A part of the image of random size, form and place, resized to ``size``.

    ``scale`` bounds its share of the area, ``ratio`` its width over its height.
    """

    def __init__(
        self,
        size: int | Sequence[int],
        scale: Sequence[float] = (0.08, 1.0),
        ratio: Sequence[float] = (3.0 / 4.0, 4.0 / 3.0),
        interpolation: Any = InterpolationMode.BILINEAR,
        antialias: bool | None = True,
    ) -> None:
        super().__init__()
        self.size = two(size, TWO_SIZES)
        for name, value in (("Scale", scale), ("Ratio", ratio)):
            if not isinstance(value, Sequence):
                raise TypeError(f"{name} should be a sequence")
        if scale[0] > scale[1] or ratio[0] > ratio[1]:
            warnings.warn("Scale and ratio should be of kind (min, max)", stacklevel=2)
        self.scale = scale
        self.ratio = ratio
        self.interpolation = F.interpolation_mode(interpolation)
        self.antialias = antialias

    @staticmethod
    def get_params(img: Any, scale: Sequence[float], ratio: Sequence[float]) -> tuple[int, int, int, int]:
        """(top, left, height, width); after ten tries the largest part in the middle of an allowed ratio."""
        width, height = F.get_image_size(img)
        for _ in range(10):
            area = height * width * uniform(scale[0], scale[1])
            aspect = math.exp(uniform(math.log(ratio[0]), math.log(ratio[1])))
            w, h = round(math.sqrt(area * aspect)), round(math.sqrt(area / aspect))
            if 0 < w <= width and 0 < h <= height:
                return whole(0, height - h + 1), whole(0, width - w + 1), h, w
        w, h = width, height
        if width / height < min(ratio):
            h = round(w / min(ratio))
        elif width / height > max(ratio):
            w = round(h * max(ratio))
        return (height - h) // 2, (width - w) // 2, h, w

    def forward(self, img: Any) -> Any:
        place = self.get_params(img, self.scale, self.ratio)
        return F.resized_crop(img, *place, self.size, self.interpolation, self.antialias)

    def __repr__(self) -> str:
        scale, ratio = (tuple(round(k, 4) for k in pair) for pair in (self.scale, self.ratio))
        return (
            f"{type(self).__name__}(size={self.size}, scale={scale}, ratio={ratio}, "
            f"interpolation={self.interpolation.value}, antialias={self.antialias})"
        )


class RandomRotation(nn.Module):
    """A Pillow image, turned by an angle from ``degrees``: (low, high), or (-degrees, degrees).

    Raises ValueError for a single number below 0, NotImplementedError for what is no Pillow image.
    """

    def __init__(
        self,
        degrees: float | Sequence[float],
        interpolation: Any = InterpolationMode.NEAREST,
        expand: bool = False,
        center: Sequence[int] | None = None,
        fill: Any = 0,
    ) -> None:
        super().__init__()
        if isinstance(degrees, (int, float)):
            if degrees < 0:
                raise ValueError("If degrees is a single number, it must be positive.")
            degrees = (-degrees, degrees)
        if len(degrees) != 2:
            raise ValueError("degrees should be a sequence of length 2.")
        self.degrees = [float(d) for d in degrees]
        self.interpolation = F.interpolation_mode(interpolation)
        self.expand = expand
        self.center = center
        self.fill = fill

    def forward(self, img: Any) -> Any:
        angle = uniform(*self.degrees)
        return F.rotate(img, angle, self.interpolation, self.expand, self.center, self.fill)

    def __repr__(self) -> str:
        text = (
            f"{type(self).__name__}(degrees={self.degrees}, interpolation={self.interpolation.value}, "
            f"expand={self.expand}"
        )
        if self.center is not None:
            text += f", center={self.center}"
        return text + f", fill={self.fill})"
