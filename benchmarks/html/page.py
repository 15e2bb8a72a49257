"""The page of a run, and of what changed since another one."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from importlib import resources
from typing import Any

from benchmarks import report
from benchmarks.compare.changes import Change, changes, machine_ratios
from benchmarks.compare.runs import Run
from benchmarks.compare.section import differences, missing, summary
from benchmarks.contestant import COMPILED, EAGER
from benchmarks.html import charts
from benchmarks.peers import PEERS
from benchmarks.report import duration
from benchmarks.timing import Timing
from jtorch.viz.page import framed, page_of_documents


@dataclass(frozen=True)
class Cell:
    """A text; ``value`` is what it is sorted by, where that is a number."""

    text: str
    value: float | None = None
    style: str = ""

    def html(self) -> str:
        value = "" if self.value is None or not math.isfinite(self.value) else f' data-value="{self.value!r}"'
        style = f' class="{self.style}"' if self.style else ""
        return f"<td{style}{value}>{escape(self.text)}</td>"


def page(run: Run, before: Run | None = None) -> str:
    """HTML that needs no network. ``before`` is an earlier run that ``run`` is compared with."""
    title = f"Benchmark of jtorch: {run.path.stem}"
    names = _contestants(run)
    parts = [
        f"<h1>{escape(title)}</h1>",
        _machine(run),
        "<h2>Verdicts</h2>",
        _verdicts(run),
        "<h2>Time of a step</h2>",
        _times(run, names),
        *([] if before is None else ["<h2>What changed</h2>", _changes(before, run)]),
        "<h2>First calls</h2>",
        _first_calls(run),
        "<h2>Workloads</h2>",
        *(_workload(k, row, run) for k, row in enumerate(run.content["rows"])),
        "<h2>Measure it again</h2>",
        _command(run),
        _data("run", run),
        *([] if before is None else [_data("before", before)]),
        f"<script>{_part('page.js')}</script>",
    ]
    return document(title, parts)


def document(title: str, parts: Sequence[str]) -> str:
    """A page with the style of all of them."""
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{escape(title)}</title><style>{_part('page.css')}</style></head><body>"
        f"{''.join(parts)}</body></html>\n"
    )


def _part(name: str) -> str:
    return resources.files("benchmarks.html").joinpath(name).read_text(encoding="utf-8")


def _data(name: str, run: Run) -> str:
    rows = [{k: v for k, v in row.items() if k != "document"} for row in run.content["rows"]]
    text = json.dumps(run.content | {"rows": rows}).replace(
        "<", "\\u003c"
    )  # no text in it can end the element
    return f'<script type="application/json" id="{name}">{text}</script>'


def _contestants(run: Run) -> list[str]:
    """Modes first, then peers, each once."""
    found = dict.fromkeys((EAGER, COMPILED))
    return [name for name in (found | dict.fromkeys(name for _, name in run.timings)) if _has(run, name)]


def _has(run: Run, contestant: str) -> bool:
    return any(contestant == name for _, name in (*run.timings, *run.errors))


def _machine(run: Run) -> str:
    machine = run.machine
    threads = report.threads_text(machine)
    versions = ", ".join(f"{name} {version}" for name, version in machine["versions"].items())
    unstable = sum(timing.unstable for timing in run.timings.values())
    load = machine.get("load_1min")
    noise = f"{unstable} of {len(run.timings)} times are unstable: the middle half of their samples is wider "
    noise += "than 10% of the median."
    if load is not None:
        noise += f" As it began {load:.1f} processes were running on {machine['cores']} cores."
    own = f" (jtorch: {machine['jtorch_threads']})" if "jtorch_threads" in machine else ""
    return (
        f"<p>{escape(machine['cpu'])}, {machine['cores']} cores, {threads} for everyone{own}. Python "
        f'{escape(machine["python"])}, {escape(versions)}.</p><p class="soft">Noise: {escape(noise)}</p>'
    )


def _verdicts(run: Run) -> str:
    told = []
    for row in run.content["rows"]:
        told += [f"<p>{escape(' '.join(row['verdict']))}</p>"] if row.get("verdict") else []
        told += [
            f'<p class="bad">{escape(row["name"])}, {escape(_shown(name))}: {escape(text)}</p>'
            for name, text in row.get("errors", {}).items()
        ]
    return "".join(told) or '<p class="soft">The file holds no verdicts.</p>'


def _shown(contestant: str) -> str:
    return PEERS.get(contestant, contestant)


def table(caption: str, headings: Sequence[str], rows: Sequence[Sequence[Cell]]) -> str:
    """A table that sorts by each of its columns."""
    head = "".join(
        f'<th scope="col"{_aligned(rows, k)}><button type="button">{escape(heading)}</button></th>'
        for k, heading in enumerate(headings)
    )
    body = "".join(f"<tr>{''.join(cell.html() for cell in row)}</tr>" for row in rows)
    return (
        f'<div class="scroll"><table><caption>{escape(caption)}</caption><thead><tr>{head}</tr></thead>'
        f"<tbody>{body}</tbody></table></div>"
    )


def _aligned(rows: Sequence[Sequence[Cell]], column: int) -> str:
    """The class of a heading whose cells are flush left."""
    left = any("left" in row[column].style for row in rows)
    return ' class="left"' if left else ""


def _times(run: Run, names: Sequence[str]) -> str:
    rows = []
    for row in run.content["rows"]:
        speedup = row.get("speedup")
        shown = Cell("" if speedup is None else f"{speedup:.2f}x", speedup)
        rows.append(
            [Cell(row["name"]), Cell(row["what"], style="left"), *(_time(run, row, n) for n in names), shown]
        )
    caption = (
        "The median, and the interquartile range in percent of it; ~ unstable. A click on a heading sorts."
    )
    return table(caption, ("workload", "step", *map(_shown, names), "speed-up"), rows)


def _time(run: Run, row: dict[str, Any], contestant: str) -> Cell:
    if contestant in row.get("errors", {}):
        return Cell("ERROR", style="bad")
    timing = run.timings.get((row["name"], contestant))
    return Cell("") if timing is None else _median(timing)


def _median(timing: Timing) -> Cell:
    mark = "~" if timing.unstable else ""
    return Cell(f"{mark}{duration(timing.median)} {timing.spread / timing.median:.0%}", timing.median)


def _first_calls(run: Run) -> str:
    rows = []
    for row in run.content["rows"]:
        first = row.get("first_call")
        if first:
            after = row["pays_after_calls"]
            second = first["second_process_s"]
            rows.append(
                [
                    Cell(row["name"]),
                    Cell(duration(first["first_call_s"]), first["first_call_s"]),
                    Cell("" if second is None else duration(second), second),
                    Cell("never", math.inf) if after is None else Cell(f"{after:,}", after),
                ]
            )
    if not rows:
        return '<p class="soft">None were measured.</p>'
    caption = (
        "In a process of its own without cached kernels, and in a second one; steps until it is earned back."
    )
    return table(caption, ("workload", "first call", "second process", "pays after steps"), rows)


def _changes(before: Run, run: Run) -> str:
    found = changes(before.timings, run.timings, machine_ratios(before.speeds, run.speeds))
    lines = [summary(found), *differences(before, run), *missing(before, run)]
    told = "".join(f"<p>{escape(line)}</p>" for line in lines)
    caption = f"{run.path.name} against {before.path.name}; p is corrected for the number of rows"
    headings = ("workload", "contestant", "before", "after", "ratio", "95% interval", "p", "verdict")
    return told + table(caption, headings, [_change(change) for change in found])


def _change(change: Change) -> list[Cell]:
    style = "" if not change.marked else "bad" if change.ratio > 1 else "good"
    return [
        Cell(change.key[0]),
        Cell(_shown(change.key[1]), style="left"),
        _median(change.before),
        _median(change.after),
        Cell(f"{change.ratio:.3f}", change.ratio),
        Cell(f"{change.low:.3f} to {change.high:.3f}", change.low),
        Cell("" if change.p is None else f"{change.p:.2g}", change.p),
        Cell(change.verdict, style=f"left {style}".strip()),
    ]


def _workload(number: int, row: dict[str, Any], run: Run) -> str:
    timings = {name: timing for (of, name), timing in run.timings.items() if of == row["name"]}
    drawn = []
    if timings:
        seconds = {_shown(name): (t.median, *t.middle_half) for name, t in timings.items()}
        drawn.append(charts.bars(row["name"], seconds, 2 * number))
    if row.get("first_call") and EAGER in timings and COMPILED in timings:
        step = timings[COMPILED].median
        curves = {"compiled": (row["first_call"]["first_call_s"], step)}
        if row["first_call"]["second_process_s"] is not None:
            curves["compiled, second process"] = (row["first_call"]["second_process_s"], step)
        drawn.append(charts.break_even(row["name"], timings[EAGER].median, curves, 2 * number + 1))
    figures = "".join(f"<figure>{svg}</figure>" for svg in drawn)
    return (
        f'<section class="workload"><h3>{escape(row["name"])}</h3><p class="soft">{escape(row["what"])}</p>'
        f'<div class="charts">{figures}</div>{_profile(row)}{_inside(row)}</section>'
    )


def _inside(row: dict[str, Any]) -> str:
    """The page about what was compiled, which is drawn when it is opened."""
    document = row.get("document")
    if not document:
        return ""
    frame = framed(page_of_documents([document]), f"what {row['name']} compiles to")
    return f"<details><summary>Lines, tape, graph, kernels and memory</summary>{frame}</details>"


def _profile(row: dict[str, Any]) -> str:
    if not row.get("profile"):
        return ""
    total = sum(step["us"] for step in row["profile"])
    rows = [
        [
            Cell(step["name"]),
            Cell(step["source"], style="left"),
            Cell(duration(step["us"] / 1e6), step["us"]),
            Cell(f"{step['us'] / total:.0%}", step["us"]),
            Cell(f"{step['of_limit']:.0%}", step["of_limit"]),
        ]
        for step in row["profile"]
    ]
    headings = ("step of the plan", "line", "time", "share", "of limit")
    return table("Where the time of a compiled step goes, each step timed by itself", headings, rows)


def _command(run: Run) -> str:
    command = run.machine.get("command")
    return f"<pre>{escape(command)}</pre>" if command else '<p class="soft">The file does not say how.</p>'
