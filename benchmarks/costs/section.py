"""What these commands have in common: rows are measured one after the other, shown, and written."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, Protocol, TypeVar

from rich.console import Console
from rich.markup import escape

from benchmarks import report, tables
from benchmarks.machine import describe
from benchmarks.measure import words
from benchmarks.progress import Progress


class Figures(Protocol):
    """Those of one row."""

    def as_dict(self) -> dict[str, Any]: ...


F = TypeVar("F", bound=Figures)


def run(
    name: str,
    rows: Iterable[tuple[str, Callable[[], F]]],
    show: Callable[[Console, Sequence[F]], None],
    threads: int | None,
    quick: bool,
    json: Path | None,
    failed: Callable[[F], bool] = lambda figures: False,
) -> int:
    """Measure each of ``rows`` (what it is called, and what measures it), and ``show`` those that have
    figures; 0 if all have, 1 if one is an error or has one (``failed``), 130 after Ctrl-C. ``name`` is that
    of the command."""
    machine = describe(threads)
    found: list[F] = []
    errors: dict[str, str] = {}
    with Progress() as progress:
        for row, measure in rows:
            progress.say(f"{name}: {row}")
            try:
                found.append(measure())
            except Exception as error:
                errors[row] = words(error)
    console = tables.console()
    report.show_machine(console, machine)
    show(console, found)
    for row, told in errors.items():
        console.print(f"{tables.ERROR} {escape(row)}: {escape(told)}", highlight=False, soft_wrap=True)
    if json is not None:
        facts = [figures.as_dict() for figures in found]
        facts += [{"name": row, "error": told} for row, told in errors.items()]
        report.write_json(json, machine, facts, {"section": name, "quick": quick})
    if quick:
        print("--quick: few rows and short samples, no figures", file=sys.stderr)
    return progress.status(bool(errors) or any(map(failed, found)))
