"""``python -m benchmarks compile-time``: what first calls cost in new processes, stage by stage."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

from rich.console import Console

from benchmarks import tables
from benchmarks.contestant import workload_of
from benchmarks.costs import section
from benchmarks.first_call import STAGES, FirstCall, cold_and_warm
from benchmarks.models import generated
from benchmarks.program import Workload
from benchmarks.report import duration

HEADINGS = (
    "program",
    "equations",
    "kernels",
    "cold",
    "warm",
    "equations a ms,\ncold",
    "equations a ms,\nwarm",
)
STAGE_HEADINGS = ("first call, ms", *STAGES, "rest", "in all")


@dataclass(frozen=True)
class Compiling:
    """The first calls of one program: with no cached kernels, and with those of the process before."""

    workload: Workload
    cold: FirstCall
    warm: FirstCall

    @property
    def calls(self) -> dict[str, FirstCall]:
        return {"cold": self.cold, "warm": self.warm}

    def cells(self) -> list[str]:
        """Under HEADINGS."""
        calls = self.calls.values()
        return [
            self.workload.name, f"{self.cold.equations:,}", str(self.cold.kernels),
            *(duration(call.seconds) for call in calls), *(f"{call.equations_per_ms:.2f}" for call in calls),
        ]  # fmt: skip

    def stage_cells(self) -> list[list[str]]:
        """Under STAGE_HEADINGS, a line for each call."""
        return [
            [
                f"{self.workload.name}, {how}",
                *(f"{t * 1e3:,.1f}" for t in (*call.stages.values(), call.rest, call.seconds)),
            ]
            for how, call in self.calls.items()
        ]

    def as_dict(self) -> dict[str, Any]:
        return {
            "name": self.workload.name,
            "what": self.workload.what,
            "generated": generated.is_one(self.workload.name),
            **{
                how: asdict(call) | {"rest": call.rest, "equations_per_ms": call.equations_per_ms}
                for how, call in self.calls.items()
            },
        }


def run(
    rows: Sequence[Workload], sizes: Sequence[int], threads: int | None, quick: bool, json: Path | None
) -> int:
    """Measure ``rows``, and stacks of so many equations."""
    all_rows = [*rows, *(workload_of(generated.stack_name(n)) for n in sizes)]
    return section.run(
        "compile-time", [(row.name, partial(_measure, row)) for row in all_rows], _show, threads, quick, json
    )


def _measure(row: Workload) -> Compiling:
    return Compiling(row, *cold_and_warm(row.name))


def _show(console: Console, found: Sequence[Compiling]) -> None:
    tables.show(
        console,
        "The first call in a new process",
        HEADINGS,
        [one.cells() for one in found],
        caption="cold: no cached kernels; warm: a second process, which finds them; a ms: over all stages",
    )
    tables.show(
        console,
        "Where its time goes",
        STAGE_HEADINGS,
        [line for one in found for line in one.stage_cells()],
        caption="rest: imports, guards, the run itself",
    )
