"""Views with strides of their own."""

from __future__ import annotations

import numpy as np
from numpy.lib.stride_tricks import as_strided as _as_strided

Array = np.ndarray
Shape = tuple[int, ...]


def as_strided(x: Array, shape: Shape, strides: Shape, writeable: bool = True) -> Array:
    """NumPy's ``as_strided``, which takes 12 us; of an array in one piece NumPy itself makes it in 0.7."""
    flags = x.flags
    if not (flags.c_contiguous and flags.writeable and x.size and x.dtype.kind != "V"):
        return _as_strided(x, shape, strides, writeable=writeable)
    try:
        out: Array = np.ndarray(shape, x.dtype, x, 0, strides)
    except (TypeError, ValueError):  # beyond the memory of x: the caller's business
        return _as_strided(x, shape, strides, writeable=writeable)
    if not writeable:
        out.flags.writeable = False
    return out
