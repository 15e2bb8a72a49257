"""Products of matrices of known sizes: plans over symbols ask for many, and most often for the same."""

from __future__ import annotations

import functools

import numpy as np

from jtorch.compile.plan import footprints
from jtorch.compile.plan.footprints import Moving
from jtorch.compile.plan.steps import axis_of
from jtorch.core.pieces import Piece, product_time
from jtorch.core.products import Axis, Product, merge
from jtorch.native.contraction import call_of


class KnownProduct:
    """What its kernel is told for pieces of it, and what these touch."""

    def __init__(self, parts: tuple, dtype: np.dtype) -> None:
        self.product = Product(*(merge([Axis(*axis) for axis in part]) for part in parts))
        self.call = call_of(self.product, dtype)
        self.time = product_time(self.product.flops)
        self.axis = axis_of(self.product)
        self._told: dict[tuple[Piece, ...], tuple[np.ndarray, np.ndarray]] = {}
        self._moves: dict[str, list[Moving]] = {}

    def told(self, pieces: tuple[Piece, ...]) -> tuple[np.ndarray, np.ndarray]:
        """The argument blocks of pieces, and how far into each factor and the result they begin."""
        if pieces not in self._told:
            blocks = np.array([self.call.words(piece) for piece in pieces], np.int64)
            self._told[pieces] = blocks, np.array([self.call.begins(piece) for piece in pieces], np.int64)
        return self._told[pieces]

    def moves(self, axis: str) -> list[Moving]:
        """See ``footprints.moves_of``."""
        if axis not in self._moves:
            self._moves[axis] = list(footprints.moves_of(self.product, axis))
        return self._moves[axis]


@functools.lru_cache(4096)
def known_product(parts: tuple, dtype: np.dtype) -> KnownProduct:
    """That of these axes, each a (size, in_x, in_y, in_out): see ``Axis``."""
    return KnownProduct(parts, dtype)
