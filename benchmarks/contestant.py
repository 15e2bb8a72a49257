"""A library in one mode, in this process: builds a workload's program, runs it, and can be timed."""

from __future__ import annotations

import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmarks.agree import Record, record
from benchmarks.first_call import FirstCall, of_function
from benchmarks.own import load
from benchmarks.own.protocol import OwnFileError, is_own
from benchmarks.program import Program, Workload
from benchmarks.timing import Calls

if TYPE_CHECKING:
    from benchmarks.costs.peak import Memory

EAGER, COMPILED = "jtorch eager", "jtorch compiled"
MODES = (EAGER, COMPILED)


@dataclass(frozen=True)
class StepTime:
    """A step of a compiled program, as ``f.profile()`` has it; ``of_limit`` is 1 at the machine's limit."""

    name: str
    kind: str
    source: str
    us: float
    of_limit: float


class Local:
    """The contestant ``name``, one of MODES or of the peers; ``prepare`` a workload, then ``run`` it.

    ``compiler`` stands in for ``jtorch.compile`` in tests.
    """

    def __init__(self, name: str, threads: int | None = None, compiler: Callable | None = None) -> None:
        self.name, self.threads, self.compiler = name, threads, compiler
        self.first_call: FirstCall | None = None
        self.kernels: int | None = None
        self._calls: Calls | None = None
        self._row = ""

    def prepare(self, row: str, steps: int) -> Record:
        """Build a workload's program; what its first steps compute."""
        self.first_call, self.kernels, self._row = None, None, row
        program = build(self.name, workload_of(row), self.threads)
        step = self._compiled(program) if self.name == COMPILED else program.step
        found = record(program, step, steps)
        self._calls = Calls(step, program.arguments, program.reset, program.settle)
        return found

    def run(self, calls: int) -> float:
        """Make that many calls of the latest program, from its initial state; the seconds they took."""
        assert self._calls is not None, "prepare() comes first"
        return self._calls.run(calls)

    def cores_used(self) -> float:
        """How many cores the latest ``run`` kept busy."""
        assert self._calls is not None, "prepare() comes first"
        return self._calls.cores_used

    def profile(self) -> list[StepTime]:
        """Where the time of the latest compiled program goes, in the order in which its steps run."""
        assert self._calls is not None, "prepare() comes first"
        found = self._calls.function.profile()  # type: ignore[attr-defined]
        return [
            StepTime(s.name, s.kind, s.source, s.us, s.limit_us(found.limits) / max(s.us, 1e-9))
            for s in found.steps
        ]

    def memory(self, row: str, steps: int) -> Memory:
        """What a training step of a workload needs, in a process that has measured nothing else."""
        from benchmarks.costs import peak

        workload = workload_of(row)
        return peak.measure(self.name, lambda: build(self.name, workload, self.threads), steps)

    def told(self, error: Exception) -> str:
        """The error in a line, with its place in the user's file where it came from there."""
        place = ""
        file = self._row.rpartition(":")[0]
        for frame in traceback.extract_tb(error.__traceback__):
            if is_own(self._row) and frame.filename == file:
                place = f" ({Path(file).name}, line {frame.lineno})"
        kind = "" if isinstance(error, OwnFileError) else f"{type(error).__name__}: "
        return f"{kind}{error}{place}"

    def _compiled(self, program: Program) -> Callable[..., Any]:
        import jtorch

        start = time.perf_counter()
        step = (self.compiler or jtorch.compile)(program.step)
        if not program.can_reset:
            return step  # its first call is the first of those that are compared
        step(*program.arguments[0])
        seconds = time.perf_counter() - start
        if hasattr(step, "timings"):
            self.first_call = of_function(step, seconds)
            self.kernels = self.first_call.kernels
        return step


def workload_of(row: str) -> Workload:
    """The workload of that name, of all sections, generated or of a file. KeyError where there is none."""
    if is_own(row):
        return load.workload(row)
    from benchmarks.models import generated

    if generated.is_one(row):
        return generated.workload(row)
    from benchmarks.eager import cases
    from benchmarks.models.rows import MODELS
    from benchmarks.workloads import ROWS, mlp

    return {**cases.ROWS, **ROWS, mlp.LARGER.name: mlp.LARGER, **MODELS}[row]


def build(name: str, workload: Workload, threads: int | None = None) -> Program:
    """The program of a workload as the contestant ``name`` runs it, with so many threads."""
    from benchmarks.models import training

    if name in MODES:
        if is_own(workload.name) and name == EAGER:
            load.without_compiling()
        import jtorch

        return workload.torch_like(jtorch)
    training.how = {"torch.compile": "compile", "channels_last": "channels_last"}.get(name, "")
    if name == "jax":
        if workload.jax is None:
            raise NotImplementedError(f"{workload.name} is not written for JAX")
        return workload.jax()
    import torch

    if threads is not None:
        torch.set_num_threads(threads)
    return workload.torch_like(torch)
