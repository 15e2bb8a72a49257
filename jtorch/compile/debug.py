"""Looking inside: plans and kernels as text, and ``JTORCH_DUMP``, which writes every stage to files."""

from __future__ import annotations

import itertools
import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any

from jtorch.compile.codegen.code import Code
from jtorch.compile.graph.ir import Var, names_of
from jtorch.compile.plan.plan import Plan, Where
from jtorch.compile.timings import Timings
from jtorch.core import config

_runs = itertools.count()


class Dump:
    """Writes the stages of one compilation as numbered files, where ``JTORCH_DUMP`` names a folder."""

    def __init__(self, name: str) -> None:
        folder = str(config.get("DUMP"))
        self.log = logging.getLogger("jtorch.compile")
        self.wanted = set(str(config.get("LOG")).split(","))
        self.folder = Path(folder) / f"{next(_runs):03d}_{_safe(name)}" if folder else None
        self.numbers = itertools.count()

    def __call__(self, stage: str, make: Callable[[], str], suffix: str = "txt") -> None:
        if self.folder is not None:
            self.folder.mkdir(parents=True, exist_ok=True)
            path = self.folder / f"{next(self.numbers):02d}_{stage}.{suffix}"
            path.write_text(make(), encoding="utf-8")
        if stage in self.wanted or (stage == "final" and "graph" in self.wanted):
            self.log.warning("%s:\n%s", stage, make())


def one_line(program: Any, timings: Timings) -> str:
    """What was made, for the log."""
    kernels = len(program.code.kernels)
    calls = len(program.plan.tasks) - kernels
    return (
        f"{len(program.graph.eqns)} ops as {kernels} kernels and {calls} library calls, "
        f"{program.plan.arena_bytes} bytes of scratch memory, {timings.total * 1e3:.0f} ms, "
        f"{timings.kernels_compiled} kernels compiled"
    )


def _safe(name: str) -> str:
    return "".join(c if c.isalnum() else "_" for c in name)


def kernel_text(*codes: Code) -> str:
    """The source of every kernel, each once, in the order they run."""
    return "\n\n".join(dict.fromkeys(text for code in codes for text in code.texts()))


def plan_text(plan: Plan) -> str:
    """The plan as a table: each step, what it reads and writes, and where that lies."""
    names = names_of(plan.fused.graph)
    for task in plan.tasks:
        for var in (*task.reads, *task.writes):
            names.setdefault(var, var.hint or "copy")

    def place(var: Var) -> str:
        where = plan.places[var]
        at = f"+{where.at}" if where.kind is Where.ARENA else f" {where.at}"
        return f"{names[var]} @ {where.kind}{at}"

    rows = [f"arena: {plan.arena_bytes} bytes, steps: {len(plan.tasks)}"]
    begins = {run.tasks[0]: run for run in plan.runs}
    for k, task in enumerate(plan.tasks):
        if task in begins:
            run = begins[task]
            rows.append(f"    threads may go through {len(run.tasks)} steps in {run.tiles} tiles:")
        kind = task.name if task.nest is not None else f"{task.step.kind} {task.name}"
        reads = ", ".join(sorted(map(place, task.reads)))
        writes = ", ".join(sorted(map(place, task.writes)))
        rows.append(f"{k:3d} {kind}\n      reads  {reads}\n      writes {writes}")
    return "\n".join(rows)
