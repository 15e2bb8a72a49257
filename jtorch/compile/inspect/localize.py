"""Whose fault a wrong replay is: the recording's, a pass's or a kernel's; its first differing equation."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from jtorch.compile.graph.interpret import evaluate, read
from jtorch.compile.graph.ir import Var
from jtorch.compile.inspect.stages import Machine, Values, differs, equation_text
from jtorch.compile.inspect.tolerance import Tolerance
from jtorch.compile.plan.plan import Plan
from jtorch.compile.record.returned import Output
from jtorch.compile.run.targets import INTERPRETER
from jtorch.compile.target import Target

_NOBODY = "Each equation agrees when run by itself: the steps disturb each other, or state outside differs."


def localize(plan: Any, leaves: list[Any], tolerance: Tolerance, expected: Sequence[Any]) -> str:
    """A sentence about the first equation that differs; ``expected`` are eager mode's results."""
    if plan.capture.calls_out:
        return "Which equation differs first is not known: to look, what is outside would be called again."
    if len(tolerance.arguments) != len(tolerance.graph.inputs):
        return "Eager mode gave nothing to compare the equations with."
    values = tolerance.plain()
    fault = _in_recording(plan.capture, values, expected, tolerance)
    if fault is not None:
        return f"The recording: first differing equation {fault}"
    inputs = tolerance.arguments[: len(plan.capture.inputs)]
    if plan.backward is not None and plan.capture.sizing is not None:
        return "Which equation it is, is told for a function that is compiled without dynamic=True."
    planned, target = plan.plan_for(leaves, tolerance.graph)
    fault = _in_plan(planned, target, values, inputs, tolerance)
    programs = [] if plan.backward is None else plan.backward.programs.get(frozenset(), [])
    if fault is None and programs:
        (program,) = programs
        known = evaluate(planned.fused.graph, inputs) | values
        graph = plan.backward.split.backward
        if all(v in known for v in graph.inputs):
            given = [known[v] for v in graph.inputs]
            fault = _in_plan(program.plan, program.target, known, given, tolerance)
    return fault or _NOBODY


def _in_recording(capture: Any, values: Values, expected: Sequence[Any], tolerance: Tolerance) -> str | None:
    """Whether the recorded graph itself gives other results than eager mode did."""
    graph = tolerance.graph
    made_by = {v: e for e in graph.eqns for v in e.outputs}
    for result, wanted in zip(capture.results, expected, strict=False):
        if not isinstance(result, Output) or not isinstance(wanted, np.ndarray):
            continue
        atom = graph.outputs[result.index]
        told = differs(wanted, read(values, atom), tolerance.budget)
        if told and isinstance(atom, Var) and atom in made_by:
            return f"{equation_text(graph, made_by[atom])}: {told}"
    return None


def _in_plan(
    plan: Plan, target: Target, values: Values, arguments: Sequence[Any], tolerance: Tolerance
) -> str | None:
    """Whether the optimised graph has other values than the recorded one, or the steps than the graph."""
    graph = plan.fused.graph
    found = evaluate(graph, arguments)
    for eqn in graph.eqns:
        for var in eqn.outputs:
            told = tolerance.differs(values[var], found[var], var) if var in values else None
            if told:
                return f"A pass: first differing equation {equation_text(graph, eqn)}: {told}"
    if target is INTERPRETER:
        return None
    wrong = Machine(plan, target, arguments).first_wrong(found, tolerance.differs)
    if wrong is None:
        return None
    task, eqn, told = wrong
    kernel = task.name if task.nest is not None else task.step.kind
    return f"Kernel {kernel}: first differing equation {equation_text(graph, eqn)}: {told}"
