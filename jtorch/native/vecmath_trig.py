"""sin, cos, tan, atan for kernels.

The argument is reduced by multiplying with as many bits of 2/pi as its size asks for (Payne and
Hanek, "Radian reduction for trigonometric functions", 1983), in floating point: bits of 2/pi whose
product with x is a multiple of 4 (whole turns) are left out, products are kept as unevaluated sums
through FMA. So every finite argument has full accuracy, without a branch and without libm.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from jtorch.native.intrinsics import (
    bits_i64,
    copysign,
    fabs,
    fma,
    lookup,
    rint,
    select,
    to_f32,
    to_f64,
    to_i32,
    to_i64,
)
from jtorch.native.vecmath_core import f32, f64, i32, i64, polynomial, quiet, typed

__all__ = ["atan_f32", "atan_f64", "cos_f32", "cos_f64", "sin_f32", "sin_f64", "tan_f32", "tan_f64"]

# the first 1216 bits of 2/pi after the point
TWO_OVER_PI = int(
    "a2f9836e4e441529fc2757d1f534ddc0db6295993c439041fe5163abdebbc561b7246e3a424d"
    "d2e006492eea09d1921cfe1deb1cb129a73ee88235f52ebb4484e99c7026b45f7e413991d639"
    "835339f49c845f8bbdf9283b1ff897ffde05980fef2f118b5a0a6d1f6d367ecf27cb09b74f46"
    "3f669e5fea2d7527bac7ebe5f17b3d0739f78a5292ea6bfb5fb11f8d5d0856033046fc7b6bab",
    16,
)  # fmt: skip
BITS = 1216


def two_over_pi(skip: int, parts: int, lift: int = 0) -> list[float]:
    """2/pi without its first `skip` bits, times 2**lift, as a sum of `parts` float64."""
    rest = TWO_OVER_PI & ((1 << (BITS - skip)) - 1)
    result = []
    for _ in range(parts):
        drop = max(abs(rest).bit_length() - 53, 0)
        head = (abs(rest) + ((1 << drop) >> 1)) >> drop << drop  # the nearest number of 53 bits
        head = head if rest >= 0 else -head
        result.append(float(head >> drop if head >= 0 else -(-head >> drop)) * 2.0 ** (drop - BITS + lift))
        rest -= head
    return result


# --- float32: reduced in float64 -----------------------------------------------------------------

# |x| from which on the first 19, 40, 61, 82 bits of 2/pi yield whole turns, and 106 bits of the
# rest
WINDOWS_F32 = [(f64(2.0**exponent), *typed(f64, *two_over_pi(skip, 2)))
               for exponent, skip in ((44, 19), (65, 40), (86, 61), (107, 82))]  # fmt: skip
FIRST_WINDOW_F32 = typed(f64, *two_over_pi(0, 2))
MAGIC_F64, HALF_PI_F64, HALF_PI_LOW_F64 = typed(
    f64, 6755399441055744.0, "0x1.921fb54442d18p+0", "0x1.1a62633145c07p-54"
)

# (sin(r) / r - 1) / r**2 and ((cos(r) - 1) / r**2 + 1/2) / r**2 in r**2 for |r| <= pi / 4
SIN_F32 = typed(f32, 2.8368938274070388e-06, -0.000198534777155146, 0.008333380334079266,
                -0.1666666716337204)  # fmt: skip
COS_F32 = typed(f32, 2.4447859686915763e-05, -0.0013887464301660657, 0.04166664928197861)


def quarter_turns_f32(x: Any) -> tuple[Any, Any]:
    """n (int32, modulo 2**32) and r (float64) with x = n pi/2 + r, |r| <= pi/4, for a float32 x."""
    wide = to_f64(x)
    size = fabs(wide)
    head, tail = FIRST_WINDOW_F32
    for edge, window_head, window_tail in WINDOWS_F32:
        head = select(size >= edge, window_head, head)
        tail = select(size >= edge, window_tail, tail)
    product = wide * head
    shifted = product + MAGIC_F64
    error = fma(wide, tail, fma(wide, head, -product))
    fraction = (product - (shifted - MAGIC_F64)) + error
    return to_i32(bits_i64(shifted)), fraction * HALF_PI_F64


def sin_cos_f32(n: Any, r: Any) -> Any:
    """sin(n pi/2 + r)."""
    r = to_f32(r)
    z = r * r
    sine = fma(polynomial(z, SIN_F32) * z, r, r)
    cosine = fma(polynomial(z, COS_F32), z * z, fma(f32(-0.5), z, f32(1.0)))
    result = select((n & i32(1)) == i32(0), sine, cosine)
    return select((n & i32(2)) == i32(0), result, -result)


@quiet
def sin_f32(x: Any) -> Any:
    """Sine, accurate for every finite x."""
    n, r = quarter_turns_f32(x)
    return select(fabs(x) < f32(2.0**-20), x, sin_cos_f32(n, r))


@quiet
def cos_f32(x: Any) -> Any:
    """Cosine, accurate for every finite x."""
    n, r = quarter_turns_f32(x)
    return sin_cos_f32(n + i32(1), r)


@quiet
def tan_f32(x: Any) -> Any:
    """Tangent, as a quotient of float64 polynomials."""
    n, r = quarter_turns_f32(x)
    z = r * r
    sine = fma(polynomial(z, SIN_F64[2:]) * z, r, r)
    cosine = fma(polynomial(z, COS_F64[2:]), z * z, fma(f64(-0.5), z, f64(1.0)))
    even = (to_i64(n) & i64(1)) == i64(0)
    result = to_f32(select(even, sine, -cosine) / select(even, cosine, sine))
    return select(fabs(x) < f32(2.0**-20), x, result)


# --- float64 -------------------------------------------------------------------------------------

STEP, ROWS, LIFT_ROW, LIFT = (
    32,
    31,
    15,
    300,
)  # rows from LIFT_ROW on are stored times 2**LIFT: no subnormals
TABLES_F64 = [np.array(column) for column in zip(
    *[two_over_pi(STEP * k, 4, LIFT if k >= LIFT_ROW else 0) for k in range(ROWS)], strict=True
)]  # fmt: skip
QUARTER_F64, FOUR_F64, UNLIFT_F64 = typed(f64, 0.25, 4.0, "0x1p-300")

SIN_F64 = typed(f64, -7.369398291721318e-13, 1.6053914828856686e-10, -2.505206793187078e-08,
                2.755731906336072e-06, -0.0001984126984094499, 0.008333333333333031,
                -0.16666666666666666)  # fmt: skip
COS_F64 = typed(f64, -1.136540482656968e-11, 2.087584343820885e-09, -2.7557315316880533e-07,
                2.48015872931705e-05, -0.0013888888888880758, 0.041666666666666644)  # fmt: skip


def two_sum(a: Any, b: Any) -> tuple[Any, Any]:
    total = a + b
    back = total - a
    return total, (a - (total - back)) + (b - back)


def _quick_sum(a: Any, b: Any) -> tuple[Any, Any]:
    """a + b as a sum of two, for |a| >= |b|."""
    total = a + b
    return total, (a - total) + b


def whole_turns_off(x: Any) -> Any:
    """`x` modulo 4, exactly, within [-2, 2]."""
    return fma(rint(x * QUARTER_F64), -FOUR_F64, x)


def quarter_turns_f64(x: Any) -> tuple[Any, Any, Any]:
    """n (int64), r and its rounding error with x = n pi/2 + r, |r| <= pi/4."""
    exponent = ((bits_i64(x) >> i64(52)) & i64(0x7FF)) - i64(1023)
    row = (exponent - i64(54)) >> i64(5)
    row = select(row < i64(0), i64(0), row)
    x = select(row >= i64(LIFT_ROW), x * UNLIFT_F64, x)
    heads, errors = [], []
    for table in TABLES_F64:
        part = lookup(table, row)
        heads.append(x * part)
        errors.append(fma(x, part, -heads[-1]))
    total, low1 = two_sum(whole_turns_off(heads[0]), whole_turns_off(errors[0]))
    total, low2 = two_sum(total, whole_turns_off(heads[1]))
    low, low3 = two_sum(errors[1], heads[2])
    total, low4 = two_sum(total, low)
    shifted = total + MAGIC_F64
    fraction = total - (shifted - MAGIC_F64)
    middle, low5 = two_sum(low1 + low2, low4)
    fraction, low6 = two_sum(fraction, middle)
    rest = low6 + (low5 + (low3 + (errors[2] + heads[3])))
    head = fraction + rest
    rest = (fraction - head) + rest
    r = head * HALF_PI_F64
    error = fma(head, HALF_PI_F64, -r) + fma(head, HALF_PI_LOW_F64, rest * HALF_PI_F64)
    return bits_i64(shifted), r, error


def sine_f64(r: Any, error: Any) -> tuple[Any, Any]:
    """sin(r + error) as a sum of two, the second small but not rounding-error small."""
    z = r * r
    return r, fma(polynomial(z, SIN_F64) * z, r, fma(f64(-0.5) * z, error, error))


def cosine_f64(r: Any, error: Any) -> tuple[Any, Any]:
    """cos(r + error) as a sum of two."""
    z = r * r
    half = f64(0.5) * z
    head = f64(1.0) - half
    return head, ((f64(1.0) - head) - half) + fma(polynomial(z, COS_F64), z * z, -r * error)


def sin_cos_f64(n: Any, r: Any, error: Any) -> Any:
    """sin(n pi/2 + r + error)."""
    sine, cosine = sine_f64(r, error), cosine_f64(r, error)
    result = select((n & i64(1)) == i64(0), sine[0] + sine[1], cosine[0] + cosine[1])
    return select((n & i64(2)) == i64(0), result, -result)


@quiet
def sin_f64(x: Any) -> Any:
    """Sine, accurate for every finite x."""
    return select(fabs(x) < f64(2.0**-30), x, sin_cos_f64(*quarter_turns_f64(x)))


@quiet
def cos_f64(x: Any) -> Any:
    """Cosine, accurate for every finite x."""
    n, r, error = quarter_turns_f64(x)
    return sin_cos_f64(n + i64(1), r, error)


@quiet
def tan_f64(x: Any) -> Any:
    """Tangent: one reciprocal, and one Newton step with the low parts of both sides."""
    n, r, error = quarter_turns_f64(x)
    sine, sine_low = _quick_sum(*sine_f64(r, error))
    cosine, cosine_low = _quick_sum(*cosine_f64(r, error))
    even = (n & i64(1)) == i64(0)
    top, top_low = select(even, sine, -cosine), select(even, sine_low, -cosine_low)
    bottom, bottom_low = select(even, cosine, sine), select(even, cosine_low, sine_low)
    inverse = f64(1.0) / bottom
    q = top * inverse
    rest = fma(-q, bottom, top) + fma(-q, bottom_low, top_low)
    return select(fabs(x) < f64(2.0**-30), x, fma(rest, inverse, q))


# --- atan ----------------------------------------------------------------------------------------

# (atan(t) / t - 1) / t**2 in t**2 for t <= tan(pi/8)
ATAN_F32 = typed(f32, -0.06125788390636444, 0.10614773631095886, -0.14246776700019836,
                 0.1999867558479309, -0.33333319425582886)  # fmt: skip
ATAN_F64 = typed(f64, 0.015415959948466177, -0.033705970906039565,
                 0.045141957509173554, -0.05221225012968948, 0.058774973290501825,
                 -0.06666279924558036, 0.07692286743018831, -0.09090908342159634,
                 0.11111111094428186, -0.14285714285505138, 0.19999999999998797,
                 -0.3333333333333333)  # fmt: skip
TAN_PI_8, TAN_3PI_8 = 0.41421356237309503, 2.414213562373095


def _arctangent(x: Any, dtype: Any, coefficients: tuple[Any, ...], low: tuple[Any, Any]) -> Any:
    """atan(t) = pi/4 + atan((t - 1) / (t + 1)) = pi/2 + atan(-1 / t), with pi in two parts."""
    t = fabs(x)
    middle, large = t > dtype(TAN_PI_8), t > dtype(TAN_3PI_8)
    numerator = select(large, dtype(-1.0), select(middle, t - dtype(1.0), t))
    denominator = select(large, t, select(middle, t + dtype(1.0), dtype(1.0)))
    q = numerator / denominator
    z = q * q
    zero = dtype(0.0)
    head = select(large, dtype(np.pi / 2), select(middle, dtype(np.pi / 4), zero))
    tail = select(large, low[0], select(middle, low[1], zero))
    result = head + (q + fma(polynomial(z, coefficients) * z, q, tail))
    return copysign(result, x)


@quiet
def atan_f32(x: Any) -> Any:
    """Arctangent."""
    return _arctangent(x, f32, ATAN_F32, typed(f32, -4.371139000186241e-08, -2.1855695000931206e-08))


@quiet
def atan_f64(x: Any) -> Any:
    """Arctangent."""
    return _arctangent(x, f64, ATAN_F64, typed(f64, 6.123233995736766e-17, 3.061616997868383e-17))
