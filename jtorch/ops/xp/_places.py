"""Places that integers name: whether they are inside, and NumPy's own way to read along one axis, where the
dialect counts the places along all others."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

Array = np.ndarray
_INT64, _UINT64 = np.dtype(np.int64), np.dtype(np.uint64)
_largest: Any = np.maximum.reduce
_FEW = 4096  # to find the largest's place begins in a fifth of the time, and copies what lies apart


def check_places(places: Array, n: int, axis: int) -> None:
    """Raise IndexError where one of them is below 0, or not below ``n``."""
    if places.dtype is _INT64:
        # one look at all of them: as unsigned numbers negative ones are large
        seen, size = places.view(_UINT64), places.size
        wrong = size and (seen.item(seen.argmax()) if size < _FEW else _largest(seen, None)) >= n
    else:
        wrong = places.size and (places.min() < 0 or places.max() >= n)
    if wrong:
        first = places[(places < 0) | (places >= n)].flat[0]
        raise IndexError(f"index {first} is out of bounds for dimension {axis} with size {n}")


def one_hot(index: Array, classes: int) -> Array:
    """As ``ops/placing.py`` says."""
    check_places(index, classes, 0)
    out = np.zeros((*index.shape, classes), _INT64)
    out.put(index.reshape(-1) + np.arange(0, out.size, classes), 1)
    return out


def _begins(rows: int, width: int) -> Array:
    """Where so many rows begin, as a column."""
    return _known_begins(rows, width) if rows < _FEW else np.arange(0, rows * width, width)[:, None]


@functools.lru_cache(64)
def _known_begins(rows: int, width: int) -> Array:
    return np.arange(0, rows * width, width)[:, None]


def along(x: Array, index: Array, axis: int) -> Array:
    """``x`` at places along ``axis``: element i, j of the result is that at index[i, j], j for axis 0."""
    check_places(index, x.shape[axis], axis)
    ndim = index.ndim
    if ndim == 1:
        return x.take(index)
    if ndim == 2 and x.flags.c_contiguous:  # in half the time
        (rows, columns), width = index.shape, x.shape[1]
        if axis:
            return x.take(index + _begins(rows, width) if width else index)
        return x.take(index * width + np.arange(columns))
    shape = [1] * ndim
    places = []
    for k, n in enumerate(index.shape):
        if k == axis:
            places.append(index)
        else:
            shape[k] = n
            places.append(np.arange(n).reshape(shape))
            shape[k] = 1
    return np.asarray(x[tuple(places)], order="C")
