"""The ratios of ``crossover`` as a picture: an axis for each depth, a curve for each batch."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from html import escape
from pathlib import Path
from typing import Any

from benchmarks.html import charts
from benchmarks.html.page import document

Batches = Mapping[int, Mapping[int, float]]
"""Ratios by batch and width."""

_TITLE = "From which width on overhead stops to matter"


def write(file: Path, ratios: Mapping[int, Batches], enough: float) -> None:
    """Draw ``ratios`` by depth, with a line at ``enough``, as .svg, .png or .html."""
    drawings = {_layers(depth): partial(_draw, batches, enough) for depth, batches in ratios.items()}
    if file.suffix == ".html":
        file.write_text(_page(drawings), encoding="utf-8")
        return
    from matplotlib.figure import Figure

    figure = Figure(figsize=(4 * len(drawings), 3.2), layout="constrained")
    for k, (name, draw) in enumerate(drawings.items()):
        axes = figure.add_subplot(1, len(drawings), k + 1)
        axes.set_title(name)
        draw(axes)
    figure.savefig(file, dpi=150)


def _layers(depth: int) -> str:
    return f"{depth} hidden layer" + "s" * (depth > 1)


def _draw(batches: Batches, enough: float, axes: Any) -> None:
    for k, (batch, by_width) in enumerate(batches.items()):
        widths = sorted(by_width)
        axes.plot(
            widths, [by_width[w] for w in widths], color=f"C{k % 5}", marker="o", label=f"batch {batch}"
        )
    axes.axhline(enough, linestyle="--", linewidth=1, color="gray")
    shown = sorted({width for by_width in batches.values() for width in by_width})
    axes.set_xscale("log")
    axes.set_xticks(shown, [str(width) for width in shown])
    axes.minorticks_off()
    axes.set_yscale("log")
    axes.set_xlabel("width")
    axes.set_ylabel("eager / compiled")
    axes.legend()


def _page(drawings: Mapping[str, Callable[[Any], None]]) -> str:
    parts = [f"<h1>{escape(_TITLE)}</h1>"]
    for number, (name, draw) in enumerate(drawings.items()):
        drawn = charts.svg(draw, f"{name}: eager over compiled by width", number)
        parts.append(f"<h3>{escape(name)}</h3><figure>{drawn}</figure>")
    return document(_TITLE, parts)
