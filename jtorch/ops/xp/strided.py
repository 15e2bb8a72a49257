"""Diagonals, and views that name their own strides."""

from __future__ import annotations

import numpy as np

from jtorch.ops.xp._views import as_strided as _as_strided
from jtorch.ops.xp._wide import in_float32 as _in_float32

Array = np.ndarray
Shape = tuple[int, ...]


def diagonal(x: Array, *, offset: int, axis1: int, axis2: int) -> Array:
    """A writable view, where ``np.diagonal`` gives one that refuses to be written."""
    n, m = x.shape[axis1], x.shape[axis2]
    count = max(0, min(n, m - offset) if offset >= 0 else min(n + offset, m))
    outer = [k for k in range(x.ndim) if k not in (axis1, axis2)]
    if count:  # else the first element may lie outside
        start = [slice(None)] * x.ndim
        start[axis1], start[axis2] = slice(max(0, -offset), None), slice(max(0, offset), None)
        x = x[tuple(start)]
    shape = (*(x.shape[k] for k in outer), count)
    strides = (*(x.strides[k] for k in outer), x.strides[axis1] + x.strides[axis2])
    return _as_strided(x, shape, strides)


def diagonal_put(x: Array, value: Array, *, offset: int, axis1: int, axis2: int) -> Array:
    out = np.array(x, order="C")
    diagonal(out, offset=offset, axis1=axis1, axis2=axis2)[...] = value
    return out


def strided(x: Array, *, size: Shape, steps: Shape, start: int) -> Array:
    """``out[i, j] = x[start + i steps[0] + j steps[1]]`` of a vector, without a copy."""
    width = x.strides[0]
    return _as_strided(x[start:], size, tuple(s * width for s in steps))


@_in_float32
def strided_add(g: Array, *, n: int, steps: Shape, start: int) -> Array:
    """A vector of ``n`` zeros with ``g`` added where ``strided`` read from."""
    places = np.full(g.shape, start)
    for axis, step in enumerate(steps):
        places += np.arange(g.shape[axis]).reshape([-1 if k == axis else 1 for k in range(g.ndim)]) * step
    out = np.zeros((n,), g.dtype)
    np.add.at(out, places, g)
    return out
