"""What is measured, and the goal of each line."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from benchmarks.eager import arrays, convolutions, operations, small
from benchmarks.program import Program, Workload
from benchmarks.workloads import ROWS as STEPS, transformer


@dataclass(frozen=True)
class Case:
    """A program to run eagerly, and at most how many times longer than its peer it should take.

    ``ops``: how many ops a call runs; times are reported for one. ``numpy``: the program in NumPy, which
    then is the peer; otherwise it is PyTorch.
    """

    workload: Workload
    goal: float | None
    ops: int = 1
    numpy: Callable[[], Program] | None = None


MEAN_OF_OPS_GOAL = 0.7
MEAN_OF_SMALL_GOAL = 1.0  # geometric
IMPORT_SECONDS_GOAL = 0.25

SECTIONS: dict[str, tuple[Case, ...]] = {
    "ops": tuple(Case(w, None, operations.OPS) for w in operations.WORKLOADS),
    "chain": (Case(operations.CHAIN_WORKLOAD, 0.6, operations.CHAIN),),
    "steps": (
        Case(STEPS["mlp"], 0.6),
        Case(STEPS["rnn"], 0.6),
        Case(STEPS["lenet"], 1.0),
        Case(transformer.WORKLOAD, 1.0),
    ),
    "arrays": tuple(Case(w, 1.0, numpy=arrays.NUMPY[w.name]) for w in arrays.WORKLOADS),
    "small": tuple(Case(w, 2.0) for n in small.SIZES for w in small.WORKLOADS[n]),
    "convolutions": tuple(Case(w, 1.5) for w in convolutions.WORKLOADS),
}

ROWS: dict[str, Workload] = {
    case.workload.name: case.workload for cases in SECTIONS.values() for case in cases
}
