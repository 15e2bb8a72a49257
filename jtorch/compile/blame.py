"""Whose fault a wrong replay is: the recording's, a pass's or a kernel's; its first differing equation."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from jtorch.compile.interpret import evaluate, read
from jtorch.compile.ir import Graph, Var
from jtorch.compile.links import Machine, Values, differs, equation_text, first_wrong_task
from jtorch.compile.runtime.interpreted import Interpreted
from jtorch.compile.snapshot import graph_arguments

_NOBODY = "Each equation agrees when run by itself: the steps disturb each other, or state outside differs."


def blame(
    plan: Any, leaves: list[Any], expected: Sequence[Any], cotangents: Sequence[np.ndarray],
    budget: Mapping[str, float],
) -> str:  # fmt: skip
    """A sentence about the first equation that differs, for a call with ``leaves`` in the state before it.

    ``expected`` are eager mode's results; ``cotangents`` went into its backward pass, where there is one.
    """
    recorded: Graph = plan.capture.graph
    inputs = graph_arguments(plan.capture.inputs, leaves)
    arguments = [*inputs, *cotangents]
    if len(arguments) != len(recorded.inputs):
        return "Eager mode gave nothing to compare the equations with."
    values = evaluate(recorded, arguments)
    fault = _in_recording(plan.capture, values, expected, budget)
    if fault is not None:
        return f"The recording: first differing equation {fault}"
    fault = _in_program(plan.program, values, inputs, budget)
    if fault is None and plan.backward is not None and plan.backward.program is not None:
        known = evaluate(plan.program.graph, inputs) | values
        graph = plan.backward.split.backward
        if all(v in known for v in graph.inputs):
            fault = _in_program(plan.backward.program, known, [known[v] for v in graph.inputs], budget)
    return fault or _NOBODY


def _in_recording(
    capture: Any, values: Values, expected: Sequence[Any], budget: Mapping[str, float]
) -> str | None:
    """Whether the recorded graph itself gives other results than eager mode did."""
    made_by = {v: e for e in capture.graph.eqns for v in e.outputs}
    for result, wanted in zip(capture.results, expected, strict=False):
        if result.kind != "tensor" or not isinstance(wanted, np.ndarray):
            continue
        atom = capture.graph.outputs[result.index]
        told = differs(wanted, read(values, atom), budget)
        if told and isinstance(atom, Var) and atom in made_by:
            return f"{equation_text(capture.graph, made_by[atom])}: {told}"
    return None


def _in_program(
    program: Any, values: Values, arguments: Sequence[Any], budget: Mapping[str, float]
) -> str | None:
    """Whether the optimised graph has other values than the recorded one, or the steps than the graph."""
    graph = program.graph
    found = evaluate(graph, arguments)
    for eqn in graph.eqns:
        for var in eqn.outputs:
            told = differs(values[var], found[var], budget) if var in values else None
            if told:
                return f"A pass: first differing equation {equation_text(graph, eqn)}: {told}"
    if isinstance(program.replay, Interpreted):
        return None
    wrong = first_wrong_task(Machine(program.plan, type(program.replay), arguments), arguments, budget)
    if wrong is None:
        return None
    task, eqn, told = wrong
    kernel = task.kernel.entry if task.kernel else task.step.kind
    return f"Kernel {kernel}: first differing equation {equation_text(graph, eqn)}: {told}"
