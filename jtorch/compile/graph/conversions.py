"""Where floats of 16 bits become float32: near what reads them, so that the small form is what is kept.

    d = cast(a, dtype=float32)                   # f32[8,8]
    e = exp(d)                                   # f32[8,8]
    ...
    y = mul(g, d)                                # f32[8,8]
becomes
    ...
    f = cast(a, dtype=float32)                   # f32[8,8]
    y = mul(g, f)                                # f32[8,8]

What a backward pass reads of the forward pass waits for it in 16 bits then. Kernels convert as they read, and
so do products of two such factors. For another product, or a library, the large form is made in memory, which
a few of them that are near each other share.
"""

from __future__ import annotations

from collections.abc import Mapping

from jtorch.compile.graph.halves import is_view, widens
from jtorch.compile.graph.ir import Atom, Eqn, Graph, Var
from jtorch.compile.graph.reads import runs_in_loops
from jtorch.core.op import Kind

_NEAR, _FAR = 2, 1 << 30  # products: what was made in memory so many ago is read as it is


def converted_where_read(graph: Graph) -> Graph:
    """``graph`` with each conversion made again where products lie between it and a reader."""
    if not any(map(widens, graph.eqns)):
        return graph
    made = _Conversions(graph)
    for eqn in graph.eqns:
        made.add(eqn)
    return graph.replace(eqns=tuple(made.eqns))


def made_again(graph: Graph) -> frozenset[Eqn]:
    """The conversions of what was made, or converted, too far before them to be done with that."""
    if not any(map(widens, graph.eqns)):
        return frozenset()
    found, near = [], _Distances(graph)
    for eqn in graph.eqns:
        if widens(eqn):
            source = eqn.inputs[0]
            if near.passed(source) > near.gap(eqn.outputs[0]):
                found.append(eqn)
            near.meet(source)
        near.pass_by(eqn)
    return frozenset(found)


class _Distances:
    """How many products lie between equations, of a graph that is gone through in order."""

    def __init__(self, graph: Graph) -> None:
        self.made_by: Mapping[Atom, Eqn] = {out: eqn for eqn in graph.eqns for out in eqn.outputs}
        apart = (e for e in graph.eqns if not is_view(e) and not runs_in_loops(e))
        self.in_memory = {a for e in apart for a in e.inputs if isinstance(a, Var)}
        for eqn in reversed(graph.eqns):  # what is read through views
            if is_view(eqn) and eqn.outputs[0] in self.in_memory:
                self.in_memory.add(eqn.inputs[0])  # type: ignore[arg-type]
        self.products = 0
        self.met: dict[Atom, int] = {}  # by the value under views: after how many products

    def gap(self, atom: Atom) -> int:
        return _NEAR if atom in self.in_memory else _FAR

    def passed(self, atom: Atom) -> int:
        return self.products - self.met.get(self.under_views(atom), self.products)

    def meet(self, atom: Atom) -> None:
        self.met[self.under_views(atom)] = self.products

    def pass_by(self, eqn: Eqn) -> None:
        self.products += eqn.op.kind is Kind.CONTRACTION
        if not is_view(eqn):
            for out in eqn.outputs:
                self.met[out] = self.products

    def under_views(self, atom: Atom) -> Atom:
        while (eqn := self.made_by.get(atom)) is not None and is_view(eqn):
            atom = eqn.inputs[0]
        return atom


class _Conversions(_Distances):
    """Equations, each of which reads what is converted as made not far before it."""

    def __init__(self, graph: Graph) -> None:
        super().__init__(graph)
        self.eqns: list[Eqn] = []
        wide = [e for e in graph.eqns if widens(e) and e.outputs[0].shape]
        # what makes a value in float32: of it, and of views of it
        self.roots: dict[Atom, Eqn] = {e.outputs[0]: e for e in wide}
        for eqn in graph.eqns:
            if is_view(eqn) and (root := self.roots.get(eqn.inputs[0])) is not None:
                self.roots[eqn.outputs[0]] = root
        given = {self.roots[a] for a in graph.outputs if a in self.roots}  # they have memory of their own
        self.roots = {atom: root for atom, root in self.roots.items() if root not in given}
        self.latest: dict[Atom, dict[Atom, Var]] = {}  # by what is converted: it and views, as made last

    def add(self, eqn: Eqn) -> None:
        if eqn.outputs and eqn.outputs[0] in self.roots:
            return  # made where it is read
        inputs = tuple([self._near(a) if a in self.roots else a for a in eqn.inputs])
        self.eqns.append(eqn.replace(inputs=inputs))
        self.pass_by(eqn)

    def _near(self, atom: Atom) -> Var:
        """``atom`` as made from a conversion that is not far."""
        source = self.roots[atom].outputs[0]
        if source not in self.latest or self.passed(source) > self.gap(atom):
            self.latest[source] = {}
        self.meet(source)
        return self._made(atom, self.latest[source])

    def _made(self, atom: Atom, found: dict[Atom, Var]) -> Var:
        assert isinstance(atom, Var)
        if atom not in found:
            eqn = self.made_by[atom]
            inputs = eqn.inputs if eqn is self.roots[atom] else (self._made(eqn.inputs[0], found),)
            found[atom] = Var(atom.type, atom.hint)
            self.eqns.append(eqn.replace(inputs=inputs, outputs=(found[atom],)))
        return found[atom]
