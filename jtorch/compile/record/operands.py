"""Operands that eager mode refuses, refused while a function is recorded.

NumPy refuses dtypes and what is no number when an op runs; a recording runs nothing. So the op is asked once
for each combination of dtypes and types, on arrays without elements.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from jtorch.compile.observe.scalar import Scalar
from jtorch.core.op import Op
from jtorch.ops import xp

_TAKEN: set[tuple] = set()  # combinations that an op takes
_NUMBERS = (bool, int, float, complex)


def check_operands(op: Op, values: tuple, statics: dict[str, Any]) -> None:
    """Raise what computing ``op`` on such values raises. Raises TypeError for what is no number."""
    if op.dtype == "static":  # patterns and casts say themselves what they take
        return
    key = (op.index, *(getattr(v, "dtype", type(v)) for v in values))
    if key in _TAKEN:
        return
    op.body(xp, *map(_sample, values), **statics)
    for value in values:
        if not hasattr(value, "dtype") and not isinstance(value, (*_NUMBERS, Scalar)):
            raise TypeError(f"argument must be Tensor or a number, not {type(value).__name__}")
    _TAKEN.add(key)


def _sample(value: Any) -> Any:
    if hasattr(value, "dtype"):
        return np.empty(0, value.dtype)
    return value.as_runtime_scalar if isinstance(value, Scalar) else value
