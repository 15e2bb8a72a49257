"""erf, erfc, rsqrt for kernels."""

from __future__ import annotations

from typing import Any

from jtorch.native.intrinsics import copysign, fabs, fma, select, sqrt, to_f32, to_f64
from jtorch.native.vecmath_core import f32, f64, polynomial, quiet, typed
from jtorch.native.vecmath_exp import exp_parts_f32, exp_small_f64, power_of_two_f32, reduce_f64, scale_f64

__all__ = ["erf_f32", "erf_f64", "erfc_f32", "erfc_f64", "rsqrt_f32", "rsqrt_f64"]


@quiet
def rsqrt_f32(x: Any) -> Any:
    """1 / sqrt(x): infinite at 0 with the sign of the zero, NaN below."""
    return f32(1.0) / sqrt(x)


@quiet
def rsqrt_f64(x: Any) -> Any:
    """1 / sqrt(x)."""
    return f64(1.0) / sqrt(x)


# N. Juffa's erff (2016): up to 475/512 x + x p(x**2), beyond 1 - exp(-t - t p(t))
ERF_SMALL_F32 = typed(f32, -5.96761703e-4, 4.99119423e-3, -2.67681349e-2,
                      1.12819925e-1, -3.76125336e-1, 1.28379166e-1)  # fmt: skip
ERF_LARGE_F32 = typed(f32, -1.72853470e-5, 3.83197126e-4, -3.88396438e-3,
                      2.42546219e-2, -1.06777877e-1, -6.34846687e-1, -1.28717512e-1)  # fmt: skip
ERF_EDGE_F32 = f32(475.0 / 512.0)
ERF_ONE_F32, ONE_F32 = typed(f32, -18.0, 1.0)  # 1 - exp(-18) rounds to 1


@quiet
def erf_f32(x: Any) -> Any:
    """The error function."""
    t = fabs(x)
    below = fma(polynomial(t, ERF_LARGE_F32), t, -t)
    n, p = exp_parts_f32(select(below < ERF_ONE_F32, ERF_ONE_F32, below))
    large = copysign(fma(-p, power_of_two_f32(n), ONE_F32), x)
    small = fma(polynomial(x * x, ERF_SMALL_F32), x, x)
    return select(t > ERF_EDGE_F32, large, small)


# (erf(x) - x) / x in x**2 for |x| < 1, error 2**-56
ERF_SMALL_F64 = typed(f64, 1.5860195481819888e-10, -1.7325117741324137e-09, 1.6225260374288806e-08,
                      -1.658688036217035e-07, 1.6483675796268169e-06, -1.4927031196109238e-05,
                      0.00012055391789510591, -0.0008548328669375204, 0.005223977654622367,
                      -0.026866170648183425, 0.11283791670971635, -0.37612638903184104,
                      0.1283791670955126)  # fmt: skip
# (1 + 2 t) exp(t**2) erfc(t) in q = (t - 3) / (t + 3) for 0.49 <= t <= 28 (the substitution is from
# Shepherd and Laframboise, "Chebyshev approximation of (1 + 2x)exp(x^2)erfc x", Math. Comp. 36,
# 1981)
ERFC_F64 = typed(f64, -1.2580655151138115e-08, 2.009411542758283e-08,
                 1.0423462564637247e-07, -1.1402258235956377e-07,
                 -6.212705283993142e-07, 3.359181454574853e-07, 3.476112092888258e-06,
                 -7.212761879306138e-07, -2.0102230960722462e-05,
                 4.946155264770554e-06, 0.00012509980564720364,
                 -0.00010515907779011449, -0.0007798323473163397,
                 0.0018886902572135896, 0.0025293918233217525, -0.02377051490977765,
                 0.06830802734361646, -0.11927366341573356, 0.1296451587027675,
                 -0.04756229435344181, -0.13562110612458117, 1.2530080582697296)  # fmt: skip
ONE_F64, TWO_F64, THREE_F64, ERFC_ZERO_F64 = typed(f64, 1.0, 2.0, 3.0, 28.0)


def erfc_positive_f64(t: Any) -> Any:
    """erfc(t) for t >= 0.5; exp(-t**2) takes the rounding error of t**2 into account."""
    t = select(t > ERFC_ZERO_F64, ERFC_ZERO_F64, t)
    square = t * t
    n, r, correction = reduce_f64(-square)
    correction = correction - fma(t, t, -square)
    shifted = r + correction
    e = exp_small_f64(shifted, (r - shifted) + correction)
    p = polynomial((t - THREE_F64) / (t + THREE_F64), ERFC_F64)
    divisor = fma(TWO_F64, t, ONE_F64)
    inverse = ONE_F64 / divisor
    ratio = p * inverse
    rest = fma(-ratio, divisor, p) - ratio * ((TWO_F64 * t - divisor) + ONE_F64)
    head = e * ratio
    return scale_f64(head + fma(e, ratio, fma(e, rest * inverse, -head)), n)


@quiet
def erf_f64(x: Any) -> Any:
    """The error function."""
    t = fabs(x)
    small = fma(polynomial(x * x, ERF_SMALL_F64), t, t)
    return copysign(select(t < ONE_F64, small, ONE_F64 - erfc_positive_f64(t)), x)


@quiet
def erfc_f64(x: Any) -> Any:
    """The complementary error function, 1 - erf(x), with relative accuracy for large x."""
    t = fabs(x)
    small = ONE_F64 - fma(polynomial(x * x, ERF_SMALL_F64), x, x)
    large = erfc_positive_f64(t)
    return select(t < f64(0.5), small, select(x < f64(0.0), TWO_F64 - large, large))


@quiet
def erfc_f32(x: Any) -> Any:
    """The complementary error function, computed in float64."""
    return to_f32(erfc_f64(to_f64(x)))
