"""Which steps threads go through together, tile by tile, instead of meeting after each of them.

The steps of a recurrence are too short to be shared by threads one by one: waking a thread takes longer. But
none of them needs what another sequence of the batch computes. So a run of such steps is cut once, across all
of them, into tiles of some rows each, and a thread goes with its tile through all steps:

                  step 1       step 2       step 3
    rows  0-15    x W          tanh         h W        tile 0
    rows 16-31    x W          tanh         h W        tile 1

What a tile writes no other one may touch, which is all that has to hold (Bernstein, Analysis of Programs for
Parallel Processing, 1966). Where the turns of each step move on evenly through the same block of memory, each
within what is its own, the tiles have shares of that block, however many there are; all else that one of them
writes no step of the run may touch. A short step in between that needs all rows, as the gradient of a weight
does, waits until after the run, and so do those that need what it gives.

Which steps are a run, and its tiles, follow from sizes alone. They change the text of no kernel.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from jtorch.compile.graph.ir import Var
from jtorch.compile.plan.footprints import Footprint
from jtorch.compile.plan.plan import Part, Run, Task
from jtorch.core.pieces import GRAIN, LEAST_TIME, LEAST_TOTAL, Piece, is_cut

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

    def whole(self, footprint: Footprint) -> Footprint:
        """The same bytes, as those of the variable whose memory it is."""
        owner, offset = self.of(footprint.var)
        return footprint._replace(var=owner, first=footprint.first + offset, nbytes=owner.type.nbytes)

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


class Block(NamedTuple):
    """The bytes of ``owner`` from ``low`` to ``high``, which a step touches. Its turns have equal shares of
    ``length`` bytes from ``origin`` on; each may touch all where that is 0."""

    owner: Var
    low: int
    high: int
    origin: int
    length: int
    written: bool
    nbytes: int  # of all of the owner


class Cut(NamedTuple):
    """How a step may be cut: along ``axis``, into as many ``turns`` at most, at multiples of ``together``.
    ``blocks`` are what it touches, by owner."""

    axis: str
    turns: int
    together: int
    blocks: Mapping[Var, Sequence[Block]]


@dataclass(eq=False)
class Step:
    """What is known of a task at its sizes. ``time``: microseconds on one thread, about, infinite of what the
    host does. ``looked_at`` finds how it may be cut, None where it is not. A product that may begin a run has
    ``rows``."""

    task: Task
    time: float
    looked_at: Callable[[], Cut | None] = lambda: None
    rows: int = 0

    def __post_init__(self) -> None:
        self._cut: list[Cut | None] = []

    @property
    def cut(self) -> Cut | None:
        """How it may be cut; of few steps this is asked."""
        if not self._cut:
            self._cut.append(self.looked_at())
        return self._cut[0]

    @property
    def may_wait(self) -> bool:
        """Whether it is short, and no call of a library."""
        return self.time <= LONGEST


def block_of(footprint: Footprint, turns: int) -> Block:
    """What so many turns touch."""
    owner, first, step, extent, written, together, nbytes = footprint
    far = (turns // together - 1) * step
    low, high = (first, first + far + extent) if far >= 0 else (first + far, first + extent)
    length = step * (turns // together)
    if not 0 < extent <= step:
        return Block(owner, low, high, 0, 0, written, nbytes)
    origin = first - first % length
    if first - origin + extent > step:  # it begins elsewhere than at such blocks' ends
        origin = first
    return Block(owner, low, high, origin, length, written, nbytes)


def runs_of(order: Sequence[Step], after: Mapping[Task, set[Task]]) -> tuple[list[Task], list[Run]]:
    """The tasks in an order in which the runs among them are in one piece, and these."""
    steps = list(order)
    runs: list[Run] = []
    if is_cut(step.time for step in steps if step.time != math.inf):
        tried: set[Task] = set()  # where no run begins that is worth it
        k = 0
        while k < len(steps):
            if steps[k].rows >= 2 * LEAST_ROWS and steps[k].task not in tried:
                run, waiting = _grown(steps, k, after)
                finished = run.finished()
                if finished is not None:
                    runs.append(finished)
                    steps[k : k + len(run.steps) + len(waiting)] = run.steps + waiting
                    k += len(run.steps)
                    continue
                tried.update(step.task for step in run.steps)
            k += 1
    return [step.task for step in steps], runs


def _grown(steps: Sequence[Step], first: int, after: Mapping[Task, set[Task]]) -> tuple[_Growing, list[Step]]:
    """The run that step ``first`` begins, and the steps that wait for its end."""
    run = _Growing(steps[first].rows)
    waiting: list[Step] = []
    held: set[Task] = set()
    for step in itertools.islice(steps, first, None):
        if len(waiting) > _PATIENCE + 2 * len(run.steps) or not step.may_wait:
            break
        if not after[step.task].isdisjoint(held) or not run.takes(step):
            waiting.append(step)
            held.add(step.task)
        if not run.steps:
            break
    return run, waiting


class _Growing:
    """A run that grows; ``size`` rows are cut."""

    def __init__(self, size: int) -> None:
        self.size = size
        self.steps: list[Step] = []
        # By owner, those that are not alike: of the same shares, both written or both read, there is one.
        self.blocks: dict[Var, dict[tuple, Block]] = {}
        self.written: set[Var] = set()

    def takes(self, step: Step) -> bool:
        """Add a step, if its tiles are apart from those of all others."""
        cut = step.cut
        if cut is None or not self._fits(cut, 2):
            return False
        written = [owner for owner, blocks in cut.blocks.items() if any(block.written for block in blocks)]
        touched = {*written, *self.written.intersection(cut.blocks)}  # of what is only read nothing matters
        if not all(self._is_apart(cut.blocks[owner]) for owner in touched):
            return False
        self.steps.append(step)
        self.written.update(written)
        for owner, blocks in cut.blocks.items():
            self._add(self.blocks.setdefault(owner, {}), blocks)
        return True

    def _is_apart(self, blocks: Sequence[Block]) -> bool:
        """Of blocks of one owner."""
        if any(block.written and not block.length for block in blocks):
            return False
        known = self.blocks.get(blocks[0].owner, {}).values()
        if any(_meet(block, other) for block in blocks for other in known):
            return False
        return len(blocks) < 2 or not any(_meet(*pair) for pair in itertools.combinations(blocks, 2))

    @staticmethod
    def _add(known: dict[tuple, Block], blocks: Sequence[Block]) -> None:
        for new in blocks:
            shares = new[3:6] if new.length else new
            old = known.get(shares)
            if old is not None and (new.low < old.low or new.high > old.high):
                known[shares] = old._replace(low=min(old.low, new.low), high=max(old.high, new.high))
            elif old is None:
                known[shares] = new

    def _fits(self, cut: Cut, tiles: int) -> bool:
        """Whether its turns end where tiles do."""
        every = self.size * cut.together
        return not any(k * self.size // tiles * cut.turns % every for k in range(1, tiles))

    def _pieces(self, cut: Cut, tiles: int) -> list[Piece]:
        edges = [k * self.size // tiles * cut.turns // self.size for k in range(tiles + 1)]
        return [Piece(cut.axis, both) for both in itertools.pairwise(edges)]

    def finished(self) -> Run | None:
        """The run in as many tiles as pay; None where it is not worth it."""
        time = math.fsum(step.time for step in self.steps)
        if len(self.steps) < 2 or time < LEAST_TIME:
            return None
        most = self.size // (FULL_ROWS if self.size >= 2 * FULL_ROWS else LEAST_ROWS)
        for tiles in _halved(2 ** int(math.log2(max(min(most, time / GRAIN, MOST_TILES), 1)))):
            cuts = {step.task: step.cut for step in self.steps if step.cut is not None}
            if all(self._fits(cut, tiles) for cut in cuts.values()):
                pieces = {task: self._pieces(cut, tiles) for task, cut in cuts.items()}
                return Run(pieces, tiles, frozenset(self._shared_evenly()))
        return None

    def _shared_evenly(self) -> Iterator[Var]:
        """The memory that is written of which each tile touches its own share alone."""
        for owner, blocks in self.blocks.items():
            if owner in self.written and all(b.origin == 0 and b.length == b.nbytes for b in blocks.values()):
                yield owner


def _meet(a: Block, b: Block) -> bool:
    """Whether what one tile writes another one may touch."""
    if not (a.written or b.written) or a.high <= b.low or b.high <= a.low:
        return False
    return not a.length or a[3:5] != b[3:5]


def _halved(n: int) -> Iterator[int]:
    while n > 1:
        yield n
        n //= 2
