"""Places that integers name: whether they are inside, and NumPy's own way to read along one axis, where the
dialect counts the places along all others."""

from __future__ import annotations

from typing import Any

import numpy as np

Array = np.ndarray
_INT64, _UINT64 = np.dtype(np.int64), np.dtype(np.uint64)
_largest: Any = np.maximum.reduce


def check_places(places: Array, n: int, axis: int) -> None:
    """Raise IndexError where one of them is below 0, or not below ``n``."""
    if places.dtype is _INT64:
        # one look at all of them: as unsigned numbers negative ones are large
        wrong = places.size and _largest(places.view(_UINT64), None) >= n
    else:
        wrong = places.size and (places.min() < 0 or places.max() >= n)
    if wrong:
        first = places[(places < 0) | (places >= n)].flat[0]
        raise IndexError(f"index {first} is out of bounds for dimension {axis} with size {n}")


def along(x: Array, index: Array, axis: int) -> Array:
    """``x`` at places along ``axis``: element i, j of the result is that at index[i, j], j for axis 0."""
    check_places(index, x.shape[axis], axis)
    ndim = index.ndim
    if ndim == 1:
        return x.take(index)
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
