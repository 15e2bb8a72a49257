"""What one step of a plan over symbols adds to the memory of an instance, see ``layout.py``: a block of
words, and what is filled in there for the sizes at hand.

It is the same for all sizes at which the step goes the same way: in as many pieces, by the same kernel.
Places are counted from where the block begins, or from where the template's words do, if the step has its
block there; numbers that are given from 1 on among those of the step, as 0 stands for the number 0.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from jtorch.compile.plan.plan import Run, Task
from jtorch.compile.run.products import Told
from jtorch.compile.run.scans import HEAD
from jtorch.compile.run.template import HostBlock, LoopBlock, ProductBlock, ScanBlock, Template
from jtorch.native.executor import ROW_WORDS, SCAN_WORDS, Row, scan_kernel, walk_kernel


class LoopPieces(NamedTuple):
    """A loop in so many pieces; in one it has the template's words for its block."""

    block: LoopBlock
    pieces: int


class UsualProduct(NamedTuple):
    """A product that BLAS walks in one go: its block is among the template's words."""

    block: ProductBlock


class OtherProduct(NamedTuple):
    """Any other product."""

    block: ProductBlock
    told: Told


class Tiles(NamedTuple):
    """``run`` is one without edges; ``told`` has what each product is told, of which there are as many pieces
    as tiles."""

    run: Run
    told: tuple[Told, ...]


class ScanTiles(NamedTuple):
    """A loop over time, its rows in so many tiles, which threads share where ``is_cut``."""

    block: ScanBlock
    tiles: int
    is_cut: bool


class HostStep(NamedTuple):
    """A library call."""

    block: HostBlock


Step = LoopPieces | UsualProduct | OtherProduct | Tiles | ScanTiles | HostStep


class Part(NamedTuple):
    """``row`` says how its kernel is called, by a block counted from where the part's own begins, or the
    template's words do, if it is ``in_words``; it ``is_shared`` by threads. ``addresses`` are (places, those
    that they point to), ``given`` (places, numbers that are given, of which there are ``n_given``),
    ``pointed`` (places, words of the template, numbers): what the word points to, and so many bytes further
    on. Its row ``may_join`` the one before, as one more time of it; one that ``is_still`` adds its row alone.
    """

    task: Task
    row: Row
    is_shared: bool
    in_words: bool
    may_join: bool
    block: np.ndarray
    addresses: np.ndarray
    given: np.ndarray
    pointed: np.ndarray
    n_given: int
    is_still: bool


class Parts:
    """Those of a plan's steps. ``kernels`` are those of loops; calls bring words to those in ``brought``."""

    MOST = 1024  # that are kept

    def __init__(self, template: Template, kernels: Mapping[Task, int]) -> None:
        self.kernels, self.n_words = kernels, len(template.words.constants)
        self.blocks = {block.task: block for block in template.blocks}
        columns = np.array(template.words.patches, np.int64).reshape(-1, 4)
        self.patches = columns[:, [0, 2, 3]]  # (argument, expression, bytes) of words that a call brings
        self.patch_of = np.full(self.n_words, -1)
        self.patch_of[columns[:, 1]] = np.arange(len(columns))
        loops = [block for block in template.blocks if isinstance(block, LoopBlock)]
        self.brought = {b for b in loops if (self.patch_of[b.first : b.first + b.n] >= 0).any()}
        self._known: dict[Step, Part] = {}

    def of(self, step: Step) -> Part:
        """That of a step, which is no library call."""
        known = self._known.get(step)
        if known is None:
            if len(self._known) >= self.MOST:
                self._known.clear()
            known = self._known[step] = _Drawn(self).part(step)
        return known


class _Drawn:
    """A part that grows."""

    def __init__(self, parts: Parts) -> None:
        self.parts = parts
        self.block: list[np.ndarray] = []
        self.addresses: list[tuple] = []
        self.given: list[tuple] = []
        self.pointed: list[tuple] = []
        self.size, self.n_given = 0, 0

    def part(self, step: Any) -> Part:
        """That of ``step``."""
        task, kernel, first, times, stride, is_shared, in_words = _DRAWN[step.__class__](self, step)
        block = np.concatenate([_EMPTY, *self.block])
        columns = _columns(self.addresses, 2), _columns(self.given, 2), _columns(self.pointed, 3)
        return Part(
            task, Row(kernel, 8 * first, times, 8 * stride), is_shared, in_words,
            in_words and stride > 0 and not task.can_fail, block, *columns, self.n_given,
            in_words and not any(each.size for each in columns),
        )  # fmt: skip

    def loop(self, step: LoopPieces) -> tuple:
        (block, pieces), n = step, step.block.n
        kernel = self.parts.kernels[block.task]
        if pieces == 1:
            own = np.arange(block.first, block.first + n)
            brought = own[self.parts.patch_of[own] >= 0]
            self._point(brought, brought)
            return block.task, kernel, block.first, 1, n, False, True
        self._take(np.zeros(pieces * n, np.int64))
        self._words_of_loop(block, np.arange(pieces) * n, 0)
        return block.task, kernel, 0, pieces, n, True, False

    def usual(self, step: UsualProduct) -> tuple:
        (block,) = step
        self._point(block.usual_at + 1 + _THREE, block.first + _THREE)
        return block.task, block.kernel, block.usual_at, 1, 0, False, True

    def other(self, step: OtherProduct) -> tuple:
        block, told = step
        self._take(np.zeros(told.pieces * told.n_words, np.int64))
        self._words_of_product(block, told, np.arange(told.pieces) * told.n_words)
        return block.task, told.kernel, 0, told.pieces, told.n_words, told.pieces > 1, False

    def tiles(self, step: Tiles) -> tuple:
        """A table for each tile, of a row for each of its steps, and behind it their blocks."""
        run, tiles, n_steps = step.run, step.run.tiles, len(step.run.tasks)
        left = iter(step.told)
        told = [next(left) if isinstance(self.parts.blocks[t], ProductBlock) else None for t in run.tasks]
        table, at, begins = [n_steps], 1 + ROW_WORDS * n_steps, []
        for task, one in zip(run.tasks, told, strict=True):
            kernel = self.parts.kernels[task] if one is None else one.kernel
            n = self.parts.blocks[task].n if one is None else one.n_words  # type: ignore[union-attr]
            table += kernel, 0, 1, 8 * n, 0
            begins.append(at)
            at += n
        self._take(np.tile(np.array(table + [0] * (at - len(table)), np.int64), tiles))
        each = np.arange(tiles) * at
        for k, where in enumerate(begins):
            self.addresses.append((each + 2 + ROW_WORDS * k, each + where))
        self.n_given = n_steps * (tiles + 1)
        for k, (task, one, where) in enumerate(zip(run.tasks, told, begins, strict=True)):
            block: Any = self.parts.blocks[task]
            if one is None:
                self._words_of_loop(block, each + where, k * (tiles + 1))
            else:
                self._words_of_product(block, one, each + where)
        return run.tasks[0], walk_kernel(), 0, tiles, at, True, False

    def scan(self, step: ScanTiles) -> tuple:
        """What is given are the records of the tiles, then for each argument how far each of them begins."""
        block, tiles, is_cut = step
        first, n, loop = block.first, block.n, block.loop
        self._take(np.zeros(tiles * n, np.int64))
        each, numbers = np.arange(tiles) * n, 1 + np.arange(tiles)
        places: dict[int, Any] = dict.fromkeys(range(1, n), 0 * numbers)
        places[0] = numbers
        for k, argument in enumerate(loop.arguments):
            at = HEAD + SCAN_WORDS * k + 1
            for place, where in enumerate((argument.first, argument.later), start=at):
                if where is not None:
                    places[place] = numbers + tiles * (1 + k)
        self.pointed = [(each + at, 0 * each + first + at, beyond) for at, beyond in places.items()]
        self.n_given = tiles * (1 + len(loop.arguments))
        return block.task, scan_kernel(), 0, tiles, n, tiles > 1 and is_cut, False

    def _words_of_loop(self, block: LoopBlock, begins: np.ndarray, edges: int) -> None:
        """Blocks that begin there; where the piece of each does is given from number ``edges`` on."""
        given = {at for at, _ in block.edges}
        own = np.array([k for k in range(block.n) if k not in given], np.intp)
        self._point((begins[:, None] + own).ravel(), np.tile(block.first + own, len(begins)))
        for at, last in block.edges:
            self.given.append((begins + at, 1 + edges + np.arange(len(begins)) + last))
        self.n_given = max(self.n_given, len(begins) + 1)

    def _words_of_product(self, block: ProductBlock, told: Told, begins: np.ndarray) -> None:
        """The same of a product, which is given its blocks, then what they share, then the bytes by which its
        factors and its result begin further on: in words 1 to 3 of each block, or in the first three of what
        they share, whose address is word 0 of each then."""
        pieces, n, n_shared = told.pieces, told.n_words, told.n_shared
        first = 1 + self.n_given
        beyond = first + pieces * n + n_shared
        own = np.arange(1 if n_shared else 0, n)
        numbers = first + np.arange(pieces)[:, None] * n + own
        self.given.append(((begins[:, None] + own).ravel(), numbers.ravel()))
        pointed = begins + 1
        if n_shared:
            shared = self._take(np.zeros(n_shared, np.int64))
            self.given.append((shared + np.arange(n_shared), beyond - n_shared + np.arange(n_shared)))
            self.addresses.append((begins, 0 * begins + shared))
            pointed = np.array([shared])
        places = (pointed[:, None] + _THREE).ravel()
        words = np.tile(block.first + _THREE, len(pointed))
        self.pointed.append((places, words, beyond + np.arange(len(places))))
        self.n_given = beyond - 1 + len(places)

    def _take(self, block: np.ndarray) -> int:
        """Where more words begin."""
        begin, self.size = self.size, self.size + len(block)
        self.block.append(block)
        return begin

    def _point(self, places: np.ndarray, words: np.ndarray) -> None:
        """These places hold what these words of the template do."""
        self.pointed.append((places, words, 0 * places))


_THREE, _EMPTY = np.arange(3), np.zeros(0, np.int64)
_DRAWN: dict[type, Any] = {
    LoopPieces: _Drawn.loop, UsualProduct: _Drawn.usual, OtherProduct: _Drawn.other, Tiles: _Drawn.tiles,
    ScanTiles: _Drawn.scan,
}  # fmt: skip


def _columns(rows: list[tuple], n: int) -> np.ndarray:
    """(n, places) of what was collected piece by piece."""
    return np.concatenate([np.zeros((n, 0), np.intp), *(np.stack(row) for row in rows)], axis=1)
