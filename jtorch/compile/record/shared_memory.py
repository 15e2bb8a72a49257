"""Whether arrays share memory, at the cost of a look-up each: a view leads to the array that owns it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from jtorch.core.device_array import ARRAYS, address_of
from jtorch.core.errors import Restart

Owners = Mapping[int, list[np.ndarray]]
FOREIGN = object()  # who owns memory that came from elsewhere than NumPy, and may lie in anybody's


def owner(array: np.ndarray) -> Any:
    """The array that owns the memory of ``array``, or FOREIGN: buffers and what ``as_strided`` makes."""
    while isinstance(array.base, ARRAYS):
        array = array.base
    return array if array.base is None else FOREIGN


def owners(arrays: Iterable[np.ndarray]) -> dict[int, list[np.ndarray]]:
    """The arrays by who owns their memory."""
    found: dict[int, list[np.ndarray]] = {}
    for array in arrays:
        found.setdefault(id(owner(array)), []).append(array)
    return found


def overlap(a: np.ndarray, b: np.ndarray) -> bool:
    """Whether the two have an element in common. True where that takes too long to find out."""
    if not np.may_share_memory(a, b):
        return False
    try:
        return np.shares_memory(a, b, max_work=10_000)  # type: ignore[arg-type]  # any bound is taken
    except np.exceptions.TooHardError:
        return True


class MemoryShared(Restart):
    """The function writes into ``whole``, of which it uses several parts that share elements."""

    def __init__(self, whole: np.ndarray) -> None:
        super().__init__(whole)
        self.whole = whole


def common_whole(a: np.ndarray, b: np.ndarray) -> np.ndarray | None:
    """The array that owns the memory of both, where each is a regular part of its elements."""
    whole = owner(a)
    if whole is not owner(b) or whole is FOREIGN or not whole.flags.c_contiguous:
        return None
    return whole if part_of(a, whole) and part_of(b, whole) else None


def part_of(array: np.ndarray, whole: np.ndarray) -> dict[str, Any] | None:
    """What ``strided`` takes to make ``array`` of the elements of ``whole``, row by row."""
    item = array.dtype.itemsize
    begin = address_of(array) - address_of(whole)
    shifts = [s for s, n in zip(array.strides, array.shape, strict=True) if n > 1]
    if array.dtype != whole.dtype or any(s <= 0 for s in shifts) or any(s % item for s in (begin, *shifts)):
        return None
    steps = tuple(s // item if n > 1 else 1 for s, n in zip(array.strides, array.shape, strict=True))
    return {"size": array.shape, "steps": steps, "start": begin // item}


def disjoint(written: Iterable[np.ndarray], known: Owners, others: Iterable[np.ndarray] = ()) -> bool:
    """Whether no array of ``written`` shares memory with another of them, of ``known`` or of ``others``."""
    seen = owners(others)
    for array in written:
        whose = owner(array)
        for group in (known, seen):
            asked = group if whose is FOREIGN else (id(whose), id(FOREIGN))
            if any(overlap(array, rival) for key in asked for rival in group.get(key, ())):
                return False
        seen.setdefault(id(whose), []).append(array)
    return True
