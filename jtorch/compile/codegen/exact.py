"""Arithmetic for kernels that rounds nothing away: sums of float64 with their rest, powers of integers.

Straight-line text over NumPy-typed scalars and primitives, as in `vecmath`, with the same three callers.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from jtorch.compile.codegen.intrinsics import select
from jtorch.compile.codegen.vecmath_core import i64, quiet

__all__ = ["add_with_rest", "integer_power", "with_rest"]


@quiet
def add_with_rest(total: Any, rest: Any, x: Any) -> tuple[Any, Any]:
    """(total + x rounded, rest + what that rounding lost)

    Source: A. Neumaier, "Rundungsfehleranalyse einiger Verfahren zur Summation endlicher Summen", 1974, with
    Knuth's two-sum, which asks for no order of the two.
    """
    new = total + x
    back = new - total
    return new, rest + ((total - (new - back)) + (x - back))


@quiet
def with_rest(total: Any, rest: Any) -> Any:
    """`total + rest`. The rest of a sum that is infinite is NaN, and does not count."""
    exact = total + rest
    return select(exact == exact, exact, total)


@quiet
def integer_power(x: Any, y: Any) -> Any:
    """x**y of int64, modulo 2**64, by squaring. (Numba's own power computes large exponents in float64.)

    For a negative y it is 1 / x**-y cut towards zero, and 0 for x = 0, as in PyTorch.
    """
    zero, one = i64(0), i64(1)
    result, square = one, x
    for k in range(63):
        result = select(((y >> i64(k)) & one) != zero, result * square, result)
        square = square * square
    odd = (y & one) != zero
    of_minus_one = select(odd, i64(-1), one)
    inverse = select(x == one, one, select(x == i64(-1), of_minus_one, zero))
    return select(y < zero, inverse, result)


FUNCTIONS: dict[str, Callable[..., Any]] = {name: globals()[name] for name in __all__}
