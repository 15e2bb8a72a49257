"""A library in one mode, in this process: builds a workload's program, runs it, and can be timed."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from benchmarks.agree import Record, record
from benchmarks.first_call import FirstCall, of_function
from benchmarks.program import Program, Workload
from benchmarks.timing import Calls

EAGER, COMPILED = "jtorch eager", "jtorch compiled"
MODES = (EAGER, COMPILED)


class Local:
    """The contestant ``name``, one of MODES or of the peers; ``prepare`` a workload, then ``run`` it.

    ``compiler`` stands in for ``jtorch.compile`` in tests.
    """

    def __init__(self, name: str, threads: int | None = None, compiler: Callable | None = None) -> None:
        self.name, self.threads, self.compiler = name, threads, compiler
        self.first_call: FirstCall | None = None
        self.kernels: int | None = None
        self._calls: Calls | None = None

    def prepare(self, row: str, steps: int) -> Record:
        """Build a workload's program; what its first steps compute."""
        self.first_call, self.kernels = None, None
        program = build(self.name, workload_of(row), self.threads)
        step = self._compiled(program) if self.name == COMPILED else program.step
        found = record(program, step, steps)
        self._calls = Calls(step, program.arguments, program.reset, program.settle)
        return found

    def run(self, calls: int) -> float:
        """Make that many calls of the latest program, from its initial state; the seconds they took."""
        assert self._calls is not None, "prepare() comes first"
        return self._calls.run(calls)

    def _compiled(self, program: Program) -> Callable[..., Any]:
        import jtorch

        start = time.perf_counter()
        step = (self.compiler or jtorch.compile)(program.step)
        step(*program.arguments[0])
        seconds = time.perf_counter() - start
        if hasattr(step, "timings"):
            self.first_call, self.kernels = of_function(step, seconds), len(step.kernels())
        return step


def workload_of(row: str) -> Workload:
    """The workload of that name, of all sections. KeyError where there is none."""
    from benchmarks.eager import cases
    from benchmarks.models.rows import MODELS
    from benchmarks.workloads import ROWS, mlp

    return {**cases.ROWS, **ROWS, mlp.LARGER.name: mlp.LARGER, **MODELS}[row]


def build(name: str, workload: Workload, threads: int | None = None) -> Program:
    """The program of a workload as the contestant ``name`` runs it, with so many threads."""
    from benchmarks.models import training

    if name in MODES:
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
