"""Values whose parts are computed where they belong in them, so that nothing is copied together.

The steps of a recurrence give a state each, and the products over all steps want them below each other: a
step that does nothing but copy them there is left out, and they are written there to begin with. What can't
be, an input or the part of another value, has a copy of its own there: choosing for each element which of
all inputs it comes from takes ten times as long.
"""

from __future__ import annotations

from collections.abc import Iterator

from jtorch.compile.graph.access import Find, is_stack, layout_of, strides_of
from jtorch.compile.graph.ir import Eqn, Var
from jtorch.compile.plan.plan import Part, Task


def stacked(task: Task) -> Eqn | None:
    """The equation of a task that does nothing else."""
    (eqn, *others) = task.step.eqns
    return eqn if task.nest is not None and not others and is_stack(eqn) else None


def owner_of(var: Var, find: Find) -> Var | None:
    """The variable of which ``var`` is all elements in their order."""
    layout = layout_of(var, find)
    if layout is None or layout.offset or layout.owner.type.size != var.type.size:
        return None
    whole = [(n, s) for n, s in zip(var.shape, layout.strides, strict=True) if n != 1]
    plain = [(n, s) for n, s in zip(var.shape, strides_of(var), strict=True) if n != 1]
    return layout.owner if whole == plain else None


def memory_of(var: Var, parts: dict[Var, Part]) -> Var:
    """The variable that has memory of its own: ``var``, or that which it is a part of."""
    return parts[var].whole if var in parts else var


def placed(parts: dict[Var, Part], begins: dict[Var, int]) -> Iterator[tuple[Var, int]]:
    """Each part and where it begins, from where its whole does."""
    for var, part in parts.items():
        yield var, begins[part.whole] + part.begin
