"""One line of the section: both sides must compute the same, then they are timed in turns."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Any

import jtorch
from benchmarks.agree import DisagreementError, check, record
from benchmarks.eager.cases import Case
from benchmarks.measure import EAGER
from benchmarks.peers import PEERS, Peer, PeerError
from benchmarks.timing import Calls, Contestant, Effort, Timing, interleave

STEPS_COMPARED = 3
Mean = Callable[[Sequence[float]], float]
NUMPY = "NumPy"


@dataclass
class Line:
    """Seconds of ``ours`` and ``theirs`` for one op or step, and the goal that their ratio has.

    Without a peer a line has no ratio; where ``absolute`` is set the goal is for the seconds themselves.
    """

    name: str
    what: str
    goal: float | None
    ops: int = 1
    peer: str | None = None
    ours: Timing | None = None
    theirs: Timing | None = None
    absolute: bool = False
    error: str | None = None
    mean: float | None = None  # of the ratios of others

    @property
    def ratio(self) -> float | None:
        if self.mean is not None:
            return self.mean
        if self.ours is None or self.theirs is None:
            return None
        return self.ours.median / self.theirs.median

    @property
    def judged(self) -> float | None:
        """What the goal is for."""
        if self.absolute:
            return None if self.ours is None else self.ours.median
        return self.ratio

    @property
    def verdict(self) -> str:
        """ "met", "within noise" (half an interquartile range on both sides decides), "missed" or ""."""
        if self.error is not None:
            return "ERROR"
        if self.goal is None or self.judged is None:
            return ""
        if self.judged <= self.goal:
            return "met"
        return "within noise" if self._at_best() <= self.goal else "missed"

    def _at_best(self) -> float:
        if self.ours is None:
            return self.judged or 0.0
        low = self.ours.median - self.ours.spread / 2
        if self.absolute or self.theirs is None:
            return low
        return low / (self.theirs.median + self.theirs.spread / 2)

    def as_dict(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "what": self.what,
            "ops_per_call": self.ops,
            "peer": self.peer,
            "ours": self.ours and self.ours.as_dict(),
            "theirs": self.theirs and self.theirs.as_dict(),
            "ratio": self.ratio,
            "goal": self.goal,
            "goal_is_for": "seconds" if self.absolute else "ratio",
            "verdict": self.verdict,
            "error": self.error,
        }


def measure(case: Case, effort: Effort, torch: Peer | None) -> Line:
    """Time one case against NumPy, where it has such a program, or against PyTorch if that is at hand."""
    line = Line(case.workload.name, case.workload.what, case.goal, case.ops)
    try:
        contestants = _contestants(case, line, torch)
        timings = interleave(contestants, effort)
    except (PeerError, DisagreementError) as error:
        line.error = str(error)
        return line
    except Exception as error:
        line.error = f"{type(error).__name__}: {error}"
        return line
    line.ours = timings[EAGER]
    if line.peer is not None:
        line.theirs = timings[line.peer]
    return line


def _contestants(case: Case, line: Line, torch: Peer | None) -> dict[str, Contestant]:
    workload = case.workload
    program = workload.torch_like(jtorch)
    expected = record(program, program.step, STEPS_COMPARED)
    found: dict[str, Contestant] = {EAGER: Calls(program.step, program.arguments, program.reset)}
    if case.numpy is not None:
        line.peer = NUMPY
        theirs = case.numpy()
        other = record(theirs, theirs.step, STEPS_COMPARED)
        found[NUMPY] = Calls(theirs.step, theirs.arguments)
    elif torch is not None:
        line.peer = PEERS["torch"]
        other = torch.prepare(workload.name, STEPS_COMPARED)
        found[line.peer] = torch
    else:
        return found
    check(other, expected, workload.tolerance, line.peer)
    return found


def mean_of(name: str, what: str, lines: Sequence[Line], goal: float, mean: Mean = fmean) -> Line:
    """The line under a group: the mean of its ratios, none if one of them has none."""
    ratios = [line.ratio for line in lines if line.ratio is not None]
    complete = len(ratios) == len(lines)
    peer = lines[0].peer if lines else None
    return Line(name, what, goal, peer=peer, mean=mean(ratios) if complete and ratios else None)
