"""Running sums and the largest few by compiled loops, where there are some: ``jtorch`` fills in what finds
them.

See ``native/lines.py``; this package knows nothing of it. Each gives None where there is no loop for it.
"""

from __future__ import annotations

import numpy as np

from jtorch.core import higher

Array = np.ndarray


def cumsum(x: Array, axis: int) -> Array | None:
    """Sums from the start of ``axis`` on."""
    return None if higher.lines is None else higher.lines().cumsum(x, axis)


def top(x: Array, axis: int, k: int, largest: bool) -> tuple[Array, Array] | None:
    """(the ``k`` largest or smallest elements along ``axis``, in order; their places)"""
    return None if higher.lines is None else higher.lines().top(x, axis, k, largest)
