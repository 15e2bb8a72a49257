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
from jtorch.core.followed import alike, one_step
from jtorch.core.pieces import GRAIN, LEAST_TIME, LEAST_TOTAL, is_cut, total

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


class Grown(NamedTuple):
    """A run that has grown: its tasks, along which axis each is cut, and what each tile has its own share of;
    and the tasks before its end that wait for it."""

    tasks: tuple[Task, ...]
    axes: tuple[str, ...]
    local: frozenset[Var]
    waiting: tuple[Task, ...]


def runs_of(order: Sequence[Step], after: Mapping[Task, set[Task]]) -> tuple[list[Task], list[Run]]:
    """The tasks in an order in which the runs among them are in one piece, and these."""
    steps = {step.task: step for step in order}
    times = {task: step.time for task, step in steps.items()}
    rows = {task: step.rows for task, step in steps.items()}

    def grow(tasks: Sequence[Task], first: int, _: int) -> tuple[Grown, list[int]]:
        return grown((steps[task] for task in itertools.islice(tasks, first, None)), after)

    return runs_grown(list(times), times, rows, grow)


def runs_grown(
    tasks: list[Task], times: Mapping[Task, float], rows: Mapping[Task, int],
    grow: Callable[[Sequence[Task], int, int], tuple[Grown, Sequence[int]]],
) -> tuple[list[Task], list[Run]]:  # fmt: skip
    """The same of tasks that take so long and have so many rows, where ``grow`` gives what is ``grown`` from
    that of a number on; it is told as well from which on they are in the order that they had at first."""
    runs: list[Run] = []
    still = 0
    tried: set[Task] = set()  # where no run begins that is worth it
    k = 0 if is_cut(time for time in times.values() if time != math.inf) else len(tasks)
    while k < len(tasks):
        first = tasks[k]
        may_begin = rows.get(first, 0) >= 2 * LEAST_ROWS and times[first] <= LONGEST
        if may_begin and first not in tried:
            found, cuts = grow(tasks, k, still)
            run = _finished(found, cuts, rows[first], times)
            if run is not None:
                runs.append(run)
                if found.waiting:
                    there = run.tasks + found.waiting
                    tasks[k : k + len(there)] = there
                    still = max(still, k + len(there))
                k += len(run.tasks)
                continue
            tried.update(found.tasks)
        k += 1
    return tasks, runs


def grown(steps: Iterator[Step], after: Mapping[Task, set[Task]]) -> tuple[Grown, list[int]]:
    """The run that the first of some steps begins, and of each of its steps into how many turns it may be
    cut, and how many of them go together."""
    first = next(steps)
    run = _Growing(first.rows)
    waiting: list[Task] = []
    held: set[Task] = set()
    for step in itertools.chain([first], steps):
        if len(waiting) > _PATIENCE + 2 * len(run.steps) or not step.may_wait:
            break
        if not after[step.task].isdisjoint(held) or not run.takes(step):
            waiting.append(step.task)
            held.add(step.task)
        if not run.steps:
            break
    cuts = [step.cut for step in run.steps if step.cut is not None]  # of each
    tasks, axes = tuple(step.task for step in run.steps), tuple(cut.axis for cut in cuts)
    found = Grown(tasks, axes, frozenset(run.shared_evenly()), tuple(waiting))
    return found, [n for cut in cuts for n in (cut.turns, cut.together)]


def _finished(found: Grown, cuts: Sequence[int], size: int, times: Mapping[Task, float]) -> Run | None:
    """The run in as many tiles of its ``size`` rows as pay; None where it is not worth it."""
    time = total([times[task] for task in found.tasks])
    if len(found.tasks) < 2 or time < LEAST_TIME:
        return None
    different: list[tuple[int, int]] = []
    which = [_number_of(pair, different) for pair in zip(cuts[::2], cuts[1::2], strict=True)]
    for tiles in _halved(most_tiles(size, time)):
        if all(_fits(size, turns, together, tiles) for turns, together in different):
            ends = [k * size // tiles for k in range(tiles + 1)]
            known = [ends if alike(n, size) else [end * n // size for end in ends] for n, _ in different]
            return Run(found.tasks, found.axes, tuple(known[k] for k in which), tiles, found.local)
    return None


def _number_of(pair: tuple[int, int], known: list[tuple[int, int]]) -> int:
    """Where it is among those that are known; of those there are few, and a key would be a guard on its
    numbers, see ``core/followed.py``."""
    for k, other in enumerate(known):
        if alike(pair[0], other[0]) and alike(pair[1], other[1]):
            return k
    known.append(pair)
    return len(known) - 1


def most_tiles(size: int, time: float) -> int:
    """How many tiles of ``size`` rows pay that take so many microseconds: a power of two."""
    most = size // (FULL_ROWS if size >= 2 * FULL_ROWS else LEAST_ROWS)
    return int(one_step(_power_of_two, most, time / GRAIN))


def _power_of_two(most: int, paid: float) -> int:
    return 2 ** int(math.log2(max(min(most, paid, MOST_TILES), 1)))


def _fits(size: int, turns: int, together: int, tiles: int) -> bool:
    """Whether turns end where tiles of ``size`` rows do."""
    if alike(turns, size) and alike(together, 1):
        return True
    every = size * together
    return not any(k * size // tiles * turns % every for k in range(1, tiles))


class _Growing:
    """A run that grows; ``size`` rows are cut."""

    def __init__(self, size: int) -> None:
        self.size = size
        self.steps: list[Step] = []
        # By owner, those that are not alike: of the same shares, both written or both read, there is one.
        self.blocks: dict[Var, list[Block]] = {}
        self.written: set[Var] = set()

    def takes(self, step: Step) -> bool:
        """Add a step, if its tiles are apart from those of all others."""
        cut = step.cut
        if cut is None:
            return False
        written = [owner for owner, blocks in cut.blocks.items() if any(block.written for block in blocks)]
        touched = {*written, *self.written.intersection(cut.blocks)}  # of what is only read nothing matters
        if not all(self._is_apart(cut.blocks[owner]) for owner in touched):
            return False
        if not _fits(self.size, cut.turns, cut.together, 2):  # last, as few sizes are like others in it
            return False
        self.steps.append(step)
        self.written.update(written)
        for owner, blocks in cut.blocks.items():
            self._add(self.blocks.setdefault(owner, []), blocks)
        return True

    def _is_apart(self, blocks: Sequence[Block]) -> bool:
        """Of blocks of one owner."""
        if any(block.written and not block.length for block in blocks):
            return False
        known = self.blocks.get(blocks[0].owner, [])
        for k, block in enumerate(blocks):
            for others in (known, blocks[:k]):
                for other in others:
                    if _meet(block, other):
                        return False
        return True

    @staticmethod
    def _add(known: list[Block], blocks: Sequence[Block]) -> None:
        for new in blocks:  # no keys: they would be guards on the numbers, see ``core/followed.py``
            for k, old in enumerate(known):
                if old[3:6] == new[3:6] if new.length else old == new:
                    if new.low < old.low or new.high > old.high:
                        known[k] = old._replace(low=min(old.low, new.low), high=max(old.high, new.high))
                    break
            else:
                known.append(new)

    def shared_evenly(self) -> Iterator[Var]:
        """The memory that is written of which each tile touches its own share alone."""
        for owner, blocks in self.blocks.items():
            if owner in self.written and all(b.origin == 0 and b.length == b.nbytes for b in blocks):
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
