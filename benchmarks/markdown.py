"""The figures as one Markdown table, the form in which docs/figures.md shows them."""

from __future__ import annotations

import math
from collections.abc import Sequence

from benchmarks.measure import COMPILED, EAGER, Row
from benchmarks.peers import PEERS
from benchmarks.report import calls, duration


def table(rows: Sequence[Row], peers: Sequence[str]) -> str:
    """Medians, one row per workload; ERROR in place of what could not be measured."""
    names = [EAGER, COMPILED, *peers]
    headings = ["step", "eager", "compiled", "speed-up", *(PEERS[p] for p in peers)]
    headings += ["first call", "second process", "pays after"]
    lines = [headings, ["---", *["---:"] * (len(headings) - 1)]]
    for row in rows:
        times = [_median(row, name) for name in names]
        speedup = "" if row.speedup is None else f"{row.speedup:.1f}x"
        cells = [row.workload.what, *times[:2], speedup, *times[2:], *_first_call(row)]
        lines.append(cells)
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines)


def _median(row: Row, contestant: str) -> str:
    if contestant in row.errors:
        return "ERROR"
    timing = row.timings.get(contestant)
    return "" if timing is None else duration(timing.median)


def _first_call(row: Row) -> list[str]:
    first = row.first_call
    if first is None:
        return ["", "", ""]
    second = "" if first.second_process is None else duration(first.second_process)
    after = "" if row.pays_after is None else calls(row.pays_after)
    after += " calls" if after and row.pays_after != math.inf else ""
    return [duration(first.seconds), second, after]
