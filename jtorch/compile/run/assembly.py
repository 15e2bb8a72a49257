"""The table of an instance whose loops are cut into pieces, or whose products are not all usual ones."""

from __future__ import annotations

import functools
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from jtorch.compile.plan.plan import Task
from jtorch.compile.run.template import LoopBlock, ProductBlock
from jtorch.core.pieces import LEAST_TIME, LEAST_TOTAL, count, cut, product_time
from jtorch.core.products import Axis, Product, merge
from jtorch.native import workers
from jtorch.native.contraction import call_of
from jtorch.native.executor import Patch, Row

if TYPE_CHECKING:
    from jtorch.compile.run.instances import Instances


class Assembly:
    """``rows``, ``patches`` and who owns each row grow block by block, from the template's ``words``."""

    def __init__(self, instances: Instances, words: np.ndarray, values: np.ndarray) -> None:
        self.instances, self.words, self.values = instances, words, values
        self.start = words.__array_interface__["data"][0]
        argument, at, expr, nbytes = instances.patches
        offsets = (values[expr] + nbytes).tolist()
        brought = zip(argument.tolist(), at.tolist(), offsets, strict=True)
        self.brought = {k: (argument, offset) for argument, k, offset in brought}
        self.rows: list[Row] = []
        self.owners: list[Task] = []
        self.patches: list[Patch] = []
        self.keep: list[Any] = [words]
        self.moved: dict[int, list[np.ndarray]] = {}  # word that is a fixed address -> what else holds it

    def assemble(self, blocks: Iterable[LoopBlock | ProductBlock], parts: Sequence[tuple]) -> None:
        """Add all rows; ``parts`` are the axes of the products."""
        each, elements, _, _ = self.instances.times
        self.times = each * self.values[elements]
        kinds = iter(parts)
        found = [None if isinstance(b, LoopBlock) else _product(next(kinds), b.dtype) for b in blocks]
        total = self.times.sum() + sum(p.time for p in found if p is not None)
        self.is_cut = bool(workers.pool()) and total >= LEAST_TOTAL
        for block, product in zip(blocks, found, strict=True):
            if isinstance(block, LoopBlock):
                self._loop(block)
            else:
                assert product is not None
                self._product(block, product)

    def _loop(self, block: LoopBlock) -> None:
        code = self.instances.code
        kernel = self.instances.addresses[code.kernels[block.task].source]
        ranges = self._ranges(block)
        words = range(block.first, block.first + block.n)
        if len(ranges) > 1:
            pieces = np.repeat(self.words[None, block.first : block.first + block.n], len(ranges), 0)
            for at, last in block.edges:
                pieces[:, at] = [piece[last] for piece in ranges]
            self._add(block.task, Row(kernel, self._kept(pieces), len(pieces), 8 * block.n, workers.pool()))
            for k in words:
                self._points(k, pieces[:, k - block.first], [0] * len(pieces))
            return
        row = Row(kernel, self.start + 8 * block.first, 1, 8 * block.n, 0)
        self.patches += [self._patch(k, self.start + 8 * k) for k in words if k in self.brought]
        if block.task.can_fail or not joined(self.rows, row):
            self._add(block.task, row)

    def _ranges(self, block: LoopBlock) -> list[tuple[int, int]]:
        """Of the divided loop, one where it is not cut."""
        _, _, turns, lines = self.instances.times
        time, size, line = self.times[block.time], int(self.values[turns[block.time]]), int(lines[block.time])
        if not self.is_cut or time < LEAST_TIME:
            return []
        return cut(size, count(float(time), size // line), line)

    def _product(self, block: ProductBlock, product: _Product) -> None:
        pieces = product.blocks.copy()
        begin = self._kept(pieces)
        if product.shared is None:
            columns = [pieces[:, 1 + k] for k in range(3)]
        else:
            shared = product.shared.copy()
            pieces[:, 0] = self._kept(shared)
            columns = [shared[k : k + 1] for k in range(3)]
        for k, column in enumerate(columns):
            begins = product.begins[: len(column), k]
            column[:] = self.words[block.first + k] + begins
            self._points(block.first + k, column, begins.tolist())
        pool = workers.pool() if len(pieces) > 1 else 0
        self._add(block.task, Row(product.kernel, begin, len(pieces), 8 * pieces.shape[1], pool))

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


class _Product:
    """One of known sizes: its kernel, its blocks, and how far into each factor a piece begins."""

    def __init__(self, parts: tuple, dtype: np.dtype) -> None:
        product = Product(*(merge([Axis(*axis) for axis in part]) for part in parts))
        call = call_of(product, dtype)
        self.kernel, self.shared = call.kernel, call.shared
        self.blocks = np.array([call.words(piece) for piece in call.pieces], np.int64)
        self.begins = np.array([call.begins(piece) for piece in call.pieces], np.int64)
        self.time = product_time(product.flops)


@functools.lru_cache(4096)
def _product(parts: tuple, dtype: np.dtype) -> _Product:
    return _Product(parts, dtype)
