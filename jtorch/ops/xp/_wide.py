"""Sums of 16 bits: made in float32, rounded once."""

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
