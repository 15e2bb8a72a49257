"""One row of the report: check that all modes agree, then time them in turns."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import jtorch
from benchmarks import first_call, tape
from benchmarks.agree import DisagreementError, Record, check, record
from benchmarks.peers import PEERS, Peer, PeerError
from benchmarks.program import Program, Workload
from benchmarks.timing import Calls, Contestant, Effort, Timing, interleave

EAGER, COMPILED = "jtorch eager", "jtorch compiled"
STEPS_COMPARED = 10


@dataclass
class Row:
    """The figures of one workload; ``errors`` says which contestant has none, and why."""

    workload: Workload
    timings: dict[str, Timing] = field(default_factory=dict)
    tape: tape.TapeCost | None = None
    first_call: first_call.FirstCall | None = None
    kernels: int | None = None
    errors: dict[str, str] = field(default_factory=dict)

    @property
    def speedup(self) -> float | None:
        if EAGER in self.timings and COMPILED in self.timings:
            return self.timings[EAGER].median / self.timings[COMPILED].median
        return None

    @property
    def pays_after(self) -> float | None:
        """Calls after which compiling has paid for itself; infinity where it never does."""
        if self.speedup is None or self.first_call is None:
            return None
        saved = self.timings[EAGER].median - self.timings[COMPILED].median
        return math.ceil(self.first_call.seconds / saved) if saved > 0 else math.inf

    def as_dict(self) -> dict[str, Any]:
        after = self.pays_after
        return {
            "name": self.workload.name,
            "what": self.workload.what,
            "timings": {name: t.as_dict() for name, t in self.timings.items()},
            "tape": self.tape and self.tape.as_dict(),
            "first_call": self.first_call and self.first_call.as_dict(),
            "kernels": self.kernels,
            "speedup": self.speedup,
            "pays_after_calls": None if after == math.inf else after,
            "errors": self.errors,
        }


def measure(
    workload: Workload,
    effort: Effort,
    peers: Mapping[str, Peer],
    compiler: Callable | None = None,
    own_process: bool = True,
) -> Row:
    """Measure one workload: eager, compiled, and each of ``peers``.

    A contestant that fails, or whose first steps compute something else than eager mode, gets an
    entry in the row's errors and no figure. ``compiler`` stands in for ``jtorch.compile`` in tests.
    ``own_process`` measures the first call in processes of its own, else what it cost here.
    """
    row = Row(workload)
    contestants: dict[str, Contestant] = {}
    try:
        eager = workload.torch_like(jtorch)
        expected = record(eager, eager.step, STEPS_COMPARED)
        row.tape = tape.cost(eager, effort)
    except Exception as error:
        row.errors[EAGER] = _words(error)
        return row
    contestants[EAGER] = Calls(eager.step, eager.arguments, eager.reset)
    try:
        contestants[COMPILED] = _compiled(row, expected, compiler, own_process)
    except Exception as error:
        row.errors[COMPILED] = _words(error)
    for name, peer in peers.items():
        try:
            found = peer.prepare(workload.name, STEPS_COMPARED)
            check(found, expected, workload.tolerance, PEERS[name], gradients=bool(found.gradients))
            contestants[name] = peer
        except (PeerError, DisagreementError) as error:
            row.errors[name] = _words(error)
    try:
        row.timings = interleave(contestants, effort)
    except Exception as error:
        row.errors["timing"] = _words(error)
    return row


def _compiled(row: Row, expected: Record, compiler: Callable | None, own_process: bool) -> Contestant:
    """The compiled contestant, once it was seen to compute what eager mode computes."""
    program: Program = row.workload.torch_like(jtorch)
    start = time.perf_counter()
    step = (compiler or jtorch.compile)(program.step)
    step(*program.arguments[0])
    seconds = time.perf_counter() - start
    found = record(program, step, STEPS_COMPARED)
    check(found, expected, row.workload.tolerance, COMPILED)
    if hasattr(step, "kernels"):
        row.kernels = len(step.kernels())
    if own_process:
        row.first_call = first_call.measure(row.workload.name)
    elif hasattr(step, "timings"):
        row.first_call = first_call.of_function(step, seconds)
    return Calls(step, program.arguments, program.reset)


def _words(error: Exception) -> str:
    kind = "" if isinstance(error, (DisagreementError, PeerError)) else f"{type(error).__name__}: "
    return f"{kind}{error}"
