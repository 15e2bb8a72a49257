"""Reading and writing at places that integer arrays name, and the order of elements."""

from __future__ import annotations

from typing import Any

import numpy as np

Array = np.ndarray
Shape = tuple[int, ...]


def index(x: Array, *indices: Array, axes: Shape) -> Array:
    """``x`` at integer ``indices`` of one common shape, which replaces the adjacent ``axes``."""
    return x[(slice(None),) * axes[0] + indices]


def index_add(g: Array, *indices: Array, axes: Shape, shape: Shape) -> Array:
    """Zeros of ``shape`` with ``g`` added at ``indices``: what ``index`` read from, repeats summed."""
    flat = np.ravel_multi_index(indices, tuple(shape[a] for a in axes)).ravel()
    count = flat.size
    before = int(np.prod(shape[: axes[0]]))
    rows = int(np.prod([shape[a] for a in axes]))
    after = int(np.prod(shape[axes[-1] + 1 :]))
    out = np.zeros((before, rows, after), g.dtype)
    every: Any = (slice(None), flat)
    np.add.at(out, every, g.reshape(before, count, after))
    return out.reshape(shape)


def index_put(x: Array, value: Array, *indices: Array, axes: Shape) -> Array:
    out = np.array(x, order="C")
    out[(slice(None),) * axes[0] + indices] = value
    return out


def sort_order(x: Array, *, axis: int) -> Array:
    return np.argsort(x, axis, kind="stable")
