"""Where the rows of tensors lie while they travel: one line for each process, all of one length.

Rows are dealt out as by ``torch.chunk(n, dim=0)``: chunks of ceil(rows / n) rows in the order of ranks, the
last of them smaller or empty. What a chunk lacks of that size is zeros on its line, so that collectives
exchange as much with each process.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence

import numpy as np


def rows_of(rows: int, count: int, rank: int) -> tuple[int, int]:
    """(begin, end) of the rows that a process gets of ``rows``."""
    chunk = -(-rows // count)
    return min(rank * chunk, rows), min((rank + 1) * chunk, rows)


class Layout:
    """Tensors of these shapes, which have one axis or more, shared out between ``count`` processes."""

    def __init__(self, shapes: Sequence[tuple[int, ...]], count: int) -> None:
        self.shapes = [tuple(shape) for shape in shapes]
        self.count = count
        self.widths = [math.prod(shape[1:]) for shape in self.shapes]
        slots = [-(-shape[0] // count) * width for shape, width in zip(self.shapes, self.widths, strict=True)]
        *self.begins, self.length = itertools.accumulate(slots, initial=0)

    def _rows(self, k: int, rank: int) -> tuple[int, int]:
        return rows_of(self.shapes[k][0], self.count, rank)

    def line(self, parts: Sequence[np.ndarray], dtype: np.dtype) -> np.ndarray:
        """The line of a process that has these parts."""
        line = np.zeros(self.length, dtype)
        for part, begin in zip(parts, self.begins, strict=True):
            line[begin : begin + part.size] = part.reshape(-1)
        return line

    def lines(self, wholes: Sequence[np.ndarray], dtype: np.dtype) -> np.ndarray:
        """The lines of all processes, cut from whole tensors: an array of (count, length)."""
        lines = np.zeros((self.count, self.length), dtype)
        for k, (whole, begin) in enumerate(zip(wholes, self.begins, strict=True)):
            for rank in range(self.count):
                first, last = self._rows(k, rank)
                size = (last - first) * self.widths[k]
                lines[rank, begin : begin + size] = whole[first:last].reshape(-1)
        return lines

    def wholes(self, lines: np.ndarray) -> list[np.ndarray]:
        """Whole tensors from the lines of all processes, in one memory."""
        sizes = [shape[0] * width for shape, width in zip(self.shapes, self.widths, strict=True)]
        ends = list(itertools.accumulate(sizes))
        if len(sizes) == 1:  # one tensor lies there row by row, and what chunks lack comes at the end
            memory = lines.reshape(-1)[: sizes[0]]
        else:
            memory = np.empty(ends[-1], lines.dtype)
            for k, (size, end) in enumerate(zip(sizes, ends, strict=True)):
                self._fill(k, memory[end - size : end], lines)
        places = zip(self.shapes, sizes, ends, strict=True)
        return [memory[end - size : end].reshape(shape) for shape, size, end in places]

    def _fill(self, k: int, whole: np.ndarray, lines: np.ndarray) -> None:
        begin, width = self.begins[k], self.widths[k]
        for rank in range(self.count):
            first, last = self._rows(k, rank)
            whole[first * width : last * width] = lines[rank, begin : begin + (last - first) * width]

    def parts(self, line: np.ndarray, rank: int) -> list[np.ndarray]:
        """The parts on the line of a process, in memory of their own."""
        found = []
        for k, (shape, begin) in enumerate(zip(self.shapes, self.begins, strict=True)):
            first, last = self._rows(k, rank)
            part = line[begin : begin + (last - first) * self.widths[k]]
            found.append(part.reshape(last - first, *shape[1:]).copy())
        return found
