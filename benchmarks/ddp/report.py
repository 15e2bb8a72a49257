"""The tables of ``python -m benchmarks ddp``, for a terminal and as Markdown."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from rich.console import Console

from benchmarks import tables
from benchmarks.report import ERROR, duration, show_machine

if TYPE_CHECKING:
    from benchmarks.ddp.measure import Row
    from benchmarks.ddp.predict import Prediction
    from benchmarks.ddp.section import Result, Setting
    from benchmarks.timing import Timing

Lines = list[list[str]]
DEFINITIONS = (
    "Every process has one thread, so one process computes on one core and two on two. The batch is that of "
    "each process (weak scaling): efficiency is a step in one process over a step in two that average. "
    "Apart: two processes at once that do not average. Bytes: what each process puts into the collectives of "
    "a step. Collectives: these by themselves. Exposed: averaged less apart, with packing and hooks. "
    "Waiting: what of it a barrier after each step costs those apart, the slower being waited for. Hidden: "
    "collectives less exposed, below 0 where averaging costs more than its collectives. Medians "
    "(interquartile range)."
)
ASSUMPTIONS = (
    "Alpha and beta are those fitted in the network named, where two processes were measured, one process "
    "to a host; they are assumed to stay as they are however many hosts there are (no congestion, all "
    "equally far, none late), and a step computes as long as in one process of this host."
)
STEPS = (
    "step", "", "1 process", "apart", "averaged", "efficiency", "bytes", "collectives", "exposed", "waiting",
    "hidden",
)  # fmt: skip
PREDICTED = ("figure", "predicted", "measured", "error")
SCALES = (
    "step", "network", "ranks", "collectives", "step: nothing hidden, all that can be", "efficiency",
    "by ring", "halving and doubling", "recursive doubling",
)  # fmt: skip


def show(result: Result, machine: dict[str, Any], as_markdown: bool) -> None:
    """Print all of it: what was measured, what the model says of it, and what it says beyond."""
    console = tables.console()
    if not as_markdown:
        show_machine(console, machine)
    print(f"{DEFINITIONS}\n")
    for setting in result.settings:
        _table(console, f"Steps, {setting.name}", STEPS, step_lines(setting.rows), as_markdown)
        if setting.remark:
            print(f"{setting.name}: {setting.remark}\n")
    for setting in result.settings:
        print(f"\n{constants(setting)}\n")
        _table(console, f"Model and measured points, {setting.name}", PREDICTED, point_lines(setting),
               as_markdown)  # fmt: skip
    if result.scales:
        print(f"\nEXTRAPOLATION. {ASSUMPTIONS}\n")
        _table(console, "EXTRAPOLATION, not measured", SCALES, scale_lines(result), as_markdown)
    for reason in result.skipped:
        print(f"skipped: {reason}")
    for setting in result.settings:
        show_errors(Console(stderr=as_markdown), setting.rows)


def _table(console: Console, title: str, headings: Sequence[str], lines: Lines, as_markdown: bool) -> None:
    if as_markdown:
        rule = ["---", *["---:"] * (len(headings) - 1)]
        print("\n".join(f"| {' | '.join(line)} |" for line in ([*headings], rule, *lines)) + "\n")
        return
    tables.show(console, title, headings, [[cell.replace(" (", "\n(") for cell in line] for line in lines])


def show_errors(console: Console, rows: Sequence[Row]) -> None:
    for row in rows:
        for who, message in row.errors.items():
            console.print(f"{ERROR} {row.workload.name}, {who}:", end=" ")
            console.print(message, markup=False, highlight=False)


def _spread(timing: Timing | None) -> str:
    return "" if timing is None else f"{duration(timing.median)} ({duration(timing.spread)})"


def step_lines(rows: Sequence[Row]) -> Lines:
    """A line for each contestant of each row, under STEPS."""
    lines = []
    for row in rows:
        for who, cost in row.costs.items():
            share = "" if cost.efficiency is None else f"{cost.efficiency:.2f}"
            times = [_spread(t) for t in (cost.alone, cost.apart, cost.averaged)]
            parts = [_spread(t) for t in (cost.collectives, cost.exposed, cost.waiting, cost.hidden)]
            lines.append([row.workload.what, who, *times, share, f"{row.nbytes:,}", *parts])
        lines += [[row.workload.what, who, *[""] * 3, "ERROR", *[""] * 5] for who in row.errors]
    return lines


def constants(setting: Setting) -> str:
    """The fitted model in a sentence, with how far it is off where it was not fitted."""
    n = setting.network
    more = "; in more hosts, which share this machine's cores, by " if setting.more else ""
    return (
        f"{n.name}: a call takes {duration(n.call)}, a message alpha = {duration(n.alpha)}, a byte beta = "
        f"{n.beta * 1e9:.3f} ns ({rate(n.beta)}), adding a byte gamma = {n.gamma * 1e9:.3f} ns; of points "
        f"that were not fitted it is off by {_off(setting.held_out)}{more}{_off(setting.more)}."
    )


def _off(predictions: Sequence[Prediction]) -> str:
    errors = [abs(p.error) for p in predictions]
    if not errors:
        return ""
    return f"{100 * statistics.median(errors):.0f}% in the median, {100 * max(errors):.0f}% at most"


def rate(beta: float) -> str:
    return f"{8e-9 / beta:.1f} Gbit/s" if beta else "no limit"


def point_lines(setting: Setting) -> Lines:
    """A line for each prediction, under PREDICTED."""
    parts = (
        (setting.fitted, "fitted"), (setting.held_out, "held out"), (setting.more, "held out"),
        (setting.steps, "compiled"),
    )  # fmt: skip
    return [_prediction(p, how) for found, how in parts for p in found]


def _prediction(p: Prediction, how: str) -> list[str]:
    return [f"{how}: {p.what}", duration(p.predicted), duration(p.measured), f"{100 * p.error:+.0f}%"]


def scale_lines(result: Result) -> Lines:
    """A line for each number of processes of each row and network, under SCALES."""
    lines = []
    for (row, network), scales in result.scales.items():
        for s in scales:
            steps = f"{duration(s.step)}, {duration(s.hidden_step)}"
            shares = ", ".join(f"{share:.2f}" for share in s.efficiency)
            others = [duration(seconds) for seconds in s.others.values()]
            lines.append([row, network, f"{s.ranks:,}", duration(s.collectives), steps, shares, *others])
    return lines


def one_line(row: Row, took: float) -> str:
    """A row while the run goes on."""
    parts = [
        f"{who} {duration(c.averaged.median)}, {duration(c.exposed.median)} exposed"
        for who, c in row.costs.items()
    ]
    parts += [f"{who} ERROR" for who in row.errors]
    return f"{row.workload.name:<10} {'; '.join(parts)}  [{took:.1f} s]"
