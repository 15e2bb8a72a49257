"""The table of an instance that threads share, or whose products are not all usual ones."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from jtorch.compile.plan.plan import Run, Task
from jtorch.compile.run.products import Told, told, told_for
from jtorch.compile.run.scans import HEAD
from jtorch.compile.run.template import HostBlock, LoopBlock, ProductBlock, ScanBlock
from jtorch.compile.run.tile_tables import TileTable, pointed_at
from jtorch.compile.target import address_of
from jtorch.core.pieces import LEAST_TIME, Range, count, cut
from jtorch.native import workers
from jtorch.native.executor import SCAN_WORDS, Patch, Row, scan_kernel, walk_kernel

if TYPE_CHECKING:
    from jtorch.compile.run.instances import Instances


_KEPT = 64  # tables of runs, which are quickly made


class Assembly:
    """``rows``, ``patches`` and who owns each row grow task by task, from the template's ``words``. ``parts``
    are the moving numbers of the products; ``is_cut``: threads share what can be shared."""

    def __init__(
        self, instances: Instances, words: np.ndarray, values: np.ndarray, parts: Sequence[tuple[int, ...]],
        is_cut: bool,
    ) -> None:  # fmt: skip
        self.instances, self.words, self.values, self.is_cut = instances, words, values, is_cut
        self.start = words.__array_interface__["data"][0]
        argument, at, expr, nbytes = instances.patches
        offsets = (values[expr] + nbytes).tolist()
        brought = zip(argument.tolist(), at.tolist(), offsets, strict=True)
        self.brought = {k: (argument, offset) for argument, k, offset in brought}
        self.rows: list[Row] = []
        self.calls: list[tuple[int, Task]] = []  # library calls, and the rows before each
        self.owners: list[Task] = []
        self.patches: list[Patch] = []
        self.keep: list[Any] = [words]
        self.moved: dict[int, list[np.ndarray]] = {}  # word that is a fixed address -> what else holds it
        self.blocks = instances.blocks
        _, _, turns, lines = instances.times
        self.times = instances.times_of(values).tolist()  # of loops, by their numbers
        self.turns, self.lines = values[turns].tolist(), lines.tolist()
        self.moving = dict(zip(instances.products, parts, strict=True))

    def assemble(self, order: Sequence[Task], runs: Sequence[Run] = ()) -> None:
        """Add the rows of all tasks; those of a run that can go by tiles are one."""
        begins: dict[Task, tuple[Run, list[Told]]] = {}
        inside: set[Task] = set()
        for run in runs:
            products = self._told(run)
            if all(one.goes_by_tiles for one in products):  # see ``Fit``
                begins[run.tasks[0]] = run, products
                inside.update(run.tasks)
        for task in order:
            if task in begins:
                self._run(*begins[task])
            elif task not in inside:
                block = self.blocks[task]
                if isinstance(block, HostBlock):
                    self.calls.append((len(self.rows), task))
                elif isinstance(block, LoopBlock):
                    self._loop(block)
                elif isinstance(block, ScanBlock):
                    self._scan(block)
                else:
                    self._product(block)

    def _told(self, run: Run) -> list[Told]:
        """What the products of a run are told."""
        found = []
        for task, axis, edges in zip(run.tasks, run.axes, run.edges, strict=True):
            block = self.blocks[task]
            if isinstance(block, ProductBlock):
                found.append(told_for(block.shape, self.moving[task], axis, edges))
        return found

    def _run(self, run: Run, products: list[Told]) -> None:
        """A table for each tile, of a row for each of its steps."""
        edges = np.array(run.edges, np.int64)
        filled = self._table(run._replace(edges=()), products).fill(self.words, edges, products)
        self.keep += filled.kept
        for pointer in filled.pointers:
            self._points(*pointer)
        begin, size = self._kept(filled.table), filled.table.strides[0]
        self._add(run.tasks[0], Row(walk_kernel(), begin, run.tiles, size, workers.pool()))

    def _table(self, run: Run, products: Sequence[Told]) -> TileTable:
        known = self.instances.tile_tables
        key = run, tuple((one.kernel, one.blocks.shape[1]) for one in products)
        if key not in known:
            if len(known) >= _KEPT:
                known.clear()
            blocks: Any = self.blocks  # what the host does is in no run
            known[key] = TileTable(run, blocks, self.instances.kernels, products, self.instances.pointed)
        return known[key]

    def _loop(self, block: LoopBlock) -> None:
        if self.is_cut and self.times[block.time] >= LEAST_TIME:
            ranges = self._ranges(block)
            if len(ranges) > 1:
                kernel, begin, stride = self._pieces_of_loop(block, ranges)
                self._add(block.task, Row(kernel, begin, len(ranges), stride, workers.pool()))
                return
        task = block.task
        row = Row(self.instances.kernels[task], self.start + 8 * block.first, 1, 8 * block.n, 0)
        for k in self.instances.brought_to[task]:
            self.patches.append(self._patch(k, self.start + 8 * k))
        begins = self.calls and self.calls[-1][0] == len(self.rows)
        if begins or task.can_fail or not joined(self.rows, row):
            self._add(task, row)

    def _pieces_of_loop(self, block: LoopBlock, ranges: Sequence[Range]) -> tuple[int, int, int]:
        """(kernel, address of the first block, bytes from one to the next) of these pieces."""
        pieces = np.repeat(self.words[None, block.first : block.first + block.n], len(ranges), 0)
        for at, last in block.edges:
            pieces[:, at] = [piece[last] for piece in ranges]
        begin = self._kept(pieces)
        for k in self.instances.pointed_at[block.task]:
            self._points(k, pieces[:, k - block.first], [0] * len(pieces))
        return self.instances.kernels[block.task], begin, 8 * block.n

    def _ranges(self, block: LoopBlock) -> list[Range]:
        """Of the divided loop."""
        size, line = self.turns[block.time], self.lines[block.time]
        return cut(size, count(self.times[block.time], size // line), line)

    def _product(self, block: ProductBlock) -> None:
        one = told(block.shape, self.moving[block.task])
        blocks = one.blocks
        begin, where = self._kept(blocks), blocks[:, 1:]
        if one.shared is not None:
            blocks[:, 0] = self._kept(one.shared)
            where = one.shared[None]
        for pointer in pointed_at(self.words, block, where, one.begins, self.instances.pointed):
            self._points(*pointer)
        pool = workers.pool() if len(blocks) > 1 else 0
        self._add(block.task, Row(one.kernel, begin, len(blocks), blocks.strides[0], pool))

    def _scan(self, block: ScanBlock) -> None:
        """A loop, or as many as there are tiles of its rows."""
        sizes, steps = block.sizes_of(self.values), int(self.values[block.steps])
        loop, turns = block.loop, self.instances.turns[block.loop]
        edges = turns.edges(sizes, steps)
        tiles = len(edges) - 1
        blocks = np.repeat(self.words[None, block.first : block.first + block.n], tiles, 0)
        records = [
            turns.record(loop.of_rows(low, high, sizes), k, tiles == 1)
            for k, (low, high) in enumerate(itertools.pairwise(edges))
        ]
        self.keep += records
        blocks[:, 0] = [address_of(executor.record) for executor in records]
        if loop.skipped is not None:
            self._points(block.first + 3, blocks[:, 3], [0])
        for n, argument in enumerate(loop.arguments):
            begins = [low * argument.row for low in edges[:-1]]
            for at in (HEAD + SCAN_WORDS * n + 1, HEAD + SCAN_WORDS * n + 2):
                blocks[:, at] += begins
                self._points(block.first + at, blocks[:, at], begins)
        pool = workers.pool() if tiles > 1 and self.is_cut else 0
        self._add(block.task, Row(scan_kernel(), self._kept(blocks), tiles, 8 * block.n, pool))

    def _points(self, k: int, column: np.ndarray, begins: list[int]) -> None:
        """``column`` holds what word ``k`` does and so many bytes: note what a call brings, or moves."""
        if k in self.brought:
            start, step = column.__array_interface__["data"][0], column.strides[0]
            self.patches += [self._patch(k, start + n * step, nbytes) for n, nbytes in enumerate(begins)]
        elif k in self.instances.fixed_words:
            self.moved.setdefault(k, []).append(column)

    def _patch(self, k: int, destination: int, nbytes: int = 0) -> Patch:
        argument, offset = self.brought[k]
        return Patch(argument, destination, offset + nbytes)

    def _kept(self, block: np.ndarray) -> int:
        """The address of a block, which lives as long as the table."""
        self.keep.append(block)
        return block.__array_interface__["data"][0]

    def _add(self, task: Task, row: Row) -> None:
        self.rows.append(row)
        self.owners.append(task)


def joined(rows: list[Row], row: Row) -> bool:
    """Whether ``row`` has become one more time of the last one, whose blocks end where its block begins."""
    if not rows:
        return False
    kernel, block, repeat, stride, pool = last = rows[-1]
    if not last.goes_on_with(row) or stride != row.stride or block + repeat * stride != row.block:
        return False
    rows[-1] = Row(kernel, block, repeat + 1, stride, pool)
    return True
