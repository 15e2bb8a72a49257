"""16 bits in float32: sums, which are rounded once, and what is to be sorted."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np


def in_float32(function: Callable) -> Callable:
    """``function``, whose sums would be rounded to 16 bits at each term: 3,000 ones come to 2048."""

    @functools.wraps(function)
    def wide(x: np.ndarray, *others: Any, **statics: Any) -> np.ndarray:
        if x.dtype.itemsize > 2 or x.dtype.kind not in "fV":
            return function(x, *others, **statics)
        return function(x.astype(np.float32), *others, **statics).astype(x.dtype)

    return wide


def sortable(x: np.ndarray) -> np.ndarray:
    """``x``, or of bfloat16 the same in float32: NumPy leaves its NaN, and what is beside them, unsorted."""
    return x.astype(np.float32) if x.dtype.kind == "V" else x
