"""Plain two-dimensional convolution of small images: those of a block lie side by side, as the last axis.

A row of one small image is too short for a copy or an addition to be worth its start (8 floats in LeNet's
second convolution); the rows of a block of images together are long. Each row of places is one product, so
small that OpenBLAS multiplies without packing its arguments first. On one core (ms, one image after another /
here):

    images and weight                   forward      for the input
    (64,6,12,12) by (16,6,5,5)        0.57 / 0.31      0.81 / 0.73
    (64,1,28,28) by (6,1,5,5)         0.51 / 0.36      1.00 / 0.67
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import numpy as np
from numpy.lib.stride_tricks import as_strided

from jtorch.ops.xp import _products

Array = np.ndarray
Shape = tuple[int, ...]

SMALL_PRODUCT = 1_000_000  # up to here OpenBLAS multiplies without packing its arguments first
_BLOCK = 1 << 22  # bytes of columns per block of images: additions of fewer take up to 1.2 times as long
_FEW_CHANNELS = 8  # with more, one product per position in the kernel gives the images' gradient sooner


def is_small(weight_shape: Shape, width: int) -> bool:
    """Whether a row of ``width`` places of eight images makes a small product."""
    o, c, kh, kw = weight_shape
    return 8 * o * c * kh * kw * width <= SMALL_PRODUCT


def has_few_channels(weight_shape: Shape) -> bool:
    return weight_shape[1] <= _FEW_CHANNELS


def forward(x: Array, weight: Array, bias: Array | None) -> Array:
    """(N, O, OH, OW) of images with their border."""
    (n, c, h, w), (o, _, kh, kw) = x.shape, weight.shape
    height, width, k = h - kh + 1, w - kw + 1, c * kh * kw
    matrix, out = weight.reshape(o, k), np.empty((n, o, height, width), x.dtype)
    for some in _blocks(n, o, k, height, width, x.itemsize):
        last = np.ascontiguousarray(x[some].reshape(-1, c * h * w).T).reshape(c, h, w, -1)
        m = last.shape[-1]
        a, down, right, each = last.strides
        rows = as_strided(last, (height, c, kh, kw, width * m), (down, a, down, right, each), writeable=False)
        found = _products.matmul(matrix, np.ascontiguousarray(rows).reshape(height, k, width * m))
        if bias is not None:
            np.add(found, bias[:, None], found)
        out[some] = found.reshape(height, o, width, m).transpose(3, 1, 0, 2)
    return out


def for_input(g: Array, weight: Array, h: int, w: int) -> Array:
    """The gradient (N, C, H, W) of images with their border."""
    (n, o, height, width), (c, kh, kw) = g.shape, weight.shape[1:]
    k = c * kh * kw
    matrix, out = np.ascontiguousarray(weight.reshape(o, k).T), np.empty((n, c, h, w), g.dtype)
    for some in _blocks(n, o, k, height, width, g.itemsize):
        rows = np.ascontiguousarray(g[some].transpose(2, 1, 3, 0))
        m = rows.shape[-1]
        columns = _products.matmul(matrix, rows.reshape(height, o, width * m))
        parts = columns.reshape(height, c, kh, kw, width * m)
        total = np.zeros((h, c, w * m), g.dtype)
        for i, j in itertools.product(range(kh), range(kw)):
            seen = total[i : i + height, :, j * m : (j + width) * m]
            np.add(seen, parts[:, :, i, j], seen)
        out[some] = total.reshape(h, c, w, m).transpose(3, 1, 0, 2)
    return out


def _blocks(n: int, o: int, k: int, height: int, width: int, itemsize: int) -> Iterator[slice]:
    """Slices of so many images that their rows are small products, and their columns little memory."""
    product, columns = o * k * width, k * height * width * itemsize
    size = max(1, min(SMALL_PRODUCT // max(1, product), _BLOCK // max(1, columns)))
    return (slice(i, i + size) for i in range(0, n, size))
