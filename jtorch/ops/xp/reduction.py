"""Reductions: ``axis`` is a tuple, possibly empty."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from jtorch.core import partials
from jtorch.ops.xp import _blocked_sum
from jtorch.ops.xp._products import vector_dot as _vector_dot

Array = np.ndarray
Shape = tuple[int, ...]


_FEW = 256  # so few that the order of adding up cannot matter
_FLOAT32, _FLOAT64 = np.dtype(np.float32), np.dtype(np.float64)
_COLUMNS32 = [np.ones((n, 1), np.float32) for n in range(_FEW + 1)]
_COLUMNS64 = [np.ones((n, 1), np.float64) for n in range(_FEW + 1)]
_ONES32, _ONES64 = _blocked_sum.ONES[_FLOAT32], _blocked_sum.ONES[_FLOAT64]
_SHORT, _ROWS = partials.ROWS, _blocked_sum.DIRECT  # the second where four divides the columns
_SOME = len(_ONES32)  # so few that it matters little: BLAS adds up neighbours in 16 to 64 lanes
_add_up: Any = np.add.reduce
_multiply_up: Any = np.multiply.reduce
_largest: Any = np.maximum.reduce
_smallest: Any = np.minimum.reduce
_some: Any = np.logical_or.reduce
_every: Any = np.logical_and.reduce


def sum(x: Array, *, axis: Shape, keepdims: bool) -> Array:
    dtype, k, ndim = x.dtype, len(axis), x.ndim
    if k == ndim:
        n = x.size
        if 0 < n <= _FEW and k and (dtype is _FLOAT32 or dtype is _FLOAT64):
            # a reduction starts in 0.8 us and gives a scalar to wrap, a product with ones in 0.3 us
            column = _COLUMNS32[n] if dtype is _FLOAT32 else _COLUMNS64[n]
            total = (x if k == 1 else x.reshape(-1)).dot(column)
            if n == 1:
                total += 0.0  # sums begin with 0.0: that of -0.0 is not -0.0
            return total.reshape((1,) * k) if keepdims else total[0, ...]
    elif k == 1 and x.shape[axis[0]] == 1 and (dtype is _FLOAT32 or dtype is _FLOAT64):
        return (x if keepdims else x.squeeze(axis)) + dtype.type(0)
    elif k and (dtype is _FLOAT32 or dtype is _FLOAT64) and x.flags.c_contiguous:
        out = _sum_by_product(x, axis, _ONES32 if dtype is _FLOAT32 else _ONES64)
        if out is not None:
            return out.reshape([1 if k in axis else m for k, m in enumerate(x.shape)]) if keepdims else out
    if dtype is _FLOAT32 or dtype is _FLOAT64:
        if x.size > _SHORT and k and _in_rows(x, axis):
            return _blocked_sum.total(x, axis, keepdims)
    elif dtype.itemsize == 2 and dtype.kind in "fV" and k:
        return _blocked_sum.total(x, axis, keepdims)
    return _add_up(x, axis, dtype, None, keepdims)


def _sum_by_product(x: Array, axis: Shape, ones: Array) -> Array | None:
    """The sum over leading or trailing axes as a product with ones: 2,048 rows of 64 take 7 us, not 55.

    None for other axes, and where so many are added up that their order matters.
    """
    k, shape = len(axis), x.shape
    if axis[0] == 0 and axis[-1] == k - 1:
        if k == 1 and x.ndim == 2 and 0 < shape[0] <= _SOME:  # a bias: what gradients need most
            few = shape[0] <= _SHORT or (shape[0] <= _ROWS and shape[1] % 4 == 0)
            return _vector_dot(ones[: shape[0]], x) if few else _blocked_sum.add_rows(x)
        count = math.prod(shape[:k])
        if 0 < count <= _SOME:
            return _blocked_sum.add_rows(x.reshape(count, -1)).reshape(shape[k:])
    elif axis[0] == len(shape) - k:
        count = math.prod(shape[-k:])
        if 0 < count <= _SOME:
            return _vector_dot(x.reshape(-1, count), ones[:count]).reshape(shape[:-k])
    return None


def _in_rows(x: Array, axis: Shape) -> bool:
    """Whether NumPy would add more terms one after the other than is good; neighbours it adds in pairs."""
    k, ndim = len(axis), x.ndim
    if (axis[0] == ndim - k and x.flags.c_contiguous) or (axis[-1] == k - 1 and x.flags.f_contiguous):
        return False
    count = math.prod([x.shape[a] for a in axis])
    if count > _SHORT and x.flags.c_contiguous:
        while k and axis[k - 1] == ndim - 1:  # the last axes are neighbours
            k, ndim = k - 1, ndim - 1
        return count > _ROWS or math.prod([x.shape[a] for a in axis[:k]]) > _SHORT
    return count > _SHORT


def prod(x: Array, *, axis: Shape, keepdims: bool) -> Array:
    return _multiply_up(x, axis, x.dtype, None, keepdims)


def max(x: Array, *, axis: Shape, keepdims: bool) -> Array:
    """The largest; of zeros 0.0 rather than -0.0, which for NumPy depends on their places."""
    found = _largest(x, axis, None, None, keepdims)
    if x.dtype.kind == "f" and not found.all():
        negative = _every(np.signbit(x), axis, None, None, keepdims)
        found = np.where(found == 0, _zero(x, negative), found)
    return found


def min(x: Array, *, axis: Shape, keepdims: bool) -> Array:
    """The smallest; of zeros -0.0 rather than 0.0, which for NumPy depends on their places."""
    found = _smallest(x, axis, None, None, keepdims)
    if x.dtype.kind == "f" and not found.all():
        negative = _some(np.signbit(x), axis, None, None, keepdims)
        found = np.where(found == 0, _zero(x, negative), found)
    return found


def _zero(x: Array, negative: Any) -> Any:
    return np.where(negative, x.dtype.type(-0.0), x.dtype.type(0.0))


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
