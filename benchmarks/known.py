"""Workloads and networks by the names that a command takes."""

from __future__ import annotations

from collections.abc import Iterable

from benchmarks.models.rows import MODELS
from benchmarks.program import Workload
from benchmarks.workloads import WORKLOADS

KNOWN: dict[str, tuple[Workload, ...]] = WORKLOADS | {name: (row,) for name, row in MODELS.items()}


def rows_of(names: Iterable[str]) -> list[Workload]:
    """All rows of these workloads and networks, each once."""
    return list(dict.fromkeys(row for name in names for row in KNOWN[name]))
