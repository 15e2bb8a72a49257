"""Products of matrices of known sizes: plans over symbols ask for many, and most often for the same."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from jtorch.compile.plan.steps import axis_of
from jtorch.core.followed import Result, Ways
from jtorch.core.pieces import Piece
from jtorch.core.products import Axis, Product, merge
from jtorch.native.contraction import Call, call_of


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


def told(
    shape: ProductShape, moving: Sequence[Any], edges: tuple[str, Sequence[Any]] | None = None
) -> Result:
    """What is told for the pieces in which a product is best computed, or for those along an axis between
    ``edges``: the numbers are those of all blocks, of what they share, and by how many bytes x, y and the
    result begin further on in each, or in what they share. Numbers may be followed."""
    product = shape.product(moving)
    call = call_of(product, shape.dtype)
    pieces = call.pieces
    if edges is not None:
        axis, ends = edges
        pieces = [Piece(axis, piece) for piece in itertools.pairwise(ends)]
    blocks = [call.words(piece) for piece in pieces]
    begins = [call.begins(piece) for piece in (pieces[:1] if call.shared else pieces)]
    return _one(call, product, len(blocks)), [*_all(blocks), *(call.shared or ()), *_all(begins)]


def known_told(
    shape: ProductShape, moving: Sequence[int], edges: tuple[str, Sequence[int]] | None = None
) -> tuple[Told, np.ndarray]:
    """The same, by ways that are known."""
    if edges is None:
        return _told(shape, tuple(moving))
    axis, ends = edges
    return _told_for(shape, tuple(moving), axis, tuple(ends))


@functools.lru_cache(256)  # layers of a network are alike
def _told(shape: ProductShape, moving: tuple[int, ...]) -> tuple[Told, np.ndarray]:
    one, found = _ways(shape)(moving)
    return one, _unchanging(np.array(found, np.int64))


@functools.lru_cache(256)
def _told_for(
    shape: ProductShape, moving: tuple[int, ...], axis: str, edges: tuple[int, ...]
) -> tuple[Told, np.ndarray]:
    ways = _ways_of_piece(shape, axis)
    lows, extents = edges[:-1], [high - low for low, high in itertools.pairwise(edges)]
    # pieces that are as long are told the same, but for where they begin
    found = {extent: ways((*moving, extent)) for extent in set(extents)}
    (one, shift), numbers = found[extents[0]]
    n, end = one.n_words, one.n_words + one.n_shared
    given: list[int] = []
    for low, extent in zip(lows, extents, strict=True):
        words = found[extent][1][:n]
        given += [word + low * each for word, each in zip(words, shift, strict=True)] if shift else words
    given += numbers[n:end]
    given += [low * each for low in (lows[:1] if shift else lows) for each in numbers[end:]]
    return one._replace(pieces=len(extents)), _unchanging(np.array(given, np.int64))


def _unchanging(given: np.ndarray) -> np.ndarray:
    given.flags.writeable = False  # all who ask have the same
    return given


def rows_of(shape: ProductShape, moving: Sequence[Any]) -> Any:
    """The rows of all matrices of a product, 0 where it is not cut along them. Numbers may be followed."""
    axis = axis_of(shape.product(moving), shape.dtype)
    return 0 if axis is None else axis.rows


@functools.lru_cache(256)
def known_rows_of(shape: ProductShape, moving: tuple[int, ...]) -> int:
    """The same, by ways that are known."""
    _, (rows,) = _ways_of_rows(shape)(moving)
    return rows


@functools.lru_cache(1024)
def _ways_of_rows(shape: ProductShape) -> Ways:
    return Ways(lambda moving: (None, [rows_of(shape, moving)]))


@functools.lru_cache(1024)
def _ways(shape: ProductShape) -> Ways:
    return Ways(functools.partial(told, shape))


@functools.lru_cache(1024)
def _ways_of_piece(shape: ProductShape, axis: str) -> Ways:
    """Of the moving numbers and how long a piece is, which begins at 0: beside what it is told, by how much
    each word grows in one that begins at 1. Behind what is shared is by how many bytes that begins later."""

    def piece(numbers: Sequence[Any]) -> Result:
        *moving, extent = numbers
        product = shape.product(moving)
        call = call_of(product, shape.dtype)
        words, apart = call.words(Piece(axis, (0, extent))), call.begins(Piece(axis, (1, extent)))
        return (_one(call, product, 1), call.shift(axis)), [*words, *(call.shared or ()), *apart]

    return Ways(piece)


def _one(call: Call, product: Product, pieces: int) -> Told:
    goes_by_tiles = call.product is product and not call.threaded
    return Told(call.kernel, call.n_words, pieces, len(call.shared or ()), goes_by_tiles)


def _all(rows: Sequence[Sequence[Any]]) -> Iterator[Any]:
    return itertools.chain.from_iterable(rows)
