"""16 bits in float32: sums, which are rounded once, and what is to be sorted."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np

from jtorch.core import higher
from jtorch.core.narrow import FLOAT32


def converted(x: np.ndarray, dtype: np.dtype) -> np.ndarray:
    """``x.astype(dtype)``, between 16 bits and float32 by a loop where somebody has one."""
    found = None if higher.narrowing is None else higher.narrowing().converted(x, dtype)
    return x.astype(dtype) if found is None else found


def in_float32(function: Callable) -> Callable:
    """``function``, whose sums would be rounded to 16 bits at each term: 3,000 ones come to 2048."""

    @functools.wraps(function)
    def wide(x: np.ndarray, *others: Any, **statics: Any) -> np.ndarray:
        if x.dtype.itemsize > 2 or x.dtype.kind not in "fV":
            return function(x, *others, **statics)
        return converted(function(converted(x, FLOAT32), *others, **statics), x.dtype)

    return wide


def sortable(x: np.ndarray) -> np.ndarray:
    """``x``, or of bfloat16 the same in float32: NumPy leaves its NaN, and what is beside them, unsorted."""
    return converted(x, FLOAT32) if x.dtype.kind == "V" else x
