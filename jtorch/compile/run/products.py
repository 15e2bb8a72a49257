"""A product of matrices as argument blocks, for BLAS or for our own kernel.

Our own takes every layout, and is the faster one where matrices are large; BLAS starts sooner, and does less
for a matrix that is thin.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from jtorch.compile.graph.ir import short
from jtorch.compile.graph.products import MOST_AXES, Axis, BlasMatrices, Product, blas_matrices
from jtorch.compile.plan.pieces import Piece, product_pieces
from jtorch.native import blas, packed, workers

# From here on our own kernel is the faster one, in operations and sizes of one matrix: of OpenBLAS's time it
# takes 0.87 for 256 x 256 x 256, 1.01 for 128 x 128 x 128, 1.3 for 64 x 64 x 64, 1.5 for 256 x 256 x 32.
_OWN_FLOPS = 8_000_000
_OWN_ROWS, _OWN_COLUMNS, _OWN_INNER = 64, 64, 32

FAILURES = {
    blas.TOO_LARGE: "a size of a matrix product does not fit BLAS's 32 bits",
    packed.NO_MEMORY: "there is no memory for the blocks of a matrix product",
}
"""What the status of a product's kernel means."""

_PARTS = ("batch", "rows", "columns")  # of the result
assert MOST_AXES <= packed.AXES  # what finalising lets pass

_ONE, _ZERO = (int(np.float64(x).view(np.int64)) for x in (1, 0))


@dataclass(eq=False)
class Call:
    """A product, its pieces, and what its kernel is told.

    ``shared`` are words that all pieces read, the first three of them the addresses of x, y and the result;
    None where each piece has its own.
    """

    product: Product
    dtype: np.dtype
    kernel: int
    n_words: int
    pieces: list[Piece]
    shared: np.ndarray | None
    matrices: BlasMatrices | None = None
    threaded: Sequence[int] = ()

    def begins(self, piece: Piece) -> tuple[int, int, int]:
        """How many bytes into their memory x, y and the result of a piece begin."""
        x, y, out = self.product.x.offset, self.product.y.offset, 0
        if self.shared is None:
            cut = _only(getattr(self.product, piece.axis))
            x += piece.range[0] * cut.in_x
            y += piece.range[0] * cut.in_y
            out = piece.range[0] * cut.in_out
        item = self.dtype.itemsize
        return x * item, y * item, out * item

    def words(self, piece: Piece) -> list[int]:
        """The argument block of a piece, addresses that come later being 0."""
        sizes = dict(zip((*_PARTS, "inner"), self.product.sizes, strict=True))
        if self.shared is not None:
            ranges = {name: (0, sizes[name]) for name in _PARTS} | {piece.axis: piece.range}
            address = self.shared.__array_interface__["data"][0]
            return [address, *(end for name in _PARTS for end in ranges[name])]
        assert self.matrices is not None
        sizes[piece.axis] = piece.range[1] - piece.range[0]
        apart = [stride * self.dtype.itemsize for stride in _only(self.product.batch)[1:]]
        flags = [112 if factor.transposed else 111 for factor in self.matrices[:2]]
        return [
            blas.gemm_address(short(self.dtype)), 0, 0, 0, sizes["batch"], *apart, *flags,
            sizes["rows"], sizes["columns"], sizes["inner"], *(matrix.leading for matrix in self.matrices),
            _ONE, _ZERO, *self.threaded,
        ]  # fmt: skip


def _only(axes: Sequence[Axis]) -> Axis:
    """The axis of a part that has one at most."""
    return axes[0] if axes else Axis(1, 0, 0, 0)


def call_of(product: Product, dtype: np.dtype) -> Call:
    """How a product of float32 or float64 is computed."""
    matrices, kind = blas_matrices(product), short(dtype)
    batch, rows, columns, inner = product.sizes
    pooled = bool(workers.pool())
    pieces = product_pieces(batch, rows, columns, inner)
    whole = [Piece("batch", (0, batch))]
    large = 2 * rows * columns * inner >= _OWN_FLOPS
    square = rows >= _OWN_ROWS and columns >= _OWN_COLUMNS and inner >= _OWN_INNER
    if matrices is None or (blas.is_private() and large and square):
        item = dtype.itemsize
        parts = {
            name: [packed.Axis(a.size, *(stride * item for stride in a[1:])) for a in getattr(product, name)]
            for name in (*_PARTS, "inner")
        }
        shared = np.array(packed.describe(parts), np.int64)
        kernel = packed.kernel(kind)
        return Call(product, dtype, kernel, packed.PIECE_WORDS, pieces if pooled else whole, shared)
    if pooled and blas.is_private():
        return Call(product, dtype, blas.gemm_kernel(kind), blas.ARGUMENT_WORDS, pieces, None, matrices)
    kernel, threaded = blas.product_kernel(kind, 2 * rows * columns * inner)  # SciPy's has its own threads
    n_words = blas.ARGUMENT_WORDS + len(threaded)
    return Call(product, dtype, kernel, n_words, whole, None, matrices, threaded)
