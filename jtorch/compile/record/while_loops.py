"""``jtorch.compiler.while_loop`` while a function is recorded: a loop of the graph that ends early.

It is a ``scan`` (``loops.py``) over nothing, of as many steps as the bound says, whose turn also counts, and
asks whether another step follows. Where none is to be taken at all, the loop leaves out every step. What it
carries lies in two places in turn (see ``Scan``): which one is the last follows from how many steps there
were. The way back leaves out those that were not taken. What no step has written is whatever lay there
before, so nothing outside of the two loops may read what their steps give.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from jtorch.compile.graph.ir import Atom, Var
from jtorch.compile.record.loop_ops import Cut, latest
from jtorch.compile.record.loops import Loop, settled
from jtorch.compile.record.turns import Turn
from jtorch.core.devices import CPU, get_default_device
from jtorch.core.dim import Dim
from jtorch.core.op import CONTEXT
from jtorch.eager.functions.masking import where
from jtorch.eager.grad_mode import no_grad
from jtorch.eager.saved_hooks import IN_FORCE
from jtorch.eager.tensor import Tensor, wrap
from jtorch.eager.while_loops import NAME, Turns


class Counted:
    """The turns of a loop as steps of a scan: a count is carried, too, and what a step gives is this number,
    below 0 where no other one follows."""

    name, way_out, xs = NAME, "carry it", ()

    def __init__(self, turns: Turns, zero: Tensor) -> None:
        self.turns, self.carries = turns, [*turns.carries, zero]
        self.functions = turns.cond, turns.body

    def step(self, carries: list[Tensor], parts: list[Tensor]) -> tuple[list[Tensor], list[Tensor]]:
        """One turn, and what ``cond`` says after it."""
        new = self.turns.turn(carries[:-1])
        with no_grad():
            n = carries[-1] + 1
            goes_on = self.turns.goes_on([c.contiguous() for c in new])
            return [*new, n], [where(goes_on, n, -n)]


def record(tracer: Any, turns: Turns, bound: Any) -> tuple[list[Tensor], Tensor] | None:
    """(the last carries, how many turns there were); None where they are to be run one by one."""
    if (type(bound) is not Dim and bound < 2) or IN_FORCE.get():
        return None
    steps = Counted(turns, wrap(tracer.xp.full(0, shape=(), dtype=np.dtype(np.int64))))
    turn = settled(tracer, steps)
    if turn is None:
        return None
    tensors = (*turns.carries, *turn.new)
    # without a step what ``body`` uses has no gradient: a way of its own. Inside another loop, where nothing
    # branches, it has zeros
    branches = tracer.turn is None and CONTEXT.get().grad and any(t._requires_grad for t in tensors)
    if branches and not bool(turns.goes_on([c.contiguous() for c in turns.carries])):
        return None
    carries, given = While(tracer, turn, steps, bound, branches).results()
    return carries[:-1], given[0]


class While(Loop):
    """A turn as an equation that ends early, ``begun`` where a step is always taken."""

    def __init__(self, tracer: Any, turn: Turn, steps: Counted, bound: Any, begun: bool) -> None:
        self.counted, self.begun = steps, begun
        super().__init__(tracer, turn, steps, bound, False)
        # of the last step alone: nothing that goes back step by step has a use for it
        self.kept = {inside: var for inside, var in self.kept.items() if var is not self.last_count}

    def _emit(self, cut: Cut, outputs: list[Var], begin: list[Atom], moving: list[Atom]) -> tuple[Var, ...]:
        tracer, n = self.tracer, len(begin)
        with no_grad():
            # nothing else happens: a turn has done the same, and was a loop's
            begins = self.counted.turns.goes_on([c.contiguous() for c in self.carries[:-1]])
            left_out = where(begins, 0, self.steps)
            made = cut.emit(
                tracer, self.name, outputs, begin, moving, self.steps, False, ends=True,
                skipped=tracer.read(tracer.lift(left_out._data)),
            )  # fmt: skip
            self.last_count = made[n]
            count = where(begins, wrap(latest(tracer, self.last_count)).abs(), 0)
            self.count = tracer.read(tracer.lift(count._data))
            self.left = tracer.read(tracer.lift((self.steps - count)._data))
        return made

    def _emit_back(self, cut: Cut, outputs: list[Var], begin: list[Atom], moving: list[Atom]) -> Any:
        name = f"{self.name}_back"
        return cut.emit(self.tracer, name, outputs, begin, moving, self.steps, True, skipped=self.left)

    def differentiable(self) -> list[bool]:
        found = super().differentiable()
        if self.begun:
            return found
        n = len(self.carries)
        stays = [t._requires_grad for t in self.carries]  # where there is no step
        return [*(a or b for a, b in zip(found, stays, strict=False)), *found[n:]]

    def gradients(self, grads: Sequence[Tensor | None]) -> list[Tensor | None]:
        found = super().gradients(grads)
        for k, carry in enumerate(self.carries):
            g = grads[k]
            if not self.begun and g is not None and found[k] is None and carry._requires_grad:
                zero = self._begin(None, self.turn.inputs[k].type)
                found[k] = wrap(self._chosen(self._any(), zero, self.tracer.read(self.tracer.lift(g._data))))
        return found

    def _may_stay(self, grad: Tensor | None) -> bool:
        return not self.begun and grad is not None

    def _last(self, pair: Var, begin: Atom) -> Any:
        tracer = self.tracer
        with no_grad():
            is_first = self._number(self.left) % 2 == 0
            last = where(is_first, wrap(latest(tracer, pair)), wrap(latest(tracer, pair, 1)))
        return self._chosen(self._any(), tracer.read(tracer.lift(last._data)), begin)

    def _first(self, pair: Var, begin: Atom) -> Any:
        return self._chosen(self._any(), self.tracer.read(latest(self.tracer, pair)), begin)

    def _given(self, made: Sequence[Var]) -> Sequence[Var]:
        if isinstance(self.count, Var) and get_default_device().type != "cuda":
            self.tracer.lies(self.count, CPU)  # where eager mode, which counts in Python, puts it
        return [self.count]

    def _any(self) -> Tensor:
        """Whether there was a step."""
        with no_grad():
            return self._number(self.count) > 0

    def _chosen(self, condition: Tensor, a: Atom, b: Atom) -> Any:
        with no_grad():
            return where(condition, self._number(a), self._number(b))._data

    def _number(self, atom: Atom) -> Tensor:
        return wrap(self.tracer.fresh(atom))
