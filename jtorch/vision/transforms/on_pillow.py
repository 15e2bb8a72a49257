"""Transforms of Pillow's images, by Pillow, as torchvision does them."""

from __future__ import annotations

from typing import Any

import numpy as np

from jtorch.vision.image import pillow


def _modules() -> Any:
    pillow("this transform")
    from PIL import Image, ImageEnhance, ImageOps

    return Image, ImageEnhance, ImageOps


def flip(image: Any, dim: int) -> Any:
    transpose = _modules()[0].Transpose
    return image.transpose(transpose.FLIP_LEFT_RIGHT if dim == -1 else transpose.FLIP_TOP_BOTTOM)


def crop(image: Any, top: int, left: int, height: int, width: int) -> Any:
    return image.crop((left, top, left + width, top + height))


def pad(image: Any, around: list[int], fill: Any, mode: str) -> Any:
    """``around``: left, top, right, bottom; less than 0 takes away."""
    left, top, right, bottom = around
    Image, _, ImageOps = _modules()
    if min(around) < 0:
        cut = [max(-k, 0) for k in around]
        image = image.crop((cut[0], cut[1], image.width - cut[2], image.height - cut[3]))
        left, top, right, bottom = (max(k, 0) for k in around)
    if mode == "constant":
        return ImageOps.expand(image, border=(left, top, right, bottom), fill=_color(fill, image))
    pixels = np.asarray(image)
    widths = ((top, bottom), (left, right), (0, 0))[: pixels.ndim]
    out = Image.fromarray(np.pad(pixels, widths, mode))  # type: ignore[call-overload]
    if image.mode == "P":
        out.putpalette(image.getpalette())
    return out


def _color(fill: Any, image: Any) -> Any:
    """A number stands for all channels."""
    channels = len(image.getbands())
    if isinstance(fill, (int, float)):
        value = fill if image.mode == "F" else int(fill)
        return value if channels == 1 else (value,) * channels
    if isinstance(fill, (list, tuple)):
        values = tuple(int(k) for k in fill)
        values = values * channels if len(values) == 1 else values
        if len(values) != channels:
            raise ValueError(
                "The number of elements in 'fill' does not match the number of channels of the image "
                f"({len(values)} != {channels})"
            )
        return values if channels > 1 else values[0]
    return fill


def resize(image: Any, height: int, width: int, mode: str) -> Any:
    return image.resize((width, height), _resampling(mode))


def _resampling(mode: str) -> Any:
    return getattr(_modules()[0].Resampling, "NEAREST" if mode == "nearest-exact" else mode.upper())


def rotate(image: Any, angle: float, mode: str, expand: bool, center: Any, fill: Any) -> Any:
    color = None if fill is None else _color(fill, image)
    return image.rotate(angle, _resampling(mode), expand, center, fillcolor=color)


def grayscale(image: Any, channels: int) -> Any:
    gray = image.convert("L")
    return gray if channels == 1 else _modules()[0].merge("RGB", [gray] * 3)


def brightness(image: Any, factor: float) -> Any:
    return _modules()[1].Brightness(image).enhance(factor)


def contrast(image: Any, factor: float) -> Any:
    return _modules()[1].Contrast(image).enhance(factor)


def saturation(image: Any, factor: float) -> Any:
    return _modules()[1].Color(image).enhance(factor)


def hue(image: Any, factor: float) -> Any:
    """Shift the byte of the hue, which goes round."""
    if image.mode in ("L", "1", "I", "F"):
        return image
    Image, _, _ = _modules()
    h, s, v = image.convert("HSV").split()
    turned = (np.asarray(h).astype(np.int64) + int(factor * 255)).astype(np.uint8)
    return Image.merge("HSV", (Image.fromarray(turned), s, v)).convert(image.mode)
