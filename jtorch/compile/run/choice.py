"""How each task of a plan over symbols goes at some sizes: which loops are cut into pieces, which kernel each
product goes to, what goes by tiles; and the numbers that this takes, see ``parts.py``."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from jtorch.compile.plan.plan import Run, Task
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


class Chosen(NamedTuple):
    """Steps in order, the numbers that are ``given`` for them, and what must live as long."""

    steps: tuple[Step, ...]
    given: np.ndarray
    kept: Sequence[Any]


class Asked(NamedTuple):
    """What is known of some sizes: ``values`` of the template's expressions, microseconds of its loops; the
    moving numbers of its products, and whether they are usual. ``is_cut``: threads share what they can."""

    values: np.ndarray
    times: Sequence[float]
    parts: Sequence[tuple[int, ...]]
    usual: Sequence[bool]
    is_cut: bool


class Choices:
    """Those for the plan of a template; ``turns`` has the plans of its loops over time."""

    def __init__(self, template: Template, turns: Mapping[Loop, Turns]) -> None:
        self.turns, self.tasks = turns, tuple(block.task for block in template.blocks)
        self.products = {b.task: k for k, b in enumerate(self._of(template, ProductBlock))}
        self.scans: dict[Task, ScanBlock] = {b.task: b for b in self._of(template, ScanBlock)}
        # steps that are the same at many sizes
        self.uncut = {b.task: LoopPieces(b, 1) for b in self._of(template, LoopBlock)}
        self.usual = {b.task: UsualProduct(b) for b in self._of(template, ProductBlock)}
        self.hosts = {b.task: HostStep(b) for b in self._of(template, HostBlock)}
        steps: dict[Task, Step] = {**self.uncut, **self.usual, **self.hosts}
        self.simple = Chosen(tuple(steps[t] for t in self.tasks if t in steps), _NOTHING, ())
        _, _, turns_at, lines = np.array(template.times, float).reshape(-1, 4).T
        self.turns_at, self.lines = turns_at.astype(np.intp).tolist(), lines.astype(np.intp).tolist()

    @staticmethod
    def _of(template: Template, kind: type) -> Any:
        return (block for block in template.blocks if isinstance(block, kind))

    def at(self, asked: Asked, tiling: Tiling | None) -> Chosen:
        """Those of sizes at which the ``tiling`` is this; None where nothing goes by tiles."""
        if not asked.is_cut and all(asked.usual) and not self.scans:
            return self.simple
        return _Choice(self, asked).made(*(tiling or Tiling(self.tasks, ())))


class _Choice:
    """One of ``Choices``: steps and what they are given grow task by task."""

    def __init__(self, choices: Choices, asked: Asked) -> None:
        self.choices, self.asked = choices, asked
        self.steps: list[Step] = []
        self.given: list[np.ndarray] = []
        self.kept: list[Any] = []

    def made(self, order: Sequence[Task], runs: Sequence[Run]) -> Chosen:
        """Those of all tasks; a run that can go by tiles is one step."""
        begins: dict[Task, tuple[Tiles, list[np.ndarray]]] = {}
        inside: set[Task] = set()
        for run in runs:
            tiles, given = self._tiles(run)
            if all(one.goes_by_tiles for one in tiles.told):  # see ``Fit``
                begins[run.tasks[0]] = tiles, given
                inside.update(run.tasks)
        for task in order:
            if task in begins:
                tiles, given = begins[task]
                self.steps.append(tiles)
                self.given += given
            elif task not in inside:
                self.steps.append(self._step(task))
        return Chosen(tuple(self.steps), np.concatenate([_NOTHING, *self.given]), self.kept)

    def _tiles(self, run: Run) -> tuple[Tiles, list[np.ndarray]]:
        known, given = [], [np.array(run.edges, np.int64).reshape(-1)]
        for task, axis, edges in zip(run.tasks, run.axes, run.edges, strict=True):
            k = self.choices.products.get(task)
            if k is not None:
                block = self.choices.usual[task].block
                one, numbers = told_for(block.shape, self.asked.parts[k], axis, edges)
                known.append(one)
                given.append(numbers)
        return Tiles(run._replace(edges=()), tuple(known)), given

    def _step(self, task: Task) -> Step:
        choices = self.choices
        if task in choices.uncut:
            return self._loop(choices.uncut[task])
        if task in choices.products:
            k = choices.products[task]
            if self.asked.usual[k]:
                return choices.usual[task]
            block = choices.usual[task].block
            one, numbers = told(block.shape, self.asked.parts[k])
            self.given.append(numbers)
            return OtherProduct(block, one)
        return choices.hosts[task] if task in choices.hosts else self._scan(choices.scans[task])

    def _loop(self, uncut: LoopPieces) -> LoopPieces:
        block = uncut.block
        time = self.asked.times[block.time]
        if not self.asked.is_cut or time < LEAST_TIME:
            return uncut
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
