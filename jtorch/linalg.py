"""Linear algebra under PyTorch's names: ``torch.linalg``.

Source: https://docs.pytorch.org/docs/stable/linalg.html
"""

from collections.abc import Callable as _Callable
from typing import Any as _Any

from jtorch.core.errors import LinAlgError
from jtorch.eager import factors as _factors
from jtorch.eager.autocasting import autocasts as _autocasts
from jtorch.eager.binding import accepting as _accepting_keywords
from jtorch.eager.examples import show as _show_examples
from jtorch.eager.functions import (
    decompositions as _decompositions,
    norms as _norms,
    products as _products,
    solvers as _solvers,
)
from jtorch.eager.functions.triangles import powers as _powers
from jtorch.eager.tensor import Tensor as _Tensor


def _accepting(function: _Any) -> _Callable:
    """With ``out=``, and the name by which PyTorch takes what its documentation calls A, or x."""
    second = {_decompositions.tensorsolve: "other", _solvers.lstsq: "b"}.get(function, "B")
    return _accepting_keywords(function, also={"A": "input", "x": "input", "B": second})


matrix_norm, norm, vector_norm = map(_accepting, (_norms.matrix_norm, _norms.norm, _norms.vector_norm))
matmul, multi_dot = _accepting(_products.matmul), _accepting(_products.multi_dot)
cond, matrix_power, matrix_rank = map(
    _accepting, (_decompositions.cond, _decompositions.matrix_power, _decompositions.matrix_rank)
)
eig, eigh, eigvals, eigvalsh = map(
    _accepting,
    (_decompositions.eig, _decompositions.eigh, _decompositions.eigvals, _decompositions.eigvalsh),
)
pinv, qr, svd, svdvals = map(
    _accepting, (_decompositions.pinv, _decompositions.qr, _decompositions.svd, _decompositions.svdvals)
)
tensorinv, tensorsolve = map(_accepting, (_decompositions.tensorinv, _decompositions.tensorsolve))
cholesky, cholesky_ex, inv, inv_ex = map(
    _accepting, (_solvers.cholesky, _solvers.cholesky_ex, _solvers.inv, _solvers.inv_ex)
)
lu, lu_factor, lu_solve = map(_accepting, (_solvers.lu, _solvers.lu_factor, _solvers.lu_solve))
lu_factor_ex, ldl_factor, ldl_factor_ex, ldl_solve = map(
    _accepting, (_factors.lu_factor_ex, _factors.ldl_factor, _factors.ldl_factor_ex, _factors.ldl_solve)
)
householder_product = _accepting_keywords(_factors.householder_product, also={"input": "A"})
lstsq, solve, solve_ex, solve_triangular = map(
    _accepting, (_solvers.lstsq, _solvers.solve, _solvers.solve_ex, _solvers.solve_triangular)
)


@_accepting
def det(A: _Tensor) -> _Tensor:
    """The determinants of (..., n, n)."""
    return _solvers.det(A)


@_accepting
def slogdet(A: _Tensor) -> _Any:
    """(sign, logabsdet) of the determinants of (..., n, n)."""
    return _solvers.slogdet(A)


@_accepting
def matrix_exp(A: _Tensor) -> _Tensor:
    """The exponentials of (..., n, n)."""
    return _decompositions.matrix_exp(A)


@_accepting_keywords
def cross(input: _Tensor, other: _Tensor, *, dim: int = -1) -> _Tensor:
    """The cross product along ``dim``, of size 3."""
    return _products.cross_along(input, other, dim)


@_accepting_keywords
@_autocasts("lower")
def vecdot(x: _Tensor, y: _Tensor, *, dim: int = -1) -> _Tensor:
    """Products summed along ``dim``; the first factor conjugated where it is complex."""
    product = (x.conj() if x.is_complex() else x) * y
    return product.sum(dim).to(product.dtype)


def diagonal(A: _Tensor, *, offset: int = 0, dim1: int = -2, dim2: int = -1) -> _Tensor:
    """The ``offset``-th diagonal of the dims ``dim1`` and ``dim2``, as the last dim of a view."""
    return A.diagonal(offset, dim1, dim2)


def vander(x: _Tensor, *, N: int | None = None) -> _Tensor:
    """Powers 0 to N-1 of the last dim, as columns in ascending order."""
    x = x if x.ndim else x.unsqueeze(-1)
    if (x.shape[-1] if N is None else N) <= 1:
        raise RuntimeError("N must be greater than 1.")
    return _powers(x, N, increasing=True)


_show_examples(globals(), "linalg.")

__all__ = [
    "LinAlgError", "cholesky", "cholesky_ex", "cond", "cross", "det", "diagonal", "eig", "eigh", "eigvals",
    "eigvalsh", "householder_product", "inv", "inv_ex", "ldl_factor", "ldl_factor_ex", "ldl_solve", "lstsq",
    "lu", "lu_factor", "lu_factor_ex", "lu_solve", "matmul", "matrix_exp",
    "matrix_norm", "matrix_power", "matrix_rank", "multi_dot", "norm", "pinv", "qr", "slogdet", "solve",
    "solve_ex", "solve_triangular", "svd", "svdvals", "tensorinv", "tensorsolve", "vander", "vecdot",
    "vector_norm",
]  # fmt: skip
