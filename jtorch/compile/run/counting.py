"""How many elements the masks of a graph name, for the arguments of one call, before the call."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from jtorch.compile.graph.at_sizes import Numbers, numbers_for
from jtorch.compile.graph.interpret import compute
from jtorch.compile.graph.ir import Eqn, Graph, Var
from jtorch.core.errors import OtherCount


class Counting:
    """The equations of ``graph`` that its masks rest on, which is seldom a backward pass or an optimizer's
    step; ``counted`` has the symbol of each mask, "" for one whose number is none."""

    def __init__(self, graph: Graph, counted: Sequence[str]) -> None:
        self.counted = counted
        needed: set[Var] = set()
        eqns: list[Eqn] = []
        for eqn in reversed(graph.eqns):
            if is_counted(eqn) or not needed.isdisjoint(eqn.outputs):
                needed.update(a for a in eqn.inputs if isinstance(a, Var))
                eqns.append(eqn)
        self.eqns = [(eqn, _has_symbols(eqn)) for eqn in reversed(eqns)]

    def complete(self, space: dict[str, Any], values: dict[Var, Any]) -> None:
        """Put what masks name for ``values``, those of the inputs, in the place of what ``space`` says
        of it. One pass: no equation has in it a number that a later one counts."""
        numbers = numbers_for(space)
        for eqn, is_symbolic in self.eqns:
            if not is_symbolic:
                compute(eqn, values)
                continue
            try:
                _compute_at(numbers, eqn, values)
            except OtherCount as other:
                space[self.counted[other.which]] = other.count
                numbers = numbers_for(space)
                _compute_at(numbers, eqn, values)


def is_counted(eqn: Eqn) -> bool:
    """Whether it is a mask that the number of its elements is asked for."""
    return eqn.statics.keys() == {"which", "count"}


def _has_symbols(eqn: Eqn) -> bool:
    found: list[Any] = []
    Numbers(found.append).eqn(eqn)
    return bool(found)


def _compute_at(numbers: Numbers, eqn: Eqn, values: dict[Var, Any]) -> None:
    """``compute`` for an equation over symbols."""
    at = numbers.eqn(eqn)
    inner = {numbers.var(a): values[a] for a in eqn.inputs if isinstance(a, Var)}
    compute(at, inner)
    for var, made in zip(eqn.outputs, at.outputs, strict=True):
        values[var] = inner[made]
