"""The deterministic transforms, with ``torchvision.transforms.functional``'s names.

They take tensors (..., C, H, W), Pillow's images and ``ArrayImage``s, and give what they took.
Source: https://docs.pytorch.org/vision/stable/transforms.html#functional-transforms
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

import jtorch
from jtorch.eager.public import Tensor
from jtorch.vision.image import ArrayImage, is_image, is_pillow, pillow
from jtorch.vision.transforms import on_pillow, on_tensors
from jtorch.vision.transforms.conversion import (
    convert_image_dtype as convert_image_dtype,
    pil_to_tensor as pil_to_tensor,
    to_pil_image as to_pil_image,
    to_tensor as to_tensor,
)


class InterpolationMode(enum.Enum):
    """How ``resize`` and ``rotate`` find the colour between pixels."""

    NEAREST = "nearest"
    NEAREST_EXACT = "nearest-exact"
    BILINEAR = "bilinear"
    BICUBIC = "bicubic"
    BOX = "box"
    HAMMING = "hamming"
    LANCZOS = "lanczos"


_PILLOW_NUMBERS = ("nearest", "lanczos", "bilinear", "bicubic", "box", "hamming")


def interpolation_mode(value: Any) -> InterpolationMode:
    """The mode; Pillow's numbers are taken, too. Raises TypeError for anything else."""
    if isinstance(value, InterpolationMode):
        return value
    if isinstance(value, int) and 0 <= value < len(_PILLOW_NUMBERS):
        return InterpolationMode(_PILLOW_NUMBERS[value])
    raise TypeError(
        "Argument interpolation should be a InterpolationMode or a corresponding Pillow integer constant"
    )


def _apply(image: Any, for_tensor: Callable[..., Any], for_pillow: Callable[..., Any], *args: Any) -> Any:
    if isinstance(image, Tensor):
        if image.ndim < 2:
            raise TypeError("Tensor is not a torch image.")
        return for_tensor(image, *args)
    if isinstance(image, ArrayImage):
        return to_pil_array(for_tensor(pil_to_tensor(image), *args))
    if is_pillow(image):
        return for_pillow(image, *args)
    raise TypeError(f"img should be PIL Image or Tensor. Got {type(image)}")


def to_pil_array(image: Tensor) -> ArrayImage:
    """The ``ArrayImage`` of a tensor uint8 (C, H, W)."""
    return ArrayImage(np.ascontiguousarray(image.numpy().transpose(1, 2, 0)))


def get_image_size(img: Any) -> list[int]:
    """[width, height]"""
    if isinstance(img, Tensor):
        return [img.shape[-1], img.shape[-2]]
    if is_image(img):
        return list(img.size)
    raise TypeError(f"Unexpected type {type(img)}")


def get_dimensions(img: Any) -> list[int]:
    """[channels, height, width]"""
    width, height = get_image_size(img)
    return [get_image_num_channels(img), height, width]


def get_image_num_channels(img: Any) -> int:
    if isinstance(img, Tensor):
        return 1 if img.ndim == 2 else img.shape[-3]
    if is_image(img):
        return len(img.getbands())
    raise TypeError(f"Unexpected type {type(img)}")


def normalize(tensor: Tensor, mean: Sequence[float], std: Sequence[float], inplace: bool = False) -> Tensor:
    """(tensor - mean) / std for each channel of a float tensor (..., C, H, W).

    Raises TypeError for another dtype or no tensor, ValueError for less than 3 dims or a std of 0.
    """
    if not isinstance(tensor, Tensor):
        raise TypeError(f"img should be Tensor Image. Got {type(tensor)}")
    if not tensor.is_floating_point():
        raise TypeError(f"Input tensor should be a float tensor. Got {tensor.dtype}.")
    if tensor.ndim < 3:
        raise ValueError(
            "Expected tensor to be a tensor image of size (..., C, H, W). Got tensor.size() = "
            f"{tensor.size()}"
        )
    center, scale = (_per_channel(values, tensor.dtype) for values in (mean, std))
    if bool(scale.eq(0).any()):
        raise ValueError(
            f"std evaluated to zero after conversion to {tensor.dtype}, leading to division by zero."
        )
    if inplace:
        return tensor.sub_(center).div_(scale)
    return (tensor - center) / scale


def _per_channel(values: Any, dtype: Any) -> Tensor:
    found = jtorch.as_tensor(values, dtype=dtype)
    return found.reshape(-1, 1, 1) if found.ndim == 1 else found


def hflip(img: Any) -> Any:
    """Left and right exchanged."""
    return _apply(img, on_tensors.flip, on_pillow.flip, -1)


def vflip(img: Any) -> Any:
    """Top and bottom exchanged."""
    return _apply(img, on_tensors.flip, on_pillow.flip, -2)


def crop(img: Any, top: int, left: int, height: int, width: int) -> Any:
    """A part of the image; black where it reaches out."""
    return _apply(img, on_tensors.crop, on_pillow.crop, top, left, height, width)


def center_crop(img: Any, output_size: int | Sequence[int]) -> Any:
    """The middle of the image, padded with black where it is too small."""
    height, width = _pair(output_size)
    w, h = get_image_size(img)
    if width > w or height > h:
        dw, dh = max(width - w, 0), max(height - h, 0)
        img = pad(img, [dw // 2, dh // 2, (dw + 1) // 2, (dh + 1) // 2])
        w, h = get_image_size(img)
        if (width, height) == (w, h):
            return img
    return crop(img, round((h - height) / 2.0), round((w - width) / 2.0), height, width)


def _pair(size: Any) -> tuple[int, int]:
    if isinstance(size, int):
        return size, size
    return (size[0], size[0]) if len(size) == 1 else (size[0], size[1])


def pad(img: Any, padding: int | Sequence[int], fill: Any = 0, padding_mode: str = "constant") -> Any:
    """More pixels around the image: one count, (left/right, top/bottom), or (left, top, right, bottom).

    ``padding_mode``: constant (of ``fill``), edge, reflect or symmetric. Less than 0 takes pixels away.
    Raises TypeError or ValueError for arguments of another form.
    """
    if not isinstance(padding, (int, tuple, list)):
        raise TypeError("Got inappropriate padding arg")
    if not isinstance(fill, (int, float, str, tuple, list)):
        raise TypeError("Got inappropriate fill arg")
    if padding_mode not in ("constant", "edge", "reflect", "symmetric"):
        raise ValueError("Padding mode should be either constant, edge, reflect or symmetric")
    sides = [padding] if isinstance(padding, int) else list(padding)
    if len(sides) not in (1, 2, 4):
        raise ValueError(
            f"Padding must be an int or a 1, 2, or 4 element tuple, not a {len(sides)} element tuple"
        )
    around = (sides * 4)[:4]
    if not is_pillow(img) and not isinstance(fill, (int, float)):
        if isinstance(fill, str) or len(fill) != 1:
            raise TypeError("fill must be a number for a tensor: all its channels are filled alike")
        fill = fill[0]
    return _apply(img, on_tensors.pad, on_pillow.pad, around, fill, padding_mode)


def resize(
    img: Any,
    size: int | Sequence[int],
    interpolation: Any = InterpolationMode.BILINEAR,
    max_size: int | None = None,
    antialias: bool | None = True,
) -> Any:
    """The image in (height, width), or with a shorter side of ``size`` and a longer of at most ``max_size``.

    Pillow's images are always smoothed where they get smaller, tensors with ``antialias``.
    Raises TypeError or ValueError for arguments of another form, NotImplementedError for a way of
    interpolation that only Pillow has.
    """
    mode = interpolation_mode(interpolation).value
    if isinstance(size, (list, tuple)) and len(size) not in (1, 2):
        raise ValueError(
            f"Size must be an int or a 1 or 2 element tuple/list, not a {len(size)} element tuple/list"
        )
    width, height = get_image_size(img)
    new = _resized(height, width, size, max_size)
    if new == (height, width):
        return img
    if not is_pillow(img) and mode not in ("nearest", "nearest-exact", "bilinear", "bicubic"):
        raise NotImplementedError(f"resize: interpolation {mode} is for Pillow's images alone")
    smooth = antialias is not False

    def by_tensor(image: Tensor, height: int, width: int, mode: str) -> Tensor:
        return on_tensors.resize(image, height, width, mode, smooth)

    return _apply(img, by_tensor, on_pillow.resize, *new, mode)


def _resized(height: int, width: int, size: Any, max_size: int | None) -> tuple[int, int]:
    if not isinstance(size, int) and len(size) == 2:
        if max_size is not None:
            raise ValueError(
                "max_size should only be passed if size specifies the length of the smaller edge, i.e. size "
                "should be an int or a sequence of length 1 in torchscript mode."
            )
        return size[0], size[1]
    wanted = size if isinstance(size, int) else size[0]
    short, long = sorted((height, width))
    new_short, new_long = wanted, on_tensors.scaled_side(short, long, wanted)
    if max_size is not None:
        if max_size <= wanted:
            raise ValueError(
                f"max_size = {max_size} must be strictly greater than the requested size for the smaller "
                f"edge size = {size}"
            )
        if new_long > max_size:
            new_short, new_long = int(max_size * new_short / new_long), max_size
    return (new_short, new_long) if height <= width else (new_long, new_short)


def resized_crop(
    img: Any,
    top: int,
    left: int,
    height: int,
    width: int,
    size: int | Sequence[int],
    interpolation: Any = InterpolationMode.BILINEAR,
    antialias: bool | None = True,
) -> Any:
    """``crop``, then ``resize``."""
    return resize(crop(img, top, left, height, width), size, interpolation, antialias=antialias)


def rotate(
    img: Any,
    angle: float,
    interpolation: Any = InterpolationMode.NEAREST,
    expand: bool = False,
    center: Sequence[int] | None = None,
    fill: Any = None,
) -> Any:
    """A Pillow image, turned by ``angle`` degrees against the clock; NotImplementedError for others."""
    if not is_pillow(img):
        pillow("rotate")
        raise NotImplementedError(f"rotate: for Pillow's images alone, got {type(img)}")
    if not isinstance(angle, (int, float)):
        raise TypeError("Argument angle should be int or float")
    return on_pillow.rotate(img, angle, interpolation_mode(interpolation).value, expand, center, fill)


def to_grayscale(img: Any, num_output_channels: int = 1) -> Any:
    """A gray image with 1 or 3 channels. Raises TypeError for a tensor, ValueError for other counts."""
    if not is_image(img):
        raise TypeError("Input should be PIL Image")
    return rgb_to_grayscale(img, num_output_channels)


def rgb_to_grayscale(img: Any, num_output_channels: int = 1) -> Any:
    """A gray image with 1 or 3 channels: 0.2989 red + 0.587 green + 0.114 blue."""
    if num_output_channels not in (1, 3):
        raise ValueError("num_output_channels should be either 1 or 3")
    return _apply(img, _gray_tensor, on_pillow.grayscale, num_output_channels)


def _gray_tensor(image: Tensor, channels: int) -> Tensor:
    found = get_image_num_channels(image)
    if found == 1:
        return image if channels == 1 else jtorch.cat([image] * 3, -3)
    if found != 3:
        raise TypeError(f"Input image tensor permitted channel values are [1, 3], but found {found}")
    return on_tensors.grayscale(image, channels)


def adjust_brightness(img: Any, brightness_factor: float) -> Any:
    """0 is black, 1 the image, 2 twice as bright. Raises ValueError below 0."""
    _check_factor("brightness_factor", brightness_factor)
    return _apply(img, _brightness_tensor, on_pillow.brightness, brightness_factor)


def _brightness_tensor(image: Tensor, factor: float) -> Tensor:
    return on_tensors.blend(image, 0.0, factor)


def adjust_contrast(img: Any, contrast_factor: float) -> Any:
    """0 is gray, 1 the image. Raises ValueError below 0."""
    _check_factor("contrast_factor", contrast_factor)
    return _apply(img, on_tensors.contrast, on_pillow.contrast, contrast_factor)


def adjust_saturation(img: Any, saturation_factor: float) -> Any:
    """0 is black and white, 1 the image. Raises ValueError below 0."""
    _check_factor("saturation_factor", saturation_factor)
    return _apply(img, on_tensors.saturation, on_pillow.saturation, saturation_factor)


def _check_factor(name: str, value: float) -> None:
    if value < 0:
        raise ValueError(f"{name} ({value}) is not non-negative.")


def adjust_hue(img: Any, hue_factor: float) -> Any:
    """Colours turned by a part of their circle. Raises ValueError outside [-0.5, 0.5]."""
    if not -0.5 <= hue_factor <= 0.5:
        raise ValueError(f"hue_factor ({hue_factor}) is not in [-0.5, 0.5].")
    return _apply(img, on_tensors.hue, on_pillow.hue, hue_factor)


def gaussian_blur(
    img: Any, kernel_size: int | Sequence[int], sigma: float | Sequence[float] | None = None
) -> Any:
    """The image, each pixel a mean of those around it, by weights of a bell; edges are reflected.

    ``kernel_size`` (odd) and ``sigma`` are one number, or one across and one down; ``sigma``, the width of
    the bell, is 0.15 of the size and 0.35 where it is left out. Raises TypeError or ValueError for arguments
    of another form.
    """
    sizes = _two_numbers(kernel_size, "kernel_size")
    if any(size % 2 == 0 or size < 0 for size in sizes):
        raise ValueError(f"kernel_size should have odd and positive integers. Got {sizes}")
    widths = [size * 0.15 + 0.35 for size in sizes] if sigma is None else _two_numbers(sigma, "sigma")
    if any(width <= 0.0 for width in widths):
        raise ValueError(f"sigma should have positive values. Got {widths}")

    def on_pillow_s(image: Any) -> Any:
        return to_pil_image(on_tensors.blur(pil_to_tensor(image), sizes, widths), mode=image.mode)

    return _apply(img, on_tensors.blur, lambda image, *_: on_pillow_s(image), sizes, widths)


def _two_numbers(value: Any, name: str) -> list[Any]:
    if isinstance(value, (int, float)):
        return [value, value]
    if not isinstance(value, (list, tuple)):
        raise TypeError(f"{name} should be a number or a sequence of numbers. Got {type(value)}")
    if len(value) not in (1, 2):
        raise ValueError(f"If {name} is a sequence its length should be 1 or 2. Got {len(value)}")
    return [value[0], value[-1]]


def erase(img: Tensor, i: int, j: int, h: int, w: int, v: Any, inplace: bool = False) -> Tensor:
    """The tensor with ``v`` in the rectangle of size (h, w) at row ``i``, column ``j``.

    Raises TypeError for no tensor.
    """
    if not isinstance(img, Tensor):
        raise TypeError(f"img should be Tensor Image. Got {type(img)}")
    out = img if inplace else img.clone()
    out[..., i : i + h, j : j + w] = v
    return out
