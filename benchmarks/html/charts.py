"""Charts as SVG for a page: Matplotlib draws them, the page's style gives the colours, in light and dark."""

from __future__ import annotations

import io
import re
from collections.abc import Mapping
from html import escape
from typing import Any

from benchmarks.report import duration

# Colours that stand for variables of the page's style: Matplotlib has no others that it would pass on.
INK, LINE = "#010101", "#010102"
SERIES = ("#010103", "#010104", "#010105", "#010106", "#010107")
VARIABLES = {INK: "--ink", LINE: "--line"} | {color: f"--series-{k}" for k, color in enumerate(SERIES)}
_STYLE: dict[Any, Any] = {
    "svg.fonttype": "none",  # letters stay text
    "font.size": 9,
    "text.color": INK,
    "axes.edgecolor": LINE,
    "axes.labelcolor": INK,
    "xtick.color": INK,
    "ytick.color": INK,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "legend.frameon": False,
}
_SIZE = (4.6, 2.8)  # inches: about as wide as a telephone, so that letters need no shrinking


def break_even(name: str, eager: float, curves: Mapping[str, tuple[float, float]], number: int) -> str:
    """Seconds of a run over its steps, on log scales; where lines cross compiling has paid.

    ``eager`` is the time of an eager step; ``curves`` has by name that of a first call and of later steps.
    """
    latest = max((first / (eager - step) for first, step in curves.values() if eager > step), default=1000.0)
    highest = max(10.0, 10 * latest)
    steps = [highest ** (k / 60) for k in range(61)]

    def draw(axes: Any) -> None:
        axes.plot(steps, [n * eager for n in steps], color=SERIES[0], label="eager")
        for k, (label, (first, step)) in enumerate(curves.items()):
            seconds = [first + (n - 1) * step for n in steps]
            axes.plot(steps, seconds, color=SERIES[k + 1], label=label, linestyle="-" if k == 0 else "--")
        axes.set_xscale("log")
        axes.set_yscale("log")
        axes.set_xlabel("steps")
        axes.set_ylabel("seconds")
        axes.legend()

    return svg(draw, f"{name}: seconds of a run by its steps, eager and compiled", number)


def bars(name: str, seconds: Mapping[str, tuple[float, float, float]], number: int) -> str:
    """By contestant the median of a step, with a line from the first to the third quartile."""
    names = list(seconds)

    def draw(axes: Any) -> None:
        for k, (median, low, high) in enumerate(seconds.values()):
            axes.barh(k, median * 1e3, color=SERIES[k % len(SERIES)], height=0.6)
            axes.plot([low * 1e3, high * 1e3], [k, k], color=INK, linewidth=1.2)
            axes.annotate(
                f" {duration(median)}",
                (max(median, high) * 1e3, k),
                va="center",
                color=INK,
                annotation_clip=False,
            )
        axes.set_yticks(range(len(names)), names)
        axes.invert_yaxis()
        axes.set_xlabel("ms a step")
        axes.margins(x=0.25)

    return svg(draw, f"{name}: time of a step by contestant", number)


def svg(draw: Any, label: str, number: int) -> str:
    """What ``draw`` puts on axes, as an element of a page that has other charts, too."""
    import matplotlib as mpl
    from matplotlib.figure import Figure
    from matplotlib.rcsetup import cycler

    cycle = cycler(color=SERIES)  # so that "C0" is the page's first colour
    with mpl.rc_context({**_STYLE, "svg.hashsalt": str(number), "axes.prop_cycle": cycle}):
        figure = Figure(figsize=_SIZE, layout="constrained")
        figure.patch.set_alpha(0)
        axes = figure.add_subplot()
        axes.patch.set_alpha(0)
        draw(axes)
        text = io.StringIO()
        figure.savefig(text, format="svg", metadata=dict.fromkeys(("Date", "Creator", "Format", "Type")))
    return _for_a_page(text.getvalue(), label, number)


def _for_a_page(svg: str, label: str, number: int) -> str:
    svg = svg[svg.index("<svg") :]
    svg = re.sub(r"<metadata>.*?</metadata>", "", svg, flags=re.DOTALL)
    svg = re.sub(r'\b(id=")', rf"\1c{number}-", svg)  # no id stands twice in a page
    svg = re.sub(r'(href="#|url\(#)', rf"\1c{number}-", svg)
    for color, variable in VARIABLES.items():
        svg = svg.replace(color, f"var({variable})")
    size = r'<svg([^>]*?) width="[^"]*"'
    svg = re.sub(r'(<svg[^>]*?) height="[^"]*"', r"\1", svg, count=1)
    return re.sub(size, rf'<svg role="img" aria-label="{escape(label)}"\1', svg, count=1)
