"""Matrix decompositions and solvers, over any number of leading batch axes.

They run in NumPy's and SciPy's LAPACK, on our number of threads meanwhile. What LAPACK refuses is told in
PyTorch's words: NumPy says only "Singular matrix", so the matrix at fault is looked for when the call has
failed.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from jtorch.core.errors import LinAlgError as _LinAlgError
from jtorch.core.library_threads import in_lapack as _in_lapack, in_scipys_lapack as _in_scipys_lapack
from jtorch.ops.xp._rows import in_rows as _in_rows

Array = np.ndarray
Shape = tuple[int, ...]
_linalg = np.linalg


def _in_batch(x: Array, place: Shape) -> str:
    """How the sentence names the matrix at ``place`` of a batch."""
    if not place:
        return ""
    return f"(Batch element {np.ravel_multi_index(place, x.shape[:-2])}): "


def _first(x: Array, info: Any) -> tuple[Shape, int]:
    """(the batch index, LAPACK's info) of the first matrix that ``info`` finds fault with."""
    for place in np.ndindex(x.shape[:-2]):
        found = info(x[place])
        if found > 0:
            return place, found
    return (), 0


def _zero_pivot(x: Array) -> tuple[Shape, int]:
    from scipy.linalg import lapack

    factor = lapack.get_lapack_funcs("getrf", (x,))
    return _first(x, lambda a: factor(a)[2])


@_in_lapack
def inv(x: Array) -> Array:
    try:
        return _linalg.inv(x)
    except _linalg.LinAlgError:
        place, k = _zero_pivot(x)
        raise _LinAlgError(
            f"linalg.inv: {_in_batch(x, place)}The diagonal element {k} is zero, the inversion could not be "
            "completed because the input matrix is singular."
        ) from None


@_in_lapack
def inv_transposed(x: Array) -> Array:
    """inv(x)^T, with infinities and NaN where a pivot is zero: LAPACK solves with any factors."""
    try:
        return np.ascontiguousarray(np.swapaxes(_linalg.inv(x), -2, -1))
    except _linalg.LinAlgError:
        return _solved(x, _units(x), trans=1)[0]


@_in_scipys_lapack
def _solved(x: Array, y: Array, trans: int = 0) -> tuple[Array, Array]:
    """(``x`` or its transpose solved for ``y``, the first zero pivot of each matrix from 1, 0 for none)"""
    from scipy.linalg import lapack

    factor, solve = lapack.get_lapack_funcs(("getrf", "getrs"), (x,))
    out, info = np.empty(y.shape, x.dtype), np.empty(x.shape[:-2], np.int32)
    for place in np.ndindex(x.shape[:-2]):
        factors, pivots, info[place] = factor(x[place])
        out[place], _ = solve(factors, pivots, y[place], trans=trans)
    return out, info


def _units(x: Array) -> Array:
    return np.broadcast_to(np.eye(x.shape[-1], dtype=x.dtype), x.shape)


def _fine(x: Array) -> Array:
    """LAPACK's info where nothing failed."""
    return np.zeros(x.shape[:-2], np.int32)


@_in_lapack
def inv_ex(x: Array) -> tuple[Array, Array]:
    """(inverses, info): of a singular matrix what dividing by its zero pivot makes of it."""
    try:
        return _linalg.inv(x), _fine(x)
    except _linalg.LinAlgError:
        return _solved(x, _units(x))


@_in_lapack
def solve_ex(x: Array, y: Array) -> tuple[Array, Array]:
    """The same of ``solve``."""
    try:
        return _linalg.solve(x, y), _fine(x)
    except _linalg.LinAlgError:
        return _solved(x, y)


@_in_lapack
def solve(x: Array, y: Array) -> Array:
    try:
        return _linalg.solve(x, y)
    except _linalg.LinAlgError:
        place, _ = _zero_pivot(x)
        raise _LinAlgError(
            f"torch.linalg.solve: {_in_batch(x, place)}The solver failed because the input matrix is "
            "singular."
        ) from None


def cholesky(x: Array) -> Array:
    """The lower factor; only the lower triangle of ``x`` is read."""
    out, info = cholesky_ex(x)
    if info.any():
        place = tuple(np.argwhere(info)[0])
        raise _LinAlgError(
            f"linalg.cholesky: {_in_batch(x, place)}The factorization could not be completed because the "
            f"input is not positive-definite (the leading minor of order {info[place]} is not "
            "positive-definite)."
        )
    return out


@_in_lapack
def cholesky_ex(x: Array) -> tuple[Array, Array]:
    """(lower factors, info): the order of the first leading minor that is not positive, from where on the
    factor is unfinished; 0 where there is none."""
    if np.isfinite(x).all():
        try:
            return _linalg.cholesky(x), _fine(x)
        except _linalg.LinAlgError:
            pass
    return _unfinished(x)


@_in_scipys_lapack
def _unfinished(x: Array) -> tuple[Array, Array]:
    from scipy.linalg import lapack

    factor = lapack.get_lapack_funcs("potrf", (x,))
    out, info = np.empty(x.shape, x.dtype), _fine(x)
    for place in np.ndindex(x.shape[:-2]):
        out[place], end = factor(x[place], lower=1)
        broken = np.flatnonzero(np.isnan(out[place].diagonal()))  # which not every LAPACK says
        info[place] = min([k for k in (end, *(broken[:1] + 1)) if k], default=0)
    return out, info


@_in_scipys_lapack
def triangular_solve(x: Array, y: Array, *, lower: bool, unit: bool) -> Array:
    """``z`` with ``x z = y`` for triangular ``x``; the other triangle is not read."""
    from scipy.linalg import get_blas_funcs

    out = np.empty(y.shape, y.dtype)
    if out.size:
        trsm: Any = get_blas_funcs("trsm", (x, y))
        for place in np.ndindex(x.shape[:-2]):
            out[place] = trsm(1.0, x[place], y[place], lower=lower, diag=unit)
    return out


@_in_lapack
def eigh(x: Array) -> tuple[Array, Array]:
    """(eigenvalues, eigenvectors); only the lower triangle of ``x`` is read."""
    values, vectors = _linalg.eigh(x)
    return values, vectors


@_in_lapack
def eig(x: Array) -> tuple[Array, Array]:
    """(eigenvalues, eigenvectors) in no order, complex also where all are real."""
    if not np.isfinite(x).all():
        raise RuntimeError("torch.linalg.eig: input tensor should not contain infs or NaNs.")
    dtype = np.result_type(x.dtype, np.complex64)
    values, vectors = _linalg.eig(x)
    return values.astype(dtype, copy=False), vectors.astype(dtype, copy=False)


@_in_lapack
def svd(x: Array, *, full: bool) -> tuple[Array, Array, Array]:
    if not np.isfinite(x).all():
        place, _ = _first(x, lambda a: 0 if np.isfinite(a).all() else 1)
        raise _LinAlgError(
            f"linalg.svd: {_in_batch(x, place)}The algorithm failed to converge because the input matrix "
            "contained non-finite values."
        )
    u, s, vh = _linalg.svd(x, full_matrices=full)
    return u, s, vh


def real_diagonal(x: Array, *, message: str) -> Array:
    if not np.allclose(np.diagonal(x, axis1=-2, axis2=-1).imag, 0, atol=1e-2):
        raise RuntimeError(message)
    return np.array(x)


@_in_lapack
@_in_rows
def qr(x: Array, *, complete: bool) -> tuple[Array, Array]:
    q, r = _linalg.qr(x, "complete" if complete else "reduced")
    return q, r


@_in_lapack
def det(x: Array) -> Array:
    with np.errstate(invalid="ignore"):  # NaN in, NaN out
        return np.asarray(_linalg.det(x), x.dtype)


@_in_lapack
def slogdet(x: Array) -> tuple[Array, Array]:
    with np.errstate(invalid="ignore"):
        sign, logarithm = _linalg.slogdet(x)
    return np.asarray(sign, x.dtype), np.asarray(logarithm, x.real.dtype)


@_in_lapack
def adjugate(x: Array) -> Array:
    """det(x) inv(x), which exists for singular matrices, too: from the singular values, none divided by.
    That of a unitary matrix is its adjoint turned by its determinant."""
    n = x.shape[-1]
    if n == 0 or math.prod(x.shape) == 0 or not np.isfinite(x).all():
        return x * np.asarray(np.nan, x.dtype)
    u, s, vh = _linalg.svd(x)
    others = np.stack([np.prod(np.delete(s, k, -1), -1) for k in range(n)], -1)
    turn = _linalg.det(u) * _linalg.det(vh)
    turn = (turn if turn.dtype.kind == "c" else np.rint(turn))[..., None]
    middle = _adjoint(vh) * (others * turn)[..., None, :]
    return (middle @ _adjoint(u)).astype(x.dtype, copy=False)


def _adjoint(x: Array) -> Array:
    turned = np.swapaxes(x, -2, -1)
    return np.conjugate(turned) if x.dtype.kind == "c" else turned


@_in_scipys_lapack
def matrix_exp(x: Array) -> Array:
    from scipy import linalg

    return np.asarray(linalg.expm(x), x.dtype) if x.size else np.array(x)


@_in_scipys_lapack
def lu_factor(x: Array, *, checked: bool) -> tuple[Array, Array]:
    """(L without its diagonal of ones and U in one matrix, the rows exchanged at each step from 1);
    ``checked`` for zeros on the diagonal of U."""
    from scipy.linalg import lapack

    factor = lapack.get_lapack_funcs("getrf", (x,))
    out, pivots = np.array(x, order="C"), np.empty((*x.shape[:-2], min(x.shape[-2:])), np.int32)
    if out.size:
        for place in np.ndindex(x.shape[:-2]):
            out[place], pivots[place], zero = factor(x[place])
            pivots[place] += 1
            if zero and checked:
                raise RuntimeError(
                    f"torch.linalg.lu_factor: {_in_batch(x, place)}U[{zero},{zero}] is zero and using it on "
                    "lu_solve would result in a division by zero. If you still want to perform the "
                    "factorization, consider calling linalg.lu(A, pivot) or linalg.lu_factor_ex(A, pivot)"
                )
    return out, pivots


def row_order(pivots: Array, *, n: int) -> Array:
    """The permutation of ``n`` rows that a list of exchanges makes."""
    order = np.empty((*pivots.shape[:-1], n), np.int64)
    for place in np.ndindex(pivots.shape[:-1]):
        line = list(range(n))
        for k, other in enumerate(pivots[place] - 1):
            line[k], line[other] = line[other], line[k]
        order[place] = line
    return order
