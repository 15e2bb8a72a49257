"""Where scratch values lie: how long each is needed, and what lies there before and after.

A value has its memory from the step that writes it to the last one that reads it. A loop that may write over
what it reads for the last time does: that memory is in the cache already, and no more of it is needed.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Container, Sequence

import numpy as np

from jtorch.compile.graph.ir import Var
from jtorch.compile.plan.in_place import written_over
from jtorch.compile.plan.joins import memory_of, placed
from jtorch.compile.plan.plan import Part, Run, Task

ALIGNMENT = 64  # bytes: a cache line, and the widest vector


def lay_out(
    order: Sequence[Task], elsewhere: Container[Var], parts: dict[Var, Part], over: dict[Var, Var],
    runs: Sequence[Run] = (),
) -> tuple[dict[Var, int], int]:  # fmt: skip
    """Where in the arena each variable begins that tasks write and that is not ``elsewhere``, and the arena's
    size, both in bytes. ``over`` is what ``overwriting`` gave."""
    born, dies, shares = needed(order, elsewhere, parts, over, runs)
    begins: dict[Var, int] = {}
    taken = _Taken(len(born))
    for var in sorted(born, key=lambda v: (-v.type.nbytes, born[v])):
        begins[var] = taken.take(padded(var.type.nbytes), born[var], dies[var])
    for there in (shares, over):
        for var, other in there.items():
            begins[var] = begins[other]
    begins.update(placed(parts, begins))
    return begins, taken.end


def needed(
    order: Sequence[Task], elsewhere: Container[Var], parts: dict[Var, Part], over: dict[Var, Var],
    runs: Sequence[Run],
) -> tuple[dict[Var, int], dict[Var, int], dict[Var, Var]]:  # fmt: skip
    """From when on and how long each variable needs memory of its own, and which others lie in that of one
    before them because tiles have shares of both."""
    born, dies = lifetimes(order, elsewhere, parts)
    for var, old in reversed(over.items()):  # the last ones first: each may have others behind it
        dies[old] = dies[var]
        del born[var], dies[var]
    shares: dict[Var, Var] = {}
    turn = {task: k for k, task in enumerate(order)}
    for run in runs:
        turns = turn[run.tasks[0]], turn[run.tasks[-1]]
        shares |= _shared_by_tiles(run, born, dies, turns)
        _stretch(born, dies, turns)
    for var in shares:
        del born[var], dies[var]
    return born, dies, shares


def _shared_by_tiles(
    run: Run, born: dict[Var, int], dies: dict[Var, int], turns: tuple[int, int]
) -> dict[Var, Var]:
    """Values that no other step needs, each with one before it in whose memory it lies. A tile may be any
    number of steps behind another one, so this asks for the same share of it, of as many bytes."""
    first, last = turns
    inside = [v for v in born if v in run.local and first <= born[v] and dies[v] <= last]
    shares: dict[Var, Var] = {}
    free: dict[str, list[tuple[int, Var]]] = {}  # by size: (turn from which on, whose memory)
    for var in sorted(inside, key=lambda v: born[v]):
        places = free.setdefault(str(var.type.nbytes), [])
        place = next((p for p in places if p[0] < born[var]), None)
        if place is not None:
            places.remove(place)
            shares[var] = place[1]
        places.append((dies[var], shares.get(var, var)))
    return shares


def _stretch(born: dict[Var, int], dies: dict[Var, int], turns: tuple[int, int]) -> None:
    """Where tiles are at different steps, what is born or dies in a run is there from its beginning or to its
    end."""
    first, last = turns
    for var in born:
        if first < born[var] <= last:
            born[var] = first
        if first <= dies[var] < last:
            dies[var] = last


def lifetimes(
    order: Sequence[Task], elsewhere: Container[Var], parts: dict[Var, Part]
) -> tuple[dict[Var, int], dict[Var, int]]:
    """The turns of the first step that writes each variable and of the last one that needs it."""
    born: dict[Var, int] = {}
    dies: dict[Var, int] = {}
    for k, task in enumerate(order):
        for var in (memory_of(v, parts) for v in task.writes):
            if var not in elsewhere:
                born.setdefault(var, k)
                dies[var] = k
        for var in (memory_of(v, parts) for v in task.reads):
            if var in born:
                dies[var] = k
    return born, dies


def overwriting(order: Sequence[Task], elsewhere: Container[Var], parts: dict[Var, Part]) -> dict[Var, Var]:
    """For what is written over something that is needed no more: over what. In the order of the steps. Over
    what no other step reads, if there is such a thing: those would have to come before."""
    born, dies = lifetimes(order, elsewhere, parts)
    readers = Counter(var for task in order for var in task.reads)
    lies_in: dict[Var, Var] = {}
    gone: set[Var] = set()
    for k, task in enumerate(order):
        by_parts = {parts[v].whole for v in task.reads if v in parts}  # read at other places, too
        for var, old in sorted(written_over(task), key=lambda pair: readers[pair[1]] > 1):
            is_free = dies.get(old) == k and old not in gone and old not in by_parts
            if is_free and born.get(var) == k and var not in lies_in:
                lies_in[var] = old
                gone.add(old)
    return lies_in


def padded(nbytes: int) -> int:
    """So many bytes and those up to the next boundary."""
    return max(ALIGNMENT, -(-nbytes // ALIGNMENT) * ALIGNMENT)


class _Taken:
    """Bytes that are taken, each from turn ``born`` to ``dies``, in the order of where they begin; at most
    so many."""

    def __init__(self, most: int) -> None:
        self.columns = np.zeros((4, most), np.int64)  # begins, ends, born, dies
        self.count = self.end = 0

    def take(self, size: int, born: int, dies: int) -> int:
        """Where the first ``size`` bytes begin that nothing has taken in these turns, which now have them."""
        n = self.count
        begins, ends, first, last = self.columns[:, :n]
        there = np.flatnonzero((first <= dies) & (last >= born))
        starts = np.append(begins[there], _FAR)
        free = np.maximum.accumulate(np.append(0, ends[there]))  # from where on, before each of them
        place = int(free[np.argmax(starts - free >= size)])
        at = int(np.searchsorted(begins, place))
        self.columns[:, at + 1 : n + 1] = self.columns[:, at:n].copy()
        self.columns[:, at] = place, place + size, born, dies
        self.count, self.end = n + 1, max(self.end, place + size)
        return place


_FAR = 2**62
