"""``f.stats()``: what a call costs stage by stage, and after how many calls compiling has paid for itself."""

from __future__ import annotations

import itertools
import math
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from jtorch.compile.inspect.ledger import aligned
from jtorch.compile.record.snapshot import Snapshot
from jtorch.compile.record.tree import unflatten
from jtorch.compile.timings import Timings

_STAGES = ("guard", "marshal", "kernels", "wrap")
_REPLAYS = 50
_EAGER_RUNS = 5


@dataclass(frozen=True)
class Stats:
    """Medians in microseconds by stage of one call; ``eager_us`` is the same call uncompiled.

    ``calls`` counts replays so far, ``calls_to_pay_back`` how many in all outweigh ``compile_seconds``: None
    where the compiled call is no faster. Each stage includes one look at the clock, about 0.05 us.
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
            (f"{stage} us", f"{getattr(self, f'{stage}_us'):.2f}") for stage in (*_STAGES, "call", "eager")
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
        return f"{self.name}\n" + aligned([*times, *costs, *counts])


def stats(function: Any, plan: Any, leaves: list[Any], structure: Any) -> Stats:
    """Measure replays of ``plan`` and eager runs of ``function``; put back what they change."""
    calls = type(function).calls.function(function)  # the user may have hung a number of that name on it
    snapshot = Snapshot(plan, leaves)
    before = plan.clock.count
    try:
        stages = _measured(_timed_call(plan), tuple(leaves))
        args, kwargs = unflatten(structure, leaves)
        eager = _median_us(lambda: function.function(*args, **kwargs), _EAGER_RUNS)
    finally:
        snapshot.restore()
        function.uncounted += plan.clock.count - before
    guard, marshal, kernels, wrap = stages
    return Stats(
        function.name, guard, marshal, kernels, wrap, eager, plan.timings, calls, len(function.retraces)
    )


def _measured(call: Callable[[tuple], list[int]], leaves: tuple) -> list[float]:
    samples = []
    for _ in range(_REPLAYS):
        start = time.perf_counter_ns()
        marks = [start, *call(leaves)]
        samples.append([b - a for a, b in itertools.pairwise(marks)])
    return [statistics.median(column) / 1e3 for column in zip(*samples, strict=True)]


def _median_us(run: Callable[[], Any], times: int) -> float:
    samples = []
    for _ in range(times):
        start = time.perf_counter_ns()
        run()
        samples.append(time.perf_counter_ns() - start)
    return statistics.median(samples) / 1e3


def _timed_call(plan: Any) -> Callable[[tuple], list[int]]:
    """The plan's generated call with a look at the clock where its comments name a stage.

    # marshal               becomes    marks.append(time_ns())
    return wrap(r0)         becomes    result = wrap(r0); marks.append(time_ns()); return marks
    """
    lines = []
    for line in plan.call.source.splitlines():
        space = line[: len(line) - len(line.lstrip())]
        text = line.strip()
        if text in [f"# {stage}" for stage in _STAGES]:
            lines.append(f"{space}marks.append(time_ns())")
        elif text.startswith("def call"):
            lines += [line, "    marks = []"]
        elif text.startswith("return ") and text != "return MISS":
            lines += [f"{space}result = {text.removeprefix('return ')}", f"{space}marks.append(time_ns())"]
            lines.append(f"{space}return marks")
        else:
            lines.append(line)
    namespace = {**plan.call.__globals__, "time_ns": time.perf_counter_ns}
    exec("\n".join(lines), namespace)
    return namespace["call"]
