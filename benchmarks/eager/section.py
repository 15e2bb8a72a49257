"""``python -m benchmarks eager``: all groups, or those named after it."""

from __future__ import annotations

import contextlib
import sys
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from statistics import geometric_mean

from rich.console import Console

from benchmarks import tables
from benchmarks.eager import importing, report, small
from benchmarks.eager.cases import MEAN_OF_OPS_GOAL, MEAN_OF_SMALL_GOAL, SECTIONS
from benchmarks.eager.measure import Line, mean_of, measure
from benchmarks.machine import describe
from benchmarks.peers import Peer
from benchmarks.progress import Progress
from benchmarks.timing import FULL, QUICK, Effort

GROUPS = (*SECTIONS, "import")


def run(
    groups: Sequence[str],
    with_torch: bool,
    threads: int | None,
    quick: bool = False,
    as_markdown: bool = False,
    json: Path | None = None,
) -> int:
    """Measure and print; 0 if every line has its figures (a missed goal is no error), 1 otherwise, 130 after
    Ctrl-C."""
    machine = describe(threads)
    effort = QUICK if quick else FULL
    lines: list[Line] = []
    with Progress() as progress, contextlib.ExitStack() as stack:
        timed = set(groups) - {"import", "arrays"}  # those that PyTorch takes part in
        torch = stack.enter_context(Peer("torch", threads)) if with_torch and timed else None
        for group in groups:
            _group(group, effort, torch, with_torch, progress, lines)
    if as_markdown:
        print(report.markdown(lines))
        report.show_errors(Console(stderr=True), lines)
    else:
        report.show(tables.console(), machine, lines)
    if quick:
        print("--quick: samples are too short for figures", file=sys.stderr)
    if json is not None:
        report.write_json(json, machine, lines, quick)
    return progress.status(any(line.error is not None for line in lines))


def _group(
    group: str, effort: Effort, torch: Peer | None, with_torch: bool, progress: Progress, found: list[Line]
) -> None:
    """Add the lines of a group to ``found``, one by one."""

    def tell(name: str, make: Callable[[], Line]) -> None:
        progress.say(f"{group}: {name}")
        start = time.perf_counter()
        found.append(make())
        progress.line(report.one_line(found[-1], time.perf_counter() - start))

    if group == "import":
        tell("jtorch", lambda: importing.measure(effort, with_torch))
        return
    begin = len(found)
    for case in SECTIONS[group]:
        tell(case.workload.name, partial(measure, case, effort, torch))
    lines = found[begin:]
    if group == "ops":
        what = "mean ratio of the ops above"
        tell("mean", lambda: mean_of("op-mean", what, lines, MEAN_OF_OPS_GOAL))
    if group == "small":
        for n in small.SIZES:
            of_size = [line for line in lines if line.name.endswith(f" {n}x{n}")]
            name, what = f"small-mean {n}x{n}", "geometric mean of the ratios above"
            tell(name, partial(mean_of, name, what, of_size, MEAN_OF_SMALL_GOAL, geometric_mean))
