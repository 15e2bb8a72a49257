"""Factors of matrices as LAPACK keeps them: Householder's reflections, and L D L^T of symmetric matrices.

The k-th reflection is H_k = 1 - tau_k v_k v_k^T, and v_k the k-th column of a matrix below its diagonal, with
a 1 on it and zeros above.
Source: G. Golub, C. Van Loan, "Matrix Computations", sections 5.1 and 4.4
"""

from __future__ import annotations

import numpy as np

from jtorch.core.op import opaque
from jtorch.ops.contraction import swap
from jtorch.ops.linear_algebra import below, dtype_of

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


@opaque(shape=lambda x, tau, y, transposed: y, public=None, grad_name="OrmqrBackward0")
def reflected(xp, x, tau, y, *, transposed):
    """H_1 ... H_k y, or H_k ... H_1 y; the reflections are the columns of ``x``."""
    return xp.reflected(x, tau, y, transposed=transposed)


@reflected.vjp
def _(xp, g, x, tau, y, transposed, needs):
    """Step by step: with z after H from y before it, gy = H g, gtau = -<v^T g, v^T y> and
    gv = -tau (g (v^T y)^T + y (v^T g)^T)."""
    if not (needs[0] or needs[1]):
        return None, None, xp.reflected(x, tau, g, transposed=not transposed)
    n, count = x.ndim, tau.shape[-1]
    steps = [(_vector(xp, x, k), _part(xp, tau, k)) for k in range(count)]
    order = list(range(count)) if transposed else list(reversed(range(count)))
    before = {}
    for k in order:
        before[k] = y
        y = _mirrored(xp, *steps[k], y)
    columns, factors = {}, {}
    for k in reversed(order):
        v, t = steps[k]
        along, across = xp.matmul(swap(xp, v), before[k]), xp.matmul(swap(xp, v), g)
        factors[k] = -xp.sum(along * across, axis=(n - 2, n - 1), keepdims=False)
        both = xp.matmul(g, swap(xp, along)) + xp.matmul(before[k], swap(xp, across))
        columns[k] = -(t * both)
        g = _mirrored(xp, v, t, g)
    return _matrix(xp, columns, x), _line(xp, factors, tau), g


def _mirrored(xp, v, t, y):
    return y - t * xp.matmul(v, xp.matmul(swap(xp, v), y))


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
    shape=lambda x, checked: (x, x[:-1], x[:-2]),
    n_outputs=3,
    dtype=lambda dtypes, statics: (dtypes[0], _INT32, _INT32),
    public=None,
    may_raise=True,
    differentiable=False,
)
def ldl_factor(xp, x, *, checked):
    """(L below the diagonal and D's blocks on it, LAPACK's pivots, its info); only the lower triangle of
    ``x`` is
    read. ``checked`` for zeros in D."""
    return xp.ldl_factor(x, checked=checked)


@opaque(
    shape=lambda x, pivots, y: y,
    dtype=lambda dtypes, statics: dtypes[2],
    public=None,
    grad_name="LinalgLdlSolveBackward0",
)
def ldl_solve(xp, x, pivots, y):
    """``z`` with ``a z = y``, given ``ldl_factor(a)``: no gradient goes to the factors."""
    return xp.ldl_solve(x, pivots, y)


@ldl_solve.vjp
def _(xp, g, x, pivots):
    return None, None, xp.ldl_solve(x, pivots, g)
