"""``f.profile()``: where the time of a compiled call goes, step by step, and how far each is from the limit.

The limit of a step is the roofline (Williams, Waterman and Patterson 2009): its arithmetic at the speed of a
product, or the bytes it touches at the speed of memory, whichever takes longer. As memory of few bytes lies
in a cache, its speed is that of going through as many bytes again and again, beyond what it takes to begin
with one element. The speeds are the best of what was measured between the steps, in the same second: a
machine that is busy or slows down is so for both. A limit is that of one thread; a step that threads share
has as many times of it. On a CUDA device steps are graphs of their own, timed there, and limits are its own
(``run/cuda_times.py``).
"""

from __future__ import annotations

import math
import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from jtorch.compile.graph.products import product_of
from jtorch.compile.inspect.fitting import Asked
from jtorch.compile.inspect.ledger import aligned
from jtorch.compile.inspect.stages import Machine
from jtorch.compile.inspect.traffic import bytes_of
from jtorch.compile.plan.fuse import StepKind
from jtorch.compile.plan.loops import Compute
from jtorch.compile.plan.plan import Plan, Task
from jtorch.compile.record.handed import with_arguments
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
    threads: int = 1
    tasks: tuple[int, ...] = ()  # their numbers in the plan

    def limit_us(self, limits: Limits) -> float:
        """What it would take at the speed of the machine."""
        memory = limits.bytes_a_second(self.nbytes / self.threads)
        return max(self.flops / limits.flops, self.nbytes / memory) / self.threads * 1e6


@dataclass(frozen=True)
class Limits:
    """Operations a second of one thread, measured, and by how many bytes are gone through, bytes a second."""

    flops: float
    memory: tuple[tuple[int, float], ...]

    @property
    def nbytes(self) -> float:
        """Bytes a second of what no cache holds."""
        return self.memory[-1][1]

    def bytes_a_second(self, nbytes: float) -> float:
        """The speed of memory where so many bytes are in use: that of the next smaller measured number."""
        return next((speed for size, speed in reversed(self.memory) if size <= nbytes), self.memory[0][1])


@dataclass(frozen=True)
class Profile:
    """The steps of a compiled call in the order they run, and in words which ``plan`` that is. Printed, the
    longest come first."""

    name: str
    steps: tuple[StepTime, ...]
    limits: Limits
    plan: str = ""
    tasks: tuple[str, ...] = ()  # the names of all steps of the plan, those of runs one by one
    device: str = ""  # on which its tensors are; "" for the CPU

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
        near, far = limits.memory[0][1] / 1e9, limits.nbytes / 1e9
        nearest = "few bytes" if self.device else "the first cache"
        memory = f"{near:.0f} GB/s from {nearest}, {far:.0f} from memory"
        best = sum(s.limit_us(limits) for s in self.steps)
        head = aligned(
            [
                ("steps", f"{len(self.steps)}, {total / 1e3:.3f} ms one after the other"),
                ("at the limit", f"{best / 1e3:.3f} ms"),
                (f"limits of {self.device or 'a thread'}", f"{limits.flops / 1e9:.0f} GFLOP/s, {memory}"),
            ]
        )
        left = len(self.steps) - len(lines)
        return "\n".join(
            [
                self.name,
                *self.plan.splitlines(),
                head,
                *lines,
                *([f"and {left} shorter ones"] if left > 0 else []),
            ]
        )


def profile(name: str, asked: Asked) -> Profile:
    """Time each step of the plan, over copies of what the call reads: nothing outside changes, but for what
    disabled functions do, which are steps."""
    found: Profile = with_arguments(lambda leaves: _profile(name, asked, leaves))(asked.leaves or [])
    return found


def _profile(name: str, asked: Asked, leaves: list[Any]) -> Profile:
    plan = asked.plan
    planned, target = plan.plan_for(plan.capture.whole(leaves))
    machine = Machine(planned, target, graph_arguments(plan.capture, leaves))
    units = list(_units(planned, machine.runner.is_cut))
    timers = [machine.runner.timer_of(*unit) for unit in units]
    samples: list[list[float]] = [[] for _ in units]
    before = [np.array(a) for a in machine.inputs]
    probes, rounds = _Probes() if plan.memory is None else _DeviceProbes(plan.memory), 0
    deadline = time.perf_counter() + _SECONDS
    with np.errstate(all="ignore"):
        while time.perf_counter() < deadline or rounds < _LEAST:
            rounds += 1
            probes.go_on(rounds)
            for now, then in zip(machine.inputs, before, strict=True):
                now[...] = then  # training on one batch for ever ends in odd numbers
            machine.runner.begin()
            for timed, times in zip(timers, samples, strict=True):
                times.append(timed())
    steps = [
        _step(u, planned, statistics.median(s), machine.runner) for u, s in zip(units, samples, strict=True)
    ]
    names = tuple(task.name for task in planned.tasks)
    where = "" if plan.memory is None else str(plan.memory.name)
    plan.profiled = Profile(name, tuple(steps), probes.limits(), asked.which, names, where)
    found: Profile = plan.profiled
    return found


def _units(plan: Plan, is_cut: bool) -> Iterator[Sequence[Task]]:
    """What is timed at once: a run, or a step of none."""
    units = [run.tasks for run in plan.runs] if is_cut else []
    runs = {task: unit for unit in units for task in unit}
    for task in plan.tasks:
        if task not in runs:
            yield [task]
        elif task is runs[task][0]:
            yield runs[task]


def _step(tasks: Sequence[Task], plan: Plan, us: float, runner: Any) -> StepTime:
    first, alone = tasks[0], len(tasks) == 1
    source = first.step.eqns[0].source
    return StepTime(
        first.name if alone else f"{first.name} and {len(tasks) - 1} more",
        first.step.kind.value if alone else "run", "" if source is None else str(source), us,
        sum(_flops(task, plan, runner) for task in tasks), bytes_of(tasks, plan),
        threads.count() if runner.is_shared(*tasks) else 1,
        tuple(plan.tasks.index(task) for task in tasks),
    )  # fmt: skip


def _flops(task: Task, plan: Plan, runner: Any) -> float:
    """Floating-point operations, each op of a kernel counted as one, whatever it takes; of a loop over time
    those of its products, and none where only a call knows how many steps it takes."""
    if task.step.kind is StepKind.SCAN:
        scan = task.step.eqns[0].op.scan
        return float(runner.flops_of(task)) if scan is not None and scan.takes_all_steps else 0.0
    if task.nest is not None:
        inner = sum(isinstance(v, Compute) and v.level == 2 for v in task.nest.values())
        return float(math.prod(task.nest.sizes) * (inner + len(task.nest.reductions)))
    eqn = task.step.eqns[0]
    factors = product_of(eqn, plan.fused.find) if task.step.kind is StepKind.GEMM else None
    return 0.0 if factors is None else float(factors.product.flops)


_PRODUCTS = (64, 128, 256, 512)  # rows, columns and inner sizes; the best of them counts
_SIZES = (
    1 << 14,
    1 << 16,
    1 << 18,
    1 << 20,
    1 << 22,
    1 << 24,
    1 << 26,
)  # bytes, from the first cache to none
_LEAST = 5  # rounds, however long they take
_EVERY = 0.05  # seconds from one look at the machine to the next


class _Probes:
    """What the machine does at its best: products, copies, changes in place, and sums of squares, which only
    read."""

    def __init__(self) -> None:
        self._factors = [np.ones((n, n), np.float32) for n in _PRODUCTS]
        self._memory = np.ones(_SIZES[-1] // 4, np.float32)
        self._flops: list[float] = []
        self._beginning = math.inf  # seconds of one element
        self._speeds: dict[int, list[float]] = {size: [] for size in _SIZES}
        self._next = 0.0

    def go_on(self, rounds: int) -> None:
        """Measure once more, where it is time, or at the beginning."""
        if rounds > _LEAST and time.perf_counter() < self._next:
            return
        with _one_thread():
            for x in self._factors:
                self._flops.append(2 * len(x) ** 3 / _best(partial(xp.matmul, x, x), 3))
        one, other = self._memory[:1], self._memory[1:2]
        self._beginning = min(self._beginning, _best(partial(np.copyto, one, other), 10))
        for size, speeds in self._speeds.items():
            half = size // 8
            part, a, b = self._memory[: 2 * half], self._memory[:half], self._memory[half : 2 * half]
            for touched, run in (
                (size, partial(np.copyto, b, a)),
                (2 * size, partial(np.negative, part, part)),
                (size, partial(np.dot, part, part)),
            ):
                seconds = _best(run, 2 if size > 1 << 22 else 10) - self._beginning
                speeds.append(touched / max(seconds, 1e-9))
        self._next = time.perf_counter() + _EVERY

    def limits(self) -> Limits:
        """What was best; fewer bytes are at least as fast as more of them."""
        speeds = [max(self._speeds[size]) for size in _SIZES]
        best = [max(speeds[k:]) for k in range(len(speeds))]
        return Limits(max(self._flops), tuple(zip(_SIZES, best, strict=True)))


class _DeviceProbes:
    """What a device does at its best: products, and copies in its memory."""

    def __init__(self, memory: Any) -> None:
        from jtorch.compile.run.cuda_times import Best

        self._best = Best(memory)

    def go_on(self, rounds: int) -> None:
        """Measure once more, at the beginning: a device has no other work."""
        if rounds <= _LEAST:
            self._best.measure()

    def limits(self) -> Limits:
        """What was best; of any number of bytes there is one speed at least as high as of more of them."""
        found = list(self._best.bytes_a_second.items())
        best = [(size, max(speed for _, speed in found[k:])) for k, (size, _) in enumerate(found)]
        return Limits(self._best.flops, tuple(best))


@contextmanager
def _one_thread() -> Iterator[None]:
    before = threads.count()
    threads.set_count(1)
    try:
        yield
    finally:
        threads.set_count(before)


def _best(run: Callable[[], Any], times: int) -> float:
    """Seconds of the fastest of some runs."""
    found = []
    for _ in range(times):
        start = time.perf_counter_ns()
        run()
        found.append(time.perf_counter_ns() - start)
    return max(min(found), 1) * 1e-9
