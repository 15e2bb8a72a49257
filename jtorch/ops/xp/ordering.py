"""Places in sorted arrays, and counts of elements between edges."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

Array = np.ndarray


def searchsorted(sequence: Array, values: Array, *, right: bool) -> Array:
    """Where ``values`` fit into ``sequence``, sorted along its last axis; a vector serves all rows."""
    side: Any = "right" if right else "left"
    if sequence.ndim == 1:
        return np.asarray(np.searchsorted(sequence, values, side))
    rows, wanted = sequence.reshape(-1, sequence.shape[-1]), values.reshape(math.prod(values.shape[:-1]), -1)
    found = [np.searchsorted(row, value, side) for row, value in zip(rows, wanted, strict=True)]
    return np.array(found, np.int64).reshape(values.shape)


def histogram_counts(x: Array, edges: Array, weight: Array) -> Array:
    """The sum of the weights of the elements between neighbouring ``edges``; the last one belongs in, too."""
    return np.histogram(x, edges, weights=weight)[0].astype(weight.dtype, copy=False)


def mode_place(x: Array, *, axis: int) -> Array:
    """The last position, along ``axis``, of the most frequent element, the smallest of several."""
    lines = np.moveaxis(x, axis, -1)
    found = np.array([_mode_of(line) for line in lines.reshape(-1, x.shape[axis])], np.int64)
    return np.expand_dims(found.reshape(lines.shape[:-1]), axis)


def _mode_of(line: Array) -> int:
    values, counts = np.unique(line, return_counts=True)
    value = values[np.argmax(counts)]
    return int(np.flatnonzero((line == value) | ((line != line) & (value != value)))[-1])
