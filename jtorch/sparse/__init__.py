"""Sparse matrices as far as networks on graphs need them, with ``torch.sparse``'s names.

Source: https://docs.pytorch.org/docs/stable/sparse.html
"""

from jtorch.sparse.functions import addmm, log_softmax, mm, softmax, sum
from jtorch.sparse.making import (
    sparse_compressed_tensor,
    sparse_coo_tensor,
    sparse_csc_tensor,
    sparse_csr_tensor,
)
from jtorch.sparse.tensor import SparseTensor

__all__ = [
    "SparseTensor",
    "addmm",
    "log_softmax",
    "mm",
    "softmax",
    "sparse_compressed_tensor",
    "sparse_coo_tensor",
    "sparse_csc_tensor",
    "sparse_csr_tensor",
    "sum",
]  # fmt: skip
