"""How sparse tensors are made: of indices and values, of an ordinary tensor."""

from __future__ import annotations

from typing import Any

import jtorch
from jtorch.core import memory_formats as formats
from jtorch.eager.public import Tensor
from jtorch.sparse.tensor import SparseTensor


def sparse_coo_tensor(
    indices: Any, values: Any, size: Any = None, *, dtype: Any = None, device: Any = None,
    requires_grad: bool = False, check_invariants: bool | None = None, is_coalesced: bool | None = None,
) -> SparseTensor:  # fmt: skip
    """Elements ``values`` (nnz, dense dims) at ``indices`` (sparse dims, nnz): the columns are the places.

    >>> import jtorch
    >>> s = jtorch.sparse_coo_tensor([[0, 1, 1], [2, 0, 2]], [3.0, 4.0, 5.0], (2, 3))
    >>> s @ jtorch.ones(3)
    tensor([3., 9.])

    Raises ValueError and RuntimeError where they do not fit.
    Source: https://docs.pytorch.org/docs/stable/generated/torch.sparse_coo_tensor.html
    """
    where = jtorch.as_tensor(indices, device=device).to(jtorch.int64)
    what = jtorch.as_tensor(values, dtype=dtype, device=device)
    what = what.detach() if isinstance(values, Tensor) and requires_grad else what
    if where.ndim != 2:
        raise RuntimeError(f"indices must be sparse_dim x nnz, but got: {list(where.shape)}")
    if not what.ndim or what.shape[0] != where.shape[1]:
        raise RuntimeError(
            f"indices and values must have same nnz, but got nnz from indices: {where.shape[1]}, nnz from "
            f"values: {what.shape[0] if what.ndim else 1}"
        )
    dense = tuple(what.shape[1:])
    if size is None:
        size = (*((row.max().item() + 1 if len(row) else 0) for row in where), *dense)
    _check_places(where, tuple(size), dense)
    return SparseTensor(where, what, size, bool(is_coalesced)).requires_grad_(
        requires_grad or what.requires_grad
    )


def _check_places(where: Tensor, size: tuple[int, ...], dense: tuple[int, ...]) -> None:
    n = where.shape[0]
    if len(size) != n + len(dense) or tuple(size[n:]) != dense:
        raise RuntimeError(
            f"number of dimensions must be sparse_dim ({n}) + dense_dim ({len(dense)}), but got {len(size)}"
        )
    for d in range(n if where.shape[1] else 0):
        low, high = where[d].min().item(), where[d].max().item()
        if low < 0:
            raise RuntimeError(f"found negative index {low} for dim {d}")
        if high >= size[d]:
            raise RuntimeError(
                f"size is inconsistent with indices: for dim {d}, size is {size[d]} but found index {high}"
            )


def sparse_csr_tensor(
    crow_indices: Any, col_indices: Any, values: Any, size: Any = None, *, dtype: Any = None,
    device: Any = None, requires_grad: bool = False, check_invariants: bool | None = None,
) -> SparseTensor:  # fmt: skip
    """A matrix by rows: ``crow_indices`` (rows + 1) says where each begins among the elements.

    Source: https://docs.pytorch.org/docs/stable/generated/torch.sparse_csr_tensor.html

    >>> import jtorch
    >>> jtorch.sparse_csr_tensor([0, 1, 2], [1, 0], [5, 7]).to_dense()
    tensor([[0, 5],
            [7, 0]])
    """
    begins = jtorch.as_tensor(crow_indices).to(jtorch.int64)
    columns = jtorch.as_tensor(col_indices).to(jtorch.int64)
    rows = jtorch.arange(len(begins) - 1).repeat_interleave(begins[1:] - begins[:-1])
    if size is None:
        size = (len(begins) - 1, columns.max().item() + 1 if len(columns) else 0)
    made = sparse_coo_tensor(
        jtorch.stack([rows, columns]), values, size, dtype=dtype, device=device, requires_grad=requires_grad
    )
    return made.to_sparse_csr()


def sparse_csc_tensor(
    ccol_indices: Any, row_indices: Any, values: Any, size: Any = None, *, dtype: Any = None,
    device: Any = None, requires_grad: bool = False, check_invariants: bool | None = None,
) -> SparseTensor:  # fmt: skip
    """A matrix by columns: ``ccol_indices`` (columns + 1) says where each begins among the elements.

    Source: https://docs.pytorch.org/docs/stable/generated/torch.sparse_csc_tensor.html

    >>> import jtorch
    >>> jtorch.sparse_csc_tensor([0, 1, 3], [1, 0, 1], [5, 7, 9]).to_dense()
    tensor([[0, 7],
            [5, 9]])
    """
    turned = None if size is None else (size[1], size[0])
    made = sparse_csr_tensor(
        ccol_indices, row_indices, values, turned, dtype=dtype, device=device, requires_grad=requires_grad
    )
    return made.t().to_sparse_csc()


def sparse_compressed_tensor(
    compressed_indices: Any, plain_indices: Any, values: Any, size: Any = None, *, dtype: Any = None,
    layout: Any = None, device: Any = None, requires_grad: bool = False, check_invariants: bool | None = None,
) -> SparseTensor:  # fmt: skip
    """``sparse_csr_tensor`` or ``sparse_csc_tensor``, as ``layout`` says.

    Raises RuntimeError for another layout; those of blocks are not there.

    Source: https://docs.pytorch.org/docs/stable/generated/torch.sparse_compressed_tensor.html

    >>> import jtorch
    >>> jtorch.sparse_compressed_tensor([0, 1, 2], [1, 0], [5, 7], layout=jtorch.sparse_csr).to_dense()
    tensor([[0, 5],
            [7, 0]])
    """
    if layout not in (formats.sparse_csr, formats.sparse_csc):
        raise RuntimeError(
            f"expected compressed sparse tensor layout (torch.sparse_csr or torch.sparse_csc), got {layout}"
        )
    make = sparse_csr_tensor if layout is formats.sparse_csr else sparse_csc_tensor
    return make(
        compressed_indices,
        plain_indices,
        values,
        size,
        dtype=dtype,
        device=device,
        requires_grad=requires_grad,
    )


def to_sparse(self: Tensor, sparse_dim: int | None = None, *, layout: Any = None) -> SparseTensor:
    """The elements that are not zero, with their places; ``sparse_dim`` of the dims, the others stay dense.

    Source: https://docs.pytorch.org/docs/stable/generated/torch.Tensor.to_sparse.html
    """
    n = self.ndim if sparse_dim is None else sparse_dim
    there = (self if n == self.ndim else self.flatten(n).abs().amax(-1)) != 0
    indices = there.nonzero().t().contiguous()
    made = SparseTensor(indices, self[tuple(indices)], self.shape, True)
    return made if layout in (None, formats.sparse_coo) else made.to_sparse(layout=layout)


def to_sparse_csr(self: Tensor, dense_dim: int | None = None) -> SparseTensor:
    """The same of a matrix by rows."""
    if self.ndim != 2:
        raise RuntimeError(f"to_sparse_csr() takes a matrix, got {self.ndim} dims")
    return to_sparse(self, layout=formats.sparse_csr)


def to_sparse_csc(self: Tensor, dense_dim: int | None = None) -> SparseTensor:
    """The same of a matrix by columns."""
    if self.ndim != 2:
        raise RuntimeError(f"to_sparse_csc() takes a matrix, got {self.ndim} dims")
    return to_sparse(self, layout=formats.sparse_csc)
