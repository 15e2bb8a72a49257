"""Plain two-dimensional convolution with NumPy and BLAS, in blocks of images that stay in the cache.

``ops/convolution.py`` says what is computed; these routines compute the common large case (one group, no
stride, no dilation) faster and answer None for every other. Small images go to ``_images_last.py``. On one
core (ms, composite / here):

    images and weight                   forward      for the input   for the weight
    (32,16,32,32) by (32,16,3,3)        6.3 / 3.8      9.3 / 4.1       6.7 / 4.6
    (32,64,16,16) by (64,64,3,3)        9.4 / 8.3     12.9 / 9.3      12.1 / 7.0
"""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
from numpy.lib.stride_tricks import as_strided

from jtorch.ops.xp import _images_last, _products

Array = np.ndarray
Shape = tuple[int, ...]

_BLOCK = 1 << 20  # bytes of scratch memory per block of images: what fits a core's cache
_WORTHWHILE = 1 << 21  # multiplications below which the loops over blocks cost more than they save
_FLOATS = (np.dtype(np.float32), np.dtype(np.float64))


def _plain(x: Array, weight_shape: Shape, groups: int, stride: Shape, dilation: Shape) -> bool:
    ndim = len(weight_shape)
    plain = groups == 1 and stride == (1, 1) == dilation and x.dtype in _FLOATS and x.ndim == ndim == 4
    return plain and x.shape[0] * x.shape[2] * x.shape[3] * math.prod(weight_shape) >= _WORTHWHILE


def _bordered(x: Array, low: Shape, high: Shape) -> Array:
    if not any(low) and not any(high):
        return np.ascontiguousarray(x)
    n, c, h, w = x.shape
    out = np.zeros((n, c, low[0] + h + high[0], low[1] + w + high[1]), x.dtype)
    out[:, :, low[0] : low[0] + h, low[1] : low[1] + w] = x
    return out


def _blocks(n: int, size: int) -> Any:
    """Slices of at most ``size`` positions of ``n``."""
    return (slice(k, min(k + size, n)) for k in range(0, n, size))


def forward(
    x: Array, weight: Array, bias: Array | None, groups: int, *, stride: Shape, low: Shape, high: Shape,
    dilation: Shape,
) -> Array | None:  # fmt: skip
    """(N, O, OH, OW), or None where this is no plain large convolution."""
    if not _plain(x, weight.shape, groups, stride, dilation):
        return None
    (o, c, kh, kw), x = weight.shape, _bordered(x, low, high)
    n, _, h, w = x.shape
    height, width, k = h - kh + 1, w - kw + 1, c * kh * kw
    if _images_last.is_small(weight.shape, width):
        return _images_last.forward(x, weight, bias)
    a, b, down, right = x.strides
    seen = as_strided(x, (n, c, kh, kw, height, width), (a, b, down, right, down, right), writeable=False)
    rows = min(height, _images_last.SMALL_PRODUCT // (o * k * width))
    rows = rows if rows * width >= 64 else height
    images = max(1, _BLOCK // (k * rows * width * x.itemsize))
    matrix, out = weight.reshape(o, k), np.empty((n, o, height * width), x.dtype)
    for some, band in itertools.product(_blocks(n, images), list(_blocks(height, rows))):
        columns = np.ascontiguousarray(seen[some, :, :, :, band])
        flat = columns.reshape(len(columns), k, columns.shape[4] * width)
        here = out[some, :, band.start * width : band.stop * width]
        _products.matmul(matrix, flat, out=here)
        if bias is not None:
            np.add(here, bias[:, None], out=here)
    return out.reshape(n, o, height, width)


def for_input(
    g: Array,
    weight: Array,
    sizes: Shape,
    groups: int,
    *,
    stride: Shape,
    low: Shape,
    high: Shape,
    dilation: Shape,
) -> Array | None:
    """The gradient (N, C, *sizes) of the images, or None where this is no plain large convolution.

    One product per position in the kernel, with the rows of ``g`` laid out as wide as the images and a border
    of zeros: then a shift is an offset, and no columns are written at all.
    """
    if not _plain(g, weight.shape, groups, stride, dilation):
        return None
    (n, o, height, width), (c, kh, kw) = g.shape, weight.shape[1:]
    h, w = (m + a + b for m, a, b in zip(sizes, low, high, strict=True))
    if (h, w) != (height + kh - 1, width + kw - 1):
        return None
    if _images_last.is_small(weight.shape, width) and _images_last.has_few_channels(weight.shape):
        out = _images_last.for_input(g, weight, h, w)
        return out[:, :, low[0] : low[0] + sizes[0], low[1] : low[1] + sizes[1]]
    if c < 4:
        return None
    first, length = (kh - 1) * w + kw - 1, h * w
    images = min(n, max(1, _BLOCK // ((o * (first + length) + 2 * c * length) * g.itemsize)))
    wide = np.zeros((images, o, first + length), g.dtype)
    a, b, right = wide.strides
    inside = as_strided(wide[:, :, first:], (images, o, height, width), (a, b, w * right, right))
    matrices = np.ascontiguousarray(weight.transpose(2, 3, 1, 0))
    out, part = np.empty((n, c, length), g.dtype), np.empty((images, c, length), g.dtype)
    for some in _blocks(n, images):
        count = some.stop - some.start
        inside[:count] = g[some]
        total = out[some]
        for i, j in itertools.product(range(kh), range(kw)):
            start = first - i * w - j
            shifted = wide[:count, :, start : start + length]
            if i == j == 0:
                _products.matmul(matrices[i, j], shifted, out=total)
            else:
                _products.matmul(matrices[i, j], shifted, out=part[:count])
                np.add(total, part[:count], out=total)
    out = out.reshape(n, c, h, w)
    return out[:, :, low[0] : low[0] + sizes[0], low[1] : low[1] + sizes[1]]


def for_weight(
    g: Array, x: Array, kernel: Shape, groups: int, *, stride: Shape, low: Shape, high: Shape, dilation: Shape
) -> Array | None:
    """The gradient (O, C, KH, KW) of the weight, or None where this is no plain large convolution.

    Images with their channels last make columns of long runs, which BLAS takes without transposing.
    """
    shape = (g.shape[1], x.shape[1], *kernel)
    if not _plain(g, shape, groups, stride, dilation) or x.shape[1] < 4:
        return None
    last = np.ascontiguousarray(_bordered(x, low, high).transpose(0, 2, 3, 1))
    (n, o, height, width), c = g.shape, x.shape[1]
    (kh, kw), (a, down, right, _) = kernel, last.strides
    seen = as_strided(
        last, (n, height, width, kh, kw * c), (a, down, right, down, last.itemsize), writeable=False
    )
    places, k = height * width, kh * kw * c
    rows, total = g.reshape(n, o, places), np.zeros((o, k), g.dtype)
    for some in _blocks(n, max(1, _BLOCK // (places * k * g.itemsize))):
        columns = np.ascontiguousarray(seen[some]).reshape(-1, places, k)
        total += _products.matmul(rows[some], columns).sum(0)
    return np.ascontiguousarray(total.reshape(o, kh, kw, c).transpose(0, 3, 1, 2))
