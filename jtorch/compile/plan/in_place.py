"""What a loop may write over: memory whose elements it reads only where, and before, it writes."""

from __future__ import annotations

from collections.abc import Iterator

from jtorch.compile.graph.ir import Var
from jtorch.compile.plan.fuse import Style
from jtorch.compile.plan.loops import Load, Nest, Store
from jtorch.compile.plan.plan import Task


def overwrites_safely(task: Task, var: Var, old: Var) -> bool:
    """Whether a loop step may store ``var`` over ``old``, which it reads: each element, of the same dtype, is
    read only where it is written, and not again in a later pass."""
    nest = task.nest
    store = None if nest is None else next((s for s in _last_stores(nest) if s.var is var), None)
    if nest is None or store is None or var.dtype != old.dtype:
        return False
    return all(isinstance(value, Load) and value.at == store.at for value in nest.reads_of(old))


def written_over(task: Task) -> Iterator[tuple[Var, Var]]:
    """What the innermost loop of ``task`` writes, each with what it may write it over if nobody else needs
    that: first what it reads, then what a pass over a row keeps for the next ones, which read it back where,
    and before, the last one writes. A size of 1 must not decide: what is read through a slice is not
    written over, though the slice may be all of it."""
    nest = task.nest
    if nest is None:
        return
    whole = [s for s in nest.stores if s.level == 2]
    last = [s for s in _last_stores(nest) if s.level == 2]
    loads = [v for v in nest.values() if isinstance(v, Load) and v.is_all]
    for store in last:
        for load in loads:
            if load.at == store.at and overwrites_safely(task, store.var, load.var):
                yield store.var, load.var
    for store in last:
        for kept in whole:
            if kept not in last and kept.at == store.at and kept.var.dtype == store.var.dtype:
                yield store.var, kept.var


def _last_stores(nest: Nest) -> list[Store]:
    """Those after which the nest reads nothing more of that position; none where it sums in memory."""
    if nest.style in (Style.COLUMN, Style.SCATTER):
        return []
    return [s for s in nest.stores if nest.style is not Style.ROW or s.value.stage == nest.last_stage]
