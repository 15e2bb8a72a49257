"""Rows as tables for people and as JSON for programs."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rich import box
from rich.console import Console
from rich.table import Table

from benchmarks.first_call import STAGES
from benchmarks.measure import COMPILED, EAGER, Row
from benchmarks.peers import PEERS
from benchmarks.timing import Timing

ERROR = "[bold red]ERROR[/]"


def duration(seconds: float) -> str:
    """Three significant digits in the unit that fits: 1.23 us, 45.6 ms."""
    unit, factor = next(
        ((u, f) for u, f in (("s", 1.0), ("ms", 1e3)) if abs(seconds) * f >= 0.9995), ("us", 1e6)
    )
    return f"{format(seconds * factor, '#.3g').rstrip('.')} {unit}"


def calls(number: float) -> str:
    """A number of calls, "never" for infinity."""
    return "never" if number == math.inf else f"{int(number):,}"


def show(console: Console, machine: dict[str, Any], rows: Sequence[Row], peers: Sequence[str]) -> None:
    """Print everything: the machine, the two tables, the errors."""
    show_machine(console, machine)
    console.print(_step_times(rows, peers))
    console.print(_graph_costs(rows))
    show_errors(console, rows)


def show_machine(console: Console, machine: dict[str, Any]) -> None:
    versions = ", ".join(f"{name} {version}" for name, version in machine["versions"].items())
    threads = machine["threads"]
    share = "default threads" if threads is None else f"{threads} thread" + "s" * (threads > 1)
    console.print(f"{machine['cpu']}, {machine['cores']} cores, {share} for everyone")
    console.print(f"Python {machine['python']}, {versions}\n", highlight=False)


def show_errors(console: Console, rows: Sequence[Row]) -> None:
    for row in rows:
        for contestant, message in row.errors.items():
            console.print(f"{ERROR} {row.workload.name}, {contestant}:", end=" ")
            console.print(message, markup=False, highlight=False)


def _step_times(rows: Sequence[Row], peers: Sequence[str]) -> Table:
    table = Table(title="Time of a step: median (minimum, interquartile range)", box=box.SIMPLE)
    for heading in (
        "workload",
        "step",
        "eager",
        "compiled",
        "speed-up",
        *(PEERS[p] for p in peers),
    ):
        table.add_column(heading, justify="left" if heading in ("workload", "step") else "right")
    for row in rows:
        speedup = "" if row.speedup is None else f"{row.speedup:.1f}x"
        times = [_time(row, name) for name in (EAGER, COMPILED, *peers)]
        table.add_row(row.workload.name, row.workload.what, *times[:2], speedup, *times[2:])
    return table


def _time(row: Row, contestant: str) -> str:
    if contestant in row.errors:
        return ERROR
    timing = row.timings.get(contestant)
    return "" if timing is None else _with_spread(timing)


def _with_spread(timing: Timing) -> str:
    return f"{duration(timing.median)}\n({duration(timing.minimum)}, {duration(timing.spread)})"


def _graph_costs(rows: Sequence[Row]) -> Table:
    table = Table(
        title="What the graph costs: at every eager step, once when compiled",
        caption="nodes: ops on the tape. First call: no cached kernels, Numba imported. "
        "2nd process: kernels on disk.",
        box=box.SIMPLE,
    )
    headings = (
        "workload", "nodes", "forward\nwith tape", "no_grad", "kernels", "trace", "passes", "fuse",
        "plan", "source", "Numba\nbuild", "first call", "2nd process", "pays after\ncalls",
    )  # fmt: skip
    for heading in headings:
        table.add_column(heading, justify="left" if heading == "workload" else "right")
    for row in rows:
        table.add_row(row.workload.name, *_tape_cells(row), *_build_cells(row))
    return table


def _tape_cells(row: Row) -> list[str]:
    if row.tape is None:
        return ["", "", ""]
    tape = row.tape
    return [str(tape.nodes), duration(tape.forward.median), duration(tape.without_tape.median)]


def _build_cells(row: Row) -> list[str]:
    first = row.first_call
    if first is None:
        return [ERROR if COMPILED in row.errors else "", *[""] * (len(STAGES) + 3)]
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


def write_json(path: Path, machine: dict[str, Any], rows: Sequence[Row], settings: dict[str, Any]) -> None:
    content = {"machine": machine, "settings": settings, "rows": [row.as_dict() for row in rows]}
    path.write_text(json.dumps(content, indent=2) + "\n")
