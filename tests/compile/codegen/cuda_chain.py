"""The chain's CUDA link: plans whose kernels run under numba-cuda's simulator.

The simulator is chosen when numba-cuda is imported, so this runs in a process of its own:

    NUMBA_ENABLE_CUDASIM=1 python -m tests.compile.codegen.cuda_chain REPORT

writes a JSON object, program -> error text (null where all is well), to the file REPORT.
"""

from __future__ import annotations

import json
import sys
import traceback
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from jtorch.compile.codegen.cuda import CudaKernel, write_cuda_kernel
from jtorch.compile.codegen.cuda_launch import Footprint, batches
from jtorch.compile.codegen.cuda_simulate import SIMULATED_THREADS, run_batch
from jtorch.compile.graph.access import layout_of
from jtorch.compile.graph.finalise import finalise
from jtorch.compile.graph.interpret import interpret
from jtorch.compile.graph.ir import Var
from jtorch.compile.plan.memory import Plan, Target, Task
from jtorch.compile.record.capture import Capture
from jtorch.compile.run.unjitted import Unjitted
from tests.compile import chain
from tests.compile.chain import Machine, arguments_of, assert_link, optimised, trace


class Simulated(Unjitted):
    """A plan's runner that simulates CUDA kernels. ``launched`` lists (kernel, steps in the launch)."""

    splits: int | None = None
    threads = SIMULATED_THREADS

    def __init__(self, plan: Plan, *rest: Any) -> None:
        super().__init__(plan, *rest)
        self.launched: list[tuple[str, int]] = []

    def run(self, *arguments: Any) -> int:
        tasks = list(self.plan.tasks)
        kernels = [self._kernel(t) for t in tasks]
        steps = [
            (k.source if k else f"call {n}", self._footprint(t, arguments))
            for n, (t, k) in enumerate(zip(tasks, kernels, strict=True))
        ]
        for batch in batches(steps):
            chosen = [k for k in (kernels[n] for n in batch) if k is not None]
            if not chosen:
                self.run_one(tasks[batch[0]], arguments)
                continue
            self.launched.append((chosen[0].entry, len(batch)))
            finds = [lambda pointer: self._argument(pointer, arguments)] * len(batch)
            for n, kernel, errors in zip(batch, chosen, run_batch(chosen, finds, self.threads), strict=True):
                if errors:
                    self.failed = tasks[n]
                    return (n << 16) | (kernel.errors.index(errors[0]) + 1)
        return 0

    def _kernel(self, task: Task) -> CudaKernel | None:
        if task.nest is None:
            return None
        return write_cuda_kernel(task.nest, lambda v: self.plan.places.get(v, v), self.splits)

    def _footprint(self, task: Task, arguments: Sequence[Any]) -> Footprint:
        def span(var: Var) -> range:
            owner = layout_of(var, self.plan.fused.find).owner
            start = self._address(self.plan.places[owner], arguments)
            return range(start, start + owner.type.nbytes)

        return Footprint(tuple(map(span, task.reads)), tuple(map(span, task.writes)))


class Split(Simulated):
    """The same with two small blocks for each result of a reduction that can be split."""

    splits = 2
    threads = 4


def plan_of(made: Capture) -> Plan:
    """The plan of a captured step: what it writes stays in place, gradients are results."""
    place = {id(entry): k for k, entry in enumerate(made.inputs)}
    targets = [Target("result", k) for k in range(made.n_results)]
    targets += [Target("write", place[id(e)]) for e in made.effects.writes]
    targets += [Target("result", k) for k in range(len(targets), len(made.graph.outputs))]
    return chain.planned(finalise(optimised(made.graph)), targets)


def simulate(function: Callable, leaves: Sequence[Any], runner: type[Simulated] = Simulated) -> Machine:
    """Trace, plan and simulate a program, effects included; compare it with the interpreter."""
    made = trace(function, leaves)
    arguments = arguments_of(made)
    expected = interpret(made.graph, arguments)
    machine = Machine(plan_of(made), runner, arguments)
    status = machine.run()
    assert status == 0, machine.runner.status_text(status)
    assert_link("interpreted -> CUDA simulator", expected, machine.outputs)
    return machine


def simulate_exactly(function: Callable, leaves: Sequence[Any]) -> None:
    """``simulate``, for kernels that reduce nothing: they give the bits of the CPU's kernels, too."""
    found = simulate(function, leaves)
    cpu = Machine(found.runner.plan, Unjitted, arguments_of(trace(function, leaves)))
    assert cpu.run() == 0
    styles = {t.nest.style for t in found.runner.plan.tasks if t.nest is not None}
    assert styles <= {"map", "scatter"}, styles
    assert_link("CPU source -> CUDA simulator", cpu.outputs, found.outputs, exact=True)


def report(programs: dict[str, Callable[[], object]]) -> dict[str, str | None]:
    """Run every program; the traceback of those that fail."""
    found: dict[str, str | None] = {}
    for name, program in programs.items():
        try:
            program()
            found[name] = None
        except Exception:
            found[name] = traceback.format_exc(limit=-4)
    return found


if __name__ == "__main__":
    from tests.compile.codegen.cuda_programs import PROGRAMS

    Path(sys.argv[1]).write_text(json.dumps(report(PROGRAMS)))
