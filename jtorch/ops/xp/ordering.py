"""Places in sorted arrays, and counts of elements between edges."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from jtorch.ops.xp._wide import sortable as _sortable

Array = np.ndarray


def searchsorted(sequence: Array, values: Array, *, right: bool) -> Array:
    """Where ``values`` fit into ``sequence``, sorted along its last axis; a vector serves all rows."""
    place = _bisected if _has_nan(sequence) or _has_nan(values) else np.searchsorted
    side: Any = "right" if right else "left"
    if sequence.ndim == 1:
        return np.asarray(place(sequence, values, side))
    n = math.prod(values.shape[:-1])
    rows, wanted = sequence.reshape(n, sequence.shape[-1]), values.reshape(n, values.shape[-1])
    found = [place(row, value, side) for row, value in zip(rows, wanted, strict=True)]
    return np.array(found, np.int64).reshape(values.shape)


def _has_nan(x: Array) -> bool:
    return x.dtype.kind in "fV" and bool(np.isnan(x).any())


def _bisected(row: Array, values: Array, side: str) -> Array:
    """The search in PyTorch's steps: what cannot be compared with a value counts as before it."""
    low, high = np.zeros(values.shape, np.int64), np.full(values.shape, len(row), np.int64)
    for _ in range(len(row).bit_length()):
        middle = (low + high) // 2
        element = row[np.minimum(middle, len(row) - 1)]
        before = ~(element > values if side == "right" else element >= values)
        open_ = low < high
        low, high = np.where(open_ & before, middle + 1, low), np.where(open_ & ~before, middle, high)
    return low


def histogram_counts(x: Array, edges: Array, weight: Array) -> Array:
    """The sum of the weights of the elements between neighbouring ``edges``; the last one belongs in, too."""
    return np.histogram(x, edges, weights=weight)[0].astype(weight.dtype, copy=False)


def mode_place(x: Array, *, axis: int) -> Array:
    """The last position, along ``axis``, of the most frequent element, the smallest of several; of NaN alone
    the first."""
    lines = np.moveaxis(_sortable(x), axis, -1)
    found = np.array([_mode_of(line) for line in lines.reshape(-1, x.shape[axis])], np.int64)
    return np.expand_dims(found.reshape(lines.shape[:-1]), axis)


def _mode_of(line: Array) -> int:
    if _has_nan(line):
        return _mode_beside_nan(line)
    values, counts = np.unique(line, return_counts=True)
    return int(np.flatnonzero(line == values[np.argmax(counts)])[-1])


def _mode_beside_nan(line: Array) -> int:
    """The same in PyTorch's steps: each NaN is another element, and up to 16 elements are sorted by
    insertion, which leaves apart what stands on either side of a NaN. (Of more, NaN come last.)"""
    if len(line) <= 16:
        order: list[int] = []
        for k, value in enumerate(line):
            place = 0 if order and value < line[order[0]] else len(order)
            while place and value < line[order[place - 1]]:
                place -= 1
            order.insert(place, k)
    else:
        order = [int(k) for k in np.argsort(line, kind="stable")]
    best, most, count = 0, 0, 0
    for here, following in zip(order, [*order[1:], None], strict=True):
        count += 1
        if following is None or line[here] != line[following]:
            if count > most:
                best, most = here, count
            count = 0
    return best
