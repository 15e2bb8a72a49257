"""Linear algebra under PyTorch's names: ``torch.linalg``.

Source: https://docs.pytorch.org/docs/stable/linalg.html
"""

from jtorch.core.errors import LinAlgError
from jtorch.eager.binding import accepting as _accepting
from jtorch.eager.functions import norms as _norms
from jtorch.eager.functions.decompositions import (
    cond,
    eig,
    eigh,
    eigvals,
    eigvalsh,
    matrix_exp,
    matrix_power,
    matrix_rank,
    pinv,
    qr,
    svd,
    svdvals,
    tensorinv,
    tensorsolve,
)
from jtorch.eager.functions.products import cross_along as _cross_along
from jtorch.eager.functions.products import matmul, multi_dot
from jtorch.eager.functions.solvers import (
    cholesky,
    cholesky_ex,
    det,
    inv,
    inv_ex,
    lstsq,
    lu,
    lu_factor,
    lu_solve,
    slogdet,
    solve,
    solve_ex,
    solve_triangular,
)
from jtorch.eager.functions.triangles import powers as _powers
from jtorch.eager.tensor import Tensor as _Tensor

matrix_norm, norm, vector_norm = map(_accepting, (_norms.matrix_norm, _norms.norm, _norms.vector_norm))


@_accepting
def cross(input: _Tensor, other: _Tensor, *, dim: int = -1) -> _Tensor:
    """The cross product along ``dim``, of size 3."""
    return _cross_along(input, other, dim)


@_accepting
def vecdot(x: _Tensor, y: _Tensor, *, dim: int = -1) -> _Tensor:
    """Products summed along ``dim``; the first factor conjugated where it is complex."""
    product = (x.conj() if x.is_complex() else x) * y
    return product.sum(dim).to(product.dtype)


def diagonal(A: _Tensor, *, offset: int = 0, dim1: int = -2, dim2: int = -1) -> _Tensor:
    """The ``offset``-th diagonal of the dims ``dim1`` and ``dim2``, as the last dim of a view."""
    return A.diagonal(offset, dim1, dim2)


def vander(x: _Tensor, *, N: int | None = None) -> _Tensor:
    """Powers 0 to N-1 of the last dim, as columns in ascending order."""
    if not x.ndim:
        raise RuntimeError("x must be at least one-dimensional.")
    if N is not None and N <= 1:
        raise RuntimeError("N must be greater than 1.")
    return _powers(x, N, increasing=True)


__all__ = [
    "LinAlgError", "cholesky", "cholesky_ex", "cond", "cross", "det", "diagonal", "eig", "eigh", "eigvals",
    "eigvalsh", "inv", "inv_ex", "lstsq", "lu", "lu_factor", "lu_solve", "matmul", "matrix_exp",
    "matrix_norm", "matrix_power", "matrix_rank", "multi_dot", "norm", "pinv", "qr", "slogdet", "solve",
    "solve_ex", "solve_triangular", "svd", "svdvals", "tensorinv", "tensorsolve", "vander", "vecdot",
    "vector_norm",
]  # fmt: skip
