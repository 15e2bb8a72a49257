"""How each task of a plan over symbols goes at some sizes: which loops are cut into pieces, which kernel each
product goes to, what goes by tiles; and the numbers that this takes, see ``parts.py``."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from jtorch.compile.plan.plan import Run
from jtorch.compile.run.parts import (
    HostStep,
    LoopPieces,
    OtherProduct,
    ScanTiles,
    Step,
    Tiles,
    UsualProduct,
)
from jtorch.compile.run.products import told, told_for
from jtorch.compile.run.scans import Loop, Turns
from jtorch.compile.run.steps_at_sizes import Tiling
from jtorch.compile.run.template import HostBlock, LoopBlock, ProductBlock, ScanBlock, Template
from jtorch.compile.target import address_of
from jtorch.core.pieces import LEAST_TIME, count, cut

_NOTHING = np.zeros(1, np.int64)
_MOST = 64  # orders that are kept

_Usually = LoopPieces | UsualProduct | HostStep | ScanBlock | int
"""What a task is at most sizes; what comes at each, of a loop over time and of the run of this number."""


class Chosen(NamedTuple):
    """Steps in order, the numbers that are ``given`` for them, and what must live as long."""

    steps: tuple[Step, ...]
    given: np.ndarray
    kept: Sequence[Any]


class Asked(NamedTuple):
    """What is known of some sizes: ``values`` of the template's expressions, microseconds of its loops, and
    others behind them; the moving numbers of its products, and whether they are usual. ``is_cut``: threads
    share what they can."""

    values: np.ndarray
    times: Sequence[float]
    parts: Sequence[tuple[int, ...]]
    usual: Sequence[bool]
    is_cut: bool


class Choices:
    """Those for the plan of a template; ``turns`` has the plans of its loops over time."""

    def __init__(self, template: Template, turns: Mapping[Loop, Turns]) -> None:
        self.turns, self.tasks = turns, tuple(block.task for block in template.blocks)
        self.product_blocks = [b for b in template.blocks if isinstance(b, ProductBlock)]
        self.products = {b.task: k for k, b in enumerate(self.product_blocks)}
        self.has_scans = any(isinstance(b, ScanBlock) for b in template.blocks)
        self.usually = {block.task: _usually(block) for block in template.blocks}
        self.untiled = Tiling(self.tasks, ())
        self._orders: dict[tuple, _Order] = {}
        steps: Any = tuple(map(self.usually.__getitem__, self.tasks))
        self.simple = Chosen(steps, _NOTHING, ())  # where there is no loop over time
        _, _, turns_at, lines = np.array(template.times, float).reshape(-1, 4).T
        self.turns_at, self.lines = turns_at.astype(np.intp).tolist(), lines.astype(np.intp).tolist()

    def at(self, asked: Asked, tiling: Tiling | None) -> Chosen:
        """Those of sizes at which the ``tiling`` is this; None where nothing goes by tiles."""
        if not asked.is_cut and all(asked.usual) and not self.has_scans:
            return self.simple
        return _Choice(self, asked).made(tiling or self.untiled)

    def order_of(self, tiling: Tiling, by_tiles: tuple[bool, ...]) -> _Order:
        """All steps at sizes that have this ``tiling``, of which these runs go by tiles."""
        key, known = (tiling.lifetimes, by_tiles), self._orders
        if key not in known:
            while len(known) >= _MOST:
                del known[next(iter(known))]
            known[key] = self._ordered(tiling, by_tiles)
        return known[key]

    def _ordered(self, tiling: Tiling, by_tiles: tuple[bool, ...]) -> _Order:
        found = _Order([], [])
        runs = {run.tasks[0]: k for k, run in enumerate(tiling.runs) if by_tiles[k]}
        inside = {task for k in runs.values() for task in tiling.runs[k].tasks}
        for task in tiling.order:
            if task in runs:
                step: _Usually = runs[task]
            elif task not in inside:
                step = self.usually[task]
            else:
                continue
            if not isinstance(step, HostStep):
                found.moving.append((len(found.steps), step))
            found.steps.append(step)
        return found


def _usually(block: LoopBlock | ProductBlock | ScanBlock | HostBlock) -> _Usually:
    if isinstance(block, LoopBlock):
        return LoopPieces(block, 1)
    if isinstance(block, ProductBlock):
        return UsualProduct(block)
    return HostStep(block) if isinstance(block, HostBlock) else block


class _Order(NamedTuple):
    """``steps`` as they are at most sizes, and those ``moving`` that may be another one, each with its place:
    loops in one piece, usual products, loops over time, and runs by tiles, of which there is the number."""

    steps: list[Any]
    moving: list[tuple[int, _Usually]]


class _Choice:
    """One of ``Choices``: steps and what they are given grow task by task."""

    def __init__(self, choices: Choices, asked: Asked) -> None:
        self.choices, self.asked = choices, asked
        self.given: list[np.ndarray] = []
        self.kept: list[Any] = []

    def made(self, tiling: Tiling) -> Chosen:
        """Those of all tasks; a run that can go by tiles is one step."""
        asked, products = self.asked, self.choices.products
        runs = [self._tiles(run) for run in tiling.runs]
        by_tiles = tuple(all(one.goes_by_tiles for one in tiles.told) for tiles, _ in runs)  # see ``Fit``
        steps, moving = self.choices.order_of(tiling, by_tiles)
        steps = [*steps]
        for at, step in moving:  # in order, as what is given
            if isinstance(step, LoopPieces):
                if asked.is_cut and asked.times[step.block.time] >= LEAST_TIME:
                    steps[at] = self._loop(step)
            elif isinstance(step, UsualProduct):
                k = products[step.block.task]
                if not asked.usual[k]:
                    steps[at] = self._product(step.block, k)
            elif isinstance(step, int):
                steps[at], given = runs[step]
                self.given += given
            elif isinstance(step, ScanBlock):
                steps[at] = self._scan(step)
        return Chosen(tuple(steps), np.concatenate([_NOTHING, *self.given]), self.kept)

    def _tiles(self, run: Run) -> tuple[Tiles, list[np.ndarray]]:
        known, given = [], [np.array(run.edges, np.int64).reshape(-1)]
        for task, axis, edges in zip(run.tasks, run.axes, run.edges, strict=True):
            k = self.choices.products.get(task)
            if k is not None:
                block = self.choices.product_blocks[k]
                one, numbers = told_for(block.shape, self.asked.parts[k], axis, edges)
                known.append(one)
                given.append(numbers)
        return Tiles(run._replace(edges=()), tuple(known)), given

    def _product(self, block: ProductBlock, k: int) -> OtherProduct:
        one, numbers = told(block.shape, self.asked.parts[k])
        self.given.append(numbers)
        return OtherProduct(block, one)

    def _loop(self, uncut: LoopPieces) -> LoopPieces:
        block = uncut.block
        time = self.asked.times[block.time]
        size, line = int(self.asked.values[self.choices.turns_at[block.time]]), self.choices.lines[block.time]
        ranges = cut(size, count(time, size // line), line)
        if len(ranges) == 1:
            return uncut
        self.given.append(np.array([0, *(end for _, end in ranges)], np.int64))
        return LoopPieces(block, len(ranges))

    def _scan(self, block: ScanBlock) -> ScanTiles:
        """A loop over time, or as many as there are tiles of its rows."""
        values = self.asked.values
        sizes, turns = block.sizes_of(values), self.choices.turns[block.loop]
        edges = turns.edges(sizes, int(values[block.steps]))
        tiles = len(edges) - 1
        records = [
            turns.record(block.loop.of_rows(low, high, sizes), k, tiles == 1)
            for k, (low, high) in enumerate(itertools.pairwise(edges))
        ]
        self.kept += records
        addresses = [address_of(executor.record) for executor in records]
        beyond = [low * argument.row for argument in block.loop.arguments for low in edges[:-1]]
        self.given.append(np.array(addresses + beyond, np.int64))
        return ScanTiles(block, tiles, self.asked.is_cut)
