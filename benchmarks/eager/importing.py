"""How long ``import jtorch`` takes in a new process, NumPy's import counted; beside it PyTorch's.

From bytecode, which pip writes for what it installs: ``PYTHONDONTWRITEBYTECODE`` does not count here.
"""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from benchmarks.eager.cases import IMPORT_SECONDS_GOAL
from benchmarks.eager.measure import Line
from benchmarks.measure import EAGER
from benchmarks.peers import PEERS
from benchmarks.timing import Contestant, Effort, Timing

_PROGRAM = """
import time
start = time.perf_counter()
import {module}
print(time.perf_counter() - start)
"""


@dataclass
class Import:
    """A contestant: a call is a new process that imports ``module``; only the import is timed."""

    module: str

    def run(self, calls: int) -> float:
        return sum(self._seconds() for _ in range(calls))

    def _seconds(self) -> float:
        done = subprocess.run(
            [sys.executable, "-c", _PROGRAM.format(module=self.module)],
            cwd=Path(__file__).parents[2],
            env={name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"},
            capture_output=True,
            text=True,
        )
        if done.returncode:
            last = (done.stderr.strip() or "no message").splitlines()[-1]
            raise RuntimeError(f"import {self.module} in a new process: {last}")
        return float(done.stdout)


def measure(effort: Effort, with_torch: bool) -> Line:
    """One import a sample, in turns; the first of each, which reads the files from disk, is left out."""
    goal = IMPORT_SECONDS_GOAL
    line = Line("import", "import jtorch, NumPy's import counted", goal, absolute=True)
    contestants: dict[str, Contestant] = {EAGER: Import("jtorch")}
    if with_torch:
        line.peer = PEERS["torch"]
        contestants[line.peer] = Import("torch")
    samples: dict[str, list[float]] = {name: [] for name in contestants}
    try:
        for _ in range(1 + min(effort.rounds, 7)):
            for name, contestant in contestants.items():
                samples[name].append(contestant.run(1))
    except RuntimeError as error:
        line.error = str(error)
        return line
    timings = {name: Timing(tuple(seconds[1:]), 1) for name, seconds in samples.items()}
    line.ours = timings[EAGER]
    if line.peer is not None:
        line.theirs = timings[line.peer]
    return line
