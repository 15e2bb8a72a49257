"""A run as its JSON keeps it: machine, settings, and the timings of each row."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.timing import Timing

_ONE_CORE = 1.2  # what a row of one thread keeps busy at most, with what else its process does


class RunError(Exception):
    """Why a file is no run, in a sentence."""


@dataclass(frozen=True)
class Run:
    """The content of a file, its timings by (row, contestant), and by row those of the machine and those of a
    word between two cores; and those that keep more than one busy."""

    path: Path
    content: dict[str, Any]
    timings: dict[tuple[str, str], Timing]
    errors: dict[tuple[str, str], str]
    speeds: dict[str, Timing]
    distances: dict[str, Timing]
    shared: frozenset[tuple[str, str]]

    @property
    def machine(self) -> dict[str, Any]:
        return self.content["machine"]


def read(path: Path) -> Run:
    """The run of a file that ``--json`` wrote; RunError where it is none, or one without rows."""
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise RunError(f"{path}: {error.strerror}") from None
    except ValueError as error:
        raise RunError(f"{path} is no JSON: {error}") from None
    if not isinstance(content, dict) or not isinstance(content.get("rows"), list) or "machine" not in content:
        raise RunError(f"{path} has no rows: compare takes files of run, verdict, own and compiled")
    timings: dict[tuple[str, str], Timing] = {}
    errors: dict[tuple[str, str], str] = {}
    speeds: dict[str, Timing] = {}
    distances: dict[str, Timing] = {}
    shared: set[tuple[str, str]] = set()
    try:
        for row in content["rows"]:
            timings |= {(row["name"], name): _timing(facts) for name, facts in row["timings"].items()}
            if row.get("machine"):
                speeds[row["name"]] = _timing(row["machine"])
            if row.get("distance"):
                distances[row["name"]] = _timing(row["distance"])
            used = row.get("cores_used", {})
            shared |= {(row["name"], name) for name, cores in used.items() if cores > _ONE_CORE}
            errors |= {(row["name"], name): text for name, text in row.get("errors", {}).items()}
    except (KeyError, TypeError, AttributeError) as error:
        raise RunError(f"{path} has a row without samples ({error})") from None
    return Run(path, content, timings, errors, speeds, distances, frozenset(shared))


def _timing(facts: dict[str, Any]) -> Timing:
    counts = tuple(facts.get("samples_per_process", ()))
    return Timing(tuple(facts["samples_s"]), facts["calls_per_sample"], counts)
