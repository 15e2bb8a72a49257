"""``python -m benchmarks overhead``: what a step costs beside its arithmetic, in both modes.

Eager: four contestants take turns, the forward pass without the tape, with it, with backward behind it, and
the whole step; what a part costs is the median of the differences between their samples. Compiled:
``f.stats()``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from rich.console import Console

import jtorch
from benchmarks import tables, tape
from benchmarks.costs import section
from benchmarks.program import Program, Workload
from benchmarks.report import duration, size
from benchmarks.timing import FULL, QUICK, Calls, Effort, Timing, interleave

_WITH_BACKWARD, _STEP = "forward and backward", "the whole step"
EAGER_HEADINGS = (
    "workload", "nodes", "tape, us\na node", "saved", "forward,\nno_grad", "forward,\ntape", "backward",
    "optimizer", "step",
)  # fmt: skip
COMPILED_HEADINGS = ("workload", "guards", "marshalling", "kernels", "wrapping", "call")


@dataclass(frozen=True)
class Overhead:
    """``saved`` is what the tape keeps for backward, in bytes; ``with_backward`` is None where the result
    has no gradient by itself. ``stages`` are microseconds of a compiled call, ``compiler`` being jtorch's."""

    workload: Workload
    tape: tape.TapeCost
    saved: int
    with_backward: Timing | None
    step: Timing
    has_optimizer: bool
    stages: dict[str, float]

    @property
    def us_per_node(self) -> float:
        """What the tape adds to the forward pass. Arithmetic may hide it: then it is near zero, and even
        below."""
        return self.tape.seconds / self.tape.nodes * 1e6

    @property
    def backward(self) -> float | None:
        """Seconds behind the forward pass."""
        return None if self.with_backward is None else self.with_backward.beyond(self.tape.forward)

    @property
    def optimizer(self) -> float | None:
        """Seconds of the step behind backward; None for a step without one."""
        if self.with_backward is None or not self.has_optimizer:
            return None
        return self.step.beyond(self.with_backward)

    def eager_cells(self) -> list[str]:
        times = (self.tape.without_tape.median, self.tape.forward.median, self.backward, self.optimizer)
        return [
            self.workload.name, str(self.tape.nodes), f"{self.us_per_node:.2f}", size(self.saved),
            *("" if seconds is None else duration(seconds) for seconds in times), duration(self.step.median),
        ]  # fmt: skip

    def compiled_cells(self) -> list[str]:
        return [self.workload.name, *(duration(us / 1e6) for us in self.stages.values())]

    def as_dict(self) -> dict[str, Any]:
        return {
            "name": self.workload.name, "what": self.workload.what, "tape": self.tape.as_dict(),
            "us_per_node": self.us_per_node, "saved_bytes": self.saved,
            "forward_and_backward": self.with_backward and self.with_backward.as_dict(),
            "step": self.step.as_dict(), "backward_s": self.backward, "optimizer_s": self.optimizer,
            "compiled_us": self.stages,
        }  # fmt: skip


def run(
    rows: Sequence[Workload], threads: int | None, quick: bool, json: Path | None, compiler: Any = None
) -> int:
    """Measure ``rows``. ``compiler`` stands in for ``jtorch.compile`` in tests."""
    effort = QUICK if quick else FULL
    each = [(row.name, partial(measure, row, effort, compiler or jtorch.compile)) for row in rows]
    return section.run("overhead", each, _show, threads, quick, json)


def measure(row: Workload, effort: Effort, compiler: Callable[..., Any] = jtorch.compile) -> Overhead:
    """The figures of one row, in this process."""
    program = row.torch_like(jtorch)
    assert program.forward is not None
    contestants = tape.contestants(program) | {_STEP: Calls(program.step, program.arguments, program.reset)}
    if program.forward(*program.arguments[0]).numel() == 1:
        contestants[_WITH_BACKWARD] = Calls(_with_backward(program), program.arguments, program.reset)
    timings = interleave(contestants, effort)
    saved = tape.saved_bytes(jtorch, program)
    has_optimizer = bool(program.kept()["optimizer state"])
    cost, stages = tape.cost_of(program, timings), _stages(compiler(program.step), program)
    return Overhead(row, cost, saved, timings.get(_WITH_BACKWARD), timings[_STEP], has_optimizer, stages)


def _with_backward(program: Program) -> Callable[..., Any]:
    forward, clear = program.forward, program.clear
    assert forward is not None

    def run(*arguments: Any) -> Any:
        clear()  # gradients are new in a step, too: adding to old ones would take longer
        loss = forward(*arguments)
        loss.backward()
        return loss

    return run


def _stages(compiled: Any, program: Program) -> dict[str, float]:
    """Microseconds of the stages of a call, and of all of it."""
    program.reset()
    for _ in range(2):
        compiled(*program.arguments[0])
    stats = compiled.stats(*program.arguments[0])
    return {
        "guards": stats.guard_us, "marshalling": stats.marshal_us, "kernels": stats.kernels_us,
        "wrapping": stats.wrap_us, "call": stats.call_us,
    }  # fmt: skip


def _show(console: Console, found: Sequence[Overhead]) -> None:
    tables.show(
        console,
        "An eager step: what building the graph costs, and the parts of the step",
        EAGER_HEADINGS,
        [one.eager_cells() for one in found],
        caption="parts: medians of differences between samples in turn; saved: without parameters and data",
    )
    tables.show(
        console,
        "A compiled call, by stage",
        COMPILED_HEADINGS,
        [one.compiled_cells() for one in found],
        caption="medians; each stage includes one look at the clock",
    )
