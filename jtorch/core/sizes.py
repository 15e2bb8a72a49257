"""What the library does with sizes and numbers that may be symbols (``core/dim.py``), each beside what it is
for numbers."""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from jtorch.core.dim import Dim, DimFloat, as_float, called, is_symbolic, most, value_of, whole


class Shape(tuple):
    """A shape with symbols, which compares lengths first: a tuple would ask whether n is 128 to compare
    (n, 64) with (128,)."""

    __slots__ = ()

    def __eq__(self, other: object) -> Any:
        return len(self) == len(other) and tuple.__eq__(self, other) if isinstance(other, tuple) else False

    def __ne__(self, other: object) -> Any:
        return not self == other

    __hash__ = tuple.__hash__


def shape_of(sizes: Sequence[Any]) -> tuple:
    """``tuple(sizes)``"""
    return Shape(sizes) if any(type(n) is Dim for n in sizes) else tuple(sizes)


def below(sizes: Sequence[Any], least: int) -> bool:
    """``min(sizes) < least``, for which no size is compared with another one"""
    for n in sizes:  # noqa: SIM110  three times as fast as any()
        if n < least:
            return True
    return False


def has_negative(shape: tuple) -> bool:
    """``min(shape) < 0``"""
    return below(shape, 0)


def integer(n: Any) -> Any:
    """``int(n)``, or ``operator.index(n)`` of what is an integer."""
    return n if type(n) is Dim else int(n)


def index(n: Any) -> Any:
    """``operator.index(n)``"""
    return n if type(n) is Dim else operator.index(n)


def real(n: Any) -> Any:
    """``float(n)``"""
    return as_float(n) if type(n) is Dim else float(n)


def cast(dtype: np.dtype, value: Any) -> Any:
    """``dtype.type(value).item()``; whether it is True is noted."""
    if not is_symbolic(value):
        return dtype.type(value).item()
    if dtype.kind == "b":
        return value.env.decide(f"bool({value.text})", bool(value.value))
    if dtype.kind in "iu":
        if type(value) is Dim:
            return value
        limits = np.iinfo(dtype)
        return whole(value, lambda x: dtype.type(x).item(), int(limits.min), int(limits.max))
    return called(value, lambda x: dtype.type(x).item())


def computed(dtype: np.dtype, f: Callable, values: Sequence[Any]) -> Any:
    """``dtype.type(f(*values)).item()``, a float where the values have symbols"""
    if not any(map(is_symbolic, values)):
        return dtype.type(f(*values)).item()
    env = next(v.env for v in values if is_symbolic(v))

    def compute(*numbers: Any) -> Any:
        return dtype.type(f(*numbers)).item()

    texts = ", ".join(v.text if is_symbolic(v) else repr(v) for v in values)
    return DimFloat(env, f"{env.function(compute)}({texts})", compute(*map(value_of, values)))


def broadcast(*shapes: tuple) -> tuple:
    """``np.broadcast_shapes(*shapes)``"""
    if shapes and all(shape is shapes[0] for shape in shapes):
        return shapes[0]  # as that of what was computed from it most often is
    if not any(type(n) is Dim for shape in shapes for n in shape):
        return np.broadcast_shapes(*shapes)
    out: list[Any] = []
    for k in range(-max(map(len, shapes)), 0):
        size: Any = 1
        for shape in shapes:
            if len(shape) >= -k and shape[k] != 1:
                if size != 1 and size != shape[k]:
                    raise ValueError("shape mismatch: objects cannot be broadcast to a single shape")
                size = shape[k] if type(size) is int else size
        out.append(size)
    return shape_of(out)


def slice_bounds(part: slice, n: Any) -> tuple[Any, Any, Any]:
    """``part.indices(n)`` of a slice that goes forward, whose end is not before its beginning"""
    start, stop = part.start, part.stop
    if type(n) is not Dim and type(start) is not Dim and type(stop) is not Dim:
        begin, end, step = part.indices(n)
        return begin, (end if end > begin else begin), step

    def clipped(at: Any, default: Any) -> Any:
        if at is None:
            return default
        at = at if type(at) is Dim else operator.index(at)
        at = at + n if at < 0 else at
        return 0 if at < 0 else n if at > n else at

    begin, end = clipped(start, 0), clipped(stop, n)
    return begin, most(begin, end), 1 if part.step is None else operator.index(part.step)


def count_of(start: Any, end: Any, step: Any) -> Any:
    """The number of integers from ``start`` on, ``step`` apart, before ``end``"""
    return -((start - end) // step)


def remembered(f: Callable) -> Callable:
    """``functools.lru_cache(maxsize=64)(f)``: of sizes, or tuples of them, that are numbers"""
    of_numbers = functools.lru_cache(maxsize=64)(f)

    @functools.wraps(f)
    def found(*arguments: Any) -> Any:
        for a in arguments:
            if type(a) is Dim or (type(a) is tuple and Dim in map(type, a)):
                return f(*arguments)
        return of_numbers(*arguments)

    return found


def settled(key: Any) -> Any:
    """``key`` of a container, which is of numbers only: they are noted"""
    if isinstance(key, tuple):
        parts = [settled(part) for part in key]
        is_as_it_was = all(a is b for a, b in zip(parts, key, strict=True))
        if is_as_it_was:
            return key
        made = tuple.__new__(type(key), parts)  # of a shape, a named tuple, or the user's
        if hasattr(key, "__dict__"):
            made.__dict__.update(key.__dict__)
        return made
    return operator.index(key) if type(key) is Dim else float(key) if type(key) is DimFloat else key


def exactly(value: Any) -> Any:
    """A number, or a tuple of such, in a form that is equal for no other value: 0.0 is not -0.0 there, nor 1
    True. No size is asked for its number; what else there is stays as it is."""
    if type(value) is int:
        return value
    if isinstance(value, tuple):  # a shape with symbols in it is one of its own class
        return tuple(map(exactly, value))
    if is_symbolic(value):
        return value.text
    return repr(value) if isinstance(value, (bool, int, float, complex)) else value
