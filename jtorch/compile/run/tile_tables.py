"""What the tiles of a run are told: for each a table of all its steps, and behind it their argument blocks.

Where all lies is the same for all sizes at which a run has as many tiles and products the same kernels; it is
found once, and filled in for the sizes at hand in one go for all tiles.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from jtorch.compile.plan.plan import Run, Task
from jtorch.compile.run.products import Told
from jtorch.compile.run.template import LoopBlock, ProductBlock
from jtorch.native.executor import ROW_WORDS


class Filled(NamedTuple):
    """``table`` has a row for each tile. Of the columns of ``pointers``, the word of the template that each
    has the address of, and how many bytes further on. ``kept`` are what products share."""

    table: np.ndarray
    pointers: list[tuple[int, np.ndarray, list[int]]]
    kept: list[np.ndarray]


class TileTable:
    """That of ``run``, of which each step has a block. ``kernels`` are those of loops; ``told`` has what is
    told for each product, of which only the layout counts. ``pointed`` are the words of the template that
    hold addresses which a call brings, or which move."""

    def __init__(
        self, run: Run, blocks: Mapping[Task, LoopBlock | ProductBlock], kernels: Mapping[Task, int],
        told: Sequence[Told], pointed: Collection[int],
    ) -> None:  # fmt: skip
        self.tiles, self.pointed = run.tiles, frozenset(pointed)
        begin = 1 + ROW_WORDS * len(run.tasks)
        base, begins = [len(run.tasks)], []
        words: list[tuple[int, int]] = []  # (column, word of the template)
        ends: tuple[list, list] = [], []  # (column, step) of where a tile begins, and of where it ends
        self.products: list[tuple[int, ProductBlock]] = []  # and where the block of each begins
        products = iter(told)
        for step, task in enumerate(run.tasks):
            block = blocks[task]
            if isinstance(block, LoopBlock):
                kernel, n = kernels[task], block.n
                words += [(begin + k, block.first + k) for k in range(n)]
                for at, last in block.edges:
                    ends[last].append((begin + at, step))
            else:
                one = next(products)
                kernel, n = one.kernel, one.blocks.shape[1]
                self.products.append((begin, block))
            base += [kernel, 0, 1, 8 * n, 0]
            begins.append(begin)
            begin += n
        self.base = np.array(base + [0] * (begin - len(base)), np.int64)
        self.row_at = np.arange(len(begins)) * ROW_WORDS + 2
        self.begins = 8 * np.array(begins, np.int64)
        self.to, self.source = (np.array([w[k] for w in words], np.intp) for k in (0, 1))
        self.loop_pointers = [(k, to) for to, k in words if k in self.pointed]
        self.ends = [tuple(np.array([e[k] for e in both], np.intp) for k in (0, 1)) for both in ends]

    def fill(self, words: np.ndarray, edges: np.ndarray, told: Sequence[Told]) -> Filled:
        """For these words of the template, edges of each step, and for what products are told."""
        table = np.empty((self.tiles, len(self.base)), np.int64)
        start, width = table.__array_interface__["data"][0], table.strides[0]
        table[:] = self.base
        table[:, self.row_at] = start + self.begins + width * np.arange(self.tiles)[:, None]
        table[:, self.to] = words[self.source]
        for (columns, steps), part in zip(self.ends, (edges[:, :-1], edges[:, 1:]), strict=True):
            table[:, columns] = part[steps].T
        pointers = [(k, table[:, to], [0] * self.tiles) for k, to in self.loop_pointers]
        kept = []
        for (begin, block), one in zip(self.products, told, strict=True):
            table[:, begin : begin + one.blocks.shape[1]] = one.blocks
            where = table[:, begin + 1 :]
            if one.shared is not None:
                kept.append(one.shared)
                table[:, begin] = one.shared.__array_interface__["data"][0]
                where = one.shared[None]
            pointers += pointed_at(words, block, where, one.begins, self.pointed)
        return Filled(table, pointers, kept)


def pointed_at(
    words: np.ndarray, block: ProductBlock, where: np.ndarray, begins: np.ndarray, pointed: Collection[int]
) -> Iterator[tuple[int, np.ndarray, list[int]]]:  # fmt: skip
    """Write where the factors and the result of a product lie to the first three columns of ``where``; the
    ``pointers`` among them, see ``Filled``."""
    first = block.first
    where[:, :3] = words[first : first + 3] + begins
    for k in range(3):
        if first + k in pointed:
            yield first + k, where[:, k], begins[:, k].tolist()
