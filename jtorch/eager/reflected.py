"""What is no tensor and says itself what functions and operators make of it.

``tensor + thing``: an operator of Python's asks the other operand where the first gives NotImplemented; ops
answer for both, so that ``jtorch.add(tensor, thing)`` gives the same. ``jtorch.mm(thing, tensor)``: a class
says so by ``__torch_function__``, PyTorch's protocol. Both are asked where a call has failed, at no cost
elsewhere.
Source: https://docs.pytorch.org/docs/stable/notes/extending.html#extending-torch-python-api
"""

from __future__ import annotations

from typing import Any

import numpy as np

from jtorch.core import higher
from jtorch.eager.messages import not_a_tensor

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


def speaks_for_itself(name: str, first: Any) -> bool:
    """The same of the first operand of the op called ``name``, which is no tensor: a sparse one."""
    return name in METHODS and hasattr(type(first), "__torch_function__")


def overridden(name: str, given: dict[str, Any], error: AttributeError) -> Any:
    """What an argument of the function ``jtorch.<name>(**given)``, which failed with ``error``, makes of it.
    Raises PyTorch's error where there is none that does."""
    for value in given.values():
        override = getattr(type(value), "__torch_function__", None)
        if override is not None and not hasattr(value, "_data"):
            assert higher.named is not None
            return override(higher.named(name), (type(value),), (), given)
    raise not_a_tensor(name, given, error) from None


def answer(name: str, tensor: Any, other: Any) -> Any:
    """What ``other`` says, or what stands where a tensor does. Raises TypeError where it does not know
    either."""
    if speaks_for_itself(name, tensor):
        assert higher.named is not None
        return type(tensor).__torch_function__(higher.named(name), (type(tensor),), (tensor, other), {})
    found = getattr(type(other), METHODS[name])(other, tensor)
    if found is NotImplemented:
        raise TypeError(f"{name}(): argument must be Tensor or a number, not {type(other).__name__}.")
    return found
