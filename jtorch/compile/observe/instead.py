"""What is called instead of a function of Python's that takes nothing but a number, where it gets what stands
for one: ``float(loss)`` is ``loss.item()`` then, and ``math.isnan(x.item())`` a comparison.

The interpreter is about to call what lies on its stack; the other function is put there (``frames.put``).
"""

from __future__ import annotations

import math
import types
from collections.abc import Callable
from typing import Any

from jtorch.compile.observe.scalar import Scalar
from jtorch.eager.tensor import Tensor


def _number(value: Any) -> Any:
    return value.item() if isinstance(value, Tensor) else value


def _is_nan(value: Any) -> Any:
    return value != value


def _is_infinite(value: Any) -> Any:
    return abs(value) == math.inf


def _is_finite(value: Any) -> Any:
    return abs(value) < math.inf


_OF_FLOATS: tuple[tuple[Any, Callable[[Any], Any]], ...] = (
    (float, _number), (math.isnan, _is_nan), (math.isinf, _is_infinite), (math.isfinite, _is_finite),
)  # fmt: skip


def instead(callee: Any, args: list[Any]) -> Callable[[Any], Any] | None:
    """What does the same as ``callee`` with what stands for a number, None where there is no such thing."""
    if len(args) != 1 or not issubclass(type(callee), (type, types.BuiltinFunctionType)):
        return None
    (value,) = args
    kind = _kind_of(value)
    if not kind:
        return None
    function = next((f for known, f in _OF_FLOATS if known is callee), None)
    if callee is int:
        return _number if kind == "i" else None
    if function is not _number and type(value) is Tensor:
        return None
    return function if kind == "f" else None


def _kind_of(value: Any) -> str:
    """The kind of the dtype of a number that only a replay knows; "" for all else."""
    if type(value) is Tensor:
        data = value._data
        return data.dtype.kind if hasattr(data, "tracer") and data.size == 1 else ""
    if issubclass(type(value), Scalar) and hasattr(value, "bound"):
        return value.var.dtype.kind
    return ""
