"""log, log2, log10, log1p for kernels.

x = 2**e (1 + f) with 1 + f in [2/3, 4/3) for float32 and [sqrt(1/2), sqrt(2)) for float64, so that
the logarithm of a number near 1 keeps its relative accuracy: there e = 0 and f is exact.
"""

from __future__ import annotations

from typing import Any

from jtorch.native.intrinsics import (
    bits_i32,
    bits_i64,
    fabs,
    float_from_i32,
    float_from_i64,
    fma,
    select,
    to_f32,
    to_f64,
    to_i32,
    to_i64,
)
from jtorch.native.vecmath_core import f32, f64, i32, i64, polynomial, quiet, typed

__all__ = [
    "log1p_f32",
    "log1p_f64",
    "log2_f32",
    "log2_f64",
    "log10_f32",
    "log10_f64",
    "log_f32",
    "log_f64",
]  # fmt: skip

ONE_F32, ZERO_F32, INF_F32, NAN_F32 = typed(f32, 1.0, 0.0, float("inf"), float("nan"))
ONE_F64, TWO_F64, ZERO_F64, INF_F64, NAN_F64 = typed(f64, 1.0, 2.0, 0.0, float("inf"), float("nan"))
TINY_F32, LIFT_F32, LIFTED_F32 = typed(f32, "0x1p-126", "0x1p23", -23.0)
TINY_F64, LIFT_F64, LIFTED_F64 = typed(f64, "0x1p-1022", "0x1p52", -52.0)
LN2_F32 = f32(0.6931471805599453)
LN2_HIGH_F64, LN2_LOW_F64 = typed(f64, "0x1.62e42feep-1", "0x1.a39ef35793c76p-33")

# (log(1 + f) - f) / f**2 on [-1/3, 1/3], error 2**-30 of log(1 + f)
LOG_F32 = typed(f32, 0.12307184934616089, -0.12833157181739807, 0.10677357017993927,
                -0.12198664993047714, 0.1431102752685547, -0.166793555021286,
                0.19999392330646515, -0.24999825656414032, 0.3333333730697632, -0.5)  # fmt: skip
# FreeBSD msun e_log.c: R(z) with log(1 + f) = f - f**2 / 2 + s (f**2 / 2 + R), s = f / (2 + f), z =
# s**2
LOG_F64 = typed(f64, 1.479819860511658591e-01, 1.531383769920937332e-01, 1.818357216161805012e-01,
                2.222219843214978396e-01, 2.857142874366239149e-01, 3.999999999940941908e-01,
                6.666666666666735130e-01)  # fmt: skip


def split_f32(x: Any) -> tuple[Any, Any]:
    """e (float32) and f with x = 2**e (1 + f), for positive x, subnormals included."""
    small = x < TINY_F32
    bits = bits_i32(select(small, x * LIFT_F32, x))
    exponent = (bits - i32(0x3F2AAAAB)) & i32(-0x800000)  # 0x3F2AAAAB: 2/3
    e = fma(to_f32(exponent), f32(2.0**-23), select(small, LIFTED_F32, ZERO_F32))
    return e, float_from_i32(bits - exponent) - ONE_F32


def split_f64(x: Any) -> tuple[Any, Any]:
    """e (float64) and f with x = 2**e (1 + f), for positive x, subnormals included."""
    small = x < TINY_F64
    bits = bits_i64(select(small, x * LIFT_F64, x))
    exponent = (bits - i64(0x3FE6A09E667F3BCD)) & i64(-0x10000000000000)  # sqrt(1/2)
    e = fma(to_f64(exponent), f64(2.0**-52), select(small, LIFTED_F64, ZERO_F64))
    return e, float_from_i64(bits - exponent) - ONE_F64


def finish_f32(x: Any, result: Any) -> Any:
    """log of 0, of negative numbers, of infinity and NaN."""
    result = select(x > ZERO_F32, select(x < INF_F32, result, x), NAN_F32)
    return select(x == ZERO_F32, -INF_F32, result)


def finish_f64(x: Any, result: Any) -> Any:
    """log of 0, of negative numbers, of infinity and NaN."""
    result = select(x > ZERO_F64, select(x < INF_F64, result, x), NAN_F64)
    return select(x == ZERO_F64, -INF_F64, result)


@quiet
def log_f32(x: Any) -> Any:
    """Natural logarithm."""
    e, f = split_f32(x)
    p = fma(polynomial(f, LOG_F32), f * f, f)
    return finish_f32(x, fma(e, LN2_F32, p))


def log1p_parts_f64(f: Any) -> tuple[Any, Any]:
    """(half, tail) with log(1 + f) = f - (half - tail): the parts e_log.c adds up."""
    s = f / (TWO_F64 + f)
    z = s * s
    half = f64(0.5) * f * f
    return half, s * (half + z * polynomial(z, LOG_F64))


@quiet
def log_f64(x: Any) -> Any:
    """Natural logarithm."""
    e, f = split_f64(x)
    half, tail = log1p_parts_f64(f)
    return finish_f64(x, fma(e, LN2_HIGH_F64, f - (half - fma(e, LN2_LOW_F64, tail))))


# (log2(1 + f) - f log2(e)) / f**2 and the same for log10, on [-1/3, 1/3]
LOG2_F32 = typed(f32, 0.1643328070640564, -0.19344651699066162, 0.15744736790657043,
                 -0.17392019927501678, 0.20617038011550903, -0.2408057302236557,
                 0.28853973746299744, -0.3606657385826111, 0.48089832067489624,
                 -0.7213475704193115)  # fmt: skip
LOG10_F32 = typed(f32, 0.053788792341947556, -0.05630527436733246, 0.04625895991921425,
                  -0.052826184779405594, 0.062165260314941406, -0.07245131582021713,
                  0.08685560524463654, -0.10857237875461578, 0.14476485550403595,
                  -0.21714724600315094)  # fmt: skip
LOG2E_HIGH_F32, LOG2E_LOW_F32 = typed(f32, 1.4426950216293335, 1.925963033500948e-08)
LOG10E_HIGH_F32, LOG10E_LOW_F32 = typed(f32, 0.4342944920063019, -1.0103049952192578e-08)
LOG10_2_HIGH_F32, LOG10_2_LOW_F32 = typed(f32, "0x1.344p-2", 4.605039066518657e-06)


@quiet
def log2_f32(x: Any) -> Any:
    """Base-2 logarithm, exact for powers of two."""
    e, f = split_f32(x)
    tail = fma(polynomial(f, LOG2_F32), f * f, f * LOG2E_LOW_F32)
    return finish_f32(x, e + fma(f, LOG2E_HIGH_F32, tail))


@quiet
def log10_f32(x: Any) -> Any:
    """Base-10 logarithm."""
    e, f = split_f32(x)
    tail = fma(e, LOG10_2_LOW_F32, fma(polynomial(f, LOG10_F32), f * f, f * LOG10E_LOW_F32))
    return finish_f32(x, fma(e, LOG10_2_HIGH_F32, fma(f, LOG10E_HIGH_F32, tail)))


# FreeBSD msun e_log2.c and e_log10.c: 1 / ln2 and 1 / ln10 in two parts, the first with 21 bits
INV_LN2_HIGH_F64, INV_LN2_LOW_F64 = typed(f64, 1.44269504072144627571e00, 1.67517131648865118353e-10)
INV_LN10_HIGH_F64, INV_LN10_LOW_F64 = typed(f64, 4.34294481878168880939e-01, 2.50829467116452752298e-11)
LOG10_2_HIGH_F64, LOG10_2_LOW_F64 = typed(f64, 3.01029995663611771306e-01, 3.69423907715893078616e-13)


def log1p_two_f64(f: Any) -> tuple[Any, Any]:
    """log(1 + f) as a sum of two; the first has its low 32 bits clear, so its products with e are
    exact."""
    half, tail = log1p_parts_f64(f)
    high = float_from_i64(bits_i64(f - half) & i64(-0x100000000))
    return high, (f - high) - half + tail


@quiet
def log2_f64(x: Any) -> Any:
    """Base-2 logarithm, exact for powers of two."""
    e, f = split_f64(x)
    high, low = log1p_two_f64(f)
    scaled = high * INV_LN2_HIGH_F64
    total = e + scaled
    rest = (e - total) + scaled + fma(low + high, INV_LN2_LOW_F64, low * INV_LN2_HIGH_F64)
    return finish_f64(x, total + rest)


@quiet
def log10_f64(x: Any) -> Any:
    """Base-10 logarithm."""
    e, f = split_f64(x)
    high, low = log1p_two_f64(f)
    scaled, shift = high * INV_LN10_HIGH_F64, e * LOG10_2_HIGH_F64
    total = shift + scaled
    rest = (shift - total) + scaled
    rest = rest + fma(e, LOG10_2_LOW_F64, fma(low + high, INV_LN10_LOW_F64, low * INV_LN10_HIGH_F64))
    return finish_f64(x, total + rest)


# log1p: f = (1 + x) 2**-e - 1 is formed as x 2**-e + (2**-e - 1), which rounds once; for huge x, 1
# + x = x serves
HUGE_F32, HUGE_F64 = typed(f32, "0x1p60")[0], typed(f64, "0x1p200")[0]


@quiet
def log1p_f32(x: Any) -> Any:
    """log(1 + x), accurate near 0."""
    u = ONE_F32 + x
    e, f = split_f32(u)
    scale = float_from_i32((i32(127) - to_i32(select(u < HUGE_F32, e, ZERO_F32))) << i32(23))
    f = select(u < HUGE_F32, fma(x, scale, scale - ONE_F32), f)
    result = finish_f32(u, fma(e, LN2_F32, fma(polynomial(f, LOG_F32), f * f, f)))
    return select(fabs(x) < f32(2.0**-25), x, result)


@quiet
def log1p_f64(x: Any) -> Any:
    """log(1 + x), accurate near 0."""
    u = ONE_F64 + x
    e, f = split_f64(u)
    scale = float_from_i64((i64(1023) - to_i64(select(u < HUGE_F64, e, ZERO_F64))) << i64(52))
    f = select(u < HUGE_F64, fma(x, scale, scale - ONE_F64), f)
    half, tail = log1p_parts_f64(f)
    result = finish_f64(u, fma(e, LN2_HIGH_F64, f - (half - fma(e, LN2_LOW_F64, tail))))
    return select(fabs(x) < f64(2.0**-54), x, result)
