"""``python -m benchmarks cuda``: steps of the fifteen networks on a CUDA device, both modes and peers.

Beside times: how often a step launches something, the most memory, and how far the first step's gradients
are from those in float64. Written on machines without a GPU: the tests run it on their own device, which says
nothing of time.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console

import jtorch
from benchmarks import tables
from benchmarks.agree import Record, record
from benchmarks.contestant import COMPILED, MODES
from benchmarks.costs import section
from benchmarks.costs.device_peers import OnDevice, events, on, peer
from benchmarks.measure import Row, words
from benchmarks.program import Program, Workload
from benchmarks.report import show_errors, size, time_cell
from benchmarks.timing import FULL, QUICK, Calls, Effort, interleave
from jtorch.compile.run import device_memory

LAUNCHES = ("cuLaunchKernel", "cuGraphLaunch")
SMALL = 1e-3  # of the largest gradient: tensors of smaller ones are compared with that


@dataclass
class DeviceRow(Row):
    """By contestant: calls of the driver a step that launch something (jtorch alone), the most bytes of
    memory, and the largest difference of a gradient from float64's."""

    launches: dict[str, int] = field(default_factory=dict)
    peak: dict[str, int] = field(default_factory=dict)
    off: dict[str, float] = field(default_factory=dict)

    def as_dict(self) -> dict[str, Any]:
        more = {"launches": self.launches, "peak_bytes": self.peak, "gradients_off_float64": self.off}
        return {**super().as_dict(), **more}


def missing() -> str:
    """Why there is no device, as ``.cuda()`` says it; nothing where there is one."""
    try:
        jtorch.zeros(1).cuda()
    except RuntimeError as error:
        return str(error)
    return ""


def run(
    rows: Sequence[Workload], peers: Sequence[str], threads: int | None, quick: bool, json: Path | None
) -> int:
    """Measure ``rows`` on the device."""
    effort = QUICK if quick else FULL
    each = [(row.name, partial(measure, row, effort, peers)) for row in rows]
    return section.run("cuda", each, _show, threads, quick, json, failed=lambda row: bool(row.errors))


def measure(workload: Workload, effort: Effort, peers: Sequence[str] = (), device: str = "cuda") -> DeviceRow:
    """The figures of a workload; ``device`` is that of the peers. A contestant that fails has none, nor has
    one whose first step differs from that of the first one that does not, eager mode."""
    row, exact = DeviceRow(workload), in_float64(workload)
    contestants: dict[str, Calls] = {}
    expected: Record | None = None
    for name in (*MODES, *peers):
        try:
            there = _ours(workload) if name in MODES else peer(name, workload, device)
            program = there.program
            step = jtorch.compile(program.step) if name == COMPILED else program.step
            there.begin()
            found = record(program, step, 1)
            expected = expected or found
            row.check(name, found, expected)
            if found.gradients and exact is not None:
                row.off[name] = apart(found, exact)
            if name in MODES:
                row.launches[name] = _launches(program, step)
            if (peak := there.peak()) is not None:
                row.peak[name] = peak
            contestants[name] = Calls(
                step, program.arguments, program.reset, program.settle, clock=there.clock
            )
        except Exception as error:  # a plan that the device has not, as of a loop over time
            row.errors[name] = words(error)
    row.timings = interleave(contestants, effort)
    return row


def in_float64(workload: Workload) -> Record | None:
    """The first step of eager mode in float64, on the host; None of a workload that says its own dtype."""
    before = jtorch.get_default_dtype()
    jtorch.set_default_dtype(jtorch.float64)
    try:
        program = workload.torch_like(jtorch)
        program.arguments = [
            tuple(a.double() if a.is_floating_point() else a for a in row) for row in program.arguments
        ]
        found = record(program, program.step, 1)
    finally:
        jtorch.set_default_dtype(before)
    return found if all(g.dtype == np.float64 for g in found.gradients.values()) else None


def apart(found: Record, exact: Record) -> float:
    """The largest difference of a gradient, of the largest element of its tensor, or of all where that is
    SMALL: sums that are 0 but for rounding have nothing to be compared with."""
    largest = {name: float(np.abs(g).max()) for name, g in exact.gradients.items()}
    least = SMALL * max(largest.values())
    return max(
        float(np.abs(g - exact.gradients[name]).max()) / (max(largest[name], least) or 1.0)
        for name, g in found.gradients.items()
    )


def _ours(workload: Workload) -> OnDevice:
    cuda = jtorch.cuda
    program = on(jtorch, workload, "cuda")
    return OnDevice(program, partial(events, cuda), cuda.reset_peak_memory_stats, cuda.max_memory_allocated)


def _launches(program: Program, step: Callable[..., Any]) -> int:
    """Of a step that has run before, in calls of the driver."""
    with _counted() as calls:
        step(*program.arguments[0])
    return len(calls)


@contextlib.contextmanager
def _counted() -> Iterator[list[str]]:
    """The names of the driver's functions that launch something, one for each call meanwhile."""
    library, calls = device_memory.current().native.cuda, list[str]()
    before = {name: getattr(library, name) for name in LAUNCHES}

    def counting(name: str, function: Callable[..., None]) -> Callable[..., None]:
        def call(*arguments: Any) -> None:
            calls.append(name)
            function(*arguments)

        return call

    for name, function in before.items():
        setattr(library, name, counting(name, function))
    try:
        yield calls
    finally:
        for name, function in before.items():
            setattr(library, name, function)


def _show(console: Console, found: Sequence[DeviceRow]) -> None:
    console.print(f"{jtorch.cuda.get_device_name()}\n", markup=False, highlight=False)
    names = list(dict.fromkeys(n for row in found for n in (*MODES, *row.timings, *row.errors)))
    title = "A training step on the device: median, and the interquartile range in percent of it"
    cells = [[row.workload.name, *(time_cell(row, n) for n in names)] for row in found]
    tables.show(console, title, ("step", *names), cells)
    for title, values in (
        ("Launches a step", lambda row, n: f"{row.launches[n]:,}" if n in row.launches else ""),
        ("The most memory", lambda row, n: size(row.peak[n]) if n in row.peak else ""),
        ("Gradients' distance from float64's", lambda row, n: f"{row.off[n]:.1e}" if n in row.off else ""),
    ):
        cells = [[row.workload.name, *(values(row, n) for n in names)] for row in found]
        tables.show(console, title, ("step", *names), cells)
    show_errors(console, found)
