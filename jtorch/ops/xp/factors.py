"""Factors of matrices as LAPACK keeps them: Householder's reflections, L D L^T of symmetric matrices and
L D L^H of Hermitian ones."""

from __future__ import annotations

import numpy as np

from jtorch.core.library_threads import in_scipys_lapack as _in_scipys_lapack
from jtorch.ops.xp.linear_algebra import _in_batch

Array = np.ndarray


@_in_scipys_lapack
def geqrf(x: Array) -> tuple[Array, Array]:
    from scipy.linalg import get_lapack_funcs

    factor = get_lapack_funcs("geqrf", (x,))
    out, tau = np.array(x, order="C"), np.empty((*x.shape[:-2], min(x.shape[-2:])), x.dtype)
    if tau.size:
        for place in np.ndindex(x.shape[:-2]):
            out[place], tau[place], _, _ = factor(x[place])
    return out, tau


@_in_scipys_lapack
def reflected(x: Array, tau: Array, y: Array, *, transposed: bool) -> Array:
    from scipy.linalg import get_lapack_funcs

    multiply = get_lapack_funcs("ormqr", (x,))
    out, k = np.array(y, order="C"), tau.shape[-1]
    if out.size and k:
        turned = b"C" if x.dtype.kind == "c" else b"T"
        side = turned if transposed else b"N"
        for place in np.ndindex(x.shape[:-2]):
            vectors = np.asarray(x[place][:, :k], order="F")
            out[place], _, _ = multiply(b"L", side, vectors, tau[place], y[place], 64 * max(y.shape[-1], 1))
    return out


@_in_scipys_lapack
def ldl_factor(x: Array, *, hermitian: bool, checked: bool) -> tuple[Array, Array, Array]:
    from scipy.linalg import get_lapack_funcs

    factor = get_lapack_funcs("hetrf" if hermitian and x.dtype.kind == "c" else "sytrf", (x,))
    out, pivots = np.zeros(x.shape, x.dtype), np.empty(x.shape[:-1], np.int32)
    info = np.zeros(x.shape[:-2], np.int32)
    if out.size:
        for place in np.ndindex(x.shape[:-2]):
            whole, pivots[place], zero = factor(x[place], lower=1, lwork=64 * x.shape[-1])
            out[place], info[place] = np.tril(whole), zero
            if zero and checked:
                raise RuntimeError(
                    f"torch.linalg.ldl_factor: {_in_batch(x, place)}D[{zero},{zero}] is zero and using it on "
                    "ldl_solve would result in a division by zero. If you still want to perform the "
                    "factorization, consider calling linalg.ldl_factor_ex(A)"
                )
    return out, pivots, info


def ldl_solve(x: Array, pivots: Array, y: Array, *, hermitian: bool) -> Array:
    out = np.array(y, order="C")
    turned = np.conjugate(x) if hermitian else x  # its transpose stands on the right of D
    for place in np.ndindex(x.shape[:-2]):
        blocks = _blocks(pivots[place])
        for start, stop, other in blocks:
            _go_down(x[place], turned[place], out[place], start, stop, other)
        for start, stop, other in reversed(blocks):
            z = out[place]
            z[start:stop] -= turned[place][stop:, start:stop].T @ z[stop:]
            z[[stop - 1, other]] = z[[other, stop - 1]]
    return out


def _blocks(pivots: Array) -> list[tuple[int, int, int]]:
    """(start, stop, the row that the last one of them was exchanged with) of each block of D: two rows where
    LAPACK's pivots are negative."""
    found, k = [], 0
    while k < len(pivots):
        size = 1 if pivots[k] > 0 else 2
        found.append((k, k + size, abs(int(pivots[k])) - 1))
        k += size
    return found


def _go_down(x: Array, turned: Array, z: Array, start: int, stop: int, other: int) -> None:
    """One step of solving for L and D, in the memory of ``z``."""
    z[[stop - 1, other]] = z[[other, stop - 1]]
    z[stop:] -= x[stop:, start:stop] @ z[start:stop]
    if stop - start == 1:
        z[start] /= x[start, start]
        return
    a, b, c = x[start, start], x[start + 1, start], x[start + 1, start + 1]
    beside = turned[start + 1, start]  # what stands above the diagonal
    first, second = z[start].copy(), z[start + 1].copy()
    # over b, which is the largest of the three, as LAPACK does it: a c - b^2 could overflow
    p, q = a / beside, c / b
    scale = 1 / (p * q - 1)
    z[start] = (q * (first / beside) - second / b) * scale
    z[start + 1] = (p * (second / b) - first / beside) * scale
