"""The steps of one network, alone and in several processes, and what averaging costs them."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from benchmarks import measure as single
from benchmarks.agree import DisagreementError, Record, check
from benchmarks.ddp.costs import Point
from benchmarks.ddp.job import Job, Together
from benchmarks.ddp.worker import APART, AVERAGED, COLLECTIVES, COMPILED, EAGER, IN_STEP
from benchmarks.peers import PEERS, PeerError
from benchmarks.program import Workload
from benchmarks.timing import Contestant, Effort, Timing, interleave

ALONE = "alone"
STEPS_EQUAL = 3  # after so many, parameters are the same in all processes, bit for bit
WHO = {  # contestant -> (library, mode)
    single.EAGER: ("jtorch", EAGER), single.COMPILED: ("jtorch", COMPILED), PEERS["torch"]: ("torch", EAGER),
}  # fmt: skip


@dataclass(frozen=True)
class Cost:
    """Seconds a step: in one process, in several that average, in several that do not, in these with a
    barrier after each step, and the collectives.

    What is derived from two of them is taken round by round, since samples of one round ran side by side.
    """

    alone: Timing | None
    averaged: Timing
    apart: Timing
    in_step: Timing
    collectives: Timing

    @property
    def efficiency(self) -> float | None:
        """Weak scaling: the time of one process's step over that of several, with one batch for each."""
        return None if self.alone is None else self.alone.median / self.averaged.median

    @property
    def exposed(self) -> Timing:
        """What averaging adds to a step: packing, hooks and waiting, too."""
        return _difference(self.averaged, self.apart)

    @property
    def waiting(self) -> Timing:
        """What a step takes longer where the slower process is waited for: a part of ``exposed``."""
        return _difference(self.in_step, self.apart)

    @property
    def hidden(self) -> Timing:
        """Of the collectives' own time, what the step does not take longer; below 0, averaging costs more."""
        return _difference(self.collectives, self.exposed)

    def as_dict(self) -> dict[str, Any]:
        timings = {
            "alone": self.alone, "averaged": self.averaged, "apart": self.apart, "in_step": self.in_step,
            "collectives": self.collectives, "exposed": self.exposed, "hidden": self.hidden,
            "waiting": self.waiting,
        }  # fmt: skip
        found = {name: t.as_dict() for name, t in timings.items() if t is not None}
        return {"weak_efficiency": self.efficiency, **found}


def _difference(first: Timing, second: Timing) -> Timing:
    pairs = zip(first.samples, second.samples, strict=True)
    return Timing(tuple(a - b for a, b in pairs), min(first.calls, second.calls))


@dataclass
class Row:
    """One network: bytes of its buckets and buffers, costs by contestant, errors of those without any."""

    workload: Workload
    buckets: list[int] = field(default_factory=list)
    buffers: list[int] = field(default_factory=list)
    costs: dict[str, Cost] = field(default_factory=dict)
    errors: dict[str, str] = field(default_factory=dict)

    @property
    def nbytes(self) -> int:
        """Bytes that each process puts into the collectives of a step."""
        return sum(self.buckets) + sum(self.buffers)

    def as_dict(self) -> dict[str, Any]:
        return {
            "name": self.workload.name, "what": self.workload.what, "bytes_per_step": self.nbytes,
            "bucket_bytes": self.buckets, "buffer_bytes": self.buffers,
            "costs": {who: cost.as_dict() for who, cost in self.costs.items()}, "errors": self.errors,
        }  # fmt: skip


def measure(
    workload: Workload, alone: Mapping[str, Job], several: Mapping[str, Job], effort: Effort,
    modes: Sequence[str] = (EAGER, COMPILED),
) -> Row:  # fmt: skip
    """Measure a network in the jobs of each library, all in turns; ``alone`` may lack some.

    A contestant whose processes end with different parameters, or that computes something else than the first
    one, has an error and no figures.
    """
    row = Row(workload)
    contestants: dict[str, Contestant] = {}
    expected: list[Record] = []
    for library, job in several.items():
        here = [who for who, (name, mode) in WHO.items() if name == library and mode in modes]
        try:
            own = [WHO[who][1] for who in here]
            sent = job.ask("prepare", workload.name, own)[0]
            if library in alone:
                alone[library].ask("prepare", workload.name, own)
            if not row.buckets:
                row.buckets, row.buffers = sent["buckets"], sent["buffers"]
            for who in here:
                _check(job, who, workload, expected)
                contestants |= _contestants(who, alone.get(library), job)
        except (PeerError, DisagreementError) as error:
            row.errors |= dict.fromkeys([who for who in here if not _is_in(who, contestants)], str(error))
    _fill(row, interleave(contestants, effort))
    return row


def _is_in(who: str, contestants: Mapping[str, Contestant]) -> bool:
    return f"{who} {AVERAGED}" in contestants


def _check(job: Job, who: str, workload: Workload, expected: list[Record]) -> None:
    """Raise DisagreementError unless the ranks end alike, and begin as ``expected``, which it fills."""
    name = f"{WHO[who][1]} {AVERAGED}"
    check_equal(job.ask("record", name, STEPS_EQUAL), who)
    found = job.ask("record", name, 1)[0]
    if expected:
        check(found, expected[0], workload.tolerance, who)
    expected.append(found)


def check_equal(records: Sequence[Record], who: str) -> None:
    """Raise DisagreementError where parameters of the ranks differ in any bit."""
    for rank, other in enumerate(records):
        for name, value in records[0].parameters.items():
            if not np.array_equal(value.view(np.uint8), other.parameters[name].view(np.uint8)):
                raise DisagreementError(
                    f"{who}: after {STEPS_EQUAL} steps {name} of rank {rank} is not that of rank 0"
                )


def _contestants(who: str, alone: Job | None, several: Job) -> dict[str, Contestant]:
    mode = WHO[who][1]
    found: dict[str, Contestant] = {
        f"{who} {AVERAGED}": Together(several, f"{mode} {AVERAGED}"),
        f"{who} {APART}": Together(several, f"{mode} {APART}"),
        f"{who} {IN_STEP}": Together(several, f"{mode} {IN_STEP}"),
        f"{who} {COLLECTIVES}": Together(several, COLLECTIVES),
    }
    if alone is not None:
        found[f"{who} {ALONE}"] = Together(alone, f"{mode} {APART}")
    return found


def _fill(row: Row, timings: Mapping[str, Timing]) -> None:
    for who in WHO:
        if f"{who} {AVERAGED}" in timings:
            parts = [timings[f"{who} {part}"] for part in (AVERAGED, APART, IN_STEP, COLLECTIVES)]
            row.costs[who] = Cost(timings.get(f"{who} {ALONE}"), *parts)


def all_reduces(job: Job, sizes: Sequence[int], effort: Effort) -> list[Point]:
    """Measured ``all_reduce`` of so many bytes each, medians."""
    job.ask("sizes", list(sizes))
    timings = interleave({str(n): Together(job, f"all_reduce {n}") for n in sizes}, effort)
    return [Point(n, job.count, timings[str(n)].median) for n in sizes]


def adding(job: Job, sizes: Sequence[int], effort: Effort) -> float:
    """Seconds that adding a byte of float32 takes while all processes of the job do so, median of sizes."""
    job.ask("adding", list(sizes))
    timings = interleave({str(n): Together(job, f"add {n}") for n in sizes}, effort)
    return statistics.median(timings[str(n)].median / n for n in sizes)
