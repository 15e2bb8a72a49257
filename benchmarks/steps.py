"""``python -m benchmarks run`` and ``verdict``: a training step in both modes, beside the peers."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

from rich.console import Console

from benchmarks import markdown, report, tables, verdict
from benchmarks.contestant import MODES
from benchmarks.machine import describe
from benchmarks.measure import Row, add_costs, measure_all
from benchmarks.program import Workload
from benchmarks.progress import Progress
from benchmarks.timing import FULL, QUICK, Effort
from benchmarks.workloads import WORKLOADS

# The pause: threads of OpenMP spin for some ms after a sample of another process. Samples are short, for
# machines that others use: beside six busy processes on two cores the compiled MLP's medians went from 14.5
# to 34 us in eight processes, the best of 30 samples of 3 ms in each from 14.1 to 14.3.
IN_PROCESSES = Effort(rounds=15, seconds=0.004, pause=0.01, processes=8)
OF_STORY = replace(IN_PROCESSES, processes=5)


def run(
    names: Sequence[str],
    peers: Sequence[str],
    threads: int | None,
    quick: bool = False,
    story: bool = False,
    as_markdown: bool = False,
    json: Path | None = None,
    compiler: Callable | None = None,
) -> int:
    """Measure and print; 0 if every row has its figures, 1 if one is an error, 130 after Ctrl-C.

    A ``story`` is about fewer figures, from fewer processes. ``compiler`` stands in for ``jtorch.compile`` in
    tests.
    """
    rows = [Row(workload) for name in names for workload in WORKLOADS[name]]
    machine, effort = describe(threads), QUICK if quick else OF_STORY if story else IN_PROCESSES
    with Progress() as progress:
        _measure(rows, peers, threads, effort, progress, compiler)
    rows = [row for row in rows if row.timings or row.errors]
    if as_markdown:
        print(markdown.table(rows, peers))
        report.show_errors(Console(stderr=True), rows)
    else:
        console = tables.console()
        report.show(console, machine, rows, peers, costs=not story)
        for row in rows:
            for sentence in () if quick else verdict.sentences(row, peers):
                console.print(sentence, markup=False, highlight=False)
            console.print()
    if quick:
        print("--quick: samples are too short for figures; first calls share kernels", file=sys.stderr)
    if json is not None:
        settings = {"quick": quick, "workloads": [row.workload.name for row in rows], "peers": list(peers)}
        facts = [row.as_dict() | {"verdict": [] if quick else verdict.sentences(row, peers)} for row in rows]
        report.write_json(json, machine, facts, settings)
    return progress.status(any(row.errors for row in rows))


def _measure(
    rows: Sequence[Row],
    peers: Sequence[str],
    threads: int | None,
    effort: Effort,
    progress: Progress,
    compiler: Callable | None,
) -> None:
    def contestants(workload: Workload) -> Sequence[str]:
        return (*MODES, *peers)

    measure_all(rows, contestants, threads, effort, progress, compiler=compiler)
    for row in rows:
        progress.say(f"the tape and the first call: {row.workload.name}")
        add_costs(row, QUICK if effort == QUICK else FULL, own_process=effort != QUICK)
