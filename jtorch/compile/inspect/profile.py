"""``f.profile()``: where the time of a compiled call goes, step by step, and how far each is from the limit.

The limit of a step is the roofline (Williams, Waterman and Patterson 2009): its arithmetic at the speed of a
large product, or its memory at the speed of a large copy, whichever takes longer. Both speeds are measured
here: the product's on the threads that ops have now, the copy's on one. What a cache holds can be faster than
that limit, and so can a step that several threads share.
"""

from __future__ import annotations

import functools
import math
import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from jtorch.compile.graph.products import product_of
from jtorch.compile.inspect.ledger import aligned
from jtorch.compile.inspect.stages import Machine
from jtorch.compile.plan.fuse import StepKind
from jtorch.compile.plan.loops import Compute
from jtorch.compile.plan.memory import Plan, Task
from jtorch.compile.record.snapshot import graph_arguments
from jtorch.core import threads
from jtorch.ops import xp

_SECONDS = 1.0  # of measuring
_SHOWN = 25  # steps that the text lists


@dataclass(frozen=True)
class StepTime:
    """One step, or a run of steps that threads go through by tiles: ``us`` is the median of its time,
    ``flops`` and ``nbytes`` what it computes and touches."""

    name: str
    kind: str
    source: str
    us: float
    flops: float
    nbytes: int

    def limit_us(self, limits: Limits) -> float:
        """What it would take at the speed of the machine."""
        return max(self.flops / limits.flops, self.nbytes / limits.nbytes) * 1e6


@dataclass(frozen=True)
class Limits:
    """Operations a second on ``threads`` threads, and bytes a second on one, measured."""

    flops: float
    nbytes: float
    threads: int


@dataclass(frozen=True)
class Profile:
    """The steps of a compiled call in the order they run. Printed, the longest come first."""

    name: str
    steps: tuple[StepTime, ...]
    limits: Limits

    @property
    def us(self) -> float:
        """Microseconds of all steps."""
        return sum(s.us for s in self.steps)

    def __str__(self) -> str:
        limits, total = self.limits, max(self.us, 1e-9)
        lines = [
            f"{s.us:10.1f} us {s.us / total:4.0%} {s.flops / 1e6:9.2f} MFLOP {s.nbytes / 1e6:8.2f} MB"
            f" {s.limit_us(limits) / max(s.us, 1e-9):5.0%} of the limit  {s.kind} {s.name}  {s.source}"
            for s in sorted(self.steps, key=lambda s: -s.us)[:_SHOWN]
        ]
        plural, copied = "s" * (limits.threads > 1), f"{limits.nbytes / 1e9:.1f} GB/s on one"
        best = sum(s.limit_us(limits) for s in self.steps)
        head = aligned(
            [
                ("steps", f"{len(self.steps)}, {total / 1e3:.3f} ms one after the other"),
                ("at the limit", f"{best / 1e3:.3f} ms"),
                ("limits", f"{limits.flops / 1e9:.0f} GFLOP/s on {limits.threads} thread{plural}, {copied}"),
            ]
        )
        left = len(self.steps) - len(lines)
        return "\n".join([self.name, head, *lines, *([f"and {left} shorter ones"] if left > 0 else [])])


def profile(name: str, plan: Any, leaves: list[Any]) -> Profile:
    """Time each step of ``plan``, over copies of what the call reads: nothing outside changes."""
    program = plan.program
    machine = Machine(program.plan, program.target, graph_arguments(plan.capture.inputs, leaves))
    units = list(_units(program.plan, machine.runner.is_cut))
    calls = [machine.runner.call_of(*unit) for unit in units]
    samples: list[list[int]] = [[] for _ in units]
    before = [np.array(a) for a in machine.inputs]
    deadline = time.perf_counter() + _SECONDS
    with np.errstate(all="ignore"):
        while time.perf_counter() < deadline or len(samples[0]) < 5:
            for now, then in zip(machine.inputs, before, strict=True):
                now[...] = then  # training on one batch for ever ends in odd numbers
            for call, times in zip(calls, samples, strict=True):
                start = time.perf_counter_ns()
                call()
                times.append(time.perf_counter_ns() - start)
            if not units:
                break
    steps = [_step(u, program.plan, statistics.median(s) / 1e3) for u, s in zip(units, samples, strict=True)]
    return Profile(name, tuple(steps), limits(threads.count()))


def _units(plan: Plan, is_cut: bool) -> Iterator[Sequence[Task]]:
    """What is timed at once: a run, or a step of none."""
    units = [run.tasks for run in plan.runs] if is_cut else []
    runs = {task: unit for unit in units for task in unit}
    for task in plan.tasks:
        if task not in runs:
            yield [task]
        elif task is runs[task][0]:
            yield runs[task]


def _step(tasks: Sequence[Task], plan: Plan, us: float) -> StepTime:
    first, alone = tasks[0], len(tasks) == 1
    source = first.step.eqns[0].source
    nbytes = sum(v.type.nbytes for v in {v for task in tasks for v in (*task.reads, *task.writes)})
    return StepTime(
        first.name if alone else f"{first.name} and {len(tasks) - 1} more",
        first.step.kind.value if alone else "run", "" if source is None else str(source), us,
        sum(_flops(task, plan) for task in tasks), nbytes,
    )  # fmt: skip


def _flops(task: Task, plan: Plan) -> float:
    """Floating-point operations, each op of a kernel counted as one, whatever it takes."""
    if task.nest is not None:
        inner = sum(isinstance(v, Compute) and v.level == 2 for v in task.nest.values())
        return float(math.prod(task.nest.sizes) * (inner + len(task.nest.reductions)))
    eqn = task.step.eqns[0]
    factors = product_of(eqn, plan.fused.find) if task.step.kind is StepKind.GEMM else None
    return 0.0 if factors is None else float(factors.product.flops)


@functools.cache
def limits(n_threads: int) -> Limits:
    """The speed of a product of 1024 x 1024 in float32, and of a copy of 64 MB."""
    x = np.ones((1024, 1024), np.float32)
    a, b = np.ones(8_000_000), np.empty(8_000_000)
    flops = 2 * 1024**3 / _best(lambda: xp.matmul(x, x))
    return Limits(flops, 2 * a.nbytes / _best(lambda: np.copyto(b, a)), n_threads)


def _best(run: Callable[[], Any]) -> float:
    times = []
    for _ in range(7):
        start = time.perf_counter()
        run()
        times.append(time.perf_counter() - start)
    return min(times)
