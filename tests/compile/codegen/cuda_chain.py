"""The chain's CUDA link: a plan whose kernels run under numba-cuda's simulator.

Run as a program, in a process of its own, because the simulator is chosen when numba-cuda is imported:

    NUMBA_ENABLE_CUDASIM=1 python -m tests.compile.codegen.cuda_chain REPORT

writes a JSON object of program name -> error text (null where all is well) to the file REPORT.
"""

from __future__ import annotations

import json
import sys
import traceback
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from jtorch.compile.access import layout_of
from jtorch.compile.codegen.cuda import CudaKernel, write_cuda_kernel
from jtorch.compile.codegen.cuda_launch import Footprint, batches
from jtorch.compile.codegen.cuda_simulate import run_batch
from jtorch.compile.codegen.source import Pointer
from jtorch.compile.finalise import finalise
from jtorch.compile.interpret import interpret
from jtorch.compile.ir import Var
from jtorch.compile.memory import Plan, Task
from jtorch.compile.runtime.unjitted import Unjitted
from tests.compile.chain import Machine, arguments_of, assert_link, optimised, planned, trace

SPLITS = 3


class Simulated(Unjitted):
    """A plan's runner that simulates CUDA kernels; ``launches`` counts them, merged steps once."""

    splits: int | None = None

    def __init__(self, plan: Plan, *rest: Any) -> None:
        super().__init__(plan, *rest)
        self.launches = 0

    def run(self, *arguments: Any) -> int:
        tasks = list(self.plan.tasks)
        kernels = [self._kernel(t) for t in tasks]
        steps = [
            (k.source if k else f"call {n}", self._footprint(t, arguments))
            for n, (t, k) in enumerate(zip(tasks, kernels, strict=True))
        ]
        for batch in batches(steps):
            if kernels[batch[0]] is None:
                with np.errstate(all="ignore"):
                    self._run_task(tasks[batch[0]], arguments)
                continue
            self.launches += 1
            finds = [lambda p: self._argument(p, arguments)] * len(batch)
            for n, errors in zip(batch, run_batch([kernels[n] for n in batch], finds), strict=True):
                if errors:
                    self.failed = tasks[n]
                    return (n << 16) | (kernels[n].errors.index(errors[0]) + 1)
        return 0

    def _kernel(self, task: Task) -> CudaKernel | None:
        if task.nest is None:
            return None
        return write_cuda_kernel(task.nest, lambda v: self.plan.places.get(v, v), self.splits)

    def _footprint(self, task: Task, arguments: Sequence[Any]) -> Footprint:
        def span(var: Var) -> range:
            layout = layout_of(var, self.plan.fused.find)
            start = self._address(self.plan.places[layout.owner], arguments)
            return range(start, start + layout.owner.type.nbytes)

        return Footprint(tuple(map(span, task.reads)), tuple(map(span, task.writes)))


class Split(Simulated):
    """The same with each reduction that can be split over several blocks split."""

    splits = SPLITS


def simulate(function: Callable, leaves: Sequence[Any], runner: type[Simulated] = Simulated) -> Machine:
    """Trace, plan and simulate a program; compare it with the interpreter. Returns the machine that ran."""
    made = trace(function, leaves)
    arguments = arguments_of(made)
    graph = finalise(optimised(made.graph))
    expected = interpret(made.graph, arguments)
    machine = Machine(planned(graph), runner, arguments)
    status = machine.run()
    assert status == 0, machine.runner.status_text(status)
    assert_link("interpreted -> CUDA simulator", expected, machine.results)
    return machine
