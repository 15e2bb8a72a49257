"""What an equation reads, and where: the questions that fusion asks before it puts two into one loop.

Views cost nothing and numbers are computed again wherever they are needed, so reading a variable means
reading what lies under them: an element at a known place of the loops, or memory at a computed address.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping

import numpy as np

from jtorch.compile.graph.access import Coordinates, identity, is_alias, to_root
from jtorch.compile.graph.halves import moves_or_converts
from jtorch.compile.graph.ir import Eqn, Graph, Literal, Var
from jtorch.core import index as ix
from jtorch.core.dtypes import HALVES, is_float
from jtorch.core.op import Kind
from jtorch.core.sizes import exactly

KERNEL_DTYPES = frozenset(
    np.dtype(d) for d in ("f4", "f8", "i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "?")
)

# -- what an equation is ---------------------------------------------------------------------------------


def runs_in_loops(eqn: Eqn) -> bool:
    """Whether a kernel can compute ``eqn``; what cannot becomes a library call."""
    for a in (*eqn.inputs, *eqn.outputs):
        if a.dtype not in KERNEL_DTYPES and not (a.dtype in HALVES and moves_or_converts(eqn)):
            return False
    op = eqn.op
    if op.kind is Kind.ELEMENTWISE:
        return op.text is not None or op.integer_text is not None
    return op.kind is Kind.REDUCTION or op.index_map is not None or op.woven is not None


def is_number(eqn: Eqn) -> bool:
    """An elementwise equation without axes: repeated in every kernel that needs it."""
    return eqn.op.kind is Kind.ELEMENTWISE and not eqn.outputs[0].shape and not is_checked(eqn)


def is_checked(eqn: Eqn) -> bool:
    """Whether an element of ``eqn`` may be an error: the checks of ops are about integers."""
    return eqn.op.check is not None and not is_float(eqn.outputs[0].dtype)


def may_fail(eqn: Eqn) -> bool:
    """Whether the turn of a loop may stop with an error."""
    scan = eqn.op.scan
    turn = scan.graph.eqns if scan is not None and scan.graph is not None else ()
    return any(map(may_stop, turn))


def may_stop(eqn: Eqn) -> bool:
    """Whether it may stop with an error, for some elements."""
    return bool(is_checked(eqn) or checks_of(eqn) or may_fail(eqn))


def checks_of(eqn: Eqn) -> frozenset[tuple]:
    """What of ``eqn`` may be an error for some elements, in a form that is equal for the same checks."""
    op = eqn.op
    if is_checked(eqn) and any(isinstance(a, Var) or not a.value for a in eqn.inputs[-1:]):  # by a known 0
        return frozenset({(op, *eqn.inputs)})
    if op.may_raise:
        return frozenset({(op, *eqn.inputs, exactly(tuple(sorted(eqn.statics.items()))))})
    if op.positions is not None:
        shapes = [a.shape if isinstance(a, Var) else () for a in eqn.inputs]
        found = op.positions(shapes, **eqn.statics)
        return frozenset((eqn.inputs[k], exactly(bound)) for k, bound in found)
    rule = op.index_map or op.scatter
    if rule is None:
        return frozenset()
    shape = eqn.outputs[0].shape if op.scatter is None else eqn.inputs[0].shape  # type: ignore[union-attr]
    shapes = [a.shape for a in eqn.inputs if isinstance(a, Var)]
    found = rule([ix.Coordinate(k) for k in range(len(shape))], shapes, **eqn.statics)
    parts = found if isinstance(found, tuple) else (found,)
    return frozenset((eqn.inputs[i.source], exactly(i.bound)) for part in parts for i in ix.loaded(part))


def is_pattern(eqn: Eqn) -> bool:
    """An equation that reads no memory (``full``, ``iota``): repeated wherever it is needed."""
    return eqn.op.kind is Kind.ELEMENTWISE and not any(
        isinstance(a, Var) and a.shape for a in eqn.inputs
    ) and "shape" in eqn.statics and len(eqn.inputs) < 2  # fmt: skip


def is_repeated(eqn: Eqn) -> bool:
    return (is_number(eqn) or is_pattern(eqn)) and runs_in_loops(eqn)


def is_known_anywhere(eqn: Eqn) -> bool:
    """A pattern whose element at a computed position is known without memory. An integer that comes from
    memory is not: as an index it has to be checked."""
    if not (is_pattern(eqn) and is_repeated(eqn)):
        return False
    return all(isinstance(a, Literal) or is_float(a.dtype) for a in eqn.inputs)


# -- where it is computed --------------------------------------------------------------------------------


def place_of(eqn: Eqn, domain: tuple[int, ...], reduced: tuple[int, ...] | None) -> Coordinates | None:
    """The coordinates, in loop positions over ``domain``, of what ``eqn`` computes at one position.

    A reduction computes over the whole domain, and what is woven over that of its inputs, which is all of
    the domain then. None where the shape fits neither the domain nor its kept axes.
    """
    if eqn.op.woven is not None:
        reduced = None  # it is stored by positions of its own, as many as the domain has
    return coordinates_of(computed_over(eqn), domain, reduced)


def computed_over(eqn: Eqn) -> tuple[int, ...]:
    """The shape over which ``eqn`` computes."""
    by_input = eqn.op.kind is Kind.REDUCTION or eqn.op.woven is not None
    return eqn.inputs[0].shape if by_input else eqn.outputs[0].shape  # type: ignore[union-attr]


def coordinates_of(
    shape: tuple[int, ...], domain: tuple[int, ...], reduced: tuple[int, ...] | None
) -> Coordinates | None:
    """The coordinates of an array of the domain's shape, or of the shape of its kept axes.

    Arrays that keep a reduced axis with size 1 do not occur: ``passes.narrow`` computes without such axes.
    A shape could not tell them from the domain when the axis happens to have that size.
    """
    axes = identity(len(domain))
    if shape == domain:
        return axes
    if reduced is not None and shape == tuple(n for k, n in enumerate(domain) if k not in reduced):
        return tuple(c for k, c in enumerate(axes) if k not in reduced)
    return None


# -- what it reads -----------------------------------------------------------------------------------------


class Reader:
    """Answers for the equations of one graph."""

    def __init__(self, graph: Graph) -> None:
        self.made_by: dict[Var, Eqn] = {v: e for e in graph.eqns for v in e.outputs}
        self.places = {e: k for k, e in enumerate(graph.eqns)}
        self._read: dict[Eqn, tuple[frozenset[Var], frozenset[Var]]] = {}
        self._needed: dict[Eqn, tuple[Var, ...]] = {}
        self._memory: dict[Eqn, frozenset[Var]] = {}
        self._repeated: dict[Eqn, bool] = {}
        self._here: dict[Eqn, list[tuple[Var, Coordinates]]] = {}  # read where an equation's loops are

    def find(self, var: Var) -> Eqn | None:
        return self.made_by.get(var)

    def is_repeated(self, eqn: Eqn) -> bool:
        """As the function, which is asked of an equation a hundred times."""
        found = self._repeated.get(eqn)
        if found is None:
            found = self._repeated[eqn] = is_repeated(eqn)
        return found

    def elements(self, eqn: Eqn, place: Coordinates, n: int) -> Iterable[tuple[Var, Coordinates]]:
        """The variables of which ``eqn`` reads one element for the position ``place`` of ``n``
        loops, each with
        that element's coordinates."""
        if place is not identity(n):
            return self._elements(eqn, place, n)
        found = self._here.get(eqn)
        if found is None:
            found = self._here[eqn] = list(self._elements(eqn, place, n))
        return found

    def _elements(self, eqn: Eqn, place: Coordinates, n: int) -> Iterator[tuple[Var, Coordinates]]:
        seen: set[Var] = set()
        by_place, others = _inputs(eqn, self.find)
        stack = [(v, place if v.shape else ()) for v in by_place] + [(v, ()) for v in others]
        while stack:
            root, at = to_root(*stack.pop(), n, self.find)
            maker = self.find(root)
            if maker is None or is_alias(maker) or not self.is_repeated(maker):
                yield root, at
            elif root not in seen:  # repeated: what counts is what it reads itself
                seen.add(root)
                stack += [(v, ()) for v in _variables(maker)]

    def memory_inputs(self, eqn: Eqn) -> frozenset[Var]:
        """The variables that must be in memory for ``eqn``: read at computed addresses, as a whole, or
        relabelled."""
        return self._reads(eqn)[1]

    def memory_of(self, eqn: Eqn) -> frozenset[Var]:
        """Every variable that ``eqn`` reads when it has a kernel of its own."""
        found = self._memory.get(eqn)
        if found is None:
            direct, memory = self._reads(eqn)
            found = self._memory[eqn] = direct | memory
        return found

    def grouped_inputs(self, eqn: Eqn) -> tuple[Var, ...]:
        """The results of other kernels that ``eqn`` depends on, numbers and patterns seen through; graph
        inputs are among them. In the order of the graph."""
        if eqn not in self._needed:
            found = self.behind_numbers(self.memory_of(eqn))
            self._needed[eqn] = tuple(sorted(found, key=self._place))
        return self._needed[eqn]

    def behind_numbers(self, variables: Iterable[Var]) -> set[Var]:
        """``variables`` with numbers and patterns replaced by the results of kernels they are made of."""
        found: set[Var] = set()
        stack, seen = list(variables), set()
        while stack:
            var = stack.pop()
            maker = self.find(var)
            if maker is None or not self.is_repeated(maker):
                found.add(var)
            elif var not in seen:
                seen.add(var)
                stack += self.memory_of(maker)
        return found

    def _place(self, var: Var) -> int:
        maker = self.find(var)
        return -1 if maker is None else self.places[maker]

    def _reads(self, eqn: Eqn) -> tuple[frozenset[Var], frozenset[Var]]:
        """(read element by element, read as memory)"""
        if eqn not in self._read:
            direct: set[Var] = set()
            memory: set[Var] = set()
            if runs_in_loops(eqn):
                by_place, others = _inputs(eqn, self.find)
                self._walk([*by_place, *others], direct, memory)
                memory.update(
                    self.memory_root(v) for v in _variables(eqn) if v not in by_place and v not in others
                )
            else:
                memory.update(map(self.memory_root, _variables(eqn)))
            self._read[eqn] = frozenset(direct), frozenset(memory)
        return self._read[eqn]

    def _walk(self, stack: list[Var], direct: set[Var], memory: set[Var]) -> None:
        seen: set[Var] = set()
        while stack:
            root = self._under_views(stack.pop())
            maker = self.find(root)
            if maker is not None and is_alias(maker):
                memory.add(self.memory_root(root))
            elif maker is None or not self.is_repeated(maker):
                direct.add(root)
            elif root not in seen:
                seen.add(root)
                stack += _variables(maker)

    def _under_views(self, var: Var) -> Var:
        """The variable under a chain of views that only move coordinates."""
        eqn = self.find(var)
        while eqn is not None and is_alias(eqn) and not eqn.op.relabels:
            var = eqn.inputs[0]  # type: ignore[assignment]
            eqn = self.find(var)
        return var

    def memory_root(self, var: Var) -> Var:
        """The variable whose memory ``var`` is a view of, through relabellings too."""
        eqn = self.find(var)
        while eqn is not None and is_alias(eqn):
            var = eqn.inputs[0]  # type: ignore[assignment]
            eqn = self.find(var)
        return var

    def stored(self, graph: Graph, group_of: Mapping[Eqn, object]) -> set[Var]:
        """The results that somebody reads from memory: outputs, and what other kernels need."""
        wanted = [self.memory_root(a) for a in graph.outputs if isinstance(a, Var)]
        for eqn, group in group_of.items():
            direct, memory = self._reads(eqn)
            wanted += memory
            wanted += [v for v in direct if self._group(v, group_of) is not group]
            if eqn.op.scatter is not None or _sums_in_memory(group):
                wanted += eqn.outputs if eqn.op.kind is Kind.REDUCTION else ()
        found: set[Var] = set()
        while wanted:
            var = wanted.pop()
            maker = self.find(var)
            if var in found or maker is None:
                continue
            found.add(var)
            if maker not in group_of:  # a number or pattern that gets a kernel of its own
                wanted += self.memory_of(maker)
        return found

    def _group(self, var: Var, group_of: Mapping[Eqn, object]) -> object:
        maker = self.find(var)
        return None if maker is None else group_of[maker]


def _sums_in_memory(group: object) -> bool:
    return getattr(group, "sums_in_memory", False)


def _variables(eqn: Eqn) -> list[Var]:
    return [a for a in eqn.inputs if isinstance(a, Var)]


def _inputs(eqn: Eqn, find: Callable[[Var], Eqn | None]) -> tuple[list[Var], list[Var]]:
    """(the inputs that a loop equation reads where it computes, those known at any position)"""
    variables = _variables(eqn)
    if eqn.op.index_map is None and eqn.op.scatter is None:
        return variables, []
    here = variables[:1] if eqn.op.scatter is not None else []
    makers = ((v, find(v)) for v in variables[len(here) :])
    return here, [v for v, maker in makers if maker is not None and is_known_anywhere(maker)]
