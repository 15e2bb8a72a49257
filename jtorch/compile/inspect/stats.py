"""``f.stats()``: what a call costs stage by stage, and after how many calls compiling has paid for itself."""

from __future__ import annotations

import itertools
import math
import statistics
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from typing import Any

from jtorch.compile.inspect.fitting import Asked
from jtorch.compile.inspect.ledger import aligned
from jtorch.compile.record.arrays import given
from jtorch.compile.record.handed import with_arguments
from jtorch.compile.record.inputs import GradInput, of
from jtorch.compile.record.snapshot import Snapshot
from jtorch.compile.record.tree import Leaves, rebuild, unflatten
from jtorch.compile.run.lines import STAGES, Guard, Line, Ways, function_of
from jtorch.compile.timings import Timings
from jtorch.core import watch
from jtorch.core.errors import FailedCheck, OtherBranch
from jtorch.eager.evaluate import EAGER
from jtorch.eager.tensor import wrap

_REPLAYS = 50
_EAGER_RUNS = 5


@dataclass(frozen=True)
class Stats:
    """Medians in microseconds by stage of one call; ``eager_us`` is the same call uncompiled. ``plan`` says
    which of the function's plans was measured.

    ``calls`` counts replays so far, ``calls_to_pay_back`` how many in all outweigh ``compile_seconds``: None
    where the compiled call is no faster. Each stage includes one look at the clock, about 0.05 us; where the
    tensors are on a device that waits until it is done, so that its time is that of the stage.
    """

    name: str
    guard_us: float
    marshal_us: float
    kernels_us: float
    wrap_us: float
    eager_us: float
    timings: Timings
    calls: int
    retraces: int
    plan: str = ""

    @property
    def call_us(self) -> float:
        return self.guard_us + self.marshal_us + self.kernels_us + self.wrap_us

    @property
    def compile_seconds(self) -> float:
        return self.timings.total

    @property
    def calls_to_pay_back(self) -> int | None:
        saved = self.eager_us - self.call_us
        return math.ceil(self.compile_seconds * 1e6 / saved) if saved > 0 else None

    def __str__(self) -> str:
        times = [
            (f"{stage} us", f"{getattr(self, f'{stage}_us'):.2f}") for stage in (*STAGES, "call", "eager")
        ]
        stages = ("trace", "passes", "fuse", "plan", "emit", "build", "total")
        costs = [(f"{stage} ms", f"{getattr(self.timings, stage) * 1e3:.2f}") for stage in stages]
        paid = self.calls_to_pay_back
        counts = [
            ("kernels compiled", str(self.timings.kernels_compiled)),
            ("calls so far", str(self.calls)),
            ("retraces", str(self.retraces)),
            ("calls until paid back", "never" if paid is None else str(paid)),
        ]
        return "\n".join([self.name, *self.plan.splitlines(), aligned([*times, *costs, *counts])])


def stats(function: Any, asked: Asked) -> Stats:
    """Measure replays of the plan and eager runs of ``function``; put back what they change."""
    calls = type(function).calls.function(function)  # the user may have hung a number of that name on it
    plan, leaves = asked.plan, asked.leaves or []
    snapshots = [Snapshot(plan.capture, leaves)]
    if not asked.fits:  # uncompiled, the function goes by the state as it is now
        snapshots.append(Snapshot(function.recorded(leaves, asked.structure), leaves))
    before = plan.clock.count
    try:
        guard, marshal, kernels, wrap = _measured(plan, leaves, asked.structure, snapshots[0])
        _restore(snapshots)

        def arguments() -> Any:  # whose lists and dicts a call may change
            return unflatten(asked.structure, [*map(given, leaves)])

        with nullcontext() if asked.fits else _undone():
            eager = _median_us(function.function, arguments, _EAGER_RUNS, _clock_of(plan))
    finally:
        _restore(snapshots)
        function.uncounted += plan.clock.count - before
    return Stats(
        function.name, guard, marshal, kernels, wrap, eager,
        plan.timings, calls, len(function.retraces), asked.which,
    )  # fmt: skip


def _restore(snapshots: list[Snapshot]) -> None:
    for snapshot in reversed(snapshots):
        snapshot.restore()


@contextmanager
def _undone() -> Iterator[None]:
    """Modes, flags and optimizer state that the block makes are gone after it."""
    noting = watch.Journal()
    token = watch.journal.set(noting)
    try:
        yield
    finally:
        watch.journal.reset(token)
        noting.undo()


def _measured(plan: Any, leaves: list[Any], structure: Any, snapshot: Snapshot) -> list[float]:
    """Microseconds of each stage of a replay, with the gradients that the plan was recorded with. A replay
    that comes to another way through a branch, for training goes on, is done again from the start."""
    call, clock = with_arguments(_timed_call(plan)), _clock_of(plan)
    plan.counts.take(leaves)
    samples: list[list[int]] = []
    for _ in range(2 * _REPLAYS):
        _as_recorded(plan, leaves)
        handed: Any = tuple(leaves)
        if plan.capture.needs_containers:
            handed = Leaves(leaves, rebuild(structure, leaves)[1])
        start = clock()
        try:
            marks = [start, *call(handed)]
        except (OtherBranch, FailedCheck):
            snapshot.restore()
            continue
        samples.append([b - a for a, b in itertools.pairwise(marks)])
        if len(samples) == _REPLAYS:
            break
    if not samples:
        raise RuntimeError(f"'{plan.capture.name}' goes another way through its branches now: call it once")
    return [statistics.median(column) / 1e3 for column in zip(*samples, strict=True)]


def _as_recorded(plan: Any, leaves: list[Any]) -> None:
    """Give each tensor the gradient, or none, that the plan takes."""
    for entry in of(GradInput, plan.capture.inputs):
        tensor = entry.owner(leaves)
        grad, type = EAGER.get_grad(tensor), entry.var.type
        if not entry.present:
            EAGER.set_grad(tensor, None)
        elif grad is None or (grad._data.shape, grad._data.dtype) != (type.shape, type.dtype):
            EAGER.set_grad(tensor, wrap(plan.gradients.zeros(type.shape, type.dtype)))


def _clock_of(plan: Any) -> Callable[[], int]:
    """Nanoseconds, when what was asked for is done."""
    if plan.memory is None:
        return time.perf_counter_ns

    def when_done() -> int:
        with plan.memory.native.own():
            plan.memory.native.synchronize()
        return time.perf_counter_ns()

    return when_done


def _median_us(
    run: Callable[..., Any], arguments: Callable[[], Any], times: int, clock: Callable[[], int]
) -> float:
    samples = []
    for _ in range(times):
        args, kwargs = arguments()
        start = clock()
        run(*args, **kwargs)
        samples.append(clock() - start)
    return statistics.median(samples) / 1e3


def _timed_call(plan: Any) -> Callable[[tuple], list[int]]:
    """The plan's generated call with a look at the clock where a stage begins. What its guards say is of no
    account: its arguments have passed them, and state may be another one (``fitting.py``)."""
    names = {**plan.written.__globals__, "time_ns": _clock_of(plan)}
    return function_of([Line("marks = []"), *plan.lines], names, _Timed())


class _Timed(Ways):
    """The times at which stages end are what is returned."""

    def mark(self, stage: str) -> str:
        return "marks.append(time_ns())"

    def miss(self, guard: Guard) -> str:
        return "pass"

    def returned(self, value: str) -> list[str]:
        return [f"result = {value}", self.mark("end"), "return marks"]
