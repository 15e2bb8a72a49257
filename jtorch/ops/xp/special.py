"""Special functions, by SciPy. Imported where they are used: that takes 0.2 s and most programs never do."""

from __future__ import annotations

from typing import Any

import numpy as np

Array = np.ndarray


def _scipy(name: str, *arguments: Any) -> Array:
    """SciPy's function ``name`` in the dtype of the arguments: by itself it may be float64."""
    from scipy import special

    dtype = next(a.dtype for a in arguments if isinstance(a, np.ndarray | np.generic))
    return np.asarray(getattr(special, name)(*arguments)).astype(dtype, copy=False)


def erfc(x: Array) -> Array:
    return _scipy("erfc", x)


def erfinv(x: Array) -> Array:
    return np.copysign(_scipy("erfinv", x), x)  # SciPy drops the sign of -0.0


def erfcx(x: Array) -> Array:
    return _scipy("erfcx", x)


def ndtri(x: Array) -> Array:
    return _scipy("ndtri", x)


def log_ndtr(x: Array) -> Array:
    return _scipy("log_ndtr", x)


def lgamma(x: Array) -> Array:
    return np.where(np.isneginf(x), -x, _scipy("gammaln", x))  # SciPy gives -inf at -inf, C99 inf


def digamma(x: Array) -> Array:
    return _scipy("psi", x)


def polygamma(x: Array, *, n: int) -> Array:
    from scipy import special

    return np.asarray(special.polygamma(n, x)).astype(x.dtype, copy=False)


def gammainc(x: Array, y: Array) -> Array:
    return _scipy("gammainc", x, y)


def gammaincc(x: Array, y: Array) -> Array:
    return _scipy("gammaincc", x, y)


def zeta(x: Array, y: Array) -> Array:
    # at infinity SciPy has the limit, PyTorch's series no number
    kept = np.result_type(x, y)  # either may be a number
    return np.where(np.isposinf(y) & (x != 1), np.nan, _scipy("zeta", x, y)).astype(kept, copy=False)


def i0(x: Array) -> Array:
    return _scipy("i0", x)


def i0e(x: Array) -> Array:
    return _scipy("i0e", x)


def i1(x: Array) -> Array:
    return _scipy("i1", x)


def i1e(x: Array) -> Array:
    return _scipy("i1e", x)


def bessel_j0(x: Array) -> Array:
    return _scipy("j0", x)


def bessel_j1(x: Array) -> Array:
    return _scipy("j1", x)


def bessel_y0(x: Array) -> Array:
    return _scipy("y0", x)


def bessel_y1(x: Array) -> Array:
    return _scipy("y1", x)


def modified_bessel_k0(x: Array) -> Array:
    return _scipy("k0", x)


def modified_bessel_k1(x: Array) -> Array:
    return _scipy("k1", x)


def scaled_modified_bessel_k0(x: Array) -> Array:
    return _scipy("k0e", x)


def scaled_modified_bessel_k1(x: Array) -> Array:
    return _scipy("k1e", x)


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
