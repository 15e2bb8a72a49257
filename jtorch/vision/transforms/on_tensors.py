"""Transforms of images that are tensors (..., C, H, W), in ops that gradients flow through.

Formulas are those of https://docs.pytorch.org/vision/stable/transforms.html for tensors.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

import jtorch
from jtorch import nn
from jtorch.eager.public import Tensor


def flip(image: Tensor, dim: int) -> Tensor:
    return image.flip((dim,))


def crop(image: Tensor, top: int, left: int, height: int, width: int) -> Tensor:
    """The part of the image, with zeros where it reaches out."""
    h, w = image.shape[-2:]
    rows = slice(max(top, 0), max(min(top + height, h), 0))
    columns = slice(max(left, 0), max(min(left + width, w), 0))
    inner = image[..., rows, columns]
    around = [
        min(max(-left, 0), width), min(max(-top, 0), height),
        min(max(left + width - w, 0), width), min(max(top + height - h, 0), height),
    ]  # fmt: skip
    return pad(inner, around, 0, "constant") if any(around) else inner


def pad(image: Tensor, around: list[int], fill: Any, mode: str) -> Tensor:
    """``around``: left, top, right, bottom; less than 0 takes away."""
    left, top, right, bottom = around
    image = _pad_axis(image, -1, left, right, fill, mode)
    return _pad_axis(image, -2, top, bottom, fill, mode)


def _pad_axis(image: Tensor, dim: int, before: int, after: int, fill: Any, mode: str) -> Tensor:
    first, last = max(-before, 0), image.shape[dim] - max(-after, 0)
    if first or last < image.shape[dim]:
        image = image.narrow(dim, first, max(last - first, 0))
    before, after = max(before, 0), max(after, 0)
    if not before and not after:
        return image
    if mode == "constant":
        shape = list(image.shape)
        frames = []
        for count in (before, after):
            shape[dim] = count
            frames.append(jtorch.full(shape, fill, dtype=image.dtype))
        return jtorch.cat([frames[0], image, frames[1]], dim)
    places = np.pad(np.arange(image.shape[dim]), (before, after), mode)  # type: ignore[call-overload]
    return image.index_select(dim, jtorch.from_numpy(places))


# -- sizes ---------------------------------------------------------------------------------------------


def resize(image: Tensor, height: int, width: int, mode: str, antialias: bool) -> Tensor:
    """One product of matrices for each axis; integers are computed in float32 and rounded."""
    if mode in ("nearest", "nearest-exact"):
        offset = 0.5 if mode == "nearest-exact" else 0.0
        rows = _nearest(image.shape[-2], height, offset)
        columns = _nearest(image.shape[-1], width, offset)
        return image.index_select(-2, rows).index_select(-1, columns)
    exact = image if image.is_floating_point() else image.float()
    h, w = image.shape[-2:]
    down = jtorch.tensor(_weights(h, height, mode, antialias), dtype=exact.dtype)
    across = jtorch.tensor(_weights(w, width, mode, antialias), dtype=exact.dtype)
    out = jtorch.matmul(jtorch.matmul(down, exact), across.t())
    if image.is_floating_point():
        return out
    top = _largest(image)
    return out.round().clamp(0, top).to(image.dtype)  # a cubic goes beyond the range that it reads


def _nearest(n: int, size: int, offset: float) -> Tensor:
    places = np.floor((np.arange(size) + offset) * (n / size)).astype(np.int64)
    return jtorch.from_numpy(np.minimum(places, n - 1))


def _triangle(x: np.ndarray) -> np.ndarray:
    return np.maximum(1 - np.abs(x), 0)


def _cubic(a: float) -> Callable[[np.ndarray], np.ndarray]:
    """Keys' convolution kernel."""

    def kernel(x: np.ndarray) -> np.ndarray:
        x = np.abs(x)
        near = ((a + 2) * x - (a + 3)) * x * x + 1
        far = (((x - 5) * x + 8) * x - 4) * a
        return np.where(x < 1, near, np.where(x < 2, far, 0.0))

    return kernel


def _weights(n: int, size: int, mode: str, antialias: bool) -> np.ndarray:
    """(size, n): how much each pixel before counts in each pixel after.

    With ``antialias`` the kernel is as wide as the pixels after, and what reaches out of the image is left
    out; without it the pixel at the edge takes its place.
    """
    radius = {"bilinear": 1, "bicubic": 2}[mode]
    # PyTorch's cubics: that of Pillow where it smooths, that of OpenCV where it doesn't
    kernel = _triangle if mode == "bilinear" else _cubic(-0.5 if antialias else -0.75)
    scale = n / size
    centers = (np.arange(size) + 0.5) * scale
    if antialias:
        width = max(scale, 1.0)
        support = radius * width
        low = np.maximum((centers - support + 0.5).astype(np.int64), 0)[:, None]
        high = np.minimum((centers + support + 0.5).astype(np.int64), n)[:, None]
        places = np.arange(n)
        weights = kernel((places + 0.5 - centers[:, None]) / width) * ((places >= low) & (places < high))
        return weights / weights.sum(1, keepdims=True)
    sources = centers - 0.5
    if mode == "bilinear":
        sources = np.maximum(sources, 0)
    found = np.zeros((size, n))
    for step in range(1 - radius, radius + 1):
        places = np.floor(sources).astype(np.int64) + step
        np.add.at(found, (np.arange(size), np.clip(places, 0, n - 1)), kernel(sources - places))
    return found


# -- colours -------------------------------------------------------------------------------------------


def _largest(image: Tensor) -> float:
    """The value of white."""
    return 1.0 if image.is_floating_point() else float(np.iinfo(image.dtype.name).max)


def grayscale(image: Tensor, channels: int) -> Tensor:
    red, green, blue = image.unbind(-3)
    gray = (0.2989 * red + 0.587 * green + 0.114 * blue).to(image.dtype).unsqueeze(-3)
    return gray if channels == 1 else jtorch.cat([gray] * 3, -3)


def blend(image: Tensor, other: Any, ratio: float) -> Tensor:
    """``ratio`` of the image and the rest of the other, within black and white."""
    return (ratio * image + (1.0 - ratio) * other).clamp(0, _largest(image)).to(image.dtype)


def contrast(image: Tensor, factor: float) -> Tensor:
    gray = image if image.shape[-3] == 1 else grayscale(image, 1)
    exact = gray if gray.is_floating_point() else gray.float()
    return blend(image, exact.mean((-3, -2, -1), keepdim=True), factor)


def saturation(image: Tensor, factor: float) -> Tensor:
    return image if image.shape[-3] == 1 else blend(image, grayscale(image, 1), factor)


def hue(image: Tensor, factor: float) -> Tensor:
    """Turn the hue by ``factor`` of the circle, through HSV."""
    if image.shape[-3] == 1:
        return image
    top = _largest(image)
    exact = image if image.is_floating_point() else image.float() / top
    h, s, v = _hsv(exact)
    out = _rgb((h + factor).remainder(1.0), s, v)
    if image.is_floating_point():
        return out
    return (out * (top + 1 - 1e-3)).to(image.dtype)


def _hsv(image: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    red, green, blue = image.unbind(-3)
    high, low = image.amax(-3), image.amin(-3)
    spread = high - low
    gray = high == low
    one = jtorch.ones_like(high)
    saturation = spread / jtorch.where(gray, one, high)
    divisor = jtorch.where(gray, one, spread)
    r, g, b = ((high - channel) / divisor for channel in (red, green, blue))
    sector = jtorch.where(high == red, b - g, jtorch.where(high == green, 2.0 + r - b, 4.0 + g - r))
    return (sector / 6.0 + 1.0).remainder(1.0), saturation, high


def _rgb(h: Tensor, s: Tensor, v: Tensor) -> Tensor:
    sector = (h * 6.0).floor()
    rest = h * 6.0 - sector
    p = (v * (1.0 - s)).clamp(0.0, 1.0)
    q = (v * (1.0 - s * rest)).clamp(0.0, 1.0)
    t = (v * (1.0 - s * (1.0 - rest))).clamp(0.0, 1.0)
    sector = sector.remainder(6.0)

    def chosen(values: tuple[Tensor, ...]) -> Tensor:
        """The k-th of six where the sector is k."""
        out = values[5]
        for k in range(5):
            out = jtorch.where(sector == float(k), values[k], out)
        return out

    channels = ((v, q, p, p, t, v), (t, v, v, q, p, p), (p, p, t, v, v, q))
    return jtorch.stack([chosen(values) for values in channels], -3)


def scaled_side(short: int, long: int, size: int) -> int:
    """The longer side where the shorter becomes ``size``."""
    return math.floor(size * long / short)


def blur(image: Tensor, sizes: list[int], widths: list[float]) -> Tensor:
    """Means of the pixels around each, weighted by a bell across and one down."""
    exact = image.is_floating_point()
    pixels = image if exact else image.to(jtorch.float32)
    flat = pixels.reshape(-1, 1, *image.shape[-2:])
    around = [sizes[0] // 2, sizes[0] // 2, sizes[1] // 2, sizes[1] // 2]
    across, down = (_bell(n, s, flat.dtype).to(flat.device) for n, s in zip(sizes, widths, strict=True))
    kernel = (down.unsqueeze(1) * across.unsqueeze(0)).reshape(1, 1, sizes[1], sizes[0])
    found = nn.functional.conv2d(nn.functional.pad(flat, around, mode="reflect"), kernel)
    found = found.reshape(image.shape)
    return found if exact else found.round().to(image.dtype)


def _bell(size: int, width: float, dtype: Any) -> Tensor:
    half = (size - 1) * 0.5
    weights = (-0.5 * (jtorch.linspace(-half, half, size, dtype=dtype) / width) ** 2).exp()
    return weights / weights.sum()
