"""``python -m benchmarks compiled``: a training step of ordinary networks, both modes beside the peers.

PyTorch takes part eager, by torch.compile, and with images in its channels_last layout; each peer in a
process of its own. A contestant whose loss or gradients differ from eager mode's has no figure.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from rich.console import Console

from benchmarks import report, tables
from benchmarks.contestant import COMPILED, EAGER, MODES
from benchmarks.machine import describe
from benchmarks.measure import Row, measure_all
from benchmarks.models.rows import IMAGES, MODELS
from benchmarks.peers import PEERS
from benchmarks.program import Workload
from benchmarks.progress import Progress
from benchmarks.report import duration
from benchmarks.timing import FULL, QUICK

PAUSE = 0.02  # seconds; without it the compiled CNN takes 31 ms, not 19: OpenMP's threads spin beside it
STEPS_COMPARED = 1  # rounding grows with each: through batch norms and Adam's division by ten a step
SHOWN = {
    "torch": "PyTorch eager", "channels_last": "channels_last", "torch.compile": "torch.compile",
    "jax": "jax.jit",
}  # fmt: skip


class ModelRow(Row):
    """A row with its best peer."""

    @property
    def best_peer(self) -> str | None:
        peers = [name for name in self.timings if name not in (EAGER, COMPILED)]
        return min(peers, key=lambda name: self.timings[name].median, default=None)

    @property
    def ratio(self) -> float | None:
        """The best peer's time over the compiled step's: above 1, jtorch is faster."""
        if self.best_peer is None or COMPILED not in self.timings:
            return None
        return self.timings[self.best_peer].median / self.timings[COMPILED].median

    @property
    def eager_ratio(self) -> float | None:
        """Eager mode's time over PyTorch's."""
        if "torch" not in self.timings or EAGER not in self.timings:
            return None
        return self.timings[EAGER].median / self.timings["torch"].median

    def as_dict(self) -> dict[str, Any]:
        return {
            **super().as_dict(),
            "best_peer": self.best_peer,
            "best_peer_over_compiled": self.ratio,
            "eager_over_torch": self.eager_ratio,
        }


def run(
    names: Sequence[str],
    peers: Sequence[str],
    threads: int | None,
    quick: bool = False,
    processes: int = 0,
    as_markdown: bool = False,
    json: Path | None = None,
) -> int:
    """Measure and print; 0 if every contestant has its figures, 1 otherwise, 130 after Ctrl-C."""
    effort = replace(QUICK if quick else FULL, pause=PAUSE, processes=processes)
    machine, rows = describe(threads), [ModelRow(MODELS[name]) for name in names or MODELS]

    def contestants(workload: Workload) -> list[str]:
        return [*MODES, *(name for name in peers if _has(name, workload))]

    with Progress() as progress:
        measure_all(rows, contestants, threads, effort, progress, STEPS_COMPARED)
    rows = [row for row in rows if row.timings or row.errors]
    shown = [n for n in (EAGER, COMPILED, *SHOWN) if any(n in r.timings for r in rows)]
    if as_markdown:
        print(markdown(rows, shown))
    else:
        _show(tables.console(), machine, rows, shown)
    report.show_errors(Console(stderr=True), rows)
    if quick:
        print("--quick: samples are too short for figures", file=sys.stderr)
    if json is not None:
        settings = {"section": "compiled", "quick": quick, "peers": list(peers)}
        report.write_json(json, machine, [row.as_dict() for row in rows], settings)
    return progress.status(any(row.errors for row in rows))


def _has(peer: str, workload: Workload) -> bool:
    """Whether the peer has a form of the workload."""
    if peer == "jax":
        return workload.jax is not None
    return peer != "channels_last" or workload.name in IMAGES


def cells(row: ModelRow, shown: Sequence[str]) -> list[str]:
    """Name, medians, and how much faster than the best peer the compiled step is."""
    times = [duration(row.timings[n].median) if n in row.timings else "" for n in shown]
    ratios = [f"{r:.2f}" if r is not None else "" for r in (row.ratio, row.eager_ratio)]
    return [row.workload.what, *times, *ratios]


def headings(shown: Sequence[str]) -> list[str]:
    names = [SHOWN.get(n, n) for n in shown]
    return ["step", *names, "best peer / compiled", "eager / PyTorch"]


def means(rows: Sequence[ModelRow]) -> str:
    """The geometric means of both ratios."""
    found = []
    for what, values in (
        ("best peer / compiled", [r.ratio for r in rows]), ("eager / PyTorch", [r.eager_ratio for r in rows])
    ):  # fmt: skip
        known = [math.log(v) for v in values if v is not None]
        if known:
            found.append(f"{what} {math.exp(sum(known) / len(known)):.2f}")
    return f"geometric means: {', '.join(found)}" if found else ""


def markdown(rows: Sequence[ModelRow], shown: Sequence[str]) -> str:
    head = headings(shown)
    table = [head, ["---", *["---:"] * (len(head) - 1)], *(cells(r, shown) for r in rows)]
    return "\n".join(f"| {' | '.join(line)} |" for line in table) + f"\n\n{means(rows)}"


def _show(console: Console, machine: dict[str, Any], rows: Sequence[ModelRow], shown: Sequence[str]) -> None:
    report.show_machine(console, machine)
    title = "A training step with Adam: medians"
    tables.show(console, title, headings(shown), [cells(row, shown) for row in rows])
    console.print(means(rows))


def known_peers() -> tuple[str, ...]:
    """All that ``--peers`` takes here."""
    return ("torch", "channels_last", "torch.compile", *(name for name in PEERS if name != "torch"))
