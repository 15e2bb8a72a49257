"""The lines as a table for people, as Markdown, and as JSON."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rich.console import Console

from benchmarks import tables
from benchmarks.eager.measure import Line
from benchmarks.report import duration, show_machine
from benchmarks.timing import Timing

HEADINGS = ("name", "what", "jtorch eager", "peer", "peer's time", "ratio", "goal", "verdict")


def show(console: Console, machine: dict[str, Any], lines: Sequence[Line]) -> None:
    """Print the machine, the table, and the errors in full."""
    show_machine(console, machine)
    title = "Eager mode: median (interquartile range) of one op or step"
    left = ("name", "what", "peer", "verdict")
    tables.show(console, title, HEADINGS, [cells(line) for line in lines], left)
    show_errors(console, lines)


def show_errors(console: Console, lines: Sequence[Line]) -> None:
    for line in lines:
        if line.error is not None:
            console.print(f"[bold red]ERROR[/] {line.name}:", end=" ")
            console.print(line.error, markup=False, highlight=False)


def markdown(lines: Sequence[Line]) -> str:
    rows = [list(HEADINGS), ["---", "---", "---:", "---", "---:", "---:", "---:", "---"]]
    rows += [cells(line) for line in lines]
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


def cells(line: Line) -> list[str]:
    """The texts of one line, under HEADINGS."""
    ratio = "" if line.ratio is None else f"{line.ratio:.2f}"
    goal = "" if line.goal is None else f"{line.goal:g} s" if line.absolute else f"{line.goal:g}"
    ours, theirs = (_time(timing, line.ops) for timing in (line.ours, line.theirs))
    return [line.name, line.what, ours, line.peer or "", theirs, ratio, goal, line.verdict]


def _time(timing: Timing | None, ops: int) -> str:
    if timing is None:
        return ""
    return f"{duration(timing.median / ops)} ({duration(timing.spread / ops)})"


def one_line(line: Line, took: float) -> str:
    """A line while the run goes on."""
    return f"{line.name:<34} {'  '.join(filter(None, cells(line)[2:]))}  [{took:.1f} s]"


def write_json(path: Path, machine: dict[str, Any], lines: Sequence[Line], quick: bool) -> None:
    content = {
        "machine": machine,
        "settings": {"section": "eager", "quick": quick},
        "lines": [line.as_dict() for line in lines],
    }
    path.write_text(json.dumps(content, indent=2) + "\n")
