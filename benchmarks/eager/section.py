"""``python -m benchmarks eager``: all groups, or those named after it."""

from __future__ import annotations

import contextlib
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import geometric_mean

from rich.console import Console

from benchmarks.eager import importing, report, small
from benchmarks.eager.cases import MEAN_OF_OPS_GOAL, MEAN_OF_SMALL_GOAL, SECTIONS
from benchmarks.eager.measure import Line, mean_of, measure
from benchmarks.machine import describe
from benchmarks.peers import Peer
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
    """Measure and print; 0 if every line has its figures (a missed goal is no error), 1 otherwise."""
    machine = describe(threads)
    effort = QUICK if quick else FULL
    lines: list[Line] = []
    with contextlib.ExitStack() as stack:
        timed = set(groups) - {"import", "arrays"}  # those that PyTorch takes part in
        torch = stack.enter_context(Peer("torch", threads)) if with_torch and timed else None
        for group in groups:
            lines += _group(group, effort, torch, with_torch)
    if as_markdown:
        print(report.markdown(lines))
        report.show_errors(Console(stderr=True), lines)
    else:
        report.show(Console(width=None if sys.stdout.isatty() else 150), machine, lines)
    if quick:
        print("--quick: samples are too short for figures", file=sys.stderr)
    if json is not None:
        report.write_json(json, machine, lines, quick)
    return 1 if any(line.error is not None for line in lines) else 0


def _group(group: str, effort: Effort, torch: Peer | None, with_torch: bool) -> list[Line]:
    if group == "import":
        return [_told(lambda: importing.measure(effort, with_torch))]
    lines = [_told(lambda case=case: measure(case, effort, torch)) for case in SECTIONS[group]]  # type: ignore[misc]
    if group == "ops":
        what = "mean ratio of the ops above"
        lines.append(_told(lambda: mean_of("op-mean", what, lines[:], MEAN_OF_OPS_GOAL)))
    if group == "small":
        for n in small.SIZES:
            of_size = [line for line in lines if line.name.endswith(f" {n}x{n}")]
            name, what = f"small-mean {n}x{n}", "geometric mean of the ratios above"
            lines.append(_told(lambda: mean_of(name, what, of_size, MEAN_OF_SMALL_GOAL, geometric_mean)))  # noqa: B023
    return lines


def _told(make: Callable[[], Line]) -> Line:
    start = time.perf_counter()
    line = make()
    print(report.one_line(line, time.perf_counter() - start), file=sys.stderr, flush=True)
    return line
