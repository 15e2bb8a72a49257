"""The sum of squared deviations over a large array, block by block.

As a difference, a product and a sum it walks three times through memory; a block stays in the cache. The
sums of the blocks are added up in float64, so the result is no further off than NumPy's.
"""

from __future__ import annotations

import numpy as np

from jtorch.xp._products import inner as _inner

Array = np.ndarray
_BLOCK = 1 << 14  # elements: 64 KB of float32; 2.2 ms for 4M floats, where blocks of 1 << 12 take 3.2
_FLOATS = (np.dtype(np.float32), np.dtype(np.float64))


def squared_deviations(x: Array, mean: Array) -> Array | None:
    """The sum of (x - mean)^2 over all elements, for one mean; None if they are few or not in order."""
    n = x.size
    if n < 4 * _BLOCK or x.dtype not in _FLOATS or not x.flags.c_contiguous:
        return None
    flat, middle = x.reshape(-1), mean.reshape(())
    buffer = np.empty(_BLOCK, x.dtype)
    total = 0.0
    for begin in range(0, n, _BLOCK):
        block = flat[begin : begin + _BLOCK]
        deviations = np.subtract(block, middle, buffer[: block.size])
        total += float(_inner(deviations, deviations))
    return np.array(total, x.dtype)
