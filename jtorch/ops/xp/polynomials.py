"""Orthogonal polynomials of whole degrees, by SciPy, and those of Chebyshev that it lacks. Of a negative
degree they are 0, as in PyTorch; of one that is no integer of 64 bits, nan."""

from __future__ import annotations

from collections.abc import Callable as _Callable

import numpy as np

Array = np.ndarray

_DEGREES = 2.0**63


def _by_scipy(name: str) -> _Callable[[Array, Array], Array]:
    def polynomial(x: Array, n: Array) -> Array:
        from scipy import special  # here, because importing it takes 0.2 s

        return _of_degree(n, x, lambda degree: getattr(special, name)(degree, x))

    return polynomial


def _of_degree(n: Array, x: Array, compute: _Callable[[Array], Array]) -> Array:
    is_whole = np.abs(n) < _DEGREES  # not of nan, either
    found = compute(np.maximum(np.where(is_whole, n, 0.0), 0.0).astype(np.int64))
    found = np.where(n <= -1, 0.0, np.where(is_whole, found, np.nan))
    return np.asarray(found).astype(x.dtype, copy=False)


chebyshev_polynomial_t, chebyshev_polynomial_u = _by_scipy("eval_chebyt"), _by_scipy("eval_chebyu")
shifted_chebyshev_polynomial_t = _by_scipy("eval_sh_chebyt")
shifted_chebyshev_polynomial_u = _by_scipy("eval_sh_chebyu")
hermite_polynomial_h, hermite_polynomial_he = _by_scipy("eval_hermite"), _by_scipy("eval_hermitenorm")
laguerre_polynomial_l, legendre_polynomial_p = _by_scipy("eval_laguerre"), _by_scipy("eval_legendre")


def chebyshev_polynomial_v(x: Array, n: Array) -> Array:
    """U(n) - U(n - 1)"""
    return _third_kind(x, n, -1.0)


def chebyshev_polynomial_w(x: Array, n: Array) -> Array:
    """U(n) + U(n - 1)"""
    return _third_kind(x, n, 1.0)


def _third_kind(x: Array, n: Array, sign: float) -> Array:
    from scipy import special

    def compute(degree: Array) -> Array:
        return special.eval_chebyu(degree, x) + sign * special.eval_chebyu(degree - 1, x)  # U(-1) is 0

    return _of_degree(n, x, compute)


def shifted_chebyshev_polynomial_v(x: Array, n: Array) -> Array:
    return chebyshev_polynomial_v(2 * x - 1, n)


def shifted_chebyshev_polynomial_w(x: Array, n: Array) -> Array:
    return chebyshev_polynomial_w(2 * x - 1, n)
