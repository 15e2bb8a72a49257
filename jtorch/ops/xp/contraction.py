"""Matrix products."""

from __future__ import annotations

import math

import numpy as np

from jtorch.core.products import dot_general_axes as _dot_general_axes, free_axes as _free_axes
from jtorch.ops.xp import _products
from jtorch.ops.xp._wide import converted as _converted

Array = np.ndarray
_Axes = tuple[tuple[int, ...], tuple[int, ...]]
_FLOAT32 = np.dtype(np.float32)
_ALWAYS_SERIAL = _products.ALWAYS_SERIAL  # here and in `_linear.py`: even a call for nothing takes 0.1 us


def matmul(x: Array, y: Array) -> Array:
    dtype, ndim = x.dtype, x.ndim
    if dtype is not _FLOAT32 and dtype.itemsize == 2 and dtype.kind in "fV":  # in float32, rounded once
        return _converted(np.asarray(matmul(_converted(x, _FLOAT32), _converted(y, _FLOAT32))), dtype)
    if y.ndim != 2 or ndim < 2:
        return _products.matmul(x, y) if ndim > 1 < y.ndim else np.matmul(x, y)
    try:
        if ndim == 2:  # ``dot`` calls the same BLAS and starts 0.5 us sooner
            return x.dot(y) if len(x) * y.size < _ALWAYS_SERIAL else _products.dot(x, y)
        # one product of all rows, where matmul would make one per leading index
        *leading, n = x.shape
        return _products.dot(x.reshape(math.prod(leading), n), y).reshape(*leading, y.shape[1])
    except ValueError:
        (n, k), (m, p) = x.shape[-2:], y.shape
        raise RuntimeError(f"mat1 and mat2 shapes cannot be multiplied ({n}x{k} and {m}x{p})") from None


def dot_general(x: Array, y: Array, *, batch: _Axes, inner: _Axes, order: tuple[int, ...]) -> Array:
    found = _products.contract(_dot_general_axes(x.ndim, y.ndim, batch, inner, order), x, y)
    if found is not None:
        return found
    free = [_free_axes(t.ndim, batch[n], inner[n]) for n, t in enumerate((x, y))]
    together = [x.shape[k] for k in batch[0]]
    shape = [*together, *(x.shape[k] for k in free[0]), *(y.shape[k] for k in free[1])]
    summed, rows = math.prod(x.shape[k] for k in inner[0]), math.prod(x.shape[k] for k in free[0])
    columns = math.prod(y.shape[k] for k in free[1])
    left = x.transpose(*batch[0], *free[0], *inner[0]).reshape(*together, rows, summed)
    right = y.transpose(*batch[1], *inner[1], *free[1]).reshape(*together, summed, columns)
    return np.asarray(matmul(left, right).reshape(shape).transpose(order), order="C")
