"""float16 and bfloat16: computed in float32 and rounded once, as PyTorch does.

One rule for all that computes in several steps, or beside a number: arguments are widened, the result is
rounded; so is each gradient, since the widening is on the tape. An op whose result NumPy itself rounds once
(``x + y`` of one dtype) computes in 16 bits. The dtype of the data holds no sum, count, square or constant.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from jtorch.core import dtypes as dt, op as op_module
from jtorch.core.device_array import DeviceArray
from jtorch.core.dtypes import HALVES
from jtorch.core.narrow import rounds_in_between
from jtorch.core.number_ranges import is_operand
from jtorch.core.op import BY_NAME, Kind, Op
from jtorch.eager.messages import bad_argument
from jtorch.eager.node import named_class
from jtorch.eager.tensor import Tensor, wrap

_CAST = BY_NAME["cast"]


def any_half(*values: Any) -> bool:
    """Whether one of these raw values has 16 bits."""
    return any(map(is_half, values))


def any_half_of_host(*values: Any) -> bool:
    """Whether one has and none lies on a device, whose products take them and sum in float32."""
    return any_half(*values) and not any(value.__class__ is DeviceArray for value in values)


def is_half(x: Any, *others: Any) -> bool:
    """Whether ``x`` has 16 bits: a layer's parameters may be wider."""
    return getattr(x, "dtype", None) in HALVES and not isinstance(x, np.generic)  # which is a number


def as_one(narrow: Callable, op: Op, context: Any, arguments: tuple, statics: dict[str, Any]) -> Any:
    """``op`` of tensors of one dtype of 16 bits, and maybe numbers beside them, as one op, which ``narrow``
    computes; None where it takes more: see ``core/narrow.py``."""
    if context.level is not None or not context.evaluator.narrows or statics.get("dtype") is not None:
        return None
    target, numbers = None, []
    for k, value in enumerate(arguments):
        if isinstance(value, Tensor):
            if op.dtype == "where" and not k:
                continue
            dtype = value._data.dtype
            if dtype not in HALVES or target not in (None, dtype):
                return None
            target = dtype
        elif value is not None or op.kind is Kind.ELEMENTWISE:
            numbers.append(k)
    if target is None:
        return None
    if numbers:
        arguments = tuple([_taken(op, k, v, target) if k in numbers else v for k, v in enumerate(arguments)])
        if any(arguments[k] is None for k in numbers):
            return None
    return narrow(*arguments, **statics)


_LEAST_OF_ALL = 6e4  # of the numbers that are infinity in 16 bits, about


def _taken(op: Op, k: int, value: Any, target: np.dtype) -> float | None:
    """A number among the arguments as the float that takes part: rounded to 16 bits where that is not as it
    is. None where there is more to say about it."""
    if op.kind is not Kind.ELEMENTWISE or op.fitting or type(value) not in (int, float):
        return None
    if not abs(value) < _LEAST_OF_ALL:
        return None
    as_it_is = op.commutes or op.arrays[k] in op.unrounded
    if as_it_is and (op.unrounded or rounds_in_between(op)):
        return float(value)
    return float(target.type(value))


def through_float32(op: Op, apply: Callable, arguments: tuple, statics: dict[str, Any]) -> Any:
    """An op on bfloat16 or float16, computed in float32 and rounded once.

    To the common dtype, or of ``op.like_first`` to that of the first argument, where a layer's parameters are
    wider, and its other outputs (the statistics of a batch) stay wide.
    """
    if op.kind is Kind.ELEMENTWISE and not all(isinstance(v, Tensor) or is_operand(v) for v in arguments):
        raise TypeError(bad_argument(op, arguments))
    if any(isinstance(v, np.ndarray) for v in arguments):
        arguments = _with_arrays(op, arguments)
    if any(isinstance(v, np.generic) for v in arguments):  # as Python's numbers
        return apply(*(v.item() if isinstance(v, np.generic) else v for v in arguments), **statics)
    if op.kind is Kind.ELEMENTWISE and _has_complex(op, arguments):
        return apply(*map(widened, arguments), **statics)
    tensors = [t for t in arguments if isinstance(t, Tensor)]
    target = dt.promote((t._data.dtype, t._data.ndim) for t in tensors[: 1 if op.like_first else None])
    if target in HALVES and not op.like_first:
        wide = [_widened(op, name, v, target) for name, v in zip(op.arrays, arguments, strict=True)]
    else:
        wide = [widened(t) for t in arguments]
    asked = statics.get("dtype")
    if asked in HALVES:
        statics, target = statics | {"dtype": np.dtype(np.float32)}, asked
    out = apply(*wide, **statics)
    if target not in HALVES:
        return out  # something wider was among them
    if not isinstance(out, tuple):
        return rounded(out, target)
    return tuple(t if op.like_first and k else rounded(t, target) for k, t in enumerate(out))


def _has_complex(op: Op, arguments: tuple) -> bool:
    """Whether a number among the operands is complex: so is the result then, and not of 16 bits."""
    if not any(isinstance(v, complex) for v in arguments):
        return False
    if any(isinstance(t, Tensor) and t._data.dtype == np.float16 for t in arguments):
        raise NotImplementedError(
            f"{op.public or op.name}(): float16 beside a complex number makes complex32, which is not there: "
            "convert to float32 first"
        )
    return True


def _with_arrays(op: Op, arguments: tuple) -> tuple:
    """The arguments with NumPy's arrays as tensors: operands are all of the dtype that NumPy computes in."""
    tensors = tuple(wrap(v) if isinstance(v, np.ndarray) else v for v in arguments)
    if op.kind is not Kind.ELEMENTWISE:
        return tensors
    dtypes = [t._data.dtype for t in tensors if isinstance(t, Tensor)]
    target = dt.of(dt.promoted_by_numpy(dtypes))
    return tuple(t.to(target) if isinstance(t, Tensor) else t for t in tensors)


def in_float32(function: Callable, *arguments: Any, **options: Any) -> Tensor:
    """The same for a function of several ops: ``function(*arguments, **options)`` of 16 bits, rounded once to
    the dtype of the first argument."""
    options = {name: widened(value) for name, value in options.items()}
    return rounded(function(*map(widened, arguments), **options), arguments[0]._data.dtype)


def widened(value: Any) -> Any:
    """A tensor of 16 bits in float32, anything else as it is."""
    return value.float() if isinstance(value, Tensor) and value._data.dtype in HALVES else value


def _widened(op: Op, name: str, value: Any, target: np.dtype) -> Any:
    """An argument in float32: rounded to the 16 bits of ``target`` before, unless it is a number that takes
    part as it is (see ``Op.unrounded``)."""
    if isinstance(value, Tensor):
        as_it_is = value._data.dtype is target or (name in op.unrounded and not value._data.ndim)
        return (value if as_it_is else value.to(dt.of(target))).float()
    if value is None or op.kind is not Kind.ELEMENTWISE or op.commutes or name in op.unrounded:
        return value
    return wrap(op_module.CONTEXT.get().xp.full(value, shape=(), dtype=target)).float()


def rounded(t: Tensor, dtype: np.dtype) -> Tensor:
    """A result in float32 as ``dtype``; on the tape the rounding has the name of what it ends."""
    if t._data.dtype != np.float32:
        return t
    made_by = t._node
    result = t.to(dt.of(dtype))
    if made_by is not None and result._node is not None and result._node.op is _CAST:
        result._node.__class__ = named_class(_CAST, made_by.name())
    return result
