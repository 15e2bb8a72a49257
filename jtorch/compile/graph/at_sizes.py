"""A graph over symbols as the one for some sizes: who looks into a plan needs numbers."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from jtorch.compile.graph.ir import Atom, Eqn, Graph, Literal, Type, Var
from jtorch.core.dim import is_symbolic


def at_sizes(graph: Graph, space: Mapping[str, Any]) -> Graph:
    """``graph`` with what the texts of its symbols are in ``space``."""
    known: dict[str, Any] = {}
    variables: dict[Var, Var] = {}

    def value(x: Any) -> Any:
        if is_symbolic(x):
            if x.text not in known:
                known[x.text] = eval(x.text, dict(space))
            return known[x.text]
        if isinstance(x, tuple):
            return tuple(map(value, x))
        return x

    def atom(x: Atom) -> Atom:
        if isinstance(x, Literal):
            return Literal(value(x.value), x.dtype, x.static)
        if x not in variables:
            variables[x] = Var(Type(x.dtype, value(x.shape)), x.hint)
        return variables[x]

    return _mapped(graph, atom, value)


def _mapped(graph: Graph, atom: Callable[[Any], Any], value: Callable[[Any], Any]) -> Graph:
    eqns = [
        Eqn(
            eqn.op, tuple(map(atom, eqn.inputs)), {name: value(x) for name, x in eqn.statics.items()},
            tuple(map(atom, eqn.outputs)), eqn.source,
        )
        for eqn in graph.eqns
    ]  # fmt: skip
    inputs, outputs = (tuple(map(atom, atoms)) for atoms in (graph.inputs, graph.outputs))
    return graph.replace(inputs=inputs, eqns=tuple(eqns), outputs=outputs)
