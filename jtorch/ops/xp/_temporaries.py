"""What a composite may do to values of its own, which nobody else sees."""

from __future__ import annotations

import numpy as np

Array = np.ndarray


def turned(x: Array, axes: tuple[int, ...]) -> Array:
    """``x`` with ``axes`` turned around, without a copy: PyTorch has no negative strides to show."""
    return np.flip(x, axes)


def plus(x: Array, y: Array) -> Array | None:
    """``x + y`` in the memory of ``x``; None where that has another dtype or shape."""
    if x.dtype is not y.dtype or np.broadcast_shapes(x.shape, y.shape) != x.shape:
        return None
    return np.add(x, y, out=x)
