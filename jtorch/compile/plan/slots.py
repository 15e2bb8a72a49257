"""Scratch memory where sizes are symbols.

Values that are never needed at once share a slot, which is as large as the largest of them. Which share one
rests on lifetimes, and is good for all sizes; the sizes at hand say only which fit each other best. Where a
slot begins is added up for each call's sizes.
"""

from __future__ import annotations

from collections.abc import Container, Sequence
from typing import Any

from jtorch.compile.graph.ir import Var
from jtorch.compile.plan.plan import Part, Run, SlotAt, Task
from jtorch.compile.plan.scratch import ALIGNMENT, needed
from jtorch.core.dim import value_of

_ALIKE = 2.0  # so many times as large as another one a value has a slot of its own


def slots_of(
    order: Sequence[Task], elsewhere: Container[Var], parts: dict[Var, Part], over: dict[Var, Var],
    runs: Sequence[Run] = (),
) -> tuple[dict[Var, SlotAt], tuple[tuple[Any, ...], ...]]:  # fmt: skip
    """Where each variable lies that ``scratch.lay_out`` would give a place, and the sizes of which each slot
    is as large as the largest, in bytes."""
    born, dies, shares = needed(order, elsewhere, parts, over, runs)
    slots: list[list[Any]] = []
    free_from: list[int] = []
    at: dict[Var, SlotAt] = {}
    for var in sorted(born, key=lambda v: born[v]):
        slot = _best(slots, free_from, born[var], value_of(var.type.nbytes))
        if slot is None:
            slot = len(slots)
            slots.append([])
            free_from.append(-1)
        slots[slot].append(var.type.nbytes)
        free_from[slot] = dies[var]
        at[var] = SlotAt(slot, 0)
    for there in (shares, over):
        for var, other in there.items():
            at[var] = at[other]
    for var, part in parts.items():
        slot, begin = at[part.whole]
        at[var] = SlotAt(slot, begin + part.begin)
    return at, tuple(tuple({str(n): n for n in sizes}.values()) for sizes in slots)


def _best(slots: list[list[Any]], free_from: list[int], turn: int, nbytes: int) -> int | None:
    """The free slot whose size is nearest; None where none is about as large."""
    free = [k for k, last in enumerate(free_from) if last < turn]
    best = min(free, key=lambda k: abs(value_of(slots[k][0]) - nbytes), default=None)
    if best is None:
        return None
    ratio = (nbytes + ALIGNMENT) / (value_of(slots[best][0]) + ALIGNMENT)
    return best if 1 / _ALIKE < ratio < _ALIKE else None
