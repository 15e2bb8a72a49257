"""Functions of Python's that take nothing but numbers, of sizes that are symbols: ``int(n * 0.7)``,
``math.sqrt(n)``, ``round(n / 2)``.

Asked in Python's way they would need the number itself. Here each is an expression of the sizes, computed at
each of them by that very function, so it has the same bits; where it raises at some size, that is another
program.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from jtorch.core.dim import Dim, DimFloat, as_float, function_text, is_symbolic, value_of, whole
from jtorch.core.environment import is_computed

_LARGEST = 2.0**31  # of an integer made of a float: two of them multiplied are an int64

_OF_FLOATS = (
    math.sqrt, math.exp, math.expm1, math.log, math.log2, math.log10, math.log1p, math.pow, math.sin,
    math.cos, math.tan, math.sinh, math.cosh, math.tanh, math.asin, math.acos, math.atan, math.atan2,
    math.hypot, math.fabs, math.degrees, math.radians,
)  # fmt: skip
_WHOLE = (int, round, math.floor, math.ceil, math.trunc)
_TAME = {math.sqrt: 0, math.log: 1, math.log2: 1, math.log10: 1}  # and from which number on they never raise


def of_sizes(callee: Any, args: Sequence[Any]) -> Callable[..., Any] | None:
    """What does the same as ``callee`` with ``args``, of which some are symbols; None where that asks for the
    numbers themselves."""
    if not any(map(is_symbolic, args)) or not all(is_symbolic(v) or type(v) in (int, float) for v in args):
        return None
    first = args[0]
    if callee is float and len(args) == 1:
        return _float
    if any(callee is known for known in _WHOLE):
        if type(first) is Dim and (len(args) == 1 or (callee is round and _is_from_0(args[1]))):
            return _itself
        if type(first) is DimFloat and len(args) == 1:
            return _integer(callee, first)
        if type(first) is DimFloat and callee is round and type(args[1]) is int:
            return _number(_rounded_to(args[1]), (first,))
        return None
    return _number(callee, args) if any(callee is known for known in _OF_FLOATS) else None


def _itself(value: Any, *_: Any) -> Any:
    return value


def _float(value: Any) -> Any:
    return as_float(value) if type(value) is Dim else value


def _is_from_0(digits: Any) -> bool:
    return type(digits) is int and digits >= 0


def _rounded_to(digits: int) -> Callable[[float], float]:
    return lambda number: round(number, digits)


def _integer(callee: Callable[..., int], number: DimFloat) -> Callable[..., Any] | None:
    """None where it has no such integer, or one that sizes don't reach: then it is asked in Python's way."""
    if not abs(number) < _LARGEST:  # NaN neither
        return None
    found = whole(number, callee, None, None)
    return lambda *_: found


def _number(callee: Callable[..., float], args: Sequence[Any]) -> Callable[..., Any] | None:
    """``callee(*args)`` as a float. None where it raises, which Python does in its own words."""
    env = next(value.env for value in args if is_symbolic(value))
    numbers = [value_of(value) for value in args]
    text = function_text(env, callee, args)
    if not _is_tame(callee, args):
        computed = is_computed(lambda: callee(*numbers))
        env.decide(f"is_computed(lambda: {text})", computed)
        if not computed:
            return None
    found = DimFloat(env, text, callee(*numbers))
    return lambda *_: found


def _is_tame(callee: Any, args: Sequence[Any]) -> bool:
    least = next((n for known, n in _TAME.items() if known is callee), None)
    if least is None or len(args) != 1 or type(args[0]) is not Dim:
        return False
    low, _ = as_float(args[0]).bounds
    return low is not None and low >= least
