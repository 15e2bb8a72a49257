"""``python -m benchmarks cuda``: steps of the fifteen networks on a CUDA device, both modes, by its events.

Written on machines without a GPU: the tests run it on their own device, which says nothing of time.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from rich.console import Console

import jtorch
from benchmarks import tables
from benchmarks.agree import record
from benchmarks.contestant import COMPILED, EAGER
from benchmarks.costs import section
from benchmarks.measure import Row, words
from benchmarks.program import Program, Workload
from benchmarks.report import show_errors, time_cell
from benchmarks.timing import FULL, QUICK, Calls, Effort, interleave


def missing() -> str:
    """Why there is no device, as ``.cuda()`` says it; nothing where there is one."""
    try:
        jtorch.zeros(1).cuda()
    except RuntimeError as error:
        return str(error)
    return ""


def run(rows: Sequence[Workload], threads: int | None, quick: bool, json: Path | None) -> int:
    """Measure ``rows`` on the device."""
    effort = QUICK if quick else FULL
    each = [(row.name, partial(measure, row, effort)) for row in rows]
    return section.run("cuda", each, _show, threads, quick, json, failed=lambda row: bool(row.errors))


def measure(workload: Workload, effort: Effort) -> Row:
    """The times of both modes, whose first steps must agree: else the compiled one has none."""
    row = Row(workload)
    program = _there(workload)
    steps: dict[str, Callable[..., Any]] = {EAGER: program.step}
    expected = record(program, program.step, 1)
    try:
        compiled = jtorch.compile(program.step)
        row.check(COMPILED, record(program, compiled, 1), expected)
        steps[COMPILED] = compiled
    except Exception as error:  # a plan that the device has not, as of a loop over time
        row.errors[COMPILED] = words(error)
    contestants = {
        name: Calls(step, program.arguments, program.reset, clock=events) for name, step in steps.items()
    }
    row.timings = interleave(contestants, effort)
    return row


def _there(workload: Workload) -> Program:
    """The program with its parameters, state and data on the device."""
    before = jtorch.get_default_device()
    jtorch.set_default_device("cuda")
    try:
        program = workload.torch_like(jtorch)
    finally:
        jtorch.set_default_device(before)
    program.arguments = [tuple(a.cuda() for a in row) for row in program.arguments]
    return program


def events() -> Callable[[], float]:
    """A clock of two events around the work in the stream."""
    start = jtorch.cuda.Event(enable_timing=True)
    start.record()

    def seconds() -> float:
        end = jtorch.cuda.Event(enable_timing=True)
        end.record()
        end.synchronize()
        return start.elapsed_time(end) / 1e3

    return seconds


def _show(console: Console, found: Sequence[Row]) -> None:
    console.print(f"{jtorch.cuda.get_device_name()}\n", markup=False, highlight=False)
    cells = [
        [
            row.workload.name,
            time_cell(row, EAGER),
            time_cell(row, COMPILED),
            "" if row.speedup is None else f"{row.speedup:.2f}x",
        ]
        for row in found
    ]
    title = "A training step on the device: median, and the interquartile range in percent of it"
    tables.show(console, title, ("step", "eager", "compiled", "speed-up"), cells)
    show_errors(console, found)
