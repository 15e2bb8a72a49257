"""A graph over symbols as the one for some sizes: who looks into a plan needs numbers."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from jtorch.compile.graph.access import Layout
from jtorch.compile.graph.ir import Atom, Eqn, Graph, Literal, Type, Var
from jtorch.core.dim import is_symbolic
from jtorch.core.environment import LEAST


def at_sizes(graph: Graph, space: Mapping[str, Any]) -> Graph:
    """``graph`` with what the texts of its symbols are in ``space``."""
    return numbers_for(space).graph(graph)


def numbers_for(space: Mapping[str, Any]) -> Numbers:
    """What makes numbers of symbols, which are in ``space`` what their texts say."""
    known: dict[str, Any] = {}

    def number(symbol: Any) -> Any:
        if symbol.text not in known:
            known[symbol.text] = eval(symbol.text, dict(space))
        return known[symbol.text]

    return Numbers(number)


def has_symbols(graph: Graph) -> bool:
    """Whether any number in it is one for this run only."""
    found: list[Any] = []
    of = Numbers(found.append)
    for var in graph.inputs:
        of.var(var)
    for eqn in graph.eqns:
        of.eqn(eqn)
        if found:
            return True
    return bool(found)


def numbers_in(graph: Graph) -> list[Any]:
    """The numbers in it that are those of this run only."""
    found: list[Any] = []

    def note(number: Any) -> int:
        found.append(number)
        return LEAST

    Numbers(note).graph(graph)
    return found


class Numbers:
    """Parts of a graph with what ``number`` gives for each symbol in them; a variable is one new variable."""

    def __init__(self, number: Callable[[Any], Any]) -> None:
        self.number = number
        self.variables: dict[Var, Var] = {}

    def value(self, x: Any) -> Any:
        """A number, or what holds some."""
        if is_symbolic(x):
            return self.number(x)
        return tuple(map(self.value, x)) if isinstance(x, tuple) else x

    def atom(self, x: Atom) -> Atom:
        """A literal or a variable."""
        return Literal(self.value(x.value), x.dtype, x.static) if isinstance(x, Literal) else self.var(x)

    def var(self, x: Var) -> Var:
        """A variable."""
        if x not in self.variables:
            self.variables[x] = Var(Type(x.dtype, self.value(x.shape)), x.hint)
        return self.variables[x]

    def graph(self, x: Graph) -> Graph:
        """A graph."""
        eqns = tuple(map(self.eqn, x.eqns))
        inputs, outputs = (tuple(map(self.atom, atoms)) for atoms in (x.inputs, x.outputs))
        return x.replace(inputs=inputs, eqns=eqns, outputs=outputs)

    def eqn(self, x: Eqn) -> Eqn:
        """An equation."""
        op, scan = x.op, x.op.scan
        if scan is not None and scan.like is not None:
            op = scan.like(self.graph(scan.graph), checked=scan.checked)
        statics = {name: self.value(static) for name, static in x.statics.items()}
        return Eqn(op, tuple(map(self.atom, x.inputs)), statics, tuple(map(self.var, x.outputs)), x.source)

    def layout(self, x: Layout) -> Layout:
        """A view of a variable's memory."""
        return Layout(self.var(x.owner), self.value(x.offset), self.value(x.strides))
