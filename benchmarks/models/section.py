"""``python -m benchmarks compiled``: a training step of ordinary networks, both modes beside the peers.

PyTorch takes part eager, by torch.compile, and with images in its channels_last layout; each peer in a
process of its own. A contestant whose loss or gradients differ from eager mode's has no figure.
"""

from __future__ import annotations

import contextlib
import json as json_format
import math
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from rich import box
from rich.console import Console
from rich.table import Table

import jtorch
from benchmarks.agree import DisagreementError, check, record
from benchmarks.machine import describe
from benchmarks.measure import COMPILED, EAGER
from benchmarks.models.rows import IMAGES, MODELS
from benchmarks.peers import PEERS, Peer, PeerError
from benchmarks.program import Workload
from benchmarks.report import duration, show_machine
from benchmarks.timing import FULL, QUICK, Calls, Contestant, Effort, Timing, interleave

PAUSE = 0.02  # seconds; without it the compiled CNN takes 31 ms, not 19: OpenMP's threads spin beside it
STEPS_COMPARED = 1  # rounding grows with each: through batch norms and Adam's division by ten a step
SHOWN = {
    "torch": "PyTorch eager", "channels_last": "channels_last", "torch.compile": "torch.compile",
    "jax": "jax.jit",
}  # fmt: skip


@dataclass
class ModelRow:
    """The timings of one network by contestant, and why one has none."""

    workload: Workload
    timings: dict[str, Timing] = field(default_factory=dict)
    errors: dict[str, str] = field(default_factory=dict)

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
            "name": self.workload.name,
            "what": self.workload.what,
            "timings": {name: t.as_dict() for name, t in self.timings.items()},
            "best_peer": self.best_peer,
            "best_peer_over_compiled": self.ratio,
            "eager_over_torch": self.eager_ratio,
            "errors": self.errors,
        }


def run(
    names: Sequence[str],
    peers: Sequence[str],
    threads: int | None,
    quick: bool = False,
    as_markdown: bool = False,
    json: Path | None = None,
) -> int:
    """Measure and print; 0 if every contestant has its figures, 1 otherwise."""
    machine, effort = describe(threads), replace(QUICK if quick else FULL, pause=PAUSE)
    rows = []
    with _started(peers, threads) as processes:
        for name in names or MODELS:
            start = time.perf_counter()
            rows.append(measure(MODELS[name], effort, processes))
            print(_one_line(rows[-1], time.perf_counter() - start), file=sys.stderr, flush=True)
    shown = [n for n in (EAGER, COMPILED, *SHOWN) if any(n in r.timings for r in rows)]
    if as_markdown:
        print(markdown(rows, shown))
    else:
        _show(Console(width=None if sys.stdout.isatty() else 170), machine, rows, shown)
    for row in rows:
        for who, message in row.errors.items():
            print(f"ERROR {row.workload.name}, {who}: {message}", file=sys.stderr)
    if quick:
        print("--quick: samples are too short for figures", file=sys.stderr)
    if json is not None:
        settings = {"section": "compiled", "quick": quick, "peers": list(peers)}
        content = {"machine": machine, "settings": settings, "rows": [r.as_dict() for r in rows]}
        json.write_text(json_format.dumps(content, indent=2) + "\n")
    return 1 if any(row.errors for row in rows) else 0


@contextlib.contextmanager
def _started(peers: Sequence[str], threads: int | None) -> Iterator[dict[str, Peer]]:
    with contextlib.ExitStack() as stack:
        yield {name: stack.enter_context(Peer(name, threads)) for name in peers}


def measure(workload: Workload, effort: Effort, peers: dict[str, Peer]) -> ModelRow:
    """One network: eager, compiled, and those of ``peers`` that have it."""
    row = ModelRow(workload)
    eager = workload.torch_like(jtorch)
    expected = record(eager, eager.step, STEPS_COMPARED)
    contestants: dict[str, Contestant] = {EAGER: Calls(eager.step, eager.arguments, eager.reset)}
    compiled = workload.torch_like(jtorch)
    step = jtorch.compile(compiled.step)
    try:
        check(record(compiled, step, STEPS_COMPARED), expected, workload.tolerance, COMPILED)
        contestants[COMPILED] = Calls(step, compiled.arguments, compiled.reset)
    except Exception as error:
        row.errors[COMPILED] = f"{type(error).__name__}: {error}"
    for name, peer in peers.items():
        if name == "jax" and workload.jax is None:
            continue
        if name == "channels_last" and workload.name not in IMAGES:
            continue
        try:
            found = peer.prepare(workload.name, STEPS_COMPARED)
            check(found, expected, workload.tolerance, SHOWN[name], gradients=name != "jax")
            contestants[name] = peer
        except (PeerError, DisagreementError) as error:
            row.errors[name] = str(error)
    row.timings = interleave(contestants, effort)
    return row


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
    show_machine(console, machine)
    table = Table(title="A training step with Adam: medians", box=box.SIMPLE)
    for k, heading in enumerate(headings(shown)):
        table.add_column(heading, justify="right" if k else "left")
    for row in rows:
        table.add_row(*cells(row, shown))
    console.print(table)
    console.print(means(rows))


def _one_line(row: ModelRow, took: float) -> str:
    times = ", ".join(f"{SHOWN.get(n, n)} {duration(t.median)}" for n, t in row.timings.items())
    ratio = "" if row.ratio is None else f", {row.ratio:.2f}"
    return f"{row.workload.name:<10} {times}{ratio}  [{took:.1f} s]"


def known_peers() -> tuple[str, ...]:
    """All that ``--peers`` takes here."""
    return ("torch", "channels_last", "torch.compile", *(name for name in PEERS if name != "torch"))
