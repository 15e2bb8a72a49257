"""A product of matrices as argument blocks, for BLAS or for our own kernel.

Our own take every layout, and are faster where matrices are large or many; BLAS starts sooner, and does less
for a matrix that is thin. Both modes choose here, eager mode for products of four million multiplications
and more, so these have the same bits in both, unless compiled code has cut rows (``plan/tiles.py``): BLAS may
add up fewer in another order.
"""

from __future__ import annotations

import functools
import os
import threading
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from jtorch.core import threads
from jtorch.core.dtypes import BFLOAT16
from jtorch.core.failure import Failure, FailureKind
from jtorch.core.followed import one_step
from jtorch.core.op import ContractionAxes
from jtorch.core.pieces import LEAST_TIME, Piece, product_pieces, product_time
from jtorch.core.products import MOST_AXES, Axis, BlasMatrices, Product, blas_matrices, product_of_layouts
from jtorch.core.strides import contiguous_strides
from jtorch.core.threads import PARALLEL_FLOPS
from jtorch.native import blas, cache, converted, packed, workers
from jtorch.native.executor import Executor, Patch
from jtorch.native.packed import Way

Array = np.ndarray

# From here on our own kernel is the faster one, in operations and sizes of one matrix: of OpenBLAS's time it
# takes 0.87 for 256 x 256 x 256, 1.01 for 128 x 128 x 128, 1.3 for 64 x 64 x 64, 1.5 for 256 x 256 x 32.
_OWN_FLOPS = 8_000_000
_OWN_ROWS, _OWN_COLUMNS, _OWN_INNER = 64, 64, 32

# Windows are read where they lie from here on. The gradient of the weight of 64 filters for 64 images of
# 32 x 26 x 26 takes 8.5 ms packed and 5.5 so (two cores), that of 32 for 32 of 16 x 32 x 32 2.5 and 1.4; but
# a convolution of 256 channels to 40, with many rows, a short inner axis and empty lanes, 1.3 times as long.
_LONG_INNER, _PER_ROW, _MOST_ROWS, _FILLED = 2048, 2, 8192, 0.9

# Small products BLAS computes from where the factors lie, others from copies. Of so few rows the columns come
# in chunks that are small: for 10 x 200 x 800 that takes 31 us instead of 53, for 16 x 256 x 1024 77 and not
# 174, for 40 x 200 x 800 112 and not 131; in chunks of 32 columns 10 x 1024 x 3000 takes 1.45 times as long.
_FEW_ROWS, _LEAST_CHUNK = 64, 64

# Of the elements of a factor, and of some more: a third of all columns, as of queries among keys and values,
# is near.
_FAR, _FEW = 4, 64

FAILURES = {
    blas.TOO_LARGE: Failure(FailureKind.VALUE, "a size of a matrix product does not fit BLAS's 32 bits"),
    packed.NO_MEMORY: Failure(FailureKind.VALUE, "there is no memory for the blocks of a matrix product"),
}
"""What the status of a product's kernel means."""

KINDS = {np.dtype(np.float32): "f32", np.dtype(np.float64): "f64"}
"""The dtypes that there are kernels for."""

HALVES = {np.dtype(np.float16): "f16", BFLOAT16: "bf16"}
"""And those of factors whose product is of float32."""

_FLOAT32 = np.dtype(np.float32)

_PARTS = ("batch", "rows", "columns")  # of the result
assert MOST_AXES <= packed.AXES  # what finalising lets pass

_ONE, _ZERO = (int(np.float64(x).view(np.int64)) for x in (1, 0))


@dataclass(eq=False)
class Call:
    """A product, its pieces, and what its kernel is told.

    ``shared`` are words that all pieces read, the first three of them the addresses of x, y and the result;
    None where each piece has its own. Addresses are 0 until they are known.
    """

    product: Product
    dtype: np.dtype
    kernel: int
    n_words: int
    pieces: list[Piece]
    shared: list[int] | None
    matrices: BlasMatrices | None = None
    threaded: Sequence[int] = ()
    way: Way = Way.PACKED
    by_blas: int = 0  # the kernel that multiplies what was converted to float32

    @property
    def adds_bias(self) -> bool:
        """Whether its kernel can add a number to each column of the result."""
        return self.shared is not None and self.way is Way.PACKED

    @property
    def item_out(self) -> int:
        """Bytes of an element of the result."""
        return (_FLOAT32 if self.dtype in HALVES else self.dtype).itemsize

    def begins(self, piece: Piece) -> tuple[int, int, int]:
        """How many bytes into x, y and the result those of a piece begin."""
        if self.shared is not None:
            return 0, 0, 0
        item, first = self.dtype.itemsize, piece.range[0]
        _, in_x, in_y, in_out = _only(getattr(self.product, piece.axis))
        return first * in_x * item, first * in_y * item, first * in_out * self.item_out

    def words(self, piece: Piece) -> list[int]:
        """The argument block of a piece: first the address of what is shared, or that of BLAS's function and
        then those of x, y and the result."""
        sizes, which = [*self.product.sizes], _PARTS.index(piece.axis)
        if self.shared is not None:
            ends = [0, sizes[0], 0, sizes[1], 0, sizes[2]]
            ends[2 * which : 2 * which + 2] = piece.range
            return [0, *ends]
        assert self.matrices is not None
        sizes[which] = piece.range[1] - piece.range[0]
        batch, rows, columns, inner = sizes
        item = self.item_out
        spans = self.spans(batch, rows, columns, inner) if self.dtype in HALVES else None
        apart = [stride * item for stride in _only(self.product.batch)[1:]]
        chunk = self._chunk(batch, rows, columns, inner)
        if chunk < columns:
            batch, columns, apart = columns // chunk, chunk, [0, chunk * item, chunk * item]
        x, y, out = self.matrices
        words = [
            blas.gemm_address(KINDS.get(self.dtype, "f32")), 0, 0, 0, batch, *apart,
            112 if x.transposed else 111, 112 if y.transposed else 111,
            rows, columns, inner, x.leading, y.leading, out.leading, _ONE, _ZERO, *self.threaded,
        ]  # fmt: skip
        return words if spans is None else converted.words(words, self.by_blas, spans)

    def spans(self, batch: int, rows: int, columns: int, inner: int) -> tuple[int, int]:
        """How many elements of each factor, from its first one on, BLAS may read."""
        assert self.matrices is not None
        x, y, _ = self.matrices
        _, in_x, in_y, _ = _only(self.product.batch)
        matrices = (x, (rows, inner), in_x), (y, (inner, columns), in_y)
        spans = []
        for matrix, (outer, along), apart in matrices:
            outer, along = (along, outer) if matrix.transposed else (outer, along)
            spans.append((batch - 1) * apart + (outer - 1) * matrix.leading + along)
        return spans[0], spans[1]

    def shift(self, axis: str) -> list[int]:
        """By how much each word of a piece's block grows from one that begins at 0 to one, as long, at 1;
        empty where no words are shared."""
        return [] if self.shared is None else [0, *(int(part == axis) for part in _PARTS for _ in range(2))]

    def _chunk(self, batch: int, rows: int, columns: int, inner: int) -> int:
        """Columns that BLAS multiplies at a time: where rows are few, so many that it copies no factor."""
        assert self.matrices is not None
        walked = self.matrices.x.transposed or self.matrices.y.transposed
        if batch != 1 or rows > _FEW_ROWS or walked or not blas.reads_small_factors():
            return columns
        most = blas.SMALL_PRODUCT // max(rows * inner, 1)
        return columns if columns <= most else one_step(_even_chunk, columns, most)


def _even_chunk(columns: int, most: int) -> int:
    return next((n for n in range(most, _LEAST_CHUNK - 1, -1) if columns % n == 0), columns)


def _only(axes: Sequence[Axis]) -> Axis:
    """The axis of a part that has one at most."""
    return axes[0] if axes else Axis(1, 0, 0, 0)


def call_of(product: Product, dtype: np.dtype) -> Call:
    """How a product of factors of a dtype of KINDS, or of HALVES, is computed: these as if of float32."""
    if dtype in HALVES:
        return _of_halves(call_of(product, _FLOAT32), dtype)
    matrices, kind = blas_matrices(product), KINDS[dtype]
    batch, rows, columns, inner = product.sizes
    pooled = bool(workers.pool())
    whole = [Piece("batch", (0, batch))]
    large = 2 * rows * columns * inner >= _OWN_FLOPS
    square = rows >= _OWN_ROWS and columns >= _OWN_COLUMNS and inner >= _OWN_INNER
    first = _first_of_direct(product, dtype.itemsize)
    if first is not None:
        return _own(product.exchanged() if first else product, dtype, Way.DIRECT, first)
    # heads of attention lie between others: 70 us packed one by one (128 x 16 x 16 x 16), 14 as small ones;
    # where BLAS can walk them it takes as long, and adds some of them up in several sums
    if matrices is None and not large and packed.fits_small(product, dtype.itemsize):
        return _own(product, dtype, Way.SMALL)
    if matrices is None or (pooled and blas.is_private() and large and square):
        return _own(product, dtype, Way.PACKED)
    if pooled and blas.is_private():
        pieces = product_pieces(batch, rows, columns, inner)
        return Call(product, dtype, blas.gemm_kernel(kind), blas.ARGUMENT_WORDS, pieces, None, matrices)
    kernel, threaded = blas.product_kernel(kind, 2 * rows * columns * inner)  # SciPy's has its own threads
    n_words = blas.ARGUMENT_WORDS + len(threaded)
    return Call(product, dtype, kernel, n_words, whole, None, matrices, threaded)


def _of_halves(wide: Call, dtype: np.dtype) -> Call:
    """The same product of 16-bit factors."""
    if wide.shared is None and not _is_near(wide):
        wide = _own(wide.product, wide.dtype, Way.PACKED)
    if wide.shared is not None:
        first, item_out = wide.shared[packed.FIRST], wide.dtype.itemsize
        shared = packed.describe(wide.product, dtype.itemsize, first, item_out)
        kernel = packed.kernel(HALVES[dtype], wide.way)
        return replace(wide, dtype=dtype, kernel=kernel, shared=shared)
    kernel = converted.kernel(HALVES[dtype])
    return replace(wide, dtype=dtype, kernel=kernel, n_words=converted.WORDS, by_blas=wide.kernel)


def _is_near(call: Call) -> bool:
    """Whether what lies from the first element of each factor on, all of which is converted for BLAS, is not
    much more than its elements: not a few columns of a wide matrix, nor a batch that goes the other way."""
    batch, rows, columns, inner = call.product.sizes
    _, in_x, in_y, _ = _only(call.product.batch)
    if in_x < 0 or in_y < 0:
        return False
    sizes = (rows * inner, inner * columns)
    spans = call.spans(batch, rows, columns, inner)
    return not any(span > _FAR * (batch * n + _FEW) for span, n in zip(spans, sizes, strict=True))


def usual_kernel(dtype: np.dtype) -> int | None:
    """The address of the kernel of products that are ``is_usual``; None where there are none: SciPy's BLAS
    has threads to set, and none takes floats of 16 bits."""
    if dtype in HALVES:
        return None
    kernel, threaded = blas.product_kernel(KINDS[dtype], 0)
    return None if threaded else kernel


def is_usual(batch: int, rows: int, columns: int, inner: int, walked: bool) -> bool:
    """Whether BLAS computes a product that it can walk in one go, as most are; ``walked``: a factor is
    transposed. ``call_of`` says more, of any product, and takes longer."""
    flops = 2 * rows * columns * inner
    if flops >= min(_OWN_FLOPS, PARALLEL_FLOPS) or inner >= _LONG_INNER:
        return False
    if product_time(flops * batch) >= LEAST_TIME:
        return False
    few = batch == 1 and rows <= _FEW_ROWS and not walked
    return not few or columns <= blas.SMALL_PRODUCT // max(rows * inner, 1)


def usual_words(product: Product, matrices: BlasMatrices, dtype: np.dtype) -> list[Any]:
    """The argument block of a product that ``is_usual``, None where the addresses of x, y and the result
    are."""
    item, (batch, rows, columns, inner) = dtype.itemsize, product.sizes
    return [
        blas.gemm_address(KINDS[dtype]), None, None, None, batch,
        *(stride * item for stride in _only(product.batch)[1:]),
        *(112 if factor.transposed else 111 for factor in matrices[:2]), rows, columns, inner,
        *(matrix.leading for matrix in matrices), _ONE, _ZERO,
    ]  # fmt: skip


def _own(product: Product, dtype: np.dtype, way: Way, first: int = 0) -> Call:
    """A product that a kernel of our own computes."""
    number = threads.at_first() if workers.pool() else 0
    pieces = product_pieces(*product.sizes, number) if number else [Piece("batch", (0, product.sizes[0]))]
    shared = packed.describe(product, dtype.itemsize, first)
    return Call(product, dtype, packed.kernel(KINDS[dtype], way), packed.PIECE_WORDS, pieces, shared, way=way)


def _first_of_direct(product: Product, item: int) -> int | None:
    """Which factor is to have the rows of a product that packs none; None where packing pays."""
    if product.sizes[-1] < _LONG_INNER or packed.registers().vector < 32:
        return None
    ways = enumerate((product, product.exchanged()))
    return next((k for k, way in ways if way.rows_overlap and _is_long_and_full(way, item)), None)


def _is_long_and_full(product: Product, item: int) -> bool:
    """Whether sums are long for their number, and columns leave few lanes of two vectors empty."""
    _, rows, columns, inner = product.sizes
    lanes = 2 * packed.registers().vector // item
    full = columns / (-(-columns // lanes) * lanes) >= _FILLED
    return rows <= _MOST_ROWS and inner >= _PER_ROW * rows and full


def contract(axes: ContractionAxes, x: Array, y: Array, bias: Array | None = None) -> Array | None:
    """The product of two arrays along ``axes``, in row-major memory of its own, on all threads. ``bias``
    has one number per column of the result, its last axis.

    None where there is no kernel for it: for sizes that do not match, for other dtypes than those of KINDS,
    for a layout with too many axes or of elements that do not lie on multiples of their size, where a bias
    does not lie in order or the product is none of ``Way.PACKED``, and where machine code cannot be had or
    kept. Raises MemoryError where there is none for the kernel's blocks.
    """
    if x.dtype not in KINDS or y.dtype is not x.dtype or not _has_kernel(KINDS[x.dtype]):
        return None
    facts = (axes, x.dtype, x.shape, x.strides, y.shape, y.strides)
    plan = _plan(*facts)
    if plan is None or (bias is not None and not plan.takes(bias)):
        return None
    out = np.empty(plan.shape, x.dtype)
    if not plan.alone.acquire(blocking=False):  # another thread of Python is in it
        plan = _Plan(plan.call, plan.shape, plan.columns_last)
        plan.alone.acquire()
    try:
        status = plan.run(x, y, out, bias)
    finally:
        plan.alone.release()
    if status:
        raise MemoryError(FAILURES[Executor.decode(status)[1]].sentence)
    return out


@cache.once_offered
def _has_kernel(kind: str) -> bool:
    return bool(packed.kernel(kind))


class _Plan:
    """A product whose factors and result are arguments. Other Python threads run meanwhile, but for products
    that BLAS runs on threads of its own: their number is one for the whole process.
    """

    def __init__(self, call: Call, shape: tuple[int, ...], columns_last: bool) -> None:
        self.call, self.shape, self.columns_last = call, shape, columns_last
        self.alone = threading.Lock()
        blocks = np.array([call.words(piece) for piece in call.pieces], np.int64)
        start, size = blocks.__array_interface__["data"][0], blocks.strides[0]
        self.bias: np.ndarray | None = None
        if call.shared is not None:
            words = np.array(call.shared, np.int64)
            blocks[:, 0] = words.__array_interface__["data"][0]
            patches = [Patch(k, int(blocks[0, 0]) + 8 * k) for k in range(3)]
            self.bias = words[packed.BIAS : packed.BIAS + 1] if columns_last and call.adds_bias else None
        else:
            words = blocks
            patches = [
                Patch(k, start + n * size + 8 * (1 + k), begin)
                for n, piece in enumerate(call.pieces)
                for k, begin in enumerate(call.begins(piece))
            ]
        pool = workers.pool() if len(blocks) > 1 else 0
        rows = np.array([[call.kernel, start, len(blocks), size, pool]], np.int64)
        self.executor = Executor(rows, patches, [blocks, words], release_gil=not call.threaded)

    def takes(self, bias: Array) -> bool:
        item = self.call.dtype.itemsize
        fits = bias.dtype == self.call.dtype and bias.shape == self.shape[-1:] and bias.strides == (item,)
        return fits and self.bias is not None

    def run(self, x: Array, y: Array, out: Array, bias: Array | None) -> int:
        """The status."""
        if self.bias is not None:
            self.bias[0] = 0 if bias is None else bias.__array_interface__["data"][0]
        return self.executor.run(x, y, out)


@functools.lru_cache(maxsize=1024)
def _plan(
    axes: ContractionAxes, dtype: np.dtype, x_shape: tuple[int, ...], x_strides: tuple[int, ...],
    y_shape: tuple[int, ...], y_strides: tuple[int, ...],
) -> _Plan | None:  # fmt: skip
    item = dtype.itemsize
    if any(stride % item for stride in (*x_strides, *y_strides)):
        return None
    pairs = [(k, n) for k, n in (*axes.batch, *axes.inner) if k is not None and n is not None]
    if any(x_shape[k] != y_shape[n] for k, n in pairs):
        return None
    sizes = [y_shape[n or 0] if k is None else x_shape[k] for k, n in axes.batch]
    sizes += [*(x_shape[k] for k in axes.rows), *(y_shape[k] for k in axes.columns)]
    shape = tuple(sizes[k] for k in axes.out)
    product = product_of_layouts(
        axes, (x_shape, [s // item for s in x_strides]), (y_shape, [s // item for s in y_strides]),
        contiguous_strides(shape),
    )  # fmt: skip
    if product is None or not product.flops:
        return None
    call = call_of(product, dtype)
    columns_last = len(axes.columns) == 1 and axes.out[-1] == len(axes.out) - 1
    return _Plan(call, shape, columns_last) if call.shared is not None or blas.is_private() else None


if hasattr(os, "register_at_fork"):  # the threads that held locks do not exist in the child
    os.register_at_fork(after_in_child=_plan.cache_clear)
