"""``python -m benchmarks memory``: what a training step needs, each mode and library by itself."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from rich.console import Console

from benchmarks import tables
from benchmarks.contestant import MODES
from benchmarks.costs import section
from benchmarks.costs.peak import NOT_HERE, Memory
from benchmarks.peers import PEERS, Peer
from benchmarks.program import Workload
from benchmarks.report import size

STEPS = 3
KEPT = ("parameters", "gradients", "optimizer state")
HEADINGS = ("step", "parameters", "gradients", "optimizer\nstate", "saved for\nbackward", "arena", "peak")
SHOWN = {**{mode: mode.removeprefix("jtorch ") for mode in MODES}, **PEERS}


@dataclass(frozen=True)
class Line:
    """The memory of one row in one mode or library."""

    workload: Workload
    contestant: str
    memory: Memory

    def cells(self) -> list[str]:
        memory = self.memory
        found = [*(memory.kept.get(what) for what in KEPT), memory.saved, memory.arena, memory.peak]
        name = _name(self.workload, self.contestant)
        return [name, *("" if nbytes is None else size(nbytes) for nbytes in found)]

    def as_dict(self) -> dict[str, Any]:
        named = {"name": self.workload.name, "what": self.workload.what, "contestant": self.contestant}
        return {**named, **self.memory.as_dict()}


def run(
    rows: Sequence[Workload], peers: Sequence[str], threads: int | None, quick: bool, json: Path | None
) -> int:
    """Measure ``rows`` in both modes and in ``peers``."""
    each = [
        (_name(row, contestant), partial(_measure, row, contestant, threads, 1 if quick else STEPS))
        for row in rows
        for contestant in (*MODES, *peers)
    ]
    return section.run("memory", each, _show, threads, quick, json)


def _name(row: Workload, contestant: str) -> str:
    return f"{row.name}, {SHOWN[contestant]}"


def _measure(row: Workload, contestant: str, threads: int | None, steps: int) -> Line:
    with Peer(contestant, threads) as process:
        return Line(row, contestant, process.memory(row.name, steps))


def _show(console: Console, found: Sequence[Line]) -> None:
    note = "peak: how far the process grows by the program and its steps, data included"
    cells = [line.cells() for line in found]
    tables.show(console, "Memory of a training step", HEADINGS, cells, caption=note)
    if any(line.memory.peak is None for line in found):
        console.print(NOT_HERE, highlight=False)
