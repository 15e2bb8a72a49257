"""pow for kernels: exp(y log|x|) with enough digits in between, and C99's special cases as selects.

float32 computes in float64. float64 carries log|x| as an unevaluated sum of two float64 (about
2**-66 relative).
"""

from __future__ import annotations

from typing import Any

from jtorch.native.intrinsics import copysign, fabs, fma, rint, select, to_f32, to_f64
from jtorch.native.vecmath_core import f32, f64, polynomial, quiet, typed
from jtorch.native.vecmath_exp import (
    HIGHEST_F64,
    LN2_HIGH_F64,
    LOWEST_F64,
    clamp,
    exp_small_f64,
    power_of_two_f64,
    reduce_f64,
    scale_f64,
)
from jtorch.native.vecmath_log import split_f64

__all__ = ["pow_f32", "pow_f64"]

ONE_F64, TWO_F64, HALF_F64, ZERO_F64, INF_F64, NAN_F64 = typed(
    f64, 1.0, 2.0, 0.5, 0.0, float("inf"), float("nan")
)


def special_cases(x: Any, y: Any, result: Any, dtype: Any) -> Any:
    """C99 F.9.4.4 for `result` = |x|**y, where |x| of 0 and infinity and infinite y are right
    already."""
    zero, one, half, infinity = typed(dtype, 0.0, 1.0, 0.5, float("inf"))
    whole = rint(y) == y
    odd = whole & (rint(y * half) * dtype(2.0) != y)
    negative = copysign(one, x) < zero
    result = select(negative & odd, -result, result)
    result = select((x < zero) & (x > -infinity) & ~whole, dtype(float("nan")), result)
    result = select((x == -one) & (fabs(y) == infinity), one, result)
    result = select((x != x) | (y != y), x + y, result)
    return select((x == one) | (y == zero), one, result)


# 2 atanh(s) / s - 2 over s**2, in s**2, for s = f / (2 + f) and x = 2**e (1 + f); error 2**-43
LOG_F32 = typed(f64, 0.1949800895787404, 0.22182603153884758, 0.2857194251048481,
                0.39999997361534384, 0.6666666666995529)  # fmt: skip
# (exp(r) - 1 - r) / r**2, error 2**-32
EXP_F32 = typed(f64, 0.00019909202800011327, 0.0013940954277933222, 0.008333281806963246,
                0.041666355507666474, 0.16666666781504336, 0.5000000046140057)  # fmt: skip
LOWEST_F32, HIGHEST_F32 = typed(f64, -150.0, 130.0)


@quiet
def pow_f32(x: Any, y: Any) -> Any:
    """x**y, with C99's special cases."""
    size, power = to_f64(fabs(x)), to_f64(y)
    e, f = split_f64(size)
    s = f / (TWO_F64 + f)
    z = s * s
    logarithm = fma(e, LN2_HIGH_F64, fma(polynomial(z, LOG_F32) * z, s, s + s))
    logarithm = select(size == ZERO_F64, -INF_F64, select(size == INF_F64, INF_F64, logarithm))
    n, r, _ = reduce_f64(clamp(logarithm * power, LOWEST_F32, HIGHEST_F32))
    p = fma(polynomial(r, EXP_F32), r * r, r) + ONE_F64
    return special_cases(x, y, to_f32(p * power_of_two_f64(n)), f32)


# (2 atanh(s) / s - 2 - 2/3 s**2) / s**4 in s**2; 2/3 itself is needed to 2**-60
LOG_TAIL_F64 = typed(f64, 0.11303985844480352, 0.11752574328743892,
                     0.13332768973161205, 0.1538463996886874, 0.18181817814678644,
                     0.22222222224599994, 0.28571428571422897, 0.4)  # fmt: skip
TWO_THIRDS_HIGH_F64, TWO_THIRDS_LOW_F64 = typed(f64, "0x1.5555555555555p-1", "0x1.5555555555555p-55")
LN2_SHORT_F64, LN2_REST_F64 = typed(f64, "0x1.62e42fefap-1", "0x1.cf79abc9e3b39p-40")


def _quick_sum(a: Any, b: Any) -> tuple[Any, Any]:
    """a + b as a sum of two, for |a| >= |b|."""
    total = a + b
    return total, (a - total) + b


def _product(a: tuple[Any, Any], b: tuple[Any, Any]) -> tuple[Any, Any]:
    """The product of two sums of two."""
    head = a[0] * b[0]
    return head, fma(a[0], b[0], -head) + fma(a[0], b[1], a[1] * b[0])


def logarithm_two_f64(x: Any) -> tuple[Any, Any]:
    """log(x) as a sum of two, for positive finite x."""
    e, f = split_f64(x)
    divisor, divisor_low = _quick_sum(TWO_F64, f)
    s = f / divisor
    s_low = (fma(-s, divisor, f) - s * divisor_low) / divisor
    square = _product((s, s_low), (s, s_low))
    tail = square[0] * polynomial(square[0], LOG_TAIL_F64)
    head, low = _quick_sum(TWO_THIRDS_HIGH_F64, tail)
    cubic = _product(_product((s, s_low), square), (head, low + TWO_THIRDS_LOW_F64))
    total, low = _quick_sum(s + s, cubic[0])
    low = low + (cubic[1] + (s_low + s_low))
    shift = e * LN2_SHORT_F64  # exact: 11 bits of e, 37 of the constant
    head, rest = _quick_sum(select(e == ZERO_F64, total, shift), select(e == ZERO_F64, ZERO_F64, total))
    return _quick_sum(head, fma(e, LN2_REST_F64, rest + low))


@quiet
def pow_f64(x: Any, y: Any) -> Any:
    """x**y, with C99's special cases."""
    size = fabs(x)
    high, low = logarithm_two_f64(size)
    high = select(size == ZERO_F64, -INF_F64, select(size == INF_F64, INF_F64, high))
    product = high * y
    error = fma(high, y, -product) + low * y
    n, r, correction = reduce_f64(clamp(product, LOWEST_F64, HIGHEST_F64))
    correction = select(fabs(product) < f64(800.0), correction + error, correction)
    shifted = r + correction
    p = exp_small_f64(shifted, (r - shifted) + correction)
    return special_cases(x, y, scale_f64(p, n), f64)
