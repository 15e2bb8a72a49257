"""Special functions, by SciPy, which is imported where they are used."""

from __future__ import annotations

import numpy as np

from jtorch.ops.xp._special import of_scipy as _of_scipy

Array = np.ndarray


def erfc(x: Array) -> Array:
    return _of_scipy("erfc", x)


def erfinv(x: Array) -> Array:
    return np.copysign(_of_scipy("erfinv", x), x)  # SciPy drops the sign of -0.0


def erfcx(x: Array) -> Array:
    return _of_scipy("erfcx", x)


def ndtri(x: Array) -> Array:
    return _of_scipy("ndtri", x)


def log_ndtr(x: Array) -> Array:
    return _of_scipy("log_ndtr", x)


def lgamma(x: Array) -> Array:
    return np.where(np.isneginf(x), -x, _of_scipy("gammaln", x))  # SciPy gives -inf at -inf, C99 inf


def digamma(x: Array) -> Array:
    return _of_scipy("psi", x)


def polygamma(x: Array, *, n: int) -> Array:
    from scipy import special

    return np.asarray(special.polygamma(n, x)).astype(x.dtype, copy=False)


def gammainc(x: Array, y: Array) -> Array:
    return _of_scipy("gammainc", x, y)


def gammaincc(x: Array, y: Array) -> Array:
    return _of_scipy("gammaincc", x, y)


def zeta(x: Array, y: Array) -> Array:
    # at infinity SciPy has the limit, PyTorch's series no number
    kept = np.result_type(x, y)  # either may be a number
    return np.where(np.isposinf(y) & (x != 1), np.nan, _of_scipy("zeta", x, y)).astype(kept, copy=False)


def i0(x: Array) -> Array:
    return _of_scipy("i0", x)


def i0e(x: Array) -> Array:
    return _of_scipy("i0e", x)


def i1(x: Array) -> Array:
    return _of_scipy("i1", x)


def i1e(x: Array) -> Array:
    return _of_scipy("i1e", x)


def bessel_j0(x: Array) -> Array:
    return _of_scipy("j0", x)


def bessel_j1(x: Array) -> Array:
    return _of_scipy("j1", x)


def bessel_y0(x: Array) -> Array:
    return _of_scipy("y0", x)


def bessel_y1(x: Array) -> Array:
    return _of_scipy("y1", x)


def modified_bessel_k0(x: Array) -> Array:
    return _of_scipy("k0", x)


def modified_bessel_k1(x: Array) -> Array:
    return _of_scipy("k1", x)


def scaled_modified_bessel_k0(x: Array) -> Array:
    return _of_scipy("k0e", x)


def scaled_modified_bessel_k1(x: Array) -> Array:
    return _of_scipy("k1e", x)


def spherical_bessel_j0(x: Array) -> Array:
    """sin(x) / x, 1 at 0 and 0 at infinity."""
    zero, infinite = x == 0, np.isinf(x)
    safe = np.where(zero | infinite, x.dtype.type(1), x)
    return np.where(zero, x.dtype.type(1), np.where(infinite, x.dtype.type(0), np.sin(safe) / safe))


def airy_ai(x: Array) -> Array:
    from scipy import special

    found = np.asarray(special.airy(x)[0]).astype(x.dtype, copy=False)
    return np.where(
        (x > 1000) & np.isfinite(x), x.dtype.type(0), found
    )  # where SciPy has NaN for the largest
