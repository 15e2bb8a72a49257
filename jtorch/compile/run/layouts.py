"""The layouts of a plan over symbols, by the way that sizes go.

Each loop and each product is cut into more pieces from a size of its own on, so nearly every size has numbers
of pieces that were not together before. A layout is put together for the most pieces that each step has had.
Where all have as many or fewer, theirs is taken from it: the same memory, of which some blocks are not run.
"""

from __future__ import annotations

import operator
from collections.abc import Iterator, Sequence

import numpy as np

from jtorch.compile.run.layout import Layout, Way
from jtorch.compile.run.parts import LoopPieces, OtherProduct, Parts, Step
from jtorch.compile.run.products import Told
from jtorch.native.executor import ROW_WORDS, Patch

MOST = 64
"""Layouts of a plan that are kept."""

_WIDE = 4  # those that others are taken from
_UNUSED = 8  # layouts that are put together beyond those that are taken from others, before none is any more
_SPARE = 4096  # words of blocks that are not run, which each new size fills in nevertheless

_KERNEL, _, _REPEAT, _, _POOL = range(ROW_WORDS)


class Layouts:
    """Those of a plan's steps. ``numbers`` are the patches of runtime scalars."""

    def __init__(self, parts: Parts, numbers: Sequence[Patch], n_arguments: int) -> None:
        self.parts, self.numbers, self.n_arguments = parts, numbers, n_arguments
        self.known: dict[Way, Layout] = {}
        self.wide: tuple[Layout, ...] = ()  # the latest one first
        self.made = self.taken = 0  # put together, and from another one

    def of(self, way: Way) -> Layout:
        """That of a way."""
        known = self.known.get(way)
        if known is None:
            while len(self.known) >= MOST:
                del self.known[next(iter(self.known))]
            known = self.known[way] = self._taken(way)
        return known

    def _taken(self, way: Way) -> Layout:
        """From another one, while that is of use."""
        if self.made > _UNUSED + self.taken:
            self.wide = ()
            return self._put_together(way)
        for wide in self.wide:
            if _serves(wide.way, way):
                self.taken += 1
                return _narrowed(wide, way, self.parts)
        widened = (self.wide and _widened(self.wide[0].way, way)) or way
        wide = self._put_together(widened)
        self.wide = (wide, *(w for w in self.wide if not _serves(widened, w.way)))[:_WIDE]
        return wide if widened is way else _narrowed(wide, way, self.parts)

    def _put_together(self, way: Way) -> Layout:
        self.made += 1
        return Layout(way, self.parts, self.numbers, self.n_arguments)


def _differing(wide: Way, way: Way) -> Iterator[tuple[int, Step, Step]]:
    """The steps that may differ, with their places."""
    for k, same in enumerate(map(operator.is_, wide.steps, way.steps)):
        if not same:
            yield k, wide.steps[k], way.steps[k]


def _spare(a: Step, b: Step) -> int | None:
    """How many words more ``a`` has, where the two differ by pieces and by kernels alone; else None."""
    if isinstance(a, LoopPieces) and isinstance(b, LoopPieces) and a.block is b.block:
        return (a.pieces - b.pieces) * a.block.n
    if isinstance(a, OtherProduct) and isinstance(b, OtherProduct) and a.block is b.block:
        one, other = a.told, b.told
        if (one.n_words, one.n_shared) == (other.n_words, other.n_shared):
            return (one.pieces - other.pieces) * one.n_words
    return 0 if a == b else None


def _spares(wide: Way, way: Way) -> list[int] | None:
    """Of each step that may differ; None where another one does, or they go in another order."""
    if len(wide.steps) != len(way.steps) or wide[1:] != way[1:]:
        return None
    found = []
    for _, a, b in _differing(wide, way):
        spare = _spare(a, b)
        if spare is None:
            return None
        found.append(spare)
    return found


def _serves(wide: Way, way: Way) -> bool:
    """Whether the layout of ``way`` can be taken from that of ``wide``."""
    spares = _spares(wide, way)
    return spares is not None and min(spares, default=0) >= 0 and sum(spares) <= _SPARE


def _widened(wide: Way, way: Way) -> Way | None:
    """What serves both, if there is such a way."""
    spares = _spares(wide, way)
    if spares is None or sum(n for n in spares if n > 0) > _SPARE:
        return None
    steps = [*way.steps]
    for (k, more, _), spare in zip(_differing(wide, way), spares, strict=True):
        if spare > 0:
            steps[k] = more
    return way._replace(steps=tuple(steps))


def _narrowed(wide: Layout, way: Way, parts: Parts) -> Layout:
    """That of a way which is served by the one of ``wide``: some steps run fewer of their blocks, and of the
    numbers that are given for these, those of the others are not there."""
    made = wide.copy()
    made.way = way
    rows, _ = made.tables(made.base)
    kept = np.ones(wide.n_given + 1, np.intp)
    kept[0] = 0
    for k, full, step in _differing(wide.way, way):
        if full == step:
            continue
        row, first = wide.at[k]
        if isinstance(full, LoopPieces) and isinstance(step, LoopPieces):
            _narrow_loop(rows[row], kept[first:], full.pieces, step, parts)
        elif isinstance(full, OtherProduct) and isinstance(step, OtherProduct):
            _narrow_product(rows[row], kept[first:], full.told.pieces, step.told)
    given = kept.cumsum() * kept  # which one each is at these sizes; 0 stands for the number 0
    made.given_from = given[wide.given_from]
    made.beyond, made.offset_beyond = given[wide.beyond], given[wide.offset_beyond]
    return made


def _narrow_loop(row: np.ndarray, kept: np.ndarray, most: int, step: LoopPieces, parts: Parts) -> None:
    """``row`` runs the pieces of ``step``, of ``most``; ``kept`` begins with what is given for these."""
    pieces = step.pieces
    if pieces > 1:
        row[_REPEAT] = pieces
    else:  # then its block is among the template's words, and nothing is given
        row[:] = parts.of(step).row
    kept[pieces + 1 if pieces > 1 else 0 : most + 1] = 0


def _narrow_product(row: np.ndarray, kept: np.ndarray, most: int, told: Told) -> None:
    """The same of a product that is ``told`` this."""
    pieces, n, end = told.pieces, told.n_words, most * told.n_words
    row[_KERNEL], row[_REPEAT] = told.kernel, pieces
    if pieces == 1:
        row[_POOL] = 0
    kept[pieces * n : end] = 0
    if not told.n_shared:  # three numbers for each piece
        kept[end + 3 * pieces : end + 3 * most] = 0
