"""Decompositions: eigenvalues, singular values, QR; and the pseudo-inverse.

Source of the gradients: J. Townsend, "Differentiating the singular value decomposition" (2016); M. Giles, "An
extended collection of matrix derivative results" (2008); for wide QR D. Roberts and L. Roberts, "QR and LQ
decomposition matrix backpropagation algorithms" (2020), arXiv:2009.10071; for the pseudo-inverse G. Golub and
V. Pereyra, "The differentiation of pseudo-inverses and nonlinear least squares problems" (1973); for complex
matrices PyTorch's derivations above ``svd_backward``, ``linalg_eig_backward`` and ``linalg_qr_backward``,
torch/csrc/autograd/FunctionsManual.cpp.
"""

from __future__ import annotations

import numpy as np

from jtorch.core.op import composite, opaque
from jtorch.ops.complex import is_complex, real_dtype
from jtorch.ops.linear_algebra import above, adjoint, below, dtype_of

_INT = np.dtype(np.int64)


def _two(dtypes, statics):
    return (dtypes[0],) * 2


def _rows(xp, v):
    """A vector per matrix, as a row that scales columns."""
    return xp.unsqueeze(v, axes=(v.ndim - 1,))


def _columns(xp, v):
    return xp.unsqueeze(v, axes=(v.ndim,))


def _is_diagonal(xp, shape):
    n = len(shape)
    row, column = (xp.iota(shape=shape, axis=k, dtype=_INT) for k in (n - 2, n - 1))
    return xp.eq(row, column)


def _differences(xp, v):
    """``v_j - v_i`` at (i, j), and 1 on the diagonal."""
    difference = _rows(xp, v) - _columns(xp, v)
    return xp.where(_is_diagonal(xp, tuple(difference.shape)), 1.0, difference)


def _ratio(xp, a, b):
    """``a / b``, and 0 for 0 / 0: no gradient comes of vectors that nobody used, equal values or not."""
    return a / xp.where(xp.logical_and(xp.eq(a, 0.0), xp.eq(b, 0.0)), 1.0, b)


def _diagonal(xp, v):
    shape = (*v.shape, v.shape[-1])
    return xp.where(_is_diagonal(xp, shape), xp.expand(_rows(xp, v), shape=shape), 0.0)


def _as_factor(xp, x, of):
    """``x``, which may be real, in the dtype of the matrices that it is to be multiplied by."""
    return x if dtype_of(x) == dtype_of(of) else xp.cast(x, dtype=dtype_of(of))


def _real_on_diagonal(xp, x):
    """``x`` without the imaginary parts on its diagonal."""
    if not is_complex(x):
        return x
    return xp.where(_is_diagonal(xp, tuple(x.shape)), _as_factor(xp, xp.real_part(x), x), x)


@opaque(shape=lambda x, message: x, public=None, may_raise=True, leads=True)
def real_diagonal(xp, x, *, message):
    """``x``. Raises RuntimeError with ``message`` where there are imaginary parts on its diagonal.

    They say how what was computed depends on the phases of vectors, each of which may be any.
    """
    return xp.real_diagonal(x, message=message)


@real_diagonal.vjp
def _(xp, g):
    return g


_OF_EIGENVECTORS = (
    "The eigenvectors in the complex case are specified up to multiplication by e^{i phi}. The specified "
    "loss function depends on this quantity, so it is ill-defined."
)
_OF_SINGULAR_VECTORS = (
    "svd_backward: The singular vectors in the complex case are specified up to multiplication by e^{i phi}. "
    "The specified loss function depends on this phase term, making it ill-defined."
)


def _skew(xp, x):
    return x - adjoint(xp, x)


# -- Hermitian matrices --------------------------------------------------------------------------------------


@opaque(
    shape=lambda x: (x[:-1], x),
    n_outputs=2,
    dtype=lambda dtypes, statics: (real_dtype(dtypes[0]), dtypes[0]),
    public=None,
    may_raise=True,
    holomorphic=False,
    grad_name="LinalgEighBackward0",
    leads=True,
)
def eigh(xp, x):
    """(eigenvalues in ascending order, eigenvectors as columns); only the lower triangle is read."""
    return xp.eigh(x)


def _eigh_gradient(xp, gw, gv, w, v):
    inner = _diagonal(xp, gw) if gw is not None else None
    if gv is not None:
        turn = xp.matmul(adjoint(xp, v), gv)
        if is_complex(turn):
            turn = xp.real_diagonal(turn, message=f"linalg_eigh_backward: {_OF_EIGENVECTORS}")
        turn = 0.5 * _skew(xp, turn)  # with which the gradient is Hermitian, as in PyTorch
        turn = _ratio(xp, turn, _differences(xp, w))
        turn = xp.where(_is_diagonal(xp, tuple(turn.shape)), 0.0, turn)
        inner = turn if inner is None else inner + turn
    return xp.matmul(xp.matmul(v, _as_factor(xp, inner, v)), adjoint(xp, v))


@eigh.vjp
def _(xp, g, out0, out1):
    return _eigh_gradient(xp, g[0], g[1], out0, out1)


@composite(
    n_outputs=2,
    hidden=1,
    dtype="as_is",
    public=None,
    holomorphic=False,
    grad_name="LinalgEighBackward0",
    fuses=False,
)
def eigvalsh(xp, x):
    """The eigenvalues alone: their gradient exists where some are equal, too."""
    return xp.eigh(x)


@eigvalsh.vjp
def _(xp, g, out0, out1):
    return _eigh_gradient(xp, g[0], g[1], out0, out1)


# -- general matrices ----------------------------------------------------------------------------------------


def _two_complex(dtypes, statics):
    return (np.result_type(dtypes[0], np.complex64),) * 2


@opaque(
    shape=lambda x: (x[:-1], x),
    n_outputs=2,
    dtype=_two_complex,
    public=None,
    may_raise=True,
    holomorphic=False,
    grad_name="LinalgEigBackward0",
    leads=True,
)
def eig(xp, x):
    """(eigenvalues, eigenvectors of length 1 as columns), complex"""
    return xp.eig(x)


@eig.vjp
def _(xp, g, x_dtype, out0, out1):
    """Of vectors that have length 1. Source: C. Boeddeker et al., "On the computation of complex-valued
    gradients" (2017), arXiv:1701.00392."""
    values, vectors = out0, out1
    turned_back = adjoint(xp, vectors)
    inner = None
    if g[1] is not None:
        turned = xp.matmul(turned_back, g[1])
        turned = xp.real_diagonal(turned, message=f"linalg_eig_backward: {_OF_EIGENVECTORS}")
        along = xp.cast(
            xp.real_part(xp.sum(_on_diagonal(xp, turned), axis=(turned.ndim - 2,), keepdims=True)),
            dtype=turned.dtype,
        )
        turned = turned - xp.matmul(turned_back, vectors) * along
        inner = turned / xp.conj(_differences(xp, values))
        inner = xp.where(_is_diagonal(xp, tuple(inner.shape)), 0.0, inner)
    if g[0] is not None:
        diagonal = _diagonal(xp, g[0])
        inner = diagonal if inner is None else inner + diagonal
    found = xp.solve(turned_back, xp.matmul(inner, turned_back))
    return found if np.dtype(x_dtype).kind == "c" else xp.cast(xp.real_part(found), dtype=x_dtype)


def _on_diagonal(xp, x):
    return xp.where(_is_diagonal(xp, tuple(x.shape)), x, 0.0)


# -- singular values -----------------------------------------------------------------------------------------


def _svd_shape(x, full):
    *batch, m, n = x
    k = min(m, n)
    return ((*batch, m, m if full else k), (*batch, k), (*batch, n if full else k, n))


@opaque(
    shape=_svd_shape,
    n_outputs=3,
    dtype=lambda dtypes, statics: (dtypes[0], real_dtype(dtypes[0]), dtypes[0]),
    public=None,
    may_raise=True,
    holomorphic=False,
    grad_name="LinalgSvdBackward0",
    leads=True,
)
def svd(xp, x, *, full):
    """(U, S, Vh) with x = U diag(S) Vh"""
    return xp.svd(x, full=full)


def _svd_gradient(xp, gu, gs, gvh, u, s, vh):
    """``gu`` or ``gvh`` may be None; so may ``gs``."""
    uh, v = adjoint(xp, u), adjoint(xp, vh)
    inner = _diagonal(xp, gs) if gs is not None else _diagonal(xp, 0.0 * s)
    gaps = _differences(xp, s * s) if gu is not None or gvh is not None else None
    left = _skew(xp, xp.matmul(uh, gu)) if gu is not None else None
    right = _skew(xp, xp.matmul(vh, adjoint(xp, gvh))) if gvh is not None else None
    if left is not None:
        inner = inner + _ratio(xp, left, gaps) * _rows(xp, s)
    if right is not None:
        inner = inner + _columns(xp, s) * _ratio(xp, right, gaps)
    if gaps is not None and is_complex(u):
        both = left if right is None else right if left is None else left + right
        xp.real_diagonal(both, message=_OF_SINGULAR_VECTORS)  # which may raise
        if left is not None:  # u_k against v_k, both of which may turn
            inner = inner + _ratio(xp, _on_diagonal(xp, left), 2.0 * _columns(xp, s))
    result = xp.matmul(xp.matmul(u, _as_factor(xp, inner, u)), vh)
    if gu is not None and u.shape[-2] > u.shape[-1]:  # what U leaves out
        outside = gu - xp.matmul(u, xp.matmul(uh, gu))
        result = result + xp.matmul(_ratio(xp, outside, _rows(xp, s)), vh)
    if gvh is not None and vh.shape[-1] > vh.shape[-2]:
        outside = gvh - xp.matmul(xp.matmul(gvh, v), vh)
        result = result + xp.matmul(u, _ratio(xp, outside, _columns(xp, s)))
    return result


def _part(xp, x, rows, columns):
    stop = (*x.shape[:-2], rows, columns)
    if tuple(x.shape) == stop:
        return x
    return xp.slice(x, start=(0,) * x.ndim, stop=stop, step=(1,) * x.ndim)


@svd.vjp
def _(xp, g, out0, out1, out2, full):
    # of full matrices the extra columns are any that complete the basis: they have no gradient
    m, n, k = out0.shape[-2], out2.shape[-1], out1.shape[-1]
    gu = _part(xp, g[0], m, k) if g[0] is not None else None
    gvh = _part(xp, g[2], k, n) if g[2] is not None else None
    return _svd_gradient(xp, gu, g[1], gvh, _part(xp, out0, m, k), out1, _part(xp, out2, k, n))


@composite(
    n_outputs=3,
    hidden=2,
    dtype="as_is",
    public=None,
    holomorphic=False,
    grad_name="LinalgSvdBackward0",
    fuses=False,
)
def svdvals(xp, x):
    """The singular values alone: their gradient exists where some are equal, too."""
    u, s, vh = xp.svd(x, full=False)
    return s, u, vh


@svdvals.vjp
def _(xp, g, out0, out1, out2):
    return _svd_gradient(xp, g[1], g[0], g[2], out1, out0, out2)


# -- QR ------------------------------------------------------------------------------------------------------


def _qr_shape(x, complete):
    *batch, m, n = x
    k = m if complete else min(m, n)
    return (*batch, m, k), (*batch, k, n)


@opaque(
    shape=_qr_shape,
    n_outputs=2,
    dtype=_two,
    public=None,
    holomorphic=False,
    grad_name="LinalgQrBackward0",
    leads=True,
)
def qr(xp, x, *, complete):
    """(Q with orthonormal columns, upper triangular R)"""
    return xp.qr(x, complete=complete)


def _tall_gradient(xp, gq, gr, q, r):
    """For R square: (gQ + Q sym(M)) R^-H with M = R gR^H - gQ^H Q; the diagonal of R is real."""
    m = xp.matmul(r, adjoint(xp, gr)) - xp.matmul(adjoint(xp, gq), q)
    lower = below(xp, m, -1)
    mirrored = _real_on_diagonal(xp, below(xp, m, 0)) + adjoint(xp, lower)
    right = gq + xp.matmul(q, mirrored)
    return adjoint(xp, xp.triangular_solve(r, adjoint(xp, right), lower=False, unit=False))


@qr.vjp
def _(xp, g, x, out0, out1, complete):
    gq, gr = g
    m, n = x.shape[-2:]
    if complete and m > n:
        raise RuntimeError(
            "The QR decomposition is not differentiable when mode='complete' and nrows > ncols"
        )
    gr = above(xp, gr, 0)
    if m >= n:
        return _tall_gradient(xp, gq, gr, out0, out1)
    # wide: x = [A | B] with A = Q U, and B = Q V takes part through Q
    ones, zeros = (1,) * x.ndim, (0,) * x.ndim
    batch = tuple(x.shape[:-2])
    right = {"start": (*zeros[:-1], m), "stop": (*batch, m, n), "step": ones}
    left = {"start": zeros, "stop": (*batch, m, m), "step": ones}
    gv = xp.slice(gr, **right)
    gq = gq + xp.matmul(xp.slice(x, **right), adjoint(xp, gv))
    ga = _tall_gradient(xp, gq, xp.slice(gr, **left), out0, xp.slice(out1, **left))
    return xp.cat(ga, xp.matmul(out0, gv), axis=x.ndim - 1)


# -- the pseudo-inverse --------------------------------------------------------------------------------------


@composite(dtype="as_is", public=None, holomorphic=False, grad_name="LinalgPinvBackward0", fuses=False)
def pinv(xp, x, atol, rtol, *, hermitian=False):
    """Singular values up to max(atol, rtol * the largest) count as zero; both may be numbers or arrays.

    With ``hermitian`` only the lower triangle is looked at, its mirror image stands for the upper one.
    """
    if hermitian:
        x = _mirrored(xp, x)
    u, s, vh = xp.svd(x, full=False)
    if not s.shape[-1]:
        return adjoint(xp, x)
    top = xp.max(s, axis=(s.ndim - 1,), keepdims=True)
    limit = xp.maximum(top * rtol, xp.cast(top * 0.0 + atol, dtype=dtype_of(s)))
    keep = xp.gt(s, limit)
    inverse = xp.where(keep, 1.0 / xp.where(keep, s, 1.0), 0.0)
    return xp.matmul(adjoint(xp, vh) * _rows(xp, inverse), adjoint(xp, u))


def _mirrored(xp, x):
    rows, columns = (xp.iota(shape=tuple(x.shape), axis=x.ndim - k, dtype=np.dtype(np.int64)) for k in (2, 1))
    return _real_on_diagonal(xp, xp.where(xp.ge(rows, columns), x, adjoint(xp, x)))


@pinv.vjp
def _(xp, g, x, out, hermitian):
    x = _mirrored(xp, x) if hermitian else x
    p, ph, gh = out, adjoint(xp, out), adjoint(xp, g)
    gx = -xp.matmul(ph, xp.matmul(g, ph))
    left = xp.matmul(xp.matmul(gh, p), ph)  # times what x leaves out on the left
    gx = gx + left - xp.matmul(x, xp.matmul(p, left))
    right = xp.matmul(ph, xp.matmul(p, gh))
    return gx + right - xp.matmul(xp.matmul(right, p), x), None, None
