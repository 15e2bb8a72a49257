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

from jtorch.compile.codegen.cuda import emit_cuda
from jtorch.compile.graph.finalise import finalise
from jtorch.compile.graph.interpret import interpret
from jtorch.compile.plan.plan import Destination, Plan, Use
from jtorch.compile.record.capture import Capture
from jtorch.compile.run.simulated import Simulated
from jtorch.compile.run.targets import CUDA_SIMULATOR, PYTHON
from jtorch.compile.target import Target
from tests.compile import chain
from tests.compile.chain import Machine, arguments_of, assert_link, optimised, trace


class Split(Simulated):
    """With small blocks, of which two share a result of a reduction that can be split."""

    threads = 4


SPLIT = Target(
    "cuda simulator, split",
    lambda plan: emit_cuda(plan, splits=2),
    lambda code, _, binding: Split(code, binding),
)


def plan_of(made: Capture) -> Plan:
    """The plan of a captured step: what it writes stays in place, gradients are results."""
    place = {id(entry): k for k, entry in enumerate(made.inputs)}
    destinations = [Destination(Use.RESULT, k) for k in range(made.n_results)]
    destinations += [Destination(Use.WRITE, place[id(e)]) for e in made.effects.writes]
    destinations += [Destination(Use.RESULT, k) for k in range(len(destinations), len(made.graph.outputs))]
    return chain.planned(finalise(optimised(made.graph)), destinations)


def simulate(function: Callable, leaves: Sequence[Any], target: Target = CUDA_SIMULATOR) -> Machine:
    """Trace, plan and simulate a program, effects included; compare it with the interpreter."""
    made = trace(function, leaves)
    arguments = arguments_of(made)
    expected = interpret(made.graph, arguments)
    machine = Machine(plan_of(made), target, arguments)
    status = machine.run()
    assert status == 0, machine.runner.failure(status)
    assert_link("interpreted -> CUDA simulator", expected, machine.outputs)
    return machine


def simulate_exactly(function: Callable, leaves: Sequence[Any]) -> None:
    """``simulate``, for kernels that reduce nothing: they give the bits of the CPU's kernels, too."""
    found = simulate(function, leaves)
    cpu = Machine(found.runner.plan, PYTHON, arguments_of(trace(function, leaves)))
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
