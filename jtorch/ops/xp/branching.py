"""The checks that a recorded branch goes the way it was recorded, and that masks name as many elements."""

from __future__ import annotations

import numpy as np

from jtorch.core.errors import OtherBranch as _OtherBranch, OtherCount as _OtherCount

Array = np.ndarray


def expect(x: Array) -> Array:
    if not np.all(x):
        raise _OtherBranch
    return np.positive(x)


def places_of_mask(mask: Array, which: int, count: int) -> Array:
    return _counted(np.flatnonzero(mask), which, count)


def repeated_places(repeats: Array, which: int, count: int) -> Array:
    return _counted(np.repeat(np.arange(repeats.size), repeats), which, count)


def _counted(found: Array, which: int, count: int) -> Array:
    if found.size != count:
        raise _OtherCount(which, found.size)
    return found
