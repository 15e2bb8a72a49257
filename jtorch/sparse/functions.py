"""Functions of sparse matrices.

Source: https://docs.pytorch.org/docs/stable/sparse.html#torch-functions-specific-to-sparse-tensors
"""

from __future__ import annotations

from typing import Any

import jtorch
from jtorch.eager.public import Tensor
from jtorch.sparse.tensor import SparseTensor


def mm(mat1: Any, mat2: Any, reduce: str = "sum") -> Any:
    """The product of a sparse matrix (n, m) with one (m, k), sparse if both are. Gradients reach both."""
    if reduce != "sum":
        raise NotImplementedError(f"sparse.mm: reduce={reduce!r} is not there, sums alone")
    return mat1 @ mat2


def spmm(input: Any, mat2: Any) -> Any:
    """The same under an older name."""
    return input @ mat2


def smm(input: SparseTensor, mat2: Tensor) -> SparseTensor:
    """The product of a sparse and an ordinary matrix, as a sparse one.

    >>> import jtorch
    >>> jtorch.smm(jtorch.tensor([[0.0, 2.0]]).to_sparse(), jtorch.tensor([[1.0], [3.0]])).to_dense()
    tensor([[6.]])
    """
    return (input @ mat2).to_sparse()


def hspmm(mat1: SparseTensor, mat2: Tensor) -> SparseTensor:
    """The product of a sparse and an ordinary matrix: those rows, each a dense one, that ``mat1`` has.

    >>> import jtorch
    >>> jtorch.hspmm(jtorch.tensor([[0.0, 0.0], [0.0, 2.0]]).to_sparse(), jtorch.eye(2))
    tensor(indices=tensor([[1]]),
           values=tensor([[0., 2.]]),
           size=(2, 2), nnz=1, layout=torch.sparse_coo)
    """
    rows = mat1._indices()[0].unique()
    return SparseTensor(rows.unsqueeze(0), (mat1 @ mat2)[rows], (mat1.shape[0], mat2.shape[1]), True)


def sspaddmm(
    input: SparseTensor, mat1: SparseTensor, mat2: Tensor, *, beta: Any = 1, alpha: Any = 1
) -> SparseTensor:
    """``beta * input + alpha * (mat1 @ mat2)`` of sparse ``input`` and ``mat1``, as a sparse matrix.

    Elements of the product are all those in rows that ``mat1`` has.

    >>> import jtorch
    >>> one = jtorch.eye(2).to_sparse()
    >>> jtorch.sspaddmm(one, one, jtorch.ones(2, 2), alpha=2).to_dense()
    tensor([[3., 2.],
            [2., 3.]])
    """
    product = hspmm(mat1, mat2)
    rows, width = product._indices()[0], mat2.shape[1]
    places = jtorch.stack([rows.repeat_interleave(width), jtorch.arange(width).repeat(len(rows))])
    added = SparseTensor(places, product._values().reshape(-1) * alpha, product.shape)
    return input * beta + added


def addmm(mat: Tensor, mat1: Any, mat2: Tensor, *, beta: Any = 1.0, alpha: Any = 1.0) -> Tensor:
    """``beta * mat + alpha * (mat1 @ mat2)`` with a sparse ``mat1``."""
    return beta * mat + alpha * (mat1 @ mat2)


def sum(input: SparseTensor, dim: Any = None, dtype: Any = None) -> Any:
    """Over all elements, or over ``dim``: sparse where sparse dims are left."""
    return input.sum(dim, dtype)


def softmax(input: SparseTensor, dim: int, *, dtype: Any = None) -> SparseTensor:
    """Over the elements that are there, along ``dim`` of a matrix: what is not there counts as -inf."""
    found = log_softmax(input, dim, dtype=dtype)
    return found._with(found._values().exp())


def log_softmax(input: SparseTensor, dim: int, *, dtype: Any = None) -> SparseTensor:
    """The logarithm of ``softmax``."""
    found = input.coalesce()
    if found.sparse_dim() != 2 or found.dense_dim():
        raise NotImplementedError("softmax of a sparse tensor that is no matrix is not there")
    values = found._values() if dtype is None else found._values().to(dtype)
    kept = found._indices()[1 - dim % 2]
    n = found.shape[1 - dim % 2]
    low = jtorch.full((n,), -jtorch.inf, dtype=values.dtype)
    highest = low.scatter_reduce(0, kept, values.detach(), "amax")[kept]
    moved = values - highest
    sums = jtorch.zeros(n, dtype=values.dtype).index_add(0, kept, moved.exp())
    return found._with(moved - sums.log()[kept])
