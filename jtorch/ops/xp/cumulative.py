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
    if x.dtype.kind == "c":
        return _complex_logcumsumexp(x, axis)
    return np.logaddexp.accumulate(x, axis)


def _complex_logcumsumexp(x: Array, axis: int) -> Array:
    """What NumPy has for reals alone. The larger real part is taken out, so that no exponential overflows."""
    lines = np.moveaxis(x, axis, 0)
    out = lines.copy()
    for k in range(1, len(lines)):
        total, new = out[k - 1], lines[k]
        first = total.real >= new.real
        high, low = np.where(first, total, new), np.where(first, new, total)
        same = (high == low) & ~np.isfinite(high.real)
        out[k] = np.where(same, high, high + np.log1p(np.exp(low - high)))
    return np.moveaxis(out, 0, axis)


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
    last = np.maximum.accumulate(np.where(reached, line, 0), axis)
    if x.dtype == np.float16:  # of 0.0 and -0.0 NumPy keeps the first one here, and the last one elsewhere
        values = np.take_along_axis(x, last, axis)
    return values, last
