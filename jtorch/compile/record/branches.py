"""Data-dependent branches: ``if tensor:`` while a function is recorded.

The recording takes the way that the elements of this call decide: what the condition depends on is evaluated
with NumPy as far as the trace has come. The graph keeps the decision as an ``expect`` equation, a check like
that of an index: where a later call decides otherwise the plan stops before it has written anything that the
caller can see, and another plan is tried, or recorded. So a function has one plan per way through its
branches, and a call costs one plan where it goes the way of the last one.

A plan that ends without such a stop has gone its own way: each of its decisions was checked on values that
all decisions before it make right.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from typing import Any

import numpy as np

from jtorch.compile.graph.at_sizes import Numbers
from jtorch.compile.graph.interpret import read
from jtorch.compile.graph.ir import Atom, Var
from jtorch.compile.record.exchange import refuse_elements
from jtorch.compile.record.sizing import Counted, Masks, Sizing
from jtorch.core.device_array import on_host
from jtorch.core.dim import is_symbolic, symbol, value_of
from jtorch.core.environment import LEAST
from jtorch.core.errors import CompileError, CountNeeded, user_source
from jtorch.core.op import BY_NAME, Kind, Op
from jtorch.core.sizes import exactly
from jtorch.ops import xp

_EXPECT, _CAST, _NOT = (BY_NAME[name] for name in ("expect", "cast", "logical_not"))
_PLACES, _REPEATED = (BY_NAME[name] for name in ("places_of_mask", "repeated_places"))
_BOOL, _INT = np.dtype(np.bool_), np.dtype(np.int64)


class Branches:
    """The decisions of one recording, and the values they rest on."""

    def __init__(self, tracer: Any) -> None:
        self.tracer = tracer
        self.checks: list[Atom] = []  # outputs of the graph that keep the checks alive
        self.sizing: Sizing | None = None  # where counts are symbols
        self.masks: Masks | None = None  # None where they are not counted
        self.counts: list[Any] = []  # how many elements masks name, in this order
        self._places: dict[Hashable, Var] = {}
        self._meanings: dict[Var, int] = {}
        self._numbers_of: dict[Hashable, int] = {}
        self._understood = 0  # how many equations have a meaning so far
        self._values: dict[Var, Any] = {}
        self._inputs = self._eqns = 0  # how many were evaluated so far
        self._numbers = Numbers(value_of)  # a decision is checked at each call, whatever its sizes

    def decide(self, condition: Any) -> bool:
        """What a traced tensor of one element decides now; recorded as what this plan expects."""
        tracer = self.tracer
        tracer.only_now("branches on the elements of a tensor (use jtorch.where)")
        tracer.leave_turn("branches on the elements of a tensor")
        if tracer.callees:  # another way would have to run them again
            raise CompileError(
                f"{user_source()}: a branch on the elements of a tensor after '{tracer.callees[-1].name}' "
                "ran, which is disabled for compiling: call that after the branch, or use jtorch.where."
            )
        tracer.observer.decided = True
        atom = tracer.read(condition)
        outcome = bool(self.values_of([atom])[0])
        table = tracer.table
        truth = condition if atom.dtype == _BOOL else table[_CAST.index](condition, dtype=_BOOL)
        holds = truth if outcome else table[_NOT.index](truth)
        flat = table[BY_NAME["reshape"].index](holds, shape=())
        self.checks.append(tracer.read(table[_EXPECT.index](table[_CAST.index](flat, dtype=_INT))))
        return outcome

    def places_of_mask(self, mask: Any) -> Any:
        """Where a traced mask of one axis holds."""
        return self._counted(_PLACES, mask, np.count_nonzero)

    def repeated_places(self, repeats: Any) -> Any:
        """The places of a traced vector, each as often as its element says."""
        return self._counted(_REPEATED, repeats, np.sum)

    def _counted(self, op: Op, value: Any, size: Callable[[np.ndarray], Any]) -> Any:
        """What ``op`` gives of ``value``: a vector of ``size(value)`` elements. That is a symbol; none, or
        one, is a number."""
        tracer = self.tracer
        tracer.only_now("asks for a number of elements")
        tracer.leave_turn("asks for a number of elements")
        if tracer.callees:
            raise CompileError(
                f"{user_source()}: a number of elements is asked for after '{tracer.callees[-1].name}' ran, "
                "which is disabled for compiling: call that after it, or use jtorch.where."
            )
        if self.masks is None:
            raise CountNeeded(user_source())
        atom = tracer.read(tracer.lift(value))
        known = op.name, self._meaning_of(atom)
        if known not in self._places:
            count = self._count(int(size(self.values_of([atom])[0])), atom)
            which = len(self.counts)
            self.counts.append(count)
            (places,) = tracer.emit(op, [atom], {"which": which, "count": count})
            self.checks.append(places)
            self._places[known] = places
        return tracer.fresh(self._places[known])

    def _count(self, found: int, mask: Atom) -> Any:
        """``found`` as ``masks`` says; none, and one, are recorded as they are."""
        masks, name = self.masks, f"N{len(self.counts)}"
        assert masks is not None
        if self.sizing is None or masks.numbers is Counted.EXACT or found < LEAST or name in masks.pinned:
            return found
        if masks.numbers is Counted.ALIKE:
            (most,) = mask.shape if isinstance(mask, Var) else (0,)
            if value_of(most) == found:
                return most
            sizes = [n for shape in self.sizing.shapes.values() for n in shape]
            for known in (*self.counts, *sizes):
                if is_symbolic(known) and value_of(known) == found:
                    return known
        return symbol(self.sizing.env, name, found)

    def _meaning_of(self, atom: Atom) -> Hashable:
        """Equal for masks that are computed alike of the same tensors."""
        for eqn in self.tracer.eqns[self._understood :]:
            if eqn.op.kind in (Kind.ELEMENTWISE, Kind.VIEW) and len(eqn.outputs) == 1:
                inputs = tuple(
                    self._meanings.get(a, a) if isinstance(a, Var) else (exactly(a.value), a.dtype)
                    for a in eqn.inputs
                )
                statics = tuple((name, exactly(value)) for name, value in sorted(eqn.statics.items()))
                meaning = eqn.op.name, inputs, statics, eqn.outputs[0].dtype
                self._meanings[eqn.outputs[0]] = self._numbers_of.setdefault(meaning, len(self._numbers_of))
        self._understood = len(self.tracer.eqns)
        return self._meanings.get(atom, atom) if isinstance(atom, Var) else atom

    def know(self, variables: Sequence[Var], values: Sequence[np.ndarray]) -> None:
        """What the newest equation gives: it is not to be evaluated again."""
        self._values.update(zip(variables, values, strict=True))

    def values_of(self, atoms: Sequence[Atom]) -> list[np.ndarray]:
        """The values of ``atoms`` for the arguments of this recording."""
        refuse_elements(self.tracer)
        for entry in self.tracer.inputs[self._inputs :]:
            self._values[entry.var] = np.asarray(on_host(entry.now()), entry.var.dtype)
        number = self._numbers.value
        for eqn in self.tracer.eqns[self._eqns :]:
            if eqn.outputs[0] in self._values:  # as somebody has said
                continue
            statics = {name: number(static) for name, static in eqn.statics.items()}
            out = eqn.op.body(xp, *map(self._read, eqn.inputs), **statics)
            for var, value in zip(eqn.outputs, out if len(eqn.outputs) > 1 else (out,), strict=True):
                self._values[var] = np.asarray(value).reshape(number(var.shape))
        self._inputs, self._eqns = len(self.tracer.inputs), len(self.tracer.eqns)
        return [self._read(atom) for atom in atoms]

    def _read(self, atom: Atom) -> Any:
        return read(self._values, atom if isinstance(atom, Var) else self._numbers.atom(atom))
