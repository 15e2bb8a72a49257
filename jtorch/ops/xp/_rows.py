"""Results row by row: PyTorch's layout of what is no elementwise op, where NumPy keeps its operands'."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np


def in_rows(function: Callable) -> Callable:
    """``function`` with its result, or each of several, in C order."""

    @functools.wraps(function)
    def ordered(*values: Any, **statics: Any) -> Any:
        out = function(*values, **statics)
        if out.__class__ is tuple:
            return tuple(np.asarray(each, order="C") for each in out)
        return out if out.flags.c_contiguous else np.asarray(out, order="C")

    return ordered
