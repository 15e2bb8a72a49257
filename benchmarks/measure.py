"""The figures of a row: contestants that agree with eager mode are timed in turns."""

from __future__ import annotations

import contextlib
import math
import statistics
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

import jtorch
from benchmarks import cores, first_call, tape
from benchmarks.agree import DisagreementError, Record, check
from benchmarks.contestant import COMPILED, EAGER, MODES, Local
from benchmarks.peers import PEERS, Peer, PeerError
from benchmarks.program import Workload
from benchmarks.progress import Progress
from benchmarks.reference import reference
from benchmarks.timing import Effort, Timing, interleave

STEPS_COMPARED = 10
_MACHINE = "machine"  # among contestants, what is none


@dataclass
class Row:
    """The figures of one workload; ``errors`` says which contestant has none, and why. ``machine`` are times
    of what has nothing to do with any contestant, see ``reference.py``, ``distance`` those between two cores,
    see ``cores.py``, and ``cores_used`` how many each contestant kept busy, in the median of processes."""

    workload: Workload
    timings: dict[str, Timing] = field(default_factory=dict)
    machine: Timing | None = None
    distance: Timing | None = None
    cores_used: dict[str, list[float]] = field(default_factory=dict)
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
        return None if self.first_call is None else self.calls_to_earn(self.first_call.seconds)

    def calls_to_earn(self, seconds: float) -> float | None:
        """Calls after which compiled ones have saved that much; infinity where they save nothing."""
        if self.speedup is None:
            return None
        saved = self.timings[EAGER].median - self.timings[COMPILED].median
        return math.ceil(seconds / saved) if saved > 0 else math.inf

    def check(self, name: str, found: Record, expected: Record) -> None:
        """Raise DisagreementError unless the contestant ``name`` computed what eager mode did."""
        who = PEERS.get(name, name)
        check(found, expected, self.workload.tolerance, who, gradients=name != "jax")

    def as_dict(self) -> dict[str, Any]:
        after, epoch = self.pays_after, self.workload.epoch
        return {
            "name": self.workload.name,
            "what": self.workload.what,
            "epoch": epoch and {"data": epoch.data, "steps": epoch.steps},
            "timings": {name: t.as_dict() for name, t in self.timings.items()},
            "machine": self.machine and self.machine.as_dict(),
            "distance": self.distance and self.distance.as_dict(),
            "cores_used": {name: statistics.median(used) for name, used in self.cores_used.items()},
            "tape": self.tape and self.tape.as_dict(),
            "first_call": self.first_call and self.first_call.as_dict(),
            "document": self.first_call and self.first_call.document,
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
    """All figures of one workload: both modes in this process, and each of ``peers``.

    ``compiler`` stands in for ``jtorch.compile`` in tests. ``own_process`` measures the first call in
    processes of its own, else what it cost here.
    """
    row = Row(workload)
    compiled = Local(COMPILED, compiler=compiler)
    add_samples(row, {EAGER: Local(EAGER), COMPILED: compiled, **peers}, effort)
    add_costs(row, effort, own_process)
    if not own_process:
        row.first_call, row.kernels = compiled.first_call, compiled.kernels
    return row


R = TypeVar("R", bound=Row)


def measure_all(
    rows: Sequence[R],
    names: Callable[[Workload], Sequence[str]],
    threads: int | None,
    effort: Effort,
    progress: Progress,
    steps: int = STEPS_COMPARED,
    compiler: Callable | None = None,
) -> None:
    """Samples of all rows, whose contestants are ``names`` of them.

    In each of ``effort.processes`` turns every contestant has a new process; with none, jtorch's modes run in
    this one.
    """
    wanted = list(dict.fromkeys(name for row in rows for name in names(row.workload)))
    for turn in range(max(1, effort.processes)):
        with started(wanted, threads, here=not effort.processes, compiler=compiler) as contestants:
            for row in rows:
                progress.say(f"timing, {turn + 1} of {max(1, effort.processes)}: {row.workload.name}")
                add_samples(row, {name: contestants[name] for name in names(row.workload)}, effort, steps)
                if not effort.processes and isinstance(compiled := contestants.get(COMPILED), Local):
                    row.first_call, row.kernels = compiled.first_call, compiled.kernels


@contextlib.contextmanager
def started(
    names: Sequence[str], threads: int | None, here: bool = False, compiler: Callable | None = None
) -> Iterator[dict[str, Local | Peer]]:
    """Contestants by name, each in a process of its own, or with ``here`` jtorch's modes in this one."""
    with contextlib.ExitStack() as stack:
        yield {
            name: Local(name, threads, compiler)
            if here and name in MODES
            else stack.enter_context(Peer(name, threads))
            for name in names
        }


def add_samples(
    row: Row, contestants: Mapping[str, Local | Peer], effort: Effort, steps: int = STEPS_COMPARED
) -> None:
    """Let the contestants run the row's workload, eager mode first, and add their samples to the row.

    One that fails, or whose first ``steps`` compute something else than eager mode's, gets an entry in the
    row's errors and no figure.
    """
    ready: dict[str, Local | Peer] = {}
    expected: Record | None = None
    for name, contestant in contestants.items():
        if EAGER in row.errors or name in row.errors:
            continue
        try:
            found = contestant.prepare(row.workload.name, steps)
            if expected is None:
                expected = found
            row.check(name, found, expected)
            ready[name] = contestant
        except Exception as error:
            _fail(row, name, error)
    calls = {name: t.calls for name, t in row.timings.items()}
    if row.machine is not None:
        calls[_MACHINE] = row.machine.calls
    try:
        found_timings = interleave({**ready, _MACHINE: reference()}, effort, calls)
        for name, contestant in ready.items():
            row.cores_used.setdefault(name, []).append(contestant.cores_used())
    except Exception as error:
        _fail(row, "timing", error)
        return
    machine = found_timings.pop(_MACHINE)
    row.machine = machine if row.machine is None else row.machine.joined(machine)
    far = cores.distance()
    row.distance = far if far is None or row.distance is None else row.distance.joined(far)
    for name, timing in found_timings.items():
        row.timings[name] = row.timings[name].joined(timing) if name in row.timings else timing


def _fail(row: Row, name: str, error: Exception) -> None:
    row.errors[name] = words(error)
    row.timings.pop(name, None)


def add_costs(row: Row, effort: Effort, own_process: bool = True) -> None:
    """What the tape costs at each eager step, and what the first compiled call costs in new processes."""
    if EAGER in row.errors:
        return
    try:
        row.tape = tape.cost(row.workload.torch_like(jtorch), effort)
        if own_process and COMPILED not in row.errors:
            row.first_call = first_call.measure(row.workload.name)
            row.kernels = row.first_call.kernels
    except Exception as error:
        _fail(row, "costs", error)


def words(error: Exception) -> str:
    kind = "" if isinstance(error, (DisagreementError, PeerError)) else f"{type(error).__name__}: "
    return f"{kind}{error}"
