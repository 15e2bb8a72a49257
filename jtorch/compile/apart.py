"""Whether arrays share memory, at the cost of a look-up each: views name the array that owns theirs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import numpy as np

Owners = Mapping[int, list[np.ndarray]]


def owners(arrays: Iterable[np.ndarray]) -> dict[int, list[np.ndarray]]:
    """The arrays by who owns their memory."""
    found: dict[int, list[np.ndarray]] = {}
    for array in arrays:
        found.setdefault(_owner(array), []).append(array)
    return found


def apart(written: Iterable[np.ndarray], known: Owners, others: Iterable[np.ndarray] = ()) -> bool:
    """Whether no array of ``written`` shares memory with another of them, of ``known`` or of ``others``."""
    seen = owners(others)
    for array in written:
        owner = _owner(array)
        rivals = (*known.get(owner, ()), *seen.get(owner, ()))
        if any(np.may_share_memory(array, rival) for rival in rivals):
            return False
        seen.setdefault(owner, []).append(array)
    return True


def _owner(array: np.ndarray) -> int:
    return id(array if array.base is None else array.base)
