"""What is called instead of a function of Python's that takes nothing but a number, where it gets what stands
for one: ``float(loss)`` is ``loss.item()`` then, and ``math.isnan(x.item())`` a comparison.

The interpreter is about to call what lies on its stack; the other function is put there (``frames.put``).
"""

from __future__ import annotations

import math
import types
from collections.abc import Callable
from typing import Any

import numpy as np

from jtorch.compile.observe.scalar import Scalar
from jtorch.compile.observe.stand_ins import is_array_stand_in, stands_in
from jtorch.core.dim import is_symbolic
from jtorch.core.dim_functions import of_sizes
from jtorch.eager.nested import leaves_of
from jtorch.eager.tensor import Tensor


def _number(value: Any) -> Any:
    return value.item() if isinstance(value, Tensor) or is_array_stand_in(value) else value


def _float(value: Any) -> Any:
    number = _number(value)
    return number if _kind_of(number) == "f" else number / 1


def _is_nan(value: Any) -> Any:
    return value != value


def _is_infinite(value: Any) -> Any:
    return abs(value) == math.inf


def _is_finite(value: Any) -> Any:
    return abs(value) < math.inf


_OF_FLOATS: tuple[tuple[Any, Callable[[Any], Any]], ...] = (
    (math.isnan, _is_nan), (math.isinf, _is_infinite), (math.isfinite, _is_finite),
)  # fmt: skip


_OF_LISTS: tuple[tuple[Any, str], ...] = (  # and the method of the array that NumPy makes of the list first
    (np.array, ""), (np.asarray, ""), (np.mean, "mean"), (np.sum, "sum"), (np.std, "std"), (np.max, "max"),
    (np.min, "min"),
)  # fmt: skip


def _of_numbers(callee: Any, values: Any, observer: Any) -> Callable[[Any], Any] | None:
    """The same for a function of NumPy's that makes an array of a list first, also of arrays that each call
    brings."""
    method = next((name for known, name in _OF_LISTS if known is callee), None)
    if method is None or type(values) not in (list, tuple):
        return None
    values = _with_stand_ins(values, observer)
    leaves = leaves_of(values)
    if any(type(leaf) is int and not -(2**63) <= leaf < 2**63 for leaf in leaves) or _is_ragged(values):
        return None
    known = [leaf for leaf in leaves if _kind_of(leaf) or is_array_stand_in(leaf)]
    if not known or not all(stands_in(leaf) or isinstance(leaf, (int, float, np.number)) for leaf in leaves):
        return None
    made_of = known[0].tracer.numpy_arrays.made_of
    return lambda given: getattr(made_of(values), method)() if method else made_of(values)


def _with_stand_ins(values: Any, observer: Any) -> Any:
    """``values`` with what stands for arrays that each call brings in their place."""
    if type(values) in (list, tuple):
        return type(values)(_with_stand_ins(value, observer) for value in values)
    is_brought = type(values) is np.ndarray and id(values) in observer.places
    return observer.array_stand_in(values) if is_brought and values.dtype in _KNOWN else values


_KNOWN = frozenset(map(np.dtype, (np.float32, np.float64, np.int32, np.int64)))  # that stand-ins compute in


def _is_ragged(values: Any) -> bool:
    """Whether nested lists are no array, as far as their lengths tell."""
    if type(values) not in (list, tuple):
        return False
    shapes = ((len(v),) if type(v) in (list, tuple) else getattr(v, "shape", ()) for v in values)
    lengths = {shape[0] if shape else None for shape in shapes}
    return len(lengths) > 1 or any(map(_is_ragged, values))


def instead(callee: Any, args: list[Any], observer: Any) -> Callable[..., Any] | None:
    """What does the same as ``callee`` with what stands for numbers, None where there is no such thing."""
    if len(args) == 1 and (made := _of_numbers(callee, args[0], observer)) is not None:
        return made
    if any(map(is_symbolic, args)):
        return of_sizes(callee, args)
    if len(args) != 1 or not issubclass(type(callee), (type, types.BuiltinFunctionType)):
        return None
    (value,) = args
    kind = _kind_of(value)
    if not kind:
        return None
    if callee is int:
        return _number if kind == "i" else None
    if callee is float:
        return _float if kind in "fi" else None
    if type(value) is Tensor or is_array_stand_in(value) or kind == "b":
        return None
    function = next((f for known, f in _OF_FLOATS if known is callee), None)
    return value.function(callee) if function is None else function if kind == "f" else None


def _kind_of(value: Any) -> str:
    """The kind of the dtype of a number that only a replay knows; "" for all else."""
    if type(value) is Tensor:
        data = value._data
        return data.dtype.kind if hasattr(data, "tracer") and data.size == 1 else ""
    if is_array_stand_in(value):
        return "" if value.ndim else value.dtype.kind
    if issubclass(type(value), Scalar) and hasattr(value, "bound"):
        return value.var.dtype.kind
    return ""
