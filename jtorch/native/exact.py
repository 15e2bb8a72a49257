"""Arithmetic for kernels that rounds nothing away: sums of float64 with their rest, powers of integers.

And floats cut to integers by one rule.

Straight-line text over NumPy-typed scalars and primitives, as in `vecmath`, with the same three callers.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from jtorch.native.intrinsics import select, to_i32, to_i64, to_u64
from jtorch.native.vecmath_core import f32, f64, i32, i64, quiet

__all__ = [
    "add_with_rest", "cut_i32_f32", "cut_i32_f64", "cut_i64_f32", "cut_i64_f64", "cut_u64_f32", "cut_u64_f64",
    "integer_power", "with_rest",
]  # fmt: skip


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


# Floats cut towards zero. What does not fit, NaN too, is the least integer, as x86's instruction gives it to
# NumPy and PyTorch. LLVM leaves it undefined: it saturated whole vectors of int16 and wrapped what was left.


@quiet
def cut_i32_f32(x: Any) -> Any:
    """A float32 as int32; also the way to integers of 8 and 16 bits, which take the lowest bits of it."""
    return select((x >= f32(-(2.0**31))) & (x < f32(2.0**31)), to_i32(x), i32(-(2**31)))


@quiet
def cut_i32_f64(x: Any) -> Any:
    """A float64 as int32, see `cut_i32_f32`."""
    return select((x > f64(-(2.0**31) - 1)) & (x < f64(2.0**31)), to_i32(x), i32(-(2**31)))


@quiet
def cut_i64_f32(x: Any) -> Any:
    """A float32 as int64; also the way to uint32."""
    return select((x >= f32(-(2.0**63))) & (x < f32(2.0**63)), to_i64(x), i64(-(2**63)))


@quiet
def cut_i64_f64(x: Any) -> Any:
    """A float64 as int64; also the way to uint32."""
    return select((x >= f64(-(2.0**63))) & (x < f64(2.0**63)), to_i64(x), i64(-(2**63)))


@quiet
def cut_u64_f32(x: Any) -> Any:
    """A float32 as uint64: from 2**63 on what is above it as an int64, with the highest bit turned."""
    half = f32(2.0**63)
    return select(x >= half, to_u64(cut_i64_f32(x - half)) ^ _HIGHEST, to_u64(cut_i64_f32(x)))


@quiet
def cut_u64_f64(x: Any) -> Any:
    """A float64 as uint64, see `cut_u64_f32`."""
    half = f64(2.0**63)
    return select(x >= half, to_u64(cut_i64_f64(x - half)) ^ _HIGHEST, to_u64(cut_i64_f64(x)))


_HIGHEST = np.uint64(2**63)


FUNCTIONS: dict[str, Callable[..., Any]] = {name: globals()[name] for name in __all__}
