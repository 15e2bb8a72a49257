"""``tensor + thing``: what is no tensor or number, and knows how to add itself to one, is asked to.

An operator of Python's asks the other operand where the first gives NotImplemented; ops answer for both, so
that ``jtorch.add(tensor, thing)`` gives the same.
"""

from __future__ import annotations

from typing import Any

import numpy as np

METHODS = {
    "add": "__radd__", "sub": "__rsub__", "mul": "__rmul__", "div": "__rtruediv__", "pow": "__rpow__",
    "floor_divide": "__rfloordiv__", "remainder": "__rmod__", "matmul": "__rmatmul__",
    "bitwise_and": "__rand__", "bitwise_or": "__ror__", "bitwise_xor": "__rxor__",
    "left_shift": "__rlshift__", "right_shift": "__rrshift__",
}  # fmt: skip
_OURS = (np.ndarray, np.generic, bool, int, float, complex, type(None))


def is_asked(name: str, other: Any) -> bool:
    """Whether the op called ``name`` leaves it to ``other``, its second operand, what comes out."""
    if isinstance(other, _OURS) or hasattr(other, "as_runtime_scalar"):
        return False
    if isinstance(getattr(other, "dtype", None), np.dtype):  # what a tensor holds, or stands for an array
        return False
    return name in METHODS and hasattr(type(other), METHODS[name])


def answer(name: str, tensor: Any, other: Any) -> Any:
    """What ``other`` says. Raises TypeError where it does not know either."""
    found = getattr(type(other), METHODS[name])(other, tensor)
    if found is NotImplemented:
        raise TypeError(f"{name}(): argument must be Tensor or a number, not {type(other).__name__}.")
    return found
