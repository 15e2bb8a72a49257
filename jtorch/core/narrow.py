"""Ops of floats of 16 bits as one op each: computed in float32, and rounded once.

A *narrow* op is made of one of the table. It stands for what ``eager/sixteen_bits.py`` would otherwise put
together of three: a conversion of each argument, the op, and one of the result. As one it has one node on the
tape, which keeps what the op saves in 16 bits, as PyTorch's do; in a recording it is the same three as ever;
and kernels compute it of 16 bits. An op that is rounded once anyway (``x + y``) computes in them, unless a
number stands beside, which is not rounded.
"""

from __future__ import annotations

import copy
import functools
from collections.abc import Callable
from typing import Any

import numpy as np

from jtorch.core.dtypes import HALVES
from jtorch.core.op import CASTING, TABLE, Kind, Op

FLOAT32 = np.dtype(np.float32)


@functools.cache
def narrow_ops() -> tuple[Op, ...]:
    """All of them. Their indices follow those of the table, which must be complete."""
    made: list[Op] = []
    for op in TABLE:
        has_text = op.kind is Kind.ELEMENTWISE and op.text is not None
        if (rounds_in_between(op) or has_text) and _can_be_narrow(op):
            made.append(_narrow(op, len(TABLE) + len(made)))
    return tuple(made)


def evaluated() -> tuple[Op, ...]:
    """The ops that an evaluator's table may have, in the order of their indices."""
    return (*TABLE, *narrow_ops())


@functools.cache
def narrowed() -> dict[Op, Op]:
    """The narrow op of each op that has one."""
    return {op.narrows: op for op in narrow_ops() if op.narrows is not None}


def rounds_in_between(op: Op) -> bool:
    """Whether computing in 16 bits would round more than the result, or than a function's gradient, which
    takes several steps: these are computed in float32. What is a view computes nothing, and widened it would
    be a copy."""
    several = op.kind in (Kind.REDUCTION, Kind.COMPOSITE, Kind.OPAQUE) and not op.aliases
    function = op.costly or (op.kind is Kind.ELEMENTWISE and op.dtype == "float" and len(op.arrays) == 1)
    function = function and op.vjp_function is not None and not op.fitting  # which looks at numbers before
    return (several or function) and op.dtype != "compare"


def is_half(value: Any) -> bool:
    """Whether a value, of arrays, of tensors or of a recording, has 16 bits."""
    dtype = getattr(value, "dtype", None)
    return getattr(dtype, "numpy", dtype) in HALVES


def _can_be_narrow(op: Op) -> bool:
    computes = op.narrow and bool(op.arrays) and not (op.variadic or op.aliases or op.draws)
    return computes and op.n_outputs == 1 and (op.dtype in CASTING or op.like_first)


def _narrow(op: Op, index: int) -> Op:
    made = copy.copy(op)
    made.index, made.narrows, made.body, made.vjp_function = index, op, _body(op), _vjp(op)
    made.kind, made.text, made.renames = Kind.COMPOSITE, None, None
    made.autocast = None  # which has been seen to by then
    made.fuses = op.fuses or op.text is not None or op.combine is not None
    return made


def _body(op: Op) -> Callable:
    widens = rounds_in_between(op)

    def body(xp: Any, *values: Any, **statics: Any) -> Any:
        function = functools.partial(op.body, xp) if op.kind is Kind.COMPOSITE else getattr(xp, op.name)
        if not (widens or any(map(_is_number, values))):
            return function(*values, **statics)
        narrow = next(v for v in values if is_half(v)).dtype
        out = function(*[_wide(xp, v) for v in values], **statics)
        return xp.cast(out, dtype=narrow) if out.dtype == FLOAT32 else out

    return _named(body, op.body)


def _vjp(op: Op) -> Callable | None:
    inner, widens = op.vjp_function, rounds_in_between(op)
    if inner is None:
        return None

    def vjp(xp: Any, g: Any, *saved: Any) -> Any:
        if not (widens or any(map(_is_number, saved))):
            return inner(xp, g, *saved)
        found = inner(xp, _wide(xp, g), *[_wide(xp, value) for value in saved])
        if found.__class__ is not tuple:
            return _as(xp, found, g.dtype)
        return tuple([_as(xp, part, g.dtype) for part in found])

    return _named(vjp, inner)


def _is_number(value: Any) -> bool:
    return value.__class__ is float or hasattr(value, "as_runtime_scalar")


def _named(function: Callable, of: Callable) -> Callable:
    """``function`` under the name that messages tell."""
    function.__module__, function.__qualname__ = of.__module__, of.__qualname__
    return function


def _wide(xp: Any, value: Any) -> Any:
    if isinstance(value, np.dtype):
        return FLOAT32 if value in HALVES else value
    return xp.cast(value, dtype=FLOAT32) if is_half(value) else value


def _as(xp: Any, found: Any, dtype: Any) -> Any:
    return None if found is None else xp.cast(found, dtype=dtype)
