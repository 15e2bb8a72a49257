"""Whether arrays share memory, at the cost of a look-up each: a view leads to the array that owns it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

Owners = Mapping[int, list[np.ndarray]]
FOREIGN = object()  # who owns memory that came from elsewhere than NumPy, and may lie in anybody's


def owner(array: np.ndarray) -> Any:
    """The array that owns the memory of ``array``, or FOREIGN: buffers and what ``as_strided`` makes."""
    while isinstance(array.base, np.ndarray):
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
