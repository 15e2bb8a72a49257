"""Running a graph equation by equation with NumPy: what every later stage must agree with."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from jtorch.compile.graph.ir import Atom, Eqn, Graph, Var
from jtorch.core.op import Kind
from jtorch.ops import xp


def interpret(graph: Graph, arguments: Sequence[Any]) -> list[np.ndarray]:
    """The outputs of ``graph`` for one array (or number, for a 0-d input) per input."""
    values = evaluate(graph, arguments)
    return [np.array(read(values, atom)) for atom in graph.outputs]


def read(values: dict[Var, Any], atom: Atom) -> Any:
    """What an atom is, where ``values`` has the variables."""
    return values[atom] if isinstance(atom, Var) else atom.dtype.type(atom.value)


def evaluate(graph: Graph, arguments: Sequence[Any]) -> dict[Var, Any]:
    """The value of every variable of ``graph``."""
    values: dict[Var, Any] = {}
    for var, argument in zip(graph.inputs, arguments, strict=True):
        values[var] = np.asarray(argument, var.dtype)

    for eqn in graph.eqns:
        compute(eqn, values)
    return values


def compute(eqn: Eqn, values: dict[Var, Any]) -> None:
    """What ``eqn`` makes of ``values``, put among them."""
    inputs = [read(values, a) for a in eqn.inputs]
    if eqn.op.kind is Kind.CONTRACTION and eqn.outputs[0].dtype == np.float32:
        inputs = [np.asarray(x, np.float32) for x in inputs]  # factors of 16 bits, perhaps
    out = eqn.op.body(xp, *inputs, **eqn.statics)
    outs = out if len(eqn.outputs) > 1 else (out,)
    for var, value in zip(eqn.outputs, outs, strict=True):
        values[var] = np.asarray(value).reshape(var.shape)
        assert values[var].dtype == var.dtype, (eqn.op, values[var].dtype, var.dtype)
