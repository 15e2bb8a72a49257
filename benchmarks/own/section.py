"""The figures of the user's step: both modes, PyTorch where the file runs on it, and where time goes."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from rich.console import Console

from benchmarks import first_call, report, tables, verdict
from benchmarks.agree import DisagreementError, Record
from benchmarks.contestant import COMPILED, MODES, StepTime
from benchmarks.machine import describe
from benchmarks.measure import STEPS_COMPARED, Row, add_samples, started, words
from benchmarks.own.load import workload
from benchmarks.own.protocol import imports_torch, takes_library
from benchmarks.peers import PEERS
from benchmarks.progress import Progress
from benchmarks.report import duration
from benchmarks.steps import IN_PROCESSES
from benchmarks.timing import QUICK

SHOWN = 8  # steps of the profile


@dataclass
class OwnRow(Row):
    """A row with the longest steps of the plan, and what is to be said of PyTorch's losses."""

    profile: list[StepTime] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    def check(self, name: str, found: Record, expected: Record) -> None:
        """Modes must agree; PyTorch draws other random numbers, so initial weights may be others there."""
        try:
            super().check(name, found, expected)
        except DisagreementError as error:
            if name in MODES:
                raise
            if not self.notes:
                self.notes.append(f"{error}: other random draws, or another program; not compared further.")

    def as_dict(self) -> dict[str, Any]:
        named = {"name": self.workload.what, "profile": [vars(s) for s in self.profile], "notes": self.notes}
        return {**super().as_dict(), **named}


def run(
    target: str,
    with_torch: bool,
    threads: int | None,
    quick: bool = False,
    processes: int = 5,
    json: Path | None = None,
) -> int:
    """Measure and print; 0 if every contestant has its figures, 1 if one is an error, 130 after Ctrl-C."""
    path, _, name = target.rpartition(":")
    file = Path(path).resolve()
    row, machine = OwnRow(workload(f"{file}:{name}")), describe(threads)
    runs_on_torch = imports_torch(file) or takes_library(file, name)
    peers = ["torch"] if with_torch and runs_on_torch else []
    effort = replace(QUICK, processes=1) if quick else replace(IN_PROCESSES, processes=processes)
    with Progress() as progress:
        for turn in range(effort.processes):
            progress.say(f"{row.workload.what}: timing, {turn + 1} of {effort.processes}")
            with started((*MODES, *peers), threads) as contestants:
                add_samples(row, contestants, effort, STEPS_COMPARED)
        if not row.errors:
            progress.say(f"{row.workload.what}: the first call, and a profile")
            _add_costs(row, threads)
    _show(tables.console(), machine, row, peers, quick)
    if json is not None:
        settings = {"section": "own", "quick": quick, "peers": peers}
        told = [] if quick else verdict.sentences(row, peers)
        report.write_json(json, machine, [row.as_dict() | {"verdict": told}], settings)
    if quick:
        print("--quick: samples are too short for figures", file=sys.stderr)
    return progress.status(bool(row.errors))


def _add_costs(row: OwnRow, threads: int | None) -> None:
    try:
        row.first_call = first_call.measure(row.workload.name)
        row.kernels = row.first_call.kernels
        with started([COMPILED], threads) as contestants:
            contestants[COMPILED].prepare(row.workload.name, 2)
            row.profile = contestants[COMPILED].profile()
    except Exception as error:
        row.errors["costs"] = words(error)


def _show(console: Console, machine: dict[str, Any], row: OwnRow, peers: Sequence[str], quick: bool) -> None:
    report.show_machine(console, machine)
    names = (*MODES, *peers)
    headings = (
        "",
        *(PEERS.get(name, name.removeprefix("jtorch ")) for name in names),
        "speed-up",
        "first call",
    )
    cells = [report.time_cell(row, name) for name in names]
    speedup = "" if row.speedup is None else f"{row.speedup:.1f}x"
    first = "" if row.first_call is None else duration(row.first_call.seconds)
    title = "Time of a step: median, and the interquartile range in percent of it"
    tables.show(console, title, headings, [[row.workload.what, *cells, speedup, first]])
    if row.profile:
        _show_profile(console, row.profile)
    report.show_errors(console, [row])
    for sentence in (*(() if quick else verdict.sentences(row, peers)), *row.notes):
        console.print(sentence, markup=False, highlight=False)


def _show_profile(console: Console, profile: Sequence[StepTime]) -> None:
    total = sum(step.us for step in profile)
    longest = sorted(profile, key=lambda step: -step.us)[:SHOWN]
    cells = [
        [
            step.name,
            Path(step.source).name,
            duration(step.us / 1e6),
            f"{step.us / total:.0%}",
            f"{step.of_limit:.0%}",
        ]
        for step in longest
    ]
    left = len(profile) - len(longest)
    rest = sum(step.us for step in profile) - sum(step.us for step in longest)
    caption = "each is timed by itself; of limit: of what the machine can do"
    caption += f"; {left} shorter ones take {rest / total:.0%}" if left else ""
    headings = ("step of the plan", "line", "time", "share", "of limit")
    tables.show(console, "Where the time of a compiled step goes", headings, cells, ("line",), caption)
