"""What a loop may write over: memory whose elements it reads only where, and before, it writes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from jtorch.compile.graph.ir import Var
from jtorch.compile.plan.fuse import Style
from jtorch.compile.plan.loops import Gather, Load, Nest, Store

if TYPE_CHECKING:
    from jtorch.compile.plan.memory import Task


def overwrites_safely(task: Task, var: Var, old: Var) -> bool:
    """Whether a loop step may store ``var`` over ``old``, which it reads: each element is read only where it
    is written, and not again in a later pass."""
    nest = task.nest
    if nest is None or nest.style in (Style.COLUMN, Style.SCATTER):
        return False
    store: Store | None = next((s for s in nest.stores if s.var is var), None)
    if store is None or not _is_of_last_pass(store, nest):
        return False
    for value in nest.values():
        if isinstance(value, Gather) and value.var is old:
            return False
        if isinstance(value, Load) and value.var is old and value.at != store.at:
            return False
    return True


def candidates(task: Task) -> Iterator[tuple[Var, Var]]:
    """What the innermost loop of ``task`` writes, each with what it may write it over if nobody else needs
    that: first what it reads, then what one pass over a row keeps for the next ones."""
    nest = task.nest
    if nest is None or nest.style in (Style.COLUMN, Style.SCATTER):
        return
    loads = [v for v in nest.values() if isinstance(v, Load)]
    whole = [s for s in nest.stores if s.level == 2]
    last = [s for s in whole if _is_of_last_pass(s, nest)]
    for store in last:
        for load in loads:
            if load.at == store.at and overwrites_safely(task, store.var, load.var):
                yield store.var, load.var
    for store in last:
        yield from ((store.var, kept.var) for kept in whole if kept.at == store.at and kept not in last)


def _is_of_last_pass(store: Store, nest: Nest) -> bool:
    return nest.style is not Style.ROW or store.value.stage == nest.last_stage
