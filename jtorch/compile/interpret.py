"""Running a graph equation by equation with NumPy: what every later stage must agree with."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from jtorch import xp
from jtorch.compile.ir import Atom, Graph, Var


def interpret(graph: Graph, arguments: Sequence[Any]) -> list[np.ndarray]:
    """The outputs of ``graph`` for one array (or number, for a 0-d input) per input."""
    values: dict[Var, Any] = {}
    for var, argument in zip(graph.inputs, arguments, strict=True):
        values[var] = np.asarray(argument, var.dtype)

    def read(atom: Atom) -> Any:
        return values[atom] if isinstance(atom, Var) else atom.dtype.type(atom.value)

    for eqn in graph.eqns:
        out = eqn.op.body(xp, *map(read, eqn.inputs), **eqn.statics)
        outs = out if len(eqn.outputs) > 1 else (out,)
        for var, value in zip(eqn.outputs, outs, strict=True):
            values[var] = np.asarray(value).reshape(var.shape)
            assert values[var].dtype == var.dtype, (eqn.op, values[var].dtype, var.dtype)
    return [np.array(read(atom)) for atom in graph.outputs]
