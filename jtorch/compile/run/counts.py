"""How many elements masks name in the calls of one plan: what its sizes rest on beside those of arguments.

A call takes the numbers of the latest one for granted. Where a mask names another number, the plan stops
before it has written anything that the caller can see, and the call begins again with that one. Once numbers
are seen to move, those of masks that are compared with arguments (``label >= 0``) are looked up before the
call. Where a second one is another, or no instance is for those that a call is tried with, NumPy computes all
of them: each beginning has an instance of its own, made for it alone most likely.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from jtorch.compile.graph.interpret import read
from jtorch.compile.graph.ir import Eqn, Graph, Var
from jtorch.compile.record.sizing import Sizing
from jtorch.compile.run.caller import MISS
from jtorch.compile.run.counting import is_counted
from jtorch.core.dim import is_symbolic
from jtorch.core.errors import OtherBranch, OtherCount
from jtorch.core.op import Kind
from jtorch.core.sizes import exactly
from jtorch.ops import xp

Numbers = Callable[[Sequence[Any]], Mapping[str, int]]
_MOST = 8  # equations that are worth being computed before a call


class Counts:
    """Those of ``sizing``. ``now`` are those of this thread's call; ``computed`` gives all of them for the
    arguments of a call, and ``ahead`` some, cheaply."""

    def __init__(self, sizing: Sizing, computed: Numbers, ahead: Numbers) -> None:
        self.latest, self.counted = sizing.counts, sizing.counted
        self.alike = {name: compile(text, "<a size>", "eval") for name, text in sizing.alike.items()}
        self.computed, self.ahead = computed, ahead
        self.missed: dict[str, int] = {}  # those for which there was no instance
        self.moves = False
        self.several = False  # whether more than one was another in the latest call that began again
        self._here = threading.local()

    @property
    def now(self) -> tuple[int, ...]:
        """Asked where all else than sizes fits."""
        self._here.fits = True
        return getattr(self._here, "counts", tuple(self.latest.values()))

    def take(self, leaves: Sequence[Any]) -> None:
        """Have this thread's next call, which is not begun again, be of the numbers for these arguments."""
        counts = dict(self.latest)
        self._learn(counts, _where_it_can(self.computed, leaves))
        self._here.counts = tuple(counts.values())

    def followed(self, call: Callable[[tuple], Any]) -> Callable[[tuple], Any]:
        """``call``, begun again until the numbers are right. Raises OtherBranch where it is the plan that
        expects another number."""

        def following(leaves: tuple) -> Any:
            counts, told, is_computed = dict(self.latest), set[str](), False
            if self.moves:
                self._learn(counts, _where_it_can(self.ahead, leaves))
            for _ in range(2 + 2 * len(counts)):
                self._here.counts, self._here.fits = tuple(counts.values()), False
                try:
                    result = call(leaves)
                except OtherCount as other:
                    name = self.counted[other.which]
                    if name not in counts or name in told:
                        raise
                    self.moves = True
                    told.add(name)
                    self._learn(counts, {name: other.count})
                    if not is_computed and (self.several or len(told) > 1):
                        is_computed, before = True, dict(counts)
                        self._learn(counts, _where_it_can(self.computed, leaves))
                        self.several = len(told) > 1 or counts != before
                    continue
                if result is MISS and self._here.fits and not is_computed:
                    is_computed, before = True, dict(counts)
                    self._learn(counts, _where_it_can(self.computed, leaves))
                    if counts != before:
                        continue
                if result is not MISS:
                    self.latest.update(counts)
                else:
                    self.missed = counts
                return result
            raise OtherBranch

        return following

    def _learn(self, counts: dict[str, int], found: Mapping[str, int]) -> None:
        counts.update(found)
        for name, same in self.alike.items():
            if counts.keys() >= {*same.co_names}:  # no other sizes are in it
                counts[name] = eval(same, {}, counts)


def _where_it_can(compute: Numbers, leaves: Sequence[Any]) -> Mapping[str, int]:
    """A guess may fail in any way: it is only that, and the plan finds out what is so."""
    try:
        return compute(leaves)
    except Exception:
        return {}


def ahead_of(graph: Graph, counted: Sequence[str], entries: Mapping[Var, Any]) -> Numbers:
    """What computes the numbers of masks that follow from a few equations over ``entries``, the inputs of a
    graph, element by element; given a call's arguments."""
    makers = {var: eqn for eqn in graph.eqns for var in eqn.outputs}
    known: list[tuple[Eqn, Any, list[Eqn]]] = []
    for eqn in graph.eqns:
        if is_counted(eqn) and counted[eqn.statics["which"]]:
            var = _unshaped(eqn.inputs[0], makers)
            before = _slice(var, makers, entries)
            if before is not None and len(before) <= _MOST:
                known.append((eqn, var, before))

    def ahead(leaves: Sequence[Any]) -> dict[str, int]:
        values = _Values(entries, leaves)
        found = {}
        for eqn, var, before in known:
            for one in before:
                values.compute(one)
            which = eqn.statics["which"]
            try:
                eqn.op.body(xp, values[var].reshape(-1), which=which, count=-1)
            except OtherCount as told:
                found[counted[which]] = told.count
        return found

    return ahead


class _Values(dict):
    """Of variables, those of ``entries`` for the arguments of a call."""

    def __init__(self, entries: Mapping[Var, Any], leaves: Sequence[Any]) -> None:
        super().__init__()
        self.entries, self.leaves = entries, leaves

    def __missing__(self, var: Var) -> np.ndarray:
        self[var] = value = np.asarray(self.entries[var].value(self.leaves), var.dtype)
        return value

    def compute(self, eqn: Eqn) -> None:
        (out,) = eqn.outputs
        if out not in self:
            self[out] = eqn.op.body(xp, *(read(self, a) for a in eqn.inputs), **eqn.statics)


def _unshaped(var: Any, makers: Mapping[Var, Eqn]) -> Any:
    """What has the same elements, most likely: as many, of one tensor."""
    eqn = makers.get(var)
    while eqn is not None and eqn.op.kind is Kind.VIEW and len(eqn.inputs) == 1:
        (before,) = eqn.inputs
        if not isinstance(before, Var) or exactly(before.type.size) != exactly(eqn.outputs[0].type.size):
            break
        var, eqn = before, makers.get(before)
    return var


def _slice(var: Any, makers: Mapping[Var, Eqn], entries: Mapping[Var, Any]) -> list[Eqn] | None:
    """The equations that compute ``var`` of ``entries``, in order; None where it is not by elements alone."""
    if var in entries:
        return []
    eqn = makers.get(var)
    if eqn is None or eqn.op.kind is not Kind.ELEMENTWISE or len(eqn.outputs) > 1:
        return None
    found: list[Eqn] = []
    for a in eqn.inputs:
        if not isinstance(a, Var):
            if is_symbolic(a.value):
                return None
            continue
        part = _slice(a, makers, entries)
        if part is None or len(found) > _MOST:
            return None
        found += [e for e in part if e not in found]
    return [*found, eqn]
