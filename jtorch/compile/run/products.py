"""Products of matrices of known sizes: plans over symbols ask for many, and most often for the same."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from jtorch.compile.plan.steps import axis_of
from jtorch.core.followed import Result, Ways
from jtorch.core.pieces import Piece, product_time
from jtorch.core.products import Axis, Product, merge
from jtorch.native.contraction import call_of


class ProductShape(NamedTuple):
    """``parts`` says how many axes the batch, the rows, the columns and the inner part of a product have, of
    which each is four numbers: see ``Axis``. ``numbers`` are those that are the same at all sizes, None where
    they move."""

    parts: tuple[int, int, int, int]
    numbers: tuple[int | None, ...]
    dtype: np.dtype

    def product(self, moving: Iterable[Any]) -> Product:
        """The product of which these are the other numbers."""
        left = iter(moving)
        numbers = [next(left) if n is None else n for n in self.numbers]
        axes = iter([Axis(*numbers[k : k + 4]) for k in range(0, len(numbers), 4)])
        return Product(*(merge(list(itertools.islice(axes, n))) for n in self.parts))


class Told(NamedTuple):
    """What kernels are told for the pieces of a product: ``kernel`` is called for each of so many blocks, of
    ``n_words`` each, which have ``n_shared`` words in common. ``goes_by_tiles``: it is cut as the plan says,
    by a kernel that several threads may be in."""

    kernel: int
    n_words: int
    pieces: int
    n_shared: int
    goes_by_tiles: bool


def told(shape: ProductShape, moving: Sequence[int]) -> tuple[Told, np.ndarray]:
    """What is told for the pieces in which a product is best computed: the numbers are those of all blocks,
    of what they share, and by how many bytes x, y and the result begin further on in each, or in what they
    share."""
    return _told(shape, "", 0, tuple(moving))


def told_for(
    shape: ProductShape, moving: Sequence[int], axis: str, edges: Sequence[int]
) -> tuple[Told, np.ndarray]:
    """The same for pieces along an axis, between these ``edges``."""
    return _told(shape, axis, len(edges), (*moving, *edges))


@functools.lru_cache(256)  # layers of a network are alike
def _told(shape: ProductShape, axis: str, n_edges: int, numbers: tuple[int, ...]) -> tuple[Told, np.ndarray]:
    beside, found = _ways(shape, axis, n_edges)(numbers)
    given = np.array(found, np.int64)
    given.flags.writeable = False  # all who ask have the same
    return beside, given


@functools.lru_cache(256)
def time_and_rows(shape: ProductShape, moving: tuple[int, ...]) -> tuple[float, int]:
    """Microseconds that a product takes on one thread, about, and the rows of all its matrices, 0 where it is
    not cut along them."""
    _, (flops, rows) = _extents(shape)(moving)
    return product_time(flops), rows


@functools.lru_cache(1024)
def _extents(shape: ProductShape) -> Ways:
    def extent(moving: Sequence[Any]) -> Result:
        product = shape.product(moving)
        axis = axis_of(product)
        return None, [product.flops, 0 if axis is None else axis.rows]

    return Ways(extent)


@functools.lru_cache(4096)
def _ways(shape: ProductShape, axis: str, n_edges: int) -> Ways:
    return Ways(functools.partial(_of_numbers, shape, axis, n_edges))


def _of_numbers(shape: ProductShape, axis: str, n_edges: int, numbers: Sequence[Any]) -> Result:
    n = len(numbers) - n_edges
    product = shape.product(numbers[:n])
    call = call_of(product, shape.dtype)
    pieces = [Piece(axis, both) for both in itertools.pairwise(numbers[n:])] or call.pieces
    shared = call.shared or []
    blocks = [call.words(piece) for piece in pieces]
    begins = [call.begins(piece) for piece in (pieces[:1] if shared else pieces)]
    goes_by_tiles = call.product is product and not call.threaded
    beside = Told(call.kernel, len(blocks[0]), len(blocks), len(shared), goes_by_tiles)
    return beside, [*_all(blocks), *shared, *_all(begins)]


def _all(rows: Sequence[Sequence[Any]]) -> Iterator[Any]:
    return itertools.chain.from_iterable(rows)
