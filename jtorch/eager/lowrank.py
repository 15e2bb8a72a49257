"""Approximate factors of matrices, from random directions.

Source: N. Halko, P. G. Martinsson, J. A. Tropp, "Finding structure with randomness" (2009), arXiv:0909.4061
"""

from __future__ import annotations

from typing import Any

from jtorch.eager.drawing import randn
from jtorch.eager.functions.decompositions import qr, svd
from jtorch.eager.functions.products import matmul
from jtorch.eager.functions.solvers import check_floats
from jtorch.eager.tensor import Tensor


def _basis(A: Tensor, q: int, niter: int) -> Tensor:
    """Q with q columns whose span is nearly that of the first q singular vectors: random directions, drawn
    towards them by ``niter`` iterations."""
    Q = qr(matmul(A, randn(A.shape[-1], q, dtype=A.dtype))).Q
    for _ in range(niter):
        Q = qr(matmul(A.mH, Q)).Q
        Q = qr(matmul(A, Q)).Q
    return Q


def svd_lowrank(A: Tensor, q: int | None = 6, niter: int | None = 2, M: Tensor | None = None) -> Any:
    """(U, S, V) with q columns each and A - M near U diag(S) V^H: the largest singular values of (..., m, n),
    found from random directions.

    >>> import jtorch
    >>> U, S, V = jtorch.svd_lowrank(jtorch.tensor([[3.0, 0.0], [0.0, 0.0]]), q=1)
    >>> S
    tensor([3.])
    """
    check_floats("svd_lowrank", A)
    if M is not None:
        A = A - M
    wide = A.shape[-2] < A.shape[-1]
    A = A.mH if wide else A
    Q = _basis(A, 6 if q is None else q, 2 if niter is None else niter)
    U, S, Vh = svd(matmul(Q.mH, A), full_matrices=False)
    U, V = matmul(Q, U), Vh.mH
    return (V, S, U) if wide else (U, S, V)


def pca_lowrank(A: Tensor, q: int | None = None, center: bool = True, niter: int = 2) -> Any:
    """(U, S, V): ``svd_lowrank`` of A less the mean of its rows. V holds the principal directions.

    Raises ValueError for a q beyond the sizes of the matrices.

    >>> import jtorch
    >>> U, S, V = jtorch.pca_lowrank(jtorch.tensor([[1.0, 0.0], [3.0, 0.0]]), q=1)
    >>> S, V.abs()
    (tensor([1.4142]), tensor([[1.],
            [0.]]))
    """
    m, n = A.shape[-2:]
    if q is None:
        q = min(6, m, n)
    elif not 0 <= q <= min(m, n):
        raise ValueError(f"q(={q}) must be non-negative integer and not greater than min(m, n)={min(m, n)}")
    if not niter >= 0:
        raise ValueError(f"niter(={niter}) must be non-negative integer")
    return svd_lowrank(A - A.mean(-2, True) if center else A, q, niter)
