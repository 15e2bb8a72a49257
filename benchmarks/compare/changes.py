"""Whether a row changed between two runs.

What is independent are processes, not samples, so each process is one number, the best of its samples: on a
machine that others use, most samples are of them. What differs between processes, as addresses and hash
seeds, stays in the comparison, and what happens now and then in all of them does not.
A row is marked where four things hold: a rank test of the processes of both runs says so, corrected for the
number of rows; the interval of the ratio leaves out 1; and the change is clearly larger than what changed
within either run, from before some moment of it to after, and than the machine's speed did from run to run
(see ``reference.py``). The last two are for machines that others use: where a neighbour begins to work all
later processes are slower, and no test of ranks can tell why.
A row that several threads share is not judged where the cores were much nearer to each other in one of the
runs (see ``cores.py``).

Sources: H. B. Mann and D. R. Whitney, On a test of whether one of two random variables is stochastically
larger than the other, 1947; S. Holm, A simple sequentially rejective multiple test procedure, 1979; T.
Kalibera and R. Jones, Rigorous benchmarking in reasonable time, 2013: resample the level that varies.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from benchmarks.inference import holm, mann_whitney, ratio_of_medians
from benchmarks.timing import Timing

SIGNIFICANT = 0.05
BEYOND = 1.5  # times the logarithm of what changed within a run, or of the machine between them
FAR = 1.5  # times as far from each other: what threads share is another program then
FEWEST = 5  # processes of each run: of four and four no order is rare enough to survive a correction

Key = tuple[str, str]


@dataclass(frozen=True)
class Change:
    """One row and contestant in both runs; ``ratio`` is the second's time over the first's."""

    key: Key
    before: Timing
    after: Timing
    ratio: float
    low: float
    high: float
    drift: float  # the larger ratio, from 1 on, between an earlier and a later part of a run
    machine: float  # the ratio of the times of what has nothing to do with the row; 1 where it is not known
    apart: float  # the larger ratio, from 1 on, of a word's ways between two cores; 1 of what one core does
    p: float | None  # of the rank test, corrected; None where there are too few processes

    @property
    def marked(self) -> bool:
        """Whether the row changed."""
        return (
            self.p is not None
            and self.p < SIGNIFICANT
            and self.apart <= FAR
            and not self.low <= 1 <= self.high
            and abs(math.log(self.ratio)) > BEYOND * max(math.log(self.drift), abs(math.log(self.machine)))
        )

    @property
    def verdict(self) -> str:
        """ "12% slower", "12% faster", "no change seen" or why there is none."""
        if self.p is None:
            return f"not judged: fewer than {FEWEST} processes"
        if self.apart > FAR:
            return f"not judged: its cores were {self.apart:.1f} times as far apart in one run"
        if not self.marked:
            return "no change seen"
        return f"{self.ratio - 1:.0%} slower" if self.ratio > 1 else f"{1 - self.ratio:.0%} faster"

    def exceeds(self, allowed: float) -> bool:
        """Whether it is marked as slower by more than that share."""
        return self.marked and self.ratio > 1 + allowed


def changes(
    before: Mapping[Key, Timing], after: Mapping[Key, Timing],
    speeds: Mapping[str, float] | None = None, apart: Mapping[Key, float] | None = None,
) -> list[Change]:  # fmt: skip
    """Of all rows that both runs have, in the order of the second; ``speeds`` are the ``machine_ratios``, and
    ``apart`` the ``distance_ratios``."""
    known, far = speeds or {}, apart or {}
    found = [
        _change(key, before[key], after[key], known.get(key[0], 1.0), far.get(key, 1.0))
        for key in after
        if key in before
    ]
    judged = [change for change in found if change.p is not None]
    corrected = dict(
        zip([c.key for c in judged], holm([c.p for c in judged if c.p is not None]), strict=True)
    )
    return [replace(change, p=corrected.get(change.key)) for change in found]


def machine_ratios(before: Mapping[str, Timing], after: Mapping[str, Timing]) -> dict[str, float]:
    """By row, how much longer the machine took in the second run for what is no row's: beside this row, or
    in the median beside all of them, whichever is farther from 1."""
    found = {
        row: statistics.median(process_bests(after[row])) / statistics.median(process_bests(before[row]))
        for row in after
        if row in before
    }
    all_rows = statistics.median(found.values()) if found else 1.0
    return {row: max(ratio, all_rows, key=lambda r: abs(math.log(r))) for row, ratio in found.items()}


def distance_ratios(
    before: Mapping[str, Timing], after: Mapping[str, Timing], shared: Iterable[Key]
) -> dict[Key, float]:
    """For what several threads share, how much farther the cores were from each other in one of the runs."""
    found: dict[Key, float] = {}
    for row, contestant in shared:
        if row in before and row in after:
            first, second = (statistics.median(process_bests(t)) for t in (before[row], after[row]))
            found[row, contestant] = max(first / second, second / first)
    return found


def _change(key: Key, before: Timing, after: Timing, machine: float, apart: float) -> Change:
    first, second = process_bests(before), process_bests(after)
    ratio, low, high = ratio_of_medians(first, second)
    drift = max(_drift(first), _drift(second))
    enough = min(len(first), len(second)) >= FEWEST
    return Change(
        key, before, after, ratio, low, high, drift, machine, apart,
        mann_whitney(first, second) if enough else None,
    )  # fmt: skip


def process_bests(timing: Timing) -> list[float]:
    """One number for each process."""
    return [min(samples) for samples in timing.processes]


def _drift(values: list[float]) -> float:
    """The larger ratio, from 1 on, of what came before and after any place but the ends of a run."""
    least = max(1, len(values) // 4)
    ratios = (
        statistics.median(values[:k]) / statistics.median(values[k:])
        for k in range(least, len(values) - least + 1)
    )
    return max((max(ratio, 1 / ratio) for ratio in ratios), default=1.0)
