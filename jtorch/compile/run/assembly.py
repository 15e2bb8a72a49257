"""The table of an instance that threads share, or whose products are not all usual ones."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from jtorch.compile.plan.plan import Run, Task
from jtorch.compile.run.products import KnownProduct, known_product
from jtorch.compile.run.template import HostBlock, LoopBlock, ProductBlock
from jtorch.core.pieces import LEAST_TIME, Piece, Range, count, cut
from jtorch.native import workers
from jtorch.native.executor import ROW_WORDS, Patch, Row, walk_kernel

if TYPE_CHECKING:
    from jtorch.compile.run.instances import Instances


class Assembly:
    """``rows``, ``patches`` and who owns each row grow task by task, from the template's ``words``. ``parts``
    are the axes of the products; ``is_cut``: threads share what can be shared."""

    def __init__(
        self,
        instances: Instances,
        words: np.ndarray,
        values: np.ndarray,
        parts: Sequence[tuple],
        is_cut: bool,
    ) -> None:
        self.instances, self.words, self.is_cut = instances, words, is_cut
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
        blocks = instances.template.blocks
        self.blocks = {block.task: block for block in blocks}
        _, _, turns, lines = instances.times
        self.loops = list(
            zip(instances.times_of(values).tolist(), values[turns].tolist(), lines.tolist(), strict=True)
        )  # by their numbers: microseconds, turns, and how many of these go together
        self.times = {b.task: self.loops[b.time][0] for b in blocks if isinstance(b, LoopBlock)}
        axes = iter(parts)
        self.products: dict[Task, KnownProduct] = {
            b.task: known_product(next(axes), b.dtype) for b in blocks if isinstance(b, ProductBlock)
        }

    def assemble(self, order: Sequence[Task], runs: Sequence[Run] = ()) -> None:
        """Add the rows of all tasks; those of a run that can go by tiles are one."""
        first = {run.tasks[0]: run for run in runs if self._goes_by_tiles(run)}
        inside = {task for run in first.values() for task in run.tasks}
        for task in order:
            if task in first:
                self._run(first[task])
            elif task not in inside:
                block = self.blocks[task]
                if isinstance(block, HostBlock):
                    self.calls.append((len(self.rows), task))
                elif isinstance(block, LoopBlock):
                    self._loop(block)
                else:
                    self._product(block)

    def _goes_by_tiles(self, run: Run) -> bool:
        """See ``Fit``."""
        products = [self.products[task] for task in run.tasks if task in self.products]
        return all(known.call.product is known.product and not known.call.threaded for known in products)

    def _run(self, run: Run) -> None:
        """A table for each tile, of a row for each of its steps."""
        size = 1 + ROW_WORDS * len(run.tasks)
        table = np.zeros((run.tiles, size), np.int64)
        table[:, 0] = len(run.tasks)
        for k, (task, pieces) in enumerate(run.pieces.items()):
            block = self.blocks[task]
            if isinstance(block, LoopBlock):
                kernel, begin, stride = self._pieces_of_loop(block, [piece.range for piece in pieces])
            else:
                assert isinstance(block, ProductBlock)  # what the host does is in no run
                kernel, begin, stride = self._pieces_of_product(block, pieces)
            row = table[:, 1 + ROW_WORDS * k : 1 + ROW_WORDS * (k + 1)]
            row[:, 0], row[:, 2], row[:, 3] = kernel, 1, stride
            row[:, 1] = begin + stride * np.arange(run.tiles)
        self._add(run.tasks[0], Row(walk_kernel(), self._kept(table), run.tiles, 8 * size, workers.pool()))

    def _loop(self, block: LoopBlock) -> None:
        ranges = self._ranges(block)
        if len(ranges) > 1:
            kernel, begin, stride = self._pieces_of_loop(block, ranges)
            self._add(block.task, Row(kernel, begin, len(ranges), stride, workers.pool()))
            return
        row = Row(self._kernel(block), self.start + 8 * block.first, 1, 8 * block.n, 0)
        brought = self.instances.brought_to[block.task]
        self.patches += [self._patch(k, self.start + 8 * k) for k in brought]
        begins = bool(self.calls) and self.calls[-1][0] == len(self.rows)
        if begins or block.task.can_fail or not joined(self.rows, row):
            self._add(block.task, row)

    def _pieces_of_loop(self, block: LoopBlock, ranges: Sequence[Range]) -> tuple[int, int, int]:
        """(kernel, address of the first block, bytes from one to the next) of these pieces."""
        pieces = np.repeat(self.words[None, block.first : block.first + block.n], len(ranges), 0)
        for at, last in block.edges:
            pieces[:, at] = [piece[last] for piece in ranges]
        begin = self._kept(pieces)
        for k in self.instances.pointed_at[block.task]:
            self._points(k, pieces[:, k - block.first], [0] * len(pieces))
        return self._kernel(block), begin, 8 * block.n

    def _kernel(self, block: LoopBlock) -> int:
        return self.instances.addresses[self.instances.code.kernels[block.task].source]

    def _ranges(self, block: LoopBlock) -> list[Range]:
        """Of the divided loop, one or none where it is not cut."""
        time, size, line = self.loops[block.time]
        if not self.is_cut or time < LEAST_TIME:
            return []
        return cut(size, count(time, size // line), line)

    def _product(self, block: ProductBlock) -> None:
        pieces = self.products[block.task].call.pieces
        kernel, begin, stride = self._pieces_of_product(block, pieces)
        pool = workers.pool() if len(pieces) > 1 else 0
        self._add(block.task, Row(kernel, begin, len(pieces), stride, pool))

    def _pieces_of_product(self, block: ProductBlock, pieces: Sequence[Piece]) -> tuple[int, int, int]:
        """The same for a product."""
        known = self.products[block.task]
        told, far = known.told(tuple(pieces))
        blocks = told.copy()
        begin = self._kept(blocks)
        if known.call.shared is None:
            columns = [blocks[:, 1 + k] for k in range(3)]
        else:
            shared = known.call.shared.copy()
            blocks[:, 0] = self._kept(shared)
            columns = [shared[k : k + 1] for k in range(3)]
        for k, column in enumerate(columns):
            begins = far[: len(column), k]
            column[:] = self.words[block.first + k] + begins
            self._points(block.first + k, column, begins.tolist())
        return known.call.kernel, begin, 8 * blocks.shape[1]

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
    last = rows[-1] if rows else None
    if last is None or not last.goes_on_with(row) or last.stride != row.stride:
        return False
    if last.block + last.repeat * last.stride != row.block:
        return False
    rows[-1] = last._replace(repeat=last.repeat + 1)
    return True
