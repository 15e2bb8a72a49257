"""What ``compare`` prints, and its exit status."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Console

from benchmarks import tables
from benchmarks.compare.changes import Change, changes, distance_ratios, machine_ratios
from benchmarks.compare.runs import Run
from benchmarks.peers import PEERS
from benchmarks.report import duration

HEADINGS = ("row", "contestant", "before", "after", "ratio", "95% interval", "p", "verdict")
_TOLD = (
    "cpu",
    "cores",
    "threads",
    "jtorch_threads",
    "python",
    "versions",
)  # of the machine, where it differs


def run(before: Run, after: Run, fail_on: float | None) -> int:
    """Print the table; 1 where a row is marked as slower by more than ``fail_on``, else 0."""
    console = tables.console()
    speeds = machine_ratios(before.speeds, after.speeds)
    apart = distance_ratios(before.distances, after.distances, before.shared | after.shared)
    found = changes(before.timings, after.timings, speeds, apart)
    for line in differences(before, after):
        console.print(line, markup=False, highlight=False)
    tables.show(
        console,
        f"{after.path.name} against {before.path.name}",
        HEADINGS,
        [_cells(change) for change in found],
        left=("contestant", "verdict"),
        caption="~ unstable; p: corrected for the number of rows",
    )
    for line in missing(before, after):
        console.print(line, markup=False, highlight=False)
    console.print(summary(found))
    if fail_on is None:
        return 0
    slower = [change for change in found if change.exceeds(fail_on)]
    _tell_failures(console, slower, fail_on)
    return int(bool(slower))


def _cells(change: Change) -> list[str]:
    name, contestant = change.key
    times = [f"{'~' if t.unstable else ''}{duration(t.median)}" for t in (change.before, change.after)]
    interval = f"{change.low:.3f} to {change.high:.3f}"
    p = "" if change.p is None else f"{change.p:.2g}"
    shown = PEERS.get(contestant, contestant)
    return [name, shown, *times, f"{change.ratio:.3f}", interval, p, change.verdict]


def differences(before: Run, after: Run) -> list[str]:
    """What the two runs were not measured alike on."""
    found = []
    for fact in _TOLD:
        first, second = before.machine.get(fact), after.machine.get(fact)
        if first != second:
            found.append(f"another {fact.replace('_', ' ')}: {first} before, {second} after")
    return found


def missing(before: Run, after: Run) -> list[str]:
    """Rows that one of the two has not, and errors of either."""
    found = []
    for run, other in ((before, after), (after, before)):
        for name, contestant in run.timings:
            if (name, contestant) not in other.timings:
                why = other.errors.get((name, contestant))
                found.append(f"{name}, {contestant}: not in {other.path.name}{': ' + why if why else ''}")
    return found


def summary(found: Sequence[Change]) -> str:
    """How many rows changed, in a sentence."""
    marked = [change for change in found if change.marked]
    slower = sum(change.ratio > 1 for change in marked)
    if not marked:
        return f"No change is seen in {len(found)} rows."
    return f"Of {len(found)} rows are slower: {slower}, faster: {len(marked) - slower}."


def _tell_failures(console: Console, slower: Sequence[Change], allowed: float) -> None:
    for change in slower:
        name, contestant = change.key
        told = f"FAILED {name}, {contestant}: {change.ratio - 1:.1%} slower, allowed are {allowed:.1%}"
        console.print(told, markup=False, highlight=False)
