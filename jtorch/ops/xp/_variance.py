"""The variance of all elements of a large array, block by block.

As a difference, a product and a sum it walks three times through memory; a block stays in the cache. What
blocks give is added up in float64, and the mean is known to more digits than the one that is subtracted: what
rounding that one does to the sum of squares is taken off again. So data far from 0 lose nothing.
"""

from __future__ import annotations

import functools

import numpy as np

Array = np.ndarray
_BLOCK = 1 << 15  # elements: 128 KB of float32; half as many take 1.2 times as long
_RUN = 256  # of which BLAS adds the squares: over whole blocks its sums are off to one side by 1e-7
_FLOATS = (np.dtype(np.float32), np.dtype(np.float64))


def variance(x: Array, degrees: float) -> Array | None:
    """The squared deviations from the mean, summed, over ``degrees``; None for few, or out of order."""
    n = x.size
    if n < 2 * _BLOCK or x.dtype not in _FLOATS or not x.flags.c_contiguous:
        return None
    flat = x.reshape(-1)
    mean = _total(flat) / n
    middle = x.dtype.type(mean)
    apart = mean - float(middle)
    total = _sum_of_squares(flat, middle) - n * apart * apart
    with np.errstate(all="ignore"):
        return np.array(np.float64(total) / degrees, x.dtype)


def is_ordinary(variance: Array) -> bool:
    """Whether no square on the way to these was too large, or too small to be exact."""
    low, high = _exact_between(variance.dtype)
    if not variance.size:
        return True
    return bool(low < np.minimum.reduce(variance, None) and np.maximum.reduce(variance, None) < high)


@functools.cache
def _exact_between(dtype: np.dtype) -> tuple[np.floating, np.floating]:
    info = np.finfo(dtype)
    return info.tiny / info.eps**2, info.max


def _sum_of_squares(x: Array, middle: np.generic) -> float:
    """Of the differences from ``middle``."""
    buffer = np.empty(_BLOCK, x.dtype)
    runs = buffer.reshape(-1, _RUN)
    found = np.empty(len(runs), x.dtype)
    total, end = 0.0, x.size // _BLOCK * _BLOCK
    for begin in range(0, end, _BLOCK):
        np.subtract(x[begin : begin + _BLOCK], middle, buffer)
        total += float(np.add.reduce(np.vecdot(runs, runs, found)))
    rest = np.subtract(x[end:], middle, buffer[: x.size - end])
    return total + float(np.add.reduce(rest * rest))


def _total(x: Array) -> float:
    """The sum of a vector: NumPy adds each block in pairs."""
    end = x.size // _BLOCK * _BLOCK
    blocks = np.add.reduce(x[:end].reshape(-1, _BLOCK), 1)
    return float(np.add.reduce(blocks, None, np.float64)) + float(np.add.reduce(x[end:]))
