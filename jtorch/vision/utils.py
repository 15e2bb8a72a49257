"""Grids of images, and images in files.

Source: https://docs.pytorch.org/vision/stable/utils.html
"""

from __future__ import annotations

import math
import os
from pathlib import Path
from typing import Any

import numpy as np

import jtorch
from jtorch.eager.public import Tensor
from jtorch.utils.files import write_atomically
from jtorch.vision.image import has_pillow, pillow
from jtorch.vision.png import png, ppm


@jtorch.no_grad()
def make_grid(
    tensor: Any,
    nrow: int = 8,
    padding: int = 2,
    normalize: bool = False,
    value_range: tuple[float, float] | None = None,
    scale_each: bool = False,
    pad_value: float = 0.0,
) -> Tensor:
    """One image (3, H, W) of a batch (N, C, H, W), a list of images, or a single one: ``nrow`` in a row.

    ``normalize`` brings ``value_range`` (else least and greatest value, with ``scale_each`` of each image) to
    [0, 1]. Images of one channel become gray ones of three. Raises TypeError for no tensors.
    """
    listed = isinstance(tensor, list) and all(isinstance(t, Tensor) for t in tensor)
    if not (isinstance(tensor, Tensor) or listed):
        raise TypeError(f"tensor or list of tensors expected, got {_kinds(tensor)}")
    images = _batch(jtorch.stack(tensor) if isinstance(tensor, list) else tensor)
    if normalize:
        if value_range is not None and not isinstance(value_range, tuple):
            raise TypeError("value_range has to be a tuple (min, max) if specified. min and max are numbers")
        groups = [_normalized(t, value_range) for t in images] if scale_each else None
        images = jtorch.stack(groups) if groups is not None else _normalized(images, value_range)
    count, channels, h, w = images.shape
    if count == 1:
        return images.squeeze(0)
    columns = min(nrow, count)
    rows = math.ceil(count / columns)
    height, width = h + padding, w + padding
    shape = (channels, height * rows + padding, width * columns + padding)
    grid = jtorch.full(shape, pad_value, dtype=images.dtype)
    for k in range(count):
        top, left = k // columns * height + padding, k % columns * width + padding
        grid[:, top : top + h, left : left + w] = images[k]
    return grid


def _kinds(value: Any) -> Any:
    return [type(t) for t in value] if isinstance(value, list) else type(value)


def _batch(images: Tensor) -> Tensor:
    """(N, C, H, W), C at least 3."""
    if images.ndim == 2:
        images = images.unsqueeze(0)
    if images.ndim == 3:
        images = images.unsqueeze(0)
    return jtorch.cat([images] * 3, 1) if images.shape[1] == 1 else images


def _normalized(images: Tensor, value_range: tuple[float, float] | None) -> Tensor:
    low, high = value_range or (float(images.min()), float(images.max()))
    return (images.clamp(low, high) - low) / max(high - low, 1e-5)


@jtorch.no_grad()
def save_image(tensor: Any, fp: Any, format: str | None = None, **kwargs: Any) -> None:
    """Write ``make_grid(tensor, **kwargs)``, values in [0, 1], to a path or a binary file.

    ``format`` is that of the path's ending unless given. Without Pillow there are PNG and PPM alone:
    ImportError for others, ValueError where nothing says which.
    """
    grid = make_grid(tensor, **kwargs)
    scaled = (grid * 255 + 0.5).clamp(0, 255).permute(1, 2, 0).to(jtorch.uint8)  # 0.5: to the nearest
    pixels = np.ascontiguousarray(scaled.numpy())
    if has_pillow():
        pillow("save_image").fromarray(pixels).save(fp, format=format)
        return
    path = Path(fp) if isinstance(fp, (str, os.PathLike)) else None
    kind = (format or (path.suffix[1:] if path is not None else "")).lower()
    if not kind:
        raise ValueError("save_image: a file that is not a path needs format")
    if kind not in ("png", "ppm"):
        raise ImportError(f"save_image: {kind} needs Pillow: python -m pip install pillow; PNG and PPM don't")
    content = png(pixels) if kind == "png" else ppm(pixels)
    if path is not None:
        write_atomically(path, content)
    else:
        fp.write(content)
