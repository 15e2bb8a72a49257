"""``python -m benchmarks crossover``: from which width on a step's overhead stops to matter.

A training step of perceptrons of every width, batch and depth, eager over compiled: where arithmetic decides,
both modes do the same, and the ratio comes near 1.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from rich.console import Console

from benchmarks import tables
from benchmarks.contestant import COMPILED, EAGER, MODES, Local, workload_of
from benchmarks.costs import picture, section
from benchmarks.measure import Row, add_samples, started
from benchmarks.models.generated import perceptron_name
from benchmarks.peers import PEERS, Peer, PeerError
from benchmarks.timing import FULL, QUICK, Effort

ENOUGH = 1.1  # eager over compiled: below it overhead is said not to matter
STEPS_COMPARED = 1  # Adam divides by a gradient's own size, so that rounding grows with each step


@dataclass(frozen=True)
class Grid:
    """The perceptrons that are measured: every combination."""

    widths: Sequence[int]
    batches: Sequence[int]
    depths: Sequence[int]

    def cells(self) -> list[tuple[int, int, int]]:
        """(depth, batch, width), widths ascending within each curve."""
        return list(itertools.product(sorted(self.depths), sorted(self.batches), sorted(self.widths)))


@dataclass
class Cell(Row):
    """The times of one perceptron."""

    depth: int = 0
    batch: int = 0
    width: int = 0

    def ratio(self, name: str = EAGER) -> float:
        """That contestant's time over the compiled step's."""
        return self.timings[name].median / self.timings[COMPILED].median

    def as_dict(self) -> dict[str, Any]:
        return {**super().as_dict(), "depth": self.depth, "batch": self.batch, "width": self.width}


def run(
    grid: Grid,
    peers: Sequence[str],
    threads: int | None,
    quick: bool,
    output: Path | None = None,
    json: Path | None = None,
    compiler: Callable[..., Any] | None = None,
) -> int:
    """Measure the cells of ``grid`` in both modes and ``peers``; the picture goes to ``output``. ``compiler``
    stands in for ``jtorch.compile`` in tests."""
    effort = QUICK if quick else FULL

    def show(console: Console, found: Sequence[Cell]) -> None:
        _show(console, found, peers)
        if output is not None and found:
            picture.write(output, curves(found), ENOUGH)
            console.print(f"The picture is in {output}.", markup=False, highlight=False, soft_wrap=True)

    with started((*MODES, *peers), threads, here=True, compiler=compiler) as contestants:
        each = [
            (
                perceptron_name(width, batch, depth),
                partial(_measure, depth, batch, width, contestants, effort),
            )
            for depth, batch, width in grid.cells()
        ]
        return section.run("crossover", each, show, threads, quick, json)


def _measure(
    depth: int, batch: int, width: int, contestants: Mapping[str, Local | Peer], effort: Effort
) -> Cell:
    workload = workload_of(perceptron_name(width, batch, depth))
    cell = Cell(workload, depth=depth, batch=batch, width=width)
    add_samples(cell, contestants, effort, STEPS_COMPARED)
    for name, told in cell.errors.items():
        raise PeerError(f"{name}: {told}")
    return cell


Curves = Mapping[int, Mapping[int, Mapping[int, float]]]
"""Ratios by depth, batch and width."""


def curves(found: Sequence[Cell], name: str = EAGER) -> Curves:
    """The ratios of all cells."""
    by_depth: dict[int, dict[int, dict[int, float]]] = {}
    for cell in found:
        by_depth.setdefault(cell.depth, {}).setdefault(cell.batch, {})[cell.width] = cell.ratio(name)
    return by_depth


def crossing(ratios: Mapping[int, float]) -> int | None:
    """The least width from which on all ratios are below ENOUGH; None where the widest is not."""
    found = None
    for width in sorted(ratios, reverse=True):
        if ratios[width] >= ENOUGH:
            break
        found = width
    return found


def _show(console: Console, found: Sequence[Cell], peers: Sequence[str]) -> None:
    for name in (EAGER, *peers):
        shown = PEERS.get(name, "eager")
        title = f"{shown} / compiled: a training step of perceptrons by their width, 64 inputs, Adam"
        ending = [f"below {ENOUGH}\nfrom width"] if name == EAGER else []
        widths = sorted({cell.width for cell in found})
        rows = [
            _row(depth, batch, ratios, widths, bool(ending))
            for depth, batches in curves(found, name).items()
            for batch, ratios in batches.items()
        ]
        tables.show(console, title, ["hidden layers, batch", *map(str, widths), *ending], rows)


def _row(depth: int, batch: int, ratios: Mapping[int, float], widths: Sequence[int], ends: bool) -> list[str]:
    name = f"{depth} layer{'s' * (depth > 1)}, batch {batch}"
    cells = [f"{ratios[width]:.2f}" if width in ratios else "" for width in widths]
    width = crossing(ratios)
    return [name, *cells, *([f"beyond {max(ratios)}" if width is None else str(width)] if ends else [])]
