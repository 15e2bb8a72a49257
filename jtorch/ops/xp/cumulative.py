"""Running sums, products and extremes along one axis."""

from __future__ import annotations

from typing import Any

import numpy as np

from jtorch.ops.xp import _lines
from jtorch.ops.xp._rows import in_rows as _in_rows

Array = np.ndarray


@_in_rows
def cumsum(x: Array, *, axis: int) -> Array:
    found = _lines.cumsum(x, axis)
    if found is not None:
        return found
    if x.dtype == np.float32:  # in float64, as PyTorch: a running sum of 2 * 10^7 ones stands still at 2^24
        return np.add.accumulate(x, axis, np.float64).astype(np.float32)
    return np.add.accumulate(x, axis, x.dtype)


@_in_rows
def cumprod(x: Array, *, axis: int) -> Array:
    return np.cumprod(x, axis, x.dtype)


@_in_rows
def logcumsumexp(x: Array, *, axis: int) -> Array:
    return np.logaddexp.accumulate(x, axis)


@_in_rows
def cummax(x: Array, *, axis: int) -> tuple[Array, Array]:
    """(the largest so far, its last position)"""
    return _running(np.maximum, x, axis)


@_in_rows
def cummin(x: Array, *, axis: int) -> tuple[Array, Array]:
    """(the smallest so far, its last position)"""
    return _running(np.minimum, x, axis)


def _running(extreme: Any, x: Array, axis: int) -> tuple[Array, Array]:
    values = extreme.accumulate(x, axis)
    line = np.arange(x.shape[axis]).reshape([-1 if k == axis else 1 for k in range(x.ndim)])
    reached = (x == values) | (x != x)  # where a NaN came, all that follows is NaN
    return values, np.maximum.accumulate(np.where(reached, line, 0), axis)
