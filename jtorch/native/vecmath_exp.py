"""exp, exp2, expm1, sigmoid, tanh, sinh, cosh for kernels.

All start the same way (Cody and Waite, "Software Manual for the Elementary Functions", 1980): x = n
ln2 + r with |r| <= ln2 / 2, exp(r) by a minimax polynomial, times 2**n in two factors, so that
subnormal results round once. n comes from adding 1.5 * 2**(mantissa bits), which rounds to an
integer and leaves it in the low bits.
"""

from __future__ import annotations

from typing import Any

from jtorch.native.intrinsics import (
    bits_i32,
    bits_i64,
    copysign,
    fabs,
    float_from_i32,
    float_from_i64,
    fma,
    select,
)
from jtorch.native.vecmath_core import f32, f64, i32, i64, polynomial, quiet, typed

__all__ = [
    "cosh_f32", "cosh_f64", "exp2_f32", "exp2_f64", "exp_f32", "exp_f64", "expm1_f32", "expm1_f64",
    "sigmoid_f32", "sigmoid_f64", "sinh_f32", "sinh_f64", "tanh_f32", "tanh_f64",
]  # fmt: skip

ONE_F32, TWO_F32, HALF_F32, ZERO_F32 = typed(f32, 1.0, 2.0, 0.5, 0.0)
ONE_F64, TWO_F64, HALF_F64, ZERO_F64 = typed(f64, 1.0, 2.0, 0.5, 0.0)

MAGIC_F32, LOG2E_F32 = typed(f32, 12582912.0, 1.44269504)
LN2_HIGH_F32, LN2_LOW_F32 = typed(f32, "0x1.62e430p-1", "-0x1.05c610p-29")
MAGIC_F64, LOG2E_F64 = typed(f64, 6755399441055744.0, "0x1.71547652b82fep+0")
LN2_HIGH_F64, LN2_LOW_F64 = typed(f64, "0x1.62e42fefa39efp-1", "0x1.abc9e3b39803fp-56")

# (exp(r) - 1 - r) / r**2 on |r| <= ln2 / 2, error 2**-28 and 2**-61 of exp(r)
EXP_F32 = typed(f32, 0.0013820932945236564, 0.008368702605366707, 0.04166826605796814,
                0.1666652113199234, 0.4999999403953552)  # fmt: skip
EXP_WHOLE_F32 = (*EXP_F32, ONE_F32, ONE_F32)  # exp(r)
EXP_F64 = typed(f64, 2.091755118633959e-09, 2.510919142409464e-08,
                2.7557265706701934e-07, 2.7557243741511368e-06, 2.480158733282761e-05,
                0.00019841269886617483, 0.0013888888888881376, 0.008333333333321426,
                0.04166666666666667, 0.16666666666666677, 0.5)  # fmt: skip

LOWEST_F32, HIGHEST_F32 = typed(f32, -104.0, 89.0)
LOWEST_F64, HIGHEST_F64 = typed(f64, -746.0, 710.0)


def reduce_f32(x: Any) -> tuple[Any, Any, Any]:
    """n (int32), r and its rounding error (`correction`) with x = n ln2 + r + correction; NaN goes
    to r."""
    shifted = fma(x, LOG2E_F32, MAGIC_F32)
    n = shifted - MAGIC_F32
    high = fma(n, -LN2_HIGH_F32, x)  # exact: both are multiples of one small power of two
    r = fma(n, -LN2_LOW_F32, high)
    return bits_i32(shifted) - bits_i32(MAGIC_F32), r, fma(n, -LN2_LOW_F32, high - r)


def reduce_f64(x: Any) -> tuple[Any, Any, Any]:
    """n (int64), r and its rounding error (`correction`) with x = n ln2 + r + correction; NaN goes
    to r."""
    shifted = fma(x, LOG2E_F64, MAGIC_F64)
    n = shifted - MAGIC_F64
    high = fma(n, -LN2_HIGH_F64, x)  # exact: both are multiples of one small power of two
    r = fma(n, -LN2_LOW_F64, high)
    return bits_i64(shifted) - bits_i64(MAGIC_F64), r, fma(n, -LN2_LOW_F64, high - r)


def exp_small_f32(r: Any, correction: Any) -> Any:
    """exp(r + correction) for |r| <= ln2 / 2, the rounding error of 1 + r carried along."""
    head = ONE_F32 + r
    return head + (((ONE_F32 - head) + r) + fma(polynomial(r, EXP_F32), r * r, correction))


def exp_small_f64(r: Any, correction: Any) -> Any:
    """exp(r + correction) for |r| <= ln2 / 2."""
    head = ONE_F64 + r
    return head + (((ONE_F64 - head) + r) + fma(polynomial(r, EXP_F64), r * r, correction))


def exp_parts_f32(x: Any) -> tuple[Any, Any]:
    """n (int32) and p with e**x = 2**n p, to .9 units in the last place: without the rounding errors, which
    are not seen where 1 is added to it. A sigmoid far below 0 is nothing else, and as far off."""
    shifted = fma(x, LOG2E_F32, MAGIC_F32)
    n = shifted - MAGIC_F32
    r = fma(n, -LN2_LOW_F32, fma(n, -LN2_HIGH_F32, x))
    return bits_i32(shifted) - bits_i32(MAGIC_F32), polynomial(r, EXP_WHOLE_F32)


def power_of_two_f32(n: Any) -> Any:
    """2**n for an int32 -126 <= n <= 127."""
    return float_from_i32((n + i32(127)) << i32(23))


def power_of_two_f64(n: Any) -> Any:
    """2**n for an int64 -1022 <= n <= 1023."""
    return float_from_i64((n + i64(1023)) << i64(52))


def scale_f32(p: Any, n: Any) -> Any:
    """p * 2**n with one rounding, for |n| <= 252."""
    half = n >> i32(1)
    return p * power_of_two_f32(half) * power_of_two_f32(n - half)


def scale_f64(p: Any, n: Any) -> Any:
    """p * 2**n with one rounding, for |n| <= 2044."""
    half = n >> i64(1)
    return p * power_of_two_f64(half) * power_of_two_f64(n - half)


def clamp(x: Any, lowest: Any, highest: Any) -> Any:
    """`x` within [lowest, highest]; NaN stays NaN."""
    x = select(x < lowest, lowest, x)
    return select(x > highest, highest, x)


@quiet
def exp_f32(x: Any) -> Any:
    """e**x. What is 0 is so before it is scaled: a product that underflows costs 30 ns a vector (on a Xeon),
    and half of the scores of causal attention are -inf."""
    n, r, correction = reduce_f32(clamp(x, LOWEST_F32, HIGHEST_F32))
    return scale_f32(select(x < LOWEST_F32, ZERO_F32, exp_small_f32(r, correction)), n)


@quiet
def exp_f64(x: Any) -> Any:
    """e**x."""
    n, r, correction = reduce_f64(clamp(x, LOWEST_F64, HIGHEST_F64))
    return scale_f64(select(x < LOWEST_F64, ZERO_F64, exp_small_f64(r, correction)), n)


@quiet
def exp2_f32(x: Any) -> Any:
    """2**x, as exp((x - n) ln2) with ln2 in two parts."""
    x = clamp(x, f32(-151.0), f32(129.0))
    shifted = x + MAGIC_F32
    f = x - (shifted - MAGIC_F32)
    r = f * LN2_HIGH_F32
    correction = fma(f, LN2_LOW_F32, fma(f, LN2_HIGH_F32, -r))
    return scale_f32(exp_small_f32(r, correction), bits_i32(shifted) - bits_i32(MAGIC_F32))


@quiet
def exp2_f64(x: Any) -> Any:
    """2**x, as exp((x - n) ln2) with ln2 in two parts."""
    x = clamp(x, f64(-1076.0), f64(1025.0))
    shifted = x + MAGIC_F64
    f = x - (shifted - MAGIC_F64)
    r = f * LN2_HIGH_F64
    correction = fma(f, LN2_LOW_F64, fma(f, LN2_HIGH_F64, -r))
    return scale_f64(exp_small_f64(r, correction), bits_i64(shifted) - bits_i64(MAGIC_F64))


@quiet
def sigmoid_f32(x: Any) -> Any:
    """1 / (1 + e**-x), as e**x / (1 + e**x) below zero: no overflow, and subnormal results are
    right."""
    below = -fabs(x)
    n, p = exp_parts_f32(select(below < LOWEST_F32, LOWEST_F32, below))
    e = scale_f32(select(below < LOWEST_F32, ZERO_F32, p), n)
    numerator = select(x < ZERO_F32, e, ONE_F32)
    s = ONE_F32 + e
    q = numerator / s
    error = fma(-q, s, numerator) - q * ((ONE_F32 - s) + e)  # of the division, and of the sum
    return fma(error, select(x < ZERO_F32, ONE_F32 - q, q), q)


@quiet
def sigmoid_f64(x: Any) -> Any:
    """1 / (1 + e**-x)."""
    e = exp_f64(-fabs(x))
    numerator = select(x < ZERO_F64, e, ONE_F64)
    s = ONE_F64 + e
    q = numerator / s
    error = fma(-q, s, numerator) - q * ((ONE_F64 - s) + e)  # of the division, and of the sum
    return fma(error, select(x < ZERO_F64, ONE_F64 - q, q), q)


# (tanh(x) / x - 1) / x**2 in x**2 for |x| <= 0.6, errors 2**-32 and 2**-62 of tanh(x)
TANH_F32 = typed(f32, 0.002169515937566757, -0.008206784725189209, 0.02171284519135952,
                 -0.053949058055877686, 0.1333322525024414, -0.3333333134651184)  # fmt: skip
TANH_F64 = typed(f64, 6.511897025838151e-06, -3.1196789897211697e-05,
                 9.250646906666126e-05, -0.00023752196333178964, 0.0005896254357841558,
                 -0.0014557648342422786, 0.003592119781387666, -0.008863234874658413,
                 0.02186948850301034, -0.053968253967272416, 0.13333333333331882,
                 -0.33333333333333326)  # fmt: skip
TANH_EDGE_F32, TANH_EDGE_F64 = f32(0.6), f64(0.6)
TANH_ONE_F32, TANH_ONE_F64 = f32(10.0), f64(22.0)  # tanh rounds to 1 from here on


@quiet
def tanh_f32(x: Any) -> Any:
    """Hyperbolic tangent: a polynomial up to |x| = 0.6, then 1 - 2 / (e**2|x| + 1)."""
    size = fabs(x)
    n, p = exp_parts_f32(select(size > TANH_ONE_F32, TANH_ONE_F32, size) * TWO_F32)
    large = ONE_F32 - TWO_F32 / fma(p, power_of_two_f32(n), ONE_F32)
    z = x * x
    small = fma(polynomial(z, TANH_F32) * z, size, size)
    return copysign(select(size < TANH_EDGE_F32, small, large), x)


@quiet
def tanh_f64(x: Any) -> Any:
    """Hyperbolic tangent."""
    size = fabs(x)
    n, r, correction = reduce_f64(select(size > TANH_ONE_F64, TANH_ONE_F64, size) * TWO_F64)
    e = exp_small_f64(r, correction) * power_of_two_f64(n)
    large = ONE_F64 - TWO_F64 / (e + ONE_F64)
    z = x * x
    small = fma(polynomial(z, TANH_F64) * z, size, size)
    return copysign(select(size < TANH_EDGE_F64, small, large), x)


# expm1(r) needs one more term than exp(r): there is no 1 to hide the error behind
EXPM1_F32 = typed(f32, 0.0001994425692828372, 0.0013932706788182259, 0.008333208039402962,
                  0.04166648909449577, 0.1666666716337204, 0.5)  # fmt: skip


def expm1_parts_f32(x: Any) -> tuple[Any, Any]:
    """n and p = expm1(r): expm1(x) = 2**n p + (2**n - 1)."""
    n, r, correction = reduce_f32(x)
    return n, r + fma(polynomial(r, EXPM1_F32), r * r, fma(correction, r, correction))


@quiet
def expm1_f32(x: Any) -> Any:
    """e**x - 1, accurate near 0."""
    n, p = expm1_parts_f32(clamp(x, f32(-20.0), f32(89.0)))
    scale = power_of_two_f32(n - i32(1))  # half the scale, which for the largest n does not overflow
    result = fma(p, scale, scale - HALF_F32) * TWO_F32
    return select(fabs(x) < f32(float.fromhex("0x1p-25")), x, result)


def expm1_parts_f64(x: Any) -> tuple[Any, Any]:
    """n and p = expm1(r): expm1(x) = 2**n p + (2**n - 1)."""
    n, r, correction = reduce_f64(x)
    return n, r + fma(polynomial(r, EXP_F64), r * r, fma(correction, r, correction))


@quiet
def expm1_f64(x: Any) -> Any:
    """e**x - 1, accurate near 0."""
    n, p = expm1_parts_f64(clamp(x, f64(-40.0), f64(710.0)))
    scale = power_of_two_f64(n - i64(1))  # half the scale, which for the largest n does not overflow
    result = fma(p, scale, scale - HALF_F64) * TWO_F64
    return select(fabs(x) < f64(float.fromhex("0x1p-54")), x, result)


# (sinh(x) / x - 1) / x**2 in x**2 for |x| <= 1
SINH_F32 = typed(f32, 2.7839264475915115e-06, 0.00019842635083477944, 0.008333311416208744,
                 0.1666666716337204)  # fmt: skip
SINH_F64 = typed(f64, 6.4718928230092194e-15, 7.503189506528672e-13,
                 1.606134435694666e-10, 2.505208933304995e-08, 2.7557319310621786e-06,
                 0.0001984126984105956, 0.008333333333333574, 0.16666666666666666)  # fmt: skip


def half_exponentials_f32(x: Any) -> tuple[Any, Any, Any]:
    """p, a, b with e**x / 2 = p a b and e**-x / 2 = (1 / p) / (4 a b), for x >= 0: the product
    overflows last."""
    x = clamp(x, ZERO_F32, f32(90.5))
    n, r, correction = reduce_f32(x)
    half = n >> i32(1)
    return exp_small_f32(r, correction), power_of_two_f32(half - i32(1)), power_of_two_f32(n - half)


@quiet
def cosh_f32(x: Any) -> Any:
    """Hyperbolic cosine."""
    p, a, b = half_exponentials_f32(fabs(x))
    inverse = f32(0.25) / (p * a * b)
    return fma(p * a, b, inverse)


@quiet
def sinh_f32(x: Any) -> Any:
    """Hyperbolic sine: a polynomial up to |x| = 1."""
    size = fabs(x)
    p, a, b = half_exponentials_f32(size)
    large = fma(p * a, b, -(f32(0.25) / (p * a * b)))
    z = x * x
    small = fma(polynomial(z, SINH_F32) * z, size, size)
    return copysign(select(size < ONE_F32, small, large), x)


def half_exponentials_f64(x: Any) -> tuple[Any, Any, Any]:
    """p, a, b with e**x / 2 = p a b and e**-x / 2 = (1 / p) / (4 a b), for x >= 0: the product
    overflows last."""
    x = clamp(x, ZERO_F64, f64(711.5))
    n, r, correction = reduce_f64(x)
    half = n >> i64(1)
    return exp_small_f64(r, correction), power_of_two_f64(half - i64(1)), power_of_two_f64(n - half)


@quiet
def cosh_f64(x: Any) -> Any:
    """Hyperbolic cosine."""
    p, a, b = half_exponentials_f64(fabs(x))
    inverse = f64(0.25) / (p * a * b)
    return fma(p * a, b, inverse)


@quiet
def sinh_f64(x: Any) -> Any:
    """Hyperbolic sine: a polynomial up to |x| = 1."""
    size = fabs(x)
    p, a, b = half_exponentials_f64(size)
    large = fma(p * a, b, -(f64(0.25) / (p * a * b)))
    z = x * x
    small = fma(polynomial(z, SINH_F64) * z, size, size)
    return copysign(select(size < ONE_F64, small, large), x)
