"""Rows as tables for people and as JSON for programs."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.markup import escape

from benchmarks import tables
from benchmarks.first_call import STAGES
from benchmarks.measure import COMPILED, EAGER, Row
from benchmarks.own.protocol import is_own
from benchmarks.peers import PEERS
from benchmarks.tables import ERROR
from benchmarks.timing import Timing


def duration(seconds: float) -> str:
    """Three significant digits in the unit that fits: 1.23 us, 45.6 ms."""
    unit, factor = next(
        ((u, f) for u, f in (("s", 1.0), ("ms", 1e3)) if abs(seconds) * f >= 0.9995), ("us", 1e6)
    )
    return f"{format(seconds * factor, '#.3g').rstrip('.')} {unit}"


def size(nbytes: float) -> str:
    """Three significant digits in the unit that fits: 512 B, 36.9 kB, 1.20 MB."""
    if nbytes < 1000:
        return f"{nbytes:.0f} B"
    unit, factor = next(((u, f) for u, f in (("kB", 1e3), ("MB", 1e6)) if nbytes < 999.5 * f), ("GB", 1e9))
    return f"{format(nbytes / factor, '#.3g').rstrip('.')} {unit}"


def calls(number: float) -> str:
    """A number of calls, "never" for infinity."""
    return "never" if number == math.inf else f"{int(number):,}"


def show(
    console: Console,
    machine: dict[str, Any],
    rows: Sequence[Row],
    peers: Sequence[str],
    costs: bool = True,
) -> None:
    """Print the machine, the times of a step, with ``costs`` what graphs cost, and the errors."""
    show_machine(console, machine)
    _show_step_times(console, rows, peers)
    if costs:
        _show_tape(console, rows)
        _show_first_calls(console, rows)
    show_errors(console, rows)


def show_machine(console: Console, machine: dict[str, Any]) -> None:
    versions = ", ".join(f"{name} {version}" for name, version in machine["versions"].items())
    share = threads_text(machine)
    own = f" (jtorch: {machine['jtorch_threads']})" if "jtorch_threads" in machine else ""
    cpu = f"{machine['cpu']}, {machine['cores']} cores, {share} for everyone{own}"
    console.print(cpu, markup=False)
    console.print(f"Python {machine['python']}, {versions}\n", highlight=False)


def threads_text(machine: dict[str, Any]) -> str:
    """``1 thread``, ``2 threads``, or that each library has its default."""
    threads = machine["threads"]
    return "default threads" if threads is None else f"{threads} thread" + "s" * (threads > 1)


def show_errors(console: Console, rows: Sequence[Row]) -> None:
    for row in rows:
        for contestant, message in row.errors.items():
            shown = row.workload.what if is_own(row.workload.name) else row.workload.name
            told = escape(message.removeprefix(f"{contestant}: "))
            console.print(f"{ERROR} {escape(shown)}, {contestant}: {told}", highlight=False, soft_wrap=True)


def _show_step_times(console: Console, rows: Sequence[Row], peers: Sequence[str]) -> None:
    names = (EAGER, COMPILED, *peers)
    headings = ("workload", "step", "eager", "compiled", "speed-up", *(PEERS[p] for p in peers))
    cells = []
    for row in rows:
        speedup = "" if row.speedup is None else f"{row.speedup:.1f}x"
        times = [time_cell(row, name) for name in names]
        cells.append([row.workload.name, row.workload.what, *times[:2], speedup, *times[2:]])
    timings = [row.timings[name] for row in rows for name in names if name in row.timings]
    caption = "~ unstable: the samples differ much, measure again on an idle machine"
    tables.show(
        console,
        "Time of a step: median, and the interquartile range in percent of it",
        headings,
        cells,
        left=("step",),
        caption=caption if any(t.unstable for t in timings) else "",
    )


def time_cell(row: Row, contestant: str) -> str:
    """The time of a contestant, ERROR, or nothing."""
    if contestant in row.errors:
        return ERROR
    timing = row.timings.get(contestant)
    return "" if timing is None else with_spread(timing)


def with_spread(timing: Timing) -> str:
    """``12.3 us 4%``, with a tilde where it is unstable."""
    mark = "~" if timing.unstable else ""
    return f"{mark}{duration(timing.median)} {timing.spread / timing.median:.0%}"


def _show_tape(console: Console, rows: Sequence[Row]) -> None:
    headings = ("workload", "nodes", "forward with tape", "under no_grad")
    cells = [
        [
            row.workload.name,
            str(tape.nodes),
            duration(tape.forward.median),
            duration(tape.without_tape.median),
        ]
        for row in rows
        if (tape := row.tape) is not None
    ]
    title = "What the graph costs at every eager step"
    tables.show(console, title, headings, cells, caption="nodes: ops on the tape")


def _show_first_calls(console: Console, rows: Sequence[Row]) -> None:
    headings = (
        "workload", "kernels", "trace", "passes", "fuse", "plan", "source", "build", "first\ncall",
        "second\nprocess", "pays after\ncalls",
    )  # fmt: skip
    tables.show(
        console,
        "What the graph costs once when compiled",
        headings,
        [[row.workload.name, *_first_call(row)] for row in rows if row.first_call or COMPILED in row.errors],
        caption="first call: no cached kernels, Numba imported; second process: kernels on disk",
    )


def _first_call(row: Row) -> list[str]:
    first = row.first_call
    if first is None:
        return [ERROR, *[""] * (len(STAGES) + 3)]
    second = "" if first.second_process is None else duration(first.second_process)
    return [
        "" if row.kernels is None else str(row.kernels),
        *(duration(first.stages[name]) for name in STAGES),
        duration(first.seconds),
        second,
        "" if row.pays_after is None else calls(row.pays_after),
    ]


def one_line(row: Row, took: float) -> str:
    """A row while the run goes on."""
    parts = [f"{name} {duration(t.median)}" for name, t in row.timings.items()]
    parts += [f"{name} ERROR" for name in row.errors]
    return f"{row.workload.name:<12} {', '.join(parts)}  [{took:.1f} s]"


def write_json(
    path: Path, machine: dict[str, Any], rows: Sequence[dict[str, Any]], settings: dict[str, Any]
) -> None:
    """What ``compare`` and ``report`` read."""
    content = {"machine": machine, "settings": settings, "rows": list(rows)}
    path.write_text(json.dumps(content, indent=2) + "\n")
