"""Factors of matrices as LAPACK keeps them: Householder's reflections, L D L^T of symmetric matrices and
L D L^H of Hermitian ones.

The k-th reflection is H_k = 1 - tau_k v_k v_k^H, and v_k the k-th column of a matrix below its diagonal, with
a 1 on it and zeros above.
Source: G. Golub, C. Van Loan, "Matrix Computations", sections 5.1 and 4.4
"""

from __future__ import annotations

import numpy as np

from jtorch.core.op import opaque
from jtorch.ops.complex import is_complex
from jtorch.ops.linear_algebra import adjoint, below, conjugate, dtype_of

_INT = np.dtype(np.int64)
_INT32 = np.dtype(np.int32)


@opaque(
    shape=lambda x: (x, (*x[:-2], min(x[-2:]))),
    n_outputs=2,
    dtype=lambda dtypes, statics: (dtypes[0],) * 2,
    public=None,
    differentiable=False,
)
def geqrf(xp, x):
    """(R, and below it the reflections of Q; tau)"""
    return xp.geqrf(x)


@opaque(shape=lambda x, tau, y, transposed: y, public=None, holomorphic=False, grad_name="OrmqrBackward0")
def reflected(xp, x, tau, y, *, transposed):
    """H_1 ... H_k y, or H_k^H ... H_1^H y; the reflections are the columns of ``x``."""
    return xp.reflected(x, tau, y, transposed=transposed)


@reflected.vjp
def _(xp, g, x, tau, y, transposed, needs):
    """Step by step: with z after H from y before it, gy = H^H g, gtau = -<v^H y, v^H g> and
    gv = -(conj(tau) g (v^H y)^H + tau y (v^H g)^H). Of H^H it is the same with conj(tau) for tau."""
    if not (needs[0] or needs[1]):
        return None, None, xp.reflected(x, tau, g, transposed=not transposed)
    n, count = x.ndim, tau.shape[-1]
    used = conjugate(xp, tau) if transposed else tau
    steps = [(_vector(xp, x, k), _part(xp, used, k)) for k in range(count)]
    order = list(range(count)) if transposed else list(reversed(range(count)))
    before = {}
    for k in order:
        before[k] = y
        y = _mirrored(xp, *steps[k], y)
    columns, factors = {}, {}
    for k in reversed(order):
        v, t = steps[k]
        along, across = xp.matmul(adjoint(xp, v), before[k]), xp.matmul(adjoint(xp, v), g)
        factors[k] = -xp.sum(conjugate(xp, along) * across, axis=(n - 2, n - 1), keepdims=False)
        first, second = xp.matmul(g, adjoint(xp, along)), xp.matmul(before[k], adjoint(xp, across))
        columns[k] = -_scaled(xp, t, first, second)
        g = _mirrored(xp, v, conjugate(xp, t), g)
    to_used = _line(xp, factors, tau)
    return _matrix(xp, columns, x), conjugate(xp, to_used) if transposed else to_used, g


def _scaled(xp, t, x, y):
    """conj(t) x + t y"""
    return xp.conj(t) * x + t * y if is_complex(t) else t * (x + y)


def _mirrored(xp, v, t, y):
    return y - t * xp.matmul(v, xp.matmul(adjoint(xp, v), y))


def _vector(xp, x, k):
    """v_k, as a matrix of one column."""
    n, rows = x.ndim, x.shape[-2]
    start, stop = (*(0,) * (n - 1), k), (*x.shape[:-1], k + 1)
    column = xp.slice(x, start=start, stop=stop, step=(1,) * n)
    place = xp.iota(shape=(*x.shape[:-2], rows, 1), axis=n - 2, dtype=_INT)
    return xp.where(xp.gt(place, k), column, xp.cast(xp.eq(place, k), dtype=dtype_of(x)))


def _part(xp, tau, k):
    """tau_k, ready to scale matrices."""
    n = tau.ndim
    one = xp.slice(tau, start=(*(0,) * (n - 1), k), stop=(*tau.shape[:-1], k + 1), step=(1,) * n)
    return xp.unsqueeze(one, axes=(n,))


def _matrix(xp, columns, like):
    """The columns side by side, where v is no constant, and zeros for those without a tau."""
    if not columns:
        return like * 0.0
    parts = [columns[k] for k in range(len(columns))]
    gap = like.shape[-1] - len(parts)
    if gap:
        parts.append(xp.full(0.0, shape=(*like.shape[:-1], gap), dtype=dtype_of(like)))
    return below(xp, xp.cat(*parts, axis=like.ndim - 1), -1)


def _line(xp, factors, like):
    if not factors:
        return like * 0.0
    last = like.ndim - 1
    return xp.cat(*(xp.unsqueeze(factors[k], axes=(last,)) for k in range(len(factors))), axis=last)


@opaque(
    shape=lambda x, hermitian, checked: (x, x[:-1], x[:-2]),
    n_outputs=3,
    dtype=lambda dtypes, statics: (dtypes[0], _INT32, _INT32),
    public=None,
    may_raise=True,
    differentiable=False,
)
def ldl_factor(xp, x, *, hermitian, checked):
    """(L below the diagonal and D's blocks on it, LAPACK's pivots, its info); only the lower triangle of
    ``x`` is read. L D L^H where ``hermitian``; ``checked`` for zeros in D."""
    return xp.ldl_factor(x, hermitian=hermitian, checked=checked)


@opaque(
    shape=lambda x, pivots, y, hermitian: y,
    dtype=lambda dtypes, statics: dtypes[2],
    public=None,
    holomorphic=False,
    grad_name="LinalgLdlSolveBackward0",
)
def ldl_solve(xp, x, pivots, y, *, hermitian):
    """``z`` with ``a z = y``, given ``ldl_factor(a)``: no gradient goes to the factors."""
    return xp.ldl_solve(x, pivots, y, hermitian=hermitian)


@ldl_solve.vjp
def _(xp, g, x, pivots, hermitian):
    if hermitian:
        return None, None, xp.ldl_solve(x, pivots, g, hermitian=True)
    found = xp.ldl_solve(x, pivots, conjugate(xp, g), hermitian=False)  # a^-H g of a symmetric a
    return None, None, conjugate(xp, found)
