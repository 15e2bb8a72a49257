"""``jtorch.compiler.scan`` while a function is recorded: a loop of the graph, and the one that goes back.

The equations of one step (``turns.py``) are cut out of the recording and become a graph of their own
(``loop_ops.py``). What they read and do not make are the loop's constants. On the way back the engine goes
through the tape of that one step, down to where it leaves it, and the equations of that are the turn of a
second loop, which goes the other way: it carries the gradients of what is carried, and the sums of those of
the constants. What it reads of the first turn becomes one more output of the first loop.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from jtorch.compile.graph.ir import Atom, Type, Var
from jtorch.compile.record.loop_ops import Cut, latest
from jtorch.compile.record.turns import (
    Back,
    Inside,
    OneByOne,
    Turn,
    edges_out_of,
    is_alike,
    is_library_call,
    is_plain,
    leaves_under,
    nodes_of,
    turn_of,
)
from jtorch.core.dim import Dim
from jtorch.core.errors import CompileError, user_source
from jtorch.core.op import BY_NAME, CONTEXT
from jtorch.eager.function import Function
from jtorch.eager.node import hung
from jtorch.eager.saved_hooks import IN_FORCE
from jtorch.eager.scanning import Steps
from jtorch.eager.tensor import Tensor, wrap

_ADD = BY_NAME["add"]


def check_apart(tracer: Any, outputs: Iterable[Atom]) -> None:
    """Raise CompileError where what a turn has made is used after it: a tensor that the function kept."""
    if not tracer.of_turns:
        return
    used = [*(a for eqn in tracer.eqns for a in eqn.inputs), *outputs]
    if any(atom in tracer.of_turns for atom in used if isinstance(atom, Var)):
        raise CompileError(
            f"'{tracer.name}' uses a tensor outside of a scan() or while_loop() that one of its steps has "
            "made: carry it (of a scan(), or give it as y)."
        )


def record(tracer: Any, steps: Steps, count: Any, reverse: bool) -> tuple[list[Tensor], list[Tensor]] | None:
    """(the last carries, what all steps give, stacked); None where the steps are to be run one by one."""
    if (type(count) is not Dim and count < 2) or IN_FORCE.get():
        return None
    turn = settled(tracer, steps)
    return None if turn is None else Loop(tracer, turn, steps, count, reverse).results()


def settled(tracer: Any, steps: Any) -> Turn | None:
    """A turn that knows which carries have a gradient at some step; None where it is no loop's."""
    if not all(is_plain(t) for t in (*steps.carries, *steps.xs)):
        return None
    needs = [t._requires_grad for t in steps.carries]
    first = None
    while True:
        turn = turn_of(tracer, steps, needs)
        if turn is None or (first is not None and not is_alike(first, turn)):
            return None
        first = first or turn
        now = [a or b._requires_grad for a, b in zip(needs, turn.new, strict=True)]
        if now == needs:
            return turn
        needs = now


class Loop:
    """A turn as an equation of the recording, and what goes back through it."""

    def __init__(self, tracer: Any, turn: Turn, steps: Any, count: Any, reverse: bool) -> None:
        self.tracer, self.turn, self.steps, self.reverse = tracer, turn, count, reverse
        self.name = steps.name
        self.carries, self.xs = steps.carries, steps.xs
        self.has_gradient = CONTEXT.get().grad and any(self.differentiable())
        self.edges = edges_out_of(turn) if self.has_gradient else []
        n = turn.n_carries
        cut = Cut(turn.eqns, turn.inputs[:n], turn.inputs[n:])
        finals = [cut.own(atom) for atom in turn.atoms[:n]]
        given = [cut.own(atom) for atom in turn.atoms[n:]]
        kept = list(dict.fromkeys(cut.produced() if self.has_gradient else cut.unread_checks()))
        before = [cut.own(var) for var in turn.inputs[:n]] if self.has_gradient else []
        more = [var for var in kept if var not in given and var not in before]
        outputs = cut.finish(finals, [*given, *before, *more])
        begin = [tracer.read(tracer.lift(c._data)) for c in self.carries]
        moving = [tracer.read(tracer.lift(x._data)) for x in self.xs]
        made = self._emit(cut, outputs, begin, moving)
        self.finals = [self._last(var, atom) for var, atom in zip(made[:n], begin, strict=False)]
        self.given = [tracer.fresh(var) for var in self._given(made[n : n + len(given)])]
        # what each step had, for the way back: a variable of the turn -> that of all steps
        self.kept: dict[Var, Var] = dict(zip(turn.inputs[n:], moving, strict=True))
        self.kept |= dict(zip(turn.inputs[:n], made[n + len(given) :], strict=False))  # those ``before``
        self.kept |= dict(zip((*given, *before, *more), made[n:], strict=True))

    def _emit(self, cut: Cut, outputs: list[Var], begin: list[Atom], moving: list[Atom]) -> tuple[Var, ...]:
        return cut.emit(self.tracer, self.name, outputs, begin, moving, self.steps, self.reverse)

    def _emit_back(self, cut: Cut, outputs: list[Var], begin: list[Atom], moving: list[Atom]) -> Any:
        name = f"{self.name}_back"
        return cut.emit(self.tracer, name, outputs, begin, moving, self.steps, not self.reverse)

    def differentiable(self) -> list[bool]:
        """Which of the last carries, and of what the loop gives, have a gradient."""
        return [t._requires_grad for t in (*self.turn.new, *self.turn.gave)]

    def is_freed_by_a_pass(self) -> bool:
        """Whether a pass back frees what a step has saved, so that there is no second one."""
        return any(node.is_freed_by_a_pass for node in nodes_of(self.turn))

    def _may_stay(self, grad: Tensor | None) -> bool:
        """Whether the gradient of a last carry may be that of the first one: there may be no step."""
        return False

    def _last(self, pair: Var, begin: Atom) -> Any:
        """What is carried out of the loop, that began as ``begin``."""
        return latest(self.tracer, pair)

    def _first(self, pair: Var, begin: Atom) -> Any:
        """The same of the way back."""
        return latest(self.tracer, pair)

    def _given(self, made: Sequence[Var]) -> Sequence[Var]:
        """What the loop gives beside that."""
        return made

    def results(self) -> tuple[list[Tensor], list[Tensor]]:
        n = self.turn.n_carries
        found = [wrap(sym) for sym in (*self.finals, *self.given)]
        if self.has_gradient:
            constants = [_at(self.tracer, edge) for edge in self.edges]
            found = list(_Scanned.apply(self, found, *self.carries, *self.xs, *constants))
        return found[:n], found[n:]

    def gradients(self, grads: Sequence[Tensor | None]) -> list[Tensor | None]:
        """Those of the carries, of what was gone over, and of the constants, given those of the results."""
        tracer, turn, n = self.tracer, self.turn, self.turn.n_carries
        if CONTEXT.get().grad:
            raise CompileError(
                f"{user_source()}: '{tracer.name}' differentiates the gradient of a {self.name}(), which "
                "is recorded for one pass back: write it as a Python loop, or compute that outside."
            )
        shown = [k for k, g in enumerate(grads[n:]) if g is not None and turn.gave[k]._requires_grad]
        flows, to_first = self._flows([k for k in range(n) if grads[k] is not None], shown)
        if not flows and not shown:
            return [None] * (len(turn.given) + len(self.edges))
        cotangents = [Var(turn.inputs[k].type) for k in flows]
        slopes = [Var(_type_of(turn.gave[k])) for k in shown]
        wanted = [turn.leaves[k] for k in flows]
        wanted += [t for t in turn.leaves[n:] if t._requires_grad]
        roots = [(turn.new[k], var) for k, var in zip(flows, cotangents, strict=True)]
        roots += [(turn.gave[k], var) for k, var in zip(shown, slopes, strict=True)]
        roots = [(tensor, var) for tensor, var in roots if tensor._requires_grad]
        back, sums, added, eqns = self._played(roots, wanted, Inside((*cotangents, *slopes)))
        carried = [*cotangents, *filter(None, sums)]
        cut = Cut(eqns, carried, slopes)
        zero = [cut.zeros(var.type) if g is None else g for g, var in zip(back, cotangents, strict=False)]
        finals = [cut.own(atom) for atom in (*zero, *filter(None, added))]
        parts = [None if g is None else cut.own(g) for g in back[len(flows) :]]
        outputs = cut.finish(finals, [var for var in parts if var is not None])
        kept = [v for v in cut.free if v in self.kept]
        begin = [self._begin(grads[k], var.type) for k, var in zip(flows, cotangents, strict=True)]
        begin += [self._begin(None, var.type) for var in filter(None, sums)]
        cut.moving += kept
        cut.free = [v for v in cut.free if v not in self.kept]
        given = [g for k in shown if (g := grads[n + k]) is not None]
        moving = [tracer.read(tracer.lift(g._data)) for g in given]
        moving += [self.kept[v] for v in kept]
        made = iter(self._emit_back(cut, outputs, begin, moving))
        began = iter(begin)
        lasts = {k: wrap(self._first(next(made), next(began))) for k in flows}
        totals = [None if var is None else wrap(self._first(next(made), next(began))) for var in sums]
        several = iter([None if var is None else wrap(tracer.fresh(next(made))) for var in parts])
        of_xs = [next(several) if t._requires_grad else None for t in turn.given[n:]]
        lasts = {k: g for k, g in lasts.items() if k in to_first or self._may_stay(grads[k])}
        return [*map(lasts.get, range(n)), *of_xs, *totals]

    def _played(self, roots: list[tuple[Tensor, Var]], wanted: list[Tensor], inside: Inside) -> tuple:
        """One step back, from what the turn gave with its gradients: (the gradients of what is ``wanted``,
        the sums of those of the constants before it, and after it, the equations of all that)."""
        tracer = self.tracer
        start, outer = len(tracer.eqns), tracer.turn
        ways = [_at(tracer, edge) for edge in self.edges]
        try:
            tracer.turn = inside
            found = Back(self.turn).play(
                [tensor for tensor, _ in roots], [wrap(tracer.fresh(var)) for _, var in roots],
                [*wanted, *ways],
            )  # fmt: skip
            found = [None if g is None else tracer.lift(getattr(g, "_data", g)) for g in found]
            sums = [None if g is None else Var(tracer.read(g).type) for g in found[len(wanted) :]]
            inside.update(filter(None, sums))
            added = [
                None if var is None else tracer.read(tracer.record(_ADD, tracer.fresh(var), g))
                for var, g in zip(sums, found[len(wanted) :], strict=True)
            ]
            back = [None if g is None else tracer.read(g) for g in found[: len(wanted)]]
        except OneByOne as error:
            raise CompileError(
                f"{user_source()}: on the way back through a {self.name}() of '{tracer.name}' a step "
                f"{error}, which would be recorded once: write it as a Python loop."
            ) from None
        finally:
            tracer.turn = outer
            eqns = tracer.eqns[start:]
            del tracer.eqns[start:]
            tracer.refuse_later(inside)
        if any(map(is_library_call, eqns)):
            raise CompileError(
                f"{user_source()}: the way back through a {self.name}() of '{tracer.name}' needs a library "
                "call at each step: write it as a Python loop."
            )
        return back, sums, added, eqns

    def _flows(self, given: Iterable[int], shown: Iterable[int]) -> tuple[list[int], set[int]]:
        """(which of what is carried has a gradient at some step, which at the first one), where the last
        carries and the results with these numbers have one."""
        turn = self.turn
        places = {id(t): k for k, t in enumerate(turn.leaves[: turn.n_carries])}

        def reached(tensor: Tensor) -> set[int]:
            return {places[k] for k in leaves_under(turn, tensor) if k in places}

        always = set().union(*(reached(turn.gave[k]) for k in shown))
        begin = {k for k in given if turn.new[k]._requires_grad}
        found: set[int] = set()
        stack = [*begin, *always]
        found |= always
        seen: set[int] = set()
        while stack:
            k = stack.pop()
            if k not in seen:
                seen.add(k)
                found |= (further := reached(turn.new[k]))
                stack += further
        return sorted(seen), found

    def _begin(self, grad: Tensor | None, type: Type) -> Atom:
        if grad is not None:
            return self.tracer.read(self.tracer.lift(grad._data))
        return self.tracer.read(self.tracer.xp.full(0.0, shape=type.shape, dtype=type.dtype))


def _type_of(tensor: Tensor) -> Type:
    return Type(tensor._data.dtype, tensor._data.shape)


def _at(tracer: Any, edge: tuple[Any, int]) -> Tensor:
    """A tensor at the end of an edge, of which only the gradient matters."""
    target, index = edge
    if isinstance(target, Tensor):
        return target
    meta = target.metadata[index] if isinstance(target.metadata, list) else target.metadata
    shape, dtype = meta
    return hung(tracer.fresh(Var(Type(dtype, tuple(shape)))), edge)


class _Scanned(Function):
    """A loop as one node of the tape."""

    @staticmethod
    def forward(ctx: Any, loop: Any, made: list[Tensor], *tensors: Tensor) -> Any:
        ctx.loop = loop
        ctx.set_materialize_grads(False)
        if loop.is_freed_by_a_pass():  # a tensor that is nobody's stands for what steps save
            ctx.save_for_backward(wrap(np.empty(0, np.float32)))
        pairs = zip(loop.differentiable(), made, strict=True)
        ctx.mark_non_differentiable(*(t for has_gradient, t in pairs if not has_gradient))
        return tuple(made)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor | None) -> Any:
        return None, None, *ctx.loop.gradients(grads)
