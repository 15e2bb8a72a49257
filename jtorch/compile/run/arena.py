"""Memory for a plan: one allocation, aligned to a cache line and to the widest vector register."""

from __future__ import annotations

import numpy as np

from jtorch.compile.plan.plan import Plan, Where
from jtorch.compile.plan.scratch import ALIGNMENT


def allocate(nbytes: int) -> tuple[np.ndarray, int]:
    """A zeroed buffer of `nbytes`: the uint8 array that owns it, and its 64-byte aligned address.

    The memory lives as long as the array. Raises ValueError for a negative size, MemoryError for
    one that cannot be had.
    """
    if nbytes < 0:
        raise ValueError(f"an arena of {nbytes} bytes; expected 0 or more")
    try:
        owner = np.zeros(nbytes + ALIGNMENT, np.uint8)
    except MemoryError:
        what = "for what a compiled call computes on its way"
        raise MemoryError(f"there are no {nbytes:,} bytes {what}") from None
    start = -owner.ctypes.data % ALIGNMENT
    buffer = owner[start : start + nbytes]
    return buffer, owner.ctypes.data + start


def largest_of(plan: Plan) -> str:
    """What the largest of the values is that a plan has its memory for, and the line that makes it."""
    values = [var for var, place in plan.places.items() if place.kind is Where.ARENA]
    if not values:
        return ""
    largest = max(values, key=lambda var: var.type.nbytes)
    eqn = plan.fused.find(largest)
    made_at = "" if eqn is None or eqn.source is None else f", made at {eqn.source}"
    size = f"{largest.dtype}{list(largest.shape)}"
    return f"; the largest of it is a tensor {size} of {largest.type.nbytes:,} bytes{made_at}"


def grown(nbytes: int, before: int) -> tuple[np.ndarray, int]:
    """The same in the place of one of ``before`` bytes: of twice these, or of no more than ``nbytes`` where
    so many cannot be had."""
    try:
        return allocate(max(nbytes, 2 * before))
    except MemoryError:
        if 2 * before <= nbytes:
            raise
    return allocate(nbytes)


def shared(nbytes: int) -> tuple[np.ndarray, int]:
    """The same for plans that never run at once: all have one buffer, of twice the size when it is too small.

    What lies there is undefined.
    """
    global _shared
    if _shared is None or len(_shared[0]) < nbytes:
        _shared = grown(nbytes, len(_shared[0]) if _shared else 0)
    return _shared


_shared: tuple[np.ndarray, int] | None = None
