"""How many elements masks name in the calls of one plan: what its sizes rest on beside those of arguments.

A call takes the numbers of the latest one for granted. Where a mask names another number, the plan stops
before it has written anything that the caller can see, and the call begins again with that number; so it is
begun once more at most for each mask. Once numbers are seen to move, those of masks that are compared with
arguments (``label >= 0``) are looked up before the call. Where no instance is for the numbers that a call is
tried with, NumPy computes what they are.
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
from jtorch.core.dim import is_symbolic
from jtorch.core.errors import OtherBranch, OtherCount
from jtorch.core.op import Kind
from jtorch.ops import xp

Numbers = Callable[[Sequence[Any]], Mapping[str, int]]
_SIZE_OF: dict[str, Callable] = {"places_of_mask": np.count_nonzero, "repeated_places": np.sum}
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
        self._here = threading.local()

    @property
    def now(self) -> tuple[int, ...]:
        """Asked where all else than sizes fits."""
        self._here.fits = True
        return getattr(self._here, "counts", tuple(self.latest.values()))

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


def _where_it_can(compute: Numbers, leaves: tuple) -> Mapping[str, int]:
    """A guess may fail in any way: it is only that, and the plan finds out what is so."""
    try:
        return compute(leaves)
    except Exception:
        return {}


def ahead_of(graph: Graph, counted: Sequence[str], entries: Mapping[Var, Any]) -> Numbers:
    """What computes the numbers of masks that follow from a few equations over ``entries``, the inputs of a
    graph, element by element; given a call's arguments."""
    makers = {var: eqn for eqn in graph.eqns for var in eqn.outputs}
    known: list[tuple[str, Callable, Any, list[Eqn]]] = []
    for eqn in graph.eqns:
        name = counted[eqn.statics["which"]] if eqn.op.name in _SIZE_OF else ""
        if name:
            var = _unshaped(eqn.inputs[0], makers)
            slice_ = _slice(var, makers, entries)
            if slice_ is not None and len(slice_) <= _MOST:
                known.append((name, _SIZE_OF[eqn.op.name], var, slice_))

    def ahead(leaves: Sequence[Any]) -> dict[str, int]:
        values: dict[Var, Any] = {}
        found = {}
        for name, size, var, slice_ in known:
            for eqn in slice_:
                for a in eqn.inputs:
                    if isinstance(a, Var) and a in entries and a not in values:
                        values[a] = np.asarray(entries[a].value(leaves), a.dtype)
                if eqn.outputs[0] not in values:
                    out = eqn.op.body(xp, *(read(values, a) for a in eqn.inputs), **eqn.statics)
                    values[eqn.outputs[0]] = out
            value = entries[var].value(leaves) if var in entries else values[var]
            found[name] = int(size(value))
        return found

    return ahead


def _unshaped(var: Any, makers: Mapping[Var, Eqn]) -> Any:
    while var in makers and makers[var].op.name == "reshape":
        var = makers[var].inputs[0]
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
