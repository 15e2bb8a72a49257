"""Reductions: ``axis`` is a tuple, possibly empty."""

from __future__ import annotations

import functools
import math
from typing import Any

import numpy as np

Array = np.ndarray
Shape = tuple[int, ...]


_FEW = 256  # so few that the order of adding up cannot matter
_SOME = 2048  # so few that it matters little: BLAS adds up in 16 to 64 lanes
_ONES = {np.dtype(d): [np.ones((n, 1), d) for n in range(_FEW + 1)] for d in (np.float32, np.float64)}
_add_up: Any = np.add.reduce
_multiply_up: Any = np.multiply.reduce
_largest: Any = np.maximum.reduce
_smallest: Any = np.minimum.reduce
_some: Any = np.logical_or.reduce
_every: Any = np.logical_and.reduce


def sum(x: Array, *, axis: Shape, keepdims: bool) -> Array:
    n = x.size
    if n <= _FEW and len(axis) == x.ndim and x.dtype in _ONES and n:
        # a reduction starts in 0.8 us and gives a scalar to wrap, a product with ones in 0.3 us
        total = (x if len(axis) == 1 else x.ravel()).dot(_ONES[x.dtype][n])
        return total.reshape((1,) * x.ndim) if keepdims else total[0, ...]
    if 0 < len(axis) < x.ndim and x.dtype in _ONES and x.flags.c_contiguous:
        out = _sum_by_product(x, axis)
        if out is not None:
            return out.reshape([1 if k in axis else m for k, m in enumerate(x.shape)]) if keepdims else out
    return _add_up(x, axis, x.dtype, None, keepdims)


def _sum_by_product(x: Array, axis: Shape) -> Array | None:
    """The sum over leading or trailing axes as a product with ones: 2,048 rows of 64 take 7 us, not 55.

    None for other axes, and where so many are added up that NumPy's pairwise order is worth its time.
    """
    k, shape = len(axis), x.shape
    if axis[0] == 0 and axis[-1] == k - 1:
        count = math.prod(shape[:k])
        if 0 < count <= _SOME:
            return _ones(count, x.dtype).dot(x.reshape(count, -1)).reshape(shape[k:])
    elif axis[0] == len(shape) - k:
        count = math.prod(shape[-k:])
        if 0 < count <= _SOME:
            return x.reshape(-1, count).dot(_ones(count, x.dtype)).reshape(shape[:-k])
    return None


@functools.cache
def _ones(count: int, dtype: np.dtype) -> Array:
    return np.ones(count, dtype)


def prod(x: Array, *, axis: Shape, keepdims: bool) -> Array:
    return _multiply_up(x, axis, x.dtype, None, keepdims)


def max(x: Array, *, axis: Shape, keepdims: bool) -> Array:
    return _largest(x, axis, None, None, keepdims)


def min(x: Array, *, axis: Shape, keepdims: bool) -> Array:
    return _smallest(x, axis, None, None, keepdims)


def any(x: Array, *, axis: Shape, keepdims: bool) -> Array:
    return _some(x, axis, None, None, keepdims)


def all(x: Array, *, axis: Shape, keepdims: bool) -> Array:
    return _every(x, axis, None, None, keepdims)


def argmax(x: Array, *, axis: Shape, keepdims: bool) -> Array:
    return _arg(np.argmax, x, axis, keepdims)


def argmin(x: Array, *, axis: Shape, keepdims: bool) -> Array:
    return _arg(np.argmin, x, axis, keepdims)


def _arg(function: Any, x: Array, axis: Shape, keepdims: bool) -> Array:
    if len(axis) == 1:
        return function(x, axis=axis[0], keepdims=keepdims)
    assert len(axis) == x.ndim  # over all axes: the position in the flattened array
    found = function(x)
    return np.reshape(found, (1,) * x.ndim) if keepdims else np.asarray(found)
