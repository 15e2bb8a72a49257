"""Whose fault a wrong replay is: the recording's, a pass's or a kernel's; its first differing equation."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from jtorch.compile.graph.interpret import evaluate, read
from jtorch.compile.graph.ir import Var
from jtorch.compile.inspect.stages import Machine, Values, differs, equation_text
from jtorch.compile.inspect.tolerance import Tolerance
from jtorch.compile.record.returned import Output
from jtorch.compile.run.targets import INTERPRETER

_NOBODY = "Each equation agrees when run by itself: the steps disturb each other, or state outside differs."


def localize(plan: Any, tolerance: Tolerance, expected: Sequence[Any]) -> str:
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
    fault = _in_program(plan.program, values, inputs, tolerance)
    program = None if plan.backward is None else plan.backward.programs.get(frozenset())
    if fault is None and program is not None:
        known = evaluate(plan.program.graph, inputs) | values
        graph = plan.backward.split.backward
        if all(v in known for v in graph.inputs):
            fault = _in_program(program, known, [known[v] for v in graph.inputs], tolerance)
    return fault or _NOBODY


def _in_recording(capture: Any, values: Values, expected: Sequence[Any], tolerance: Tolerance) -> str | None:
    """Whether the recorded graph itself gives other results than eager mode did."""
    made_by = {v: e for e in capture.graph.eqns for v in e.outputs}
    for result, wanted in zip(capture.results, expected, strict=False):
        if not isinstance(result, Output) or not isinstance(wanted, np.ndarray):
            continue
        atom = capture.graph.outputs[result.index]
        told = differs(wanted, read(values, atom), tolerance.budget)
        if told and isinstance(atom, Var) and atom in made_by:
            return f"{equation_text(capture.graph, made_by[atom])}: {told}"
    return None


def _in_program(program: Any, values: Values, arguments: Sequence[Any], tolerance: Tolerance) -> str | None:
    """Whether the optimised graph has other values than the recorded one, or the steps than the graph."""
    graph = program.graph
    found = evaluate(graph, arguments)
    for eqn in graph.eqns:
        for var in eqn.outputs:
            told = tolerance.differs(values[var], found[var], var) if var in values else None
            if told:
                return f"A pass: first differing equation {equation_text(graph, eqn)}: {told}"
    if program.target is INTERPRETER:
        return None
    wrong = Machine(program.plan, program.target, arguments).first_wrong(found, tolerance.differs)
    if wrong is None:
        return None
    task, eqn, told = wrong
    kernel = task.name if task.nest is not None else task.step.kind
    return f"Kernel {kernel}: first differing equation {equation_text(graph, eqn)}: {told}"
