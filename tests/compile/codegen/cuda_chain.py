"""The chain's CUDA link: plans whose kernels run, as PTX, on the machine of ``tests/cuda/ptx``."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from jtorch.compile.graph.finalise import finalise
from jtorch.compile.graph.interpret import interpret
from jtorch.compile.plan.plan import Destination, Plan, Use
from jtorch.compile.record.capture import Capture
from jtorch.compile.run.targets import PYTHON
from jtorch.compile.target import Target
from tests.compile import chain
from tests.compile.chain import Machine, arguments_of, assert_link, optimised, trace
from tests.cuda.plans import on_ptx_machine

SPLIT = on_ptx_machine(
    splits=2, threads=4
)  # small blocks, of which two share a result where that can be split


def plan_of(made: Capture) -> Plan:
    """The plan of a captured step: what it writes stays in place, gradients are results."""
    place = {id(entry): k for k, entry in enumerate(made.inputs)}
    destinations = [Destination(Use.RESULT, k) for k in range(made.n_results)]
    destinations += [Destination(Use.WRITE, place[id(e)]) for e in made.effects.writes]
    destinations += [Destination(Use.RESULT, k) for k in range(len(destinations), len(made.graph.outputs))]
    return chain.planned(finalise(optimised(made.graph)), destinations)


def on_machine(function: Callable, leaves: Sequence[Any], target: Target | None = None) -> Machine:
    """Trace, plan and run a program, effects included; compare it with the interpreter."""
    made = trace(function, leaves)
    arguments = arguments_of(made)
    expected = interpret(made.graph, arguments)
    machine = Machine(plan_of(made), target or on_ptx_machine(), arguments)
    status = machine.run()
    assert status == 0, machine.runner.failure(status)
    assert_link("interpreted -> PTX machine", expected, machine.outputs)
    return machine


def exactly_on_machine(function: Callable, leaves: Sequence[Any]) -> None:
    """``on_machine``, for kernels that reduce nothing: they give the bits of the CPU's kernels, too."""
    found = on_machine(function, leaves)
    cpu = Machine(found.runner.plan, PYTHON, arguments_of(trace(function, leaves)))
    assert cpu.run() == 0
    styles = {t.nest.style for t in found.runner.plan.tasks if t.nest is not None}
    assert styles <= {"map", "scatter"}, styles
    assert_link("CPU source -> PTX machine", cpu.outputs, found.outputs, exact=True)
