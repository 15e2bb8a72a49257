"""Which steps threads go through together, tile by tile, instead of meeting after each of them.

The steps of a recurrence are too short to be shared by threads one by one: waking a thread takes longer. But
none of them needs what another sequence of the batch computes. So a run of such steps is cut once, across all
of them, into tiles of some rows each, and a thread goes with its tile through all steps:

                  step 1       step 2       step 3
    rows  0-15    x W          tanh         h W        tile 0
    rows 16-31    x W          tanh         h W        tile 1

What a tile writes no other one may touch: that is asked of the bytes that each step touches for each tile
(``footprints.py``), which is all that has to hold (Bernstein, Analysis of Programs for Parallel Processing,
1966). A short step in between that needs all rows, as the gradient of a weight does, waits until after the
run, and so do those that need what it gives.

Which steps are a run, and its tiles, follow from sizes alone. They change the text of no kernel.
"""

from __future__ import annotations

import bisect
import itertools
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence

from jtorch.compile.graph.access import Find
from jtorch.compile.graph.ir import Var
from jtorch.compile.graph.products import product_of
from jtorch.compile.plan import footprints
from jtorch.compile.plan.footprints import Touched
from jtorch.compile.plan.fuse import StepKind, Style
from jtorch.compile.plan.pieces import divided, nest_time
from jtorch.compile.plan.plan import Part, Run, Task
from jtorch.core.pieces import GRAIN, LEAST_TIME, LEAST_TOTAL, Piece, Range, product_time

LONGEST = LEAST_TOTAL
"""Microseconds of a step that is in a run: what takes longer is cut by itself as well."""

FULL_ROWS, LEAST_ROWS = 16, 8
"""Rows that a tile should have of the product that begins a run, and has at least: with fewer, registers are
not full. Other steps are cut in proportion. Tiles are a power of two."""

MOST_TILES = 16
_PATIENCE = 16  # steps that wait, and two more for each that is in a run, before it has ended


class Memory:
    """Whose memory a variable lies in, and how far from its beginning."""

    def __init__(self, parts: Mapping[Var, Part], over: Mapping[Var, Var]) -> None:
        self.parts, self.over = parts, over

    def of(self, var: Var) -> tuple[Var, int]:
        offset = 0
        while True:
            if var in self.parts:
                var, begin = self.parts[var]
                offset += begin
            elif var in self.over:
                var = self.over[var]
            else:
                return var, offset


def together(
    order: Sequence[Task], after: Mapping[Task, set[Task]], find: Find, memory: Memory
) -> tuple[list[Task], list[Run]]:
    """The steps in an order in which the runs among them are in one piece, and these."""
    parts = _Divided(find, memory)
    steps = list(order)
    if sum(parts.time(task) for task in steps if task.step.kind is not StepKind.HOST) < LEAST_TOTAL:
        return steps, []
    runs: list[Run] = []
    tried: set[Task] = set()  # where no run begins that is worth it
    k = 0
    while k < len(steps):
        if steps[k] not in tried and parts.rows(steps[k]) >= 2 * LEAST_ROWS:
            run, waiting = _grown(steps, k, after, parts)
            finished = run.finished()
            if finished is not None:
                runs.append(finished)
                steps[k : k + len(run.tasks) + len(waiting)] = run.tasks + waiting
                k += len(run.tasks)
                continue
            tried.update(run.tasks)
        k += 1
    return steps, runs


def _grown(
    steps: Sequence[Task], first: int, after: Mapping[Task, set[Task]], parts: _Divided
) -> tuple[_Growing, list[Task]]:
    """The run that step ``first`` begins, and the steps that wait for its end."""
    run = _Growing(parts, parts.rows(steps[first]))
    waiting: list[Task] = []
    held: set[Task] = set()
    for task in itertools.islice(steps, first, None):
        if len(waiting) > _PATIENCE + 2 * len(run.tasks) or not parts.may_wait(task):
            break
        if not after[task].isdisjoint(held) or not run.takes(task):
            waiting.append(task)
            held.add(task)
        if not run.tasks:
            break
    return run, waiting


class _Divided:
    """What is known of each step by itself: how long it takes, and what it touches for some rows."""

    def __init__(self, find: Find, memory: Memory) -> None:
        self.find, self.memory = find, memory
        self._products: dict[Task, footprints.Factors] = {}
        self._axes: dict[Task, tuple[str, int] | None] = {}
        self._times: dict[Task, float] = {}
        self._halves: dict[tuple[Task, Piece], list[Touched]] = {}

    def rows(self, task: Task) -> int:
        """The rows of all matrices of a product that may begin a run; 0 of another step."""
        if task.step.kind is not StepKind.GEMM or not self.may_wait(task) or self.axis(task) is None:
            return 0
        batch, rows, _, _ = self._product(task).product.sizes
        return batch * rows

    def may_wait(self, task: Task) -> bool:
        """Whether a step is short, and no call of a library."""
        return task.step.kind is not StepKind.HOST and self.time(task) <= LONGEST

    def time(self, task: Task) -> float:
        """Microseconds that it takes on one thread, about."""
        if task not in self._times:
            alone = task.nest is None
            flops = self._product(task).product.flops if alone else 0
            self._times[task] = product_time(flops) if alone else nest_time(task.nest)  # type: ignore[arg-type]
        return self._times[task]

    def axis(self, task: Task) -> tuple[str, int] | None:
        """What a step is cut along, and its size; None of one that is not cut."""
        if task not in self._axes:
            self._axes[task] = self._found_axis(task)
        return self._axes[task]

    def _found_axis(self, task: Task) -> tuple[str, int] | None:
        if task.visible or task.can_fail:
            return None
        if task.nest is None:
            product = self._product(task).product
            if product.rows_overlap or product.exchanged().rows_overlap:  # it may be cut along others
                return None
            batch, rows, _, _ = product.sizes
            return ("batch", batch) if batch > 1 else ("rows", rows)
        loop = None if task.nest.style is Style.SCATTER else divided(task.nest)
        return None if loop is None else ("", loop.size)

    def _product(self, task: Task) -> footprints.Factors:
        if task not in self._products:
            factors = product_of(task.step.eqns[0], self.find)
            assert factors is not None  # see graph/finalise.py
            self._products[task] = factors
        return self._products[task]

    def half(self, task: Task, piece: Piece) -> list[Touched]:
        """What ``touched`` gives, remembered: a step may be asked for several runs."""
        if (task, piece) not in self._halves:
            self._halves[task, piece] = list(self.touched(task, piece))
        return self._halves[task, piece]

    def touched(self, task: Task, piece: Piece) -> Iterator[Touched]:
        """By the memory that it is in."""
        (out, *_) = task.step.eqns[0].outputs
        found = (
            footprints.of_product(self._product(task), out, piece) if task.nest is None
            else footprints.of_nest(task.nest, piece.range)
        )  # fmt: skip
        for var, (first, end), written in found:
            owner, offset = self.memory.of(var)
            yield Touched(owner, (first + offset, end + offset), written)


class _Growing:
    """A run that grows, tried with two tiles; ``size`` rows are cut."""

    def __init__(self, parts: _Divided, size: int) -> None:
        self.parts, self.size = parts, size
        self.tasks: list[Task] = []
        self.halves = _Apart(2)

    def takes(self, task: Task) -> bool:
        """Add a step, if its tiles are apart from those of all others."""
        pieces = self._pieces(task, 2)
        if pieces is None or not self.halves.takes([self.parts.half(task, p) for p in pieces]):
            return False
        self.tasks.append(task)
        return True

    def _pieces(self, task: Task, tiles: int) -> list[Piece] | None:
        """None where rows don't end where tiles do."""
        axis = self.parts.axis(task)
        if axis is None:
            return None
        name, size = axis
        if not size:
            return None
        edges = [k * self.size // tiles * size for k in range(tiles + 1)]
        if any(edge % self.size for edge in edges):
            return None
        found = [edge // self.size for edge in edges]
        return [Piece(name, both) for both in itertools.pairwise(found)]

    def finished(self) -> Run | None:
        """The run in as many tiles as pay; None where it is not worth it."""
        time = sum(map(self.parts.time, self.tasks))
        if len(self.tasks) < 2 or time < LEAST_TIME:
            return None
        most = self.size // (FULL_ROWS if self.size >= 2 * FULL_ROWS else LEAST_ROWS)
        for tiles in _halved(2 ** int(math.log2(max(min(most, time / GRAIN, MOST_TILES), 1)))):
            apart = self.halves if tiles == 2 else self._apart(tiles)
            if apart is not None:
                pieces = {task: self._pieces(task, tiles) or [] for task in self.tasks}
                edges = [k * self.size // tiles for k in range(tiles + 1)]
                return Run(pieces, tiles, apart.shares(edges, self.size))
        return None

    def _apart(self, tiles: int) -> _Apart | None:
        """What so many tiles touch; None where they meet."""
        found = _Apart(tiles)
        for task in self.tasks:
            pieces = self._pieces(task, tiles)
            if pieces is None or not found.takes([list(self.parts.touched(task, p)) for p in pieces]):
                return None
        return found


def _halved(n: int) -> Iterator[int]:
    while n > 1:
        yield n
        n //= 2


class _Ranges:
    """A set of numbers as ranges in order, no two of which meet."""

    def __init__(self) -> None:
        self.starts: list[int] = []
        self.ends: list[int] = []

    def add(self, new: Range) -> None:
        start, end = new
        first, last = bisect.bisect_left(self.ends, start), bisect.bisect_right(self.starts, end)
        if first < last:
            start, end = min(start, self.starts[first]), max(end, self.ends[last - 1])
        self.starts[first:last], self.ends[first:last] = [start], [end]

    def meets(self, other: Range) -> bool:
        k = bisect.bisect_right(self.ends, other[0])
        return k < len(self.starts) and self.starts[k] < other[1]


class _Apart:
    """What each tile touches and writes, by whose memory it is."""

    def __init__(self, tiles: int) -> None:
        self.touched, self.written = ([dict[Var, _Ranges]() for _ in range(tiles)] for _ in range(2))
        self.ever_written = set[Var]()

    def takes(self, tiles: Sequence[Sequence[Touched]]) -> bool:
        """Add what a step touches for each tile; not if a tile would write what another one touches."""
        alone = _Apart(len(tiles))
        for k, tile in enumerate(tiles):
            if self._clashes(k, tile) or alone._clashes(k, tile):
                return False
            alone._add(k, tile)
        for k, tile in enumerate(tiles):
            self._add(k, tile)
        return True

    def _clashes(self, k: int, tile: Iterable[Touched]) -> bool:
        for var, found, written in tile:
            if not written and var not in self.ever_written:
                continue
            for n, sets in enumerate(self.touched if written else self.written):
                if n != k and var in sets and sets[var].meets(found):
                    return True
        return False

    def _add(self, k: int, tile: Iterable[Touched]) -> None:
        for var, found, written in tile:
            self.touched[k].setdefault(var, _Ranges()).add(found)
            if written:
                self.written[k].setdefault(var, _Ranges()).add(found)
                self.ever_written.add(var)

    def shares(self, edges: Sequence[int], size: int) -> frozenset[Var]:
        """The memory of which each tile touches its own share alone."""
        found = set()
        for var in self.ever_written:
            n = var.type.nbytes
            shares = [(first * n / size, end * n / size) for first, end in itertools.pairwise(edges)]
            if all(
                var not in tile or (share[0] <= tile[var].starts[0] and tile[var].ends[-1] <= share[1])
                for tile, share in zip(self.touched, shares, strict=True)
            ):
                found.add(var)
        return frozenset(found)
