"""``jtorch.compiler.scan`` while a function is recorded: one step, which is the turn of a loop of the graph.

The user's function is called once, with stand-ins for what is carried and for one part of what is gone over;
the equations of that call are cut out of the recording and become a graph of their own (``core.op.Scan``).
What they read and do not make are the loop's constants. On the way back the engine goes through the tape of
that one call, down to where it leaves it, and the equations of that are the turn of a second loop, which goes
the other way: it carries the gradients of what is carried, and the sums of those of the constants. What it
reads of the first turn becomes one more output of the first loop.

A turn that does more than compute (it writes, draws, branches, calls out) is no loop: Python runs the steps.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from jtorch.compile.graph.interpret import read as value_of
from jtorch.compile.graph.ir import Atom, Eqn, Graph, Literal, Type, Var, repeated
from jtorch.compile.graph.passes import unread_checks
from jtorch.compile.graph.reads import KERNEL_DTYPES, may_stop, runs_in_loops
from jtorch.compile.observe.kinds import Kind as Of
from jtorch.compile.observe.kinds import kind_of
from jtorch.compile.observe.observer import quietly
from jtorch.compile.observe.reach import UNKNOWN, led_to, parts_of
from jtorch.core.dim import Dim
from jtorch.core.errors import CompileError, user_source
from jtorch.core.op import BY_NAME, CONTEXT, Kind, Op, Scan
from jtorch.eager.engine import Run
from jtorch.eager.function import Function
from jtorch.eager.node import Identity, Node, hung
from jtorch.eager.passes import LEAF, LEFT, slot_of
from jtorch.eager.rebase import CopyBackwards, CopySlices
from jtorch.eager.saved_hooks import IN_FORCE
from jtorch.eager.tensor import Tensor, wrap
from jtorch.eager.unusual import WATCHERS
from jtorch.ops import xp as numpy_xp

_CLONE, _SLICE, _RESHAPE, _ADD = (BY_NAME[name] for name in ("clone", "slice", "reshape", "add"))


class OneByOne(BaseException):
    """A turn does what no loop can do: said by what it does. A function's ``except`` does not catch it."""


class Inside(set):
    """The variables of a turn that is recorded; some of them it was ``given``."""

    def __init__(self, given: Iterable[Var]) -> None:
        super().__init__(given)
        self.given = frozenset(self)

    def has_made(self, var: Any) -> bool:
        return var in self and var not in self.given

    def leave(self, does: str) -> None:
        """Raise for a turn that ``does`` what no loop can do."""
        raise OneByOne(does)


def check_apart(tracer: Any, outputs: Iterable[Atom]) -> None:
    """Raise CompileError where what a turn has made is used after it: a tensor that the function kept."""
    if not tracer.of_turns:
        return
    used = [*(a for eqn in tracer.eqns for a in eqn.inputs), *outputs]
    if any(atom in tracer.of_turns for atom in used if isinstance(atom, Var)):
        raise CompileError(
            f"'{tracer.name}' uses a tensor outside of scan() that one of its steps has made: give it as y, "
            "or carry it."
        )


def record(
    tracer: Any, step: Callable, carries: list[Tensor], xs: list[Tensor], steps: Any, reverse: bool
) -> tuple[list[Tensor], list[Tensor]] | None:
    """(the last carries, what all steps give, stacked); None where the steps are to be run one by one."""
    if (type(steps) is not Dim and steps < 2) or IN_FORCE.get():
        return None
    if not all(_is_plain(t) for t in (*carries, *xs)):
        return None
    needs = [t._requires_grad for t in carries]
    first = None
    while True:
        turn = _turn(tracer, step, carries, xs, needs)
        if turn is None or (first is not None and not _is_alike(first, turn)):
            return None
        first = first or turn
        now = [a or b._requires_grad for a, b in zip(needs, turn.new, strict=True)]
        if now == needs:
            break
        needs = now
    return Loop(tracer, turn, carries, xs, steps, reverse).results()


def _is_plain(tensor: Tensor) -> bool:
    data = tensor._data
    return (hasattr(data, "tracer") or isinstance(data, np.ndarray)) and data.dtype.kind in "fiub"


class Turn:
    """One call of the user's function: what it was given, what it gave, and the equations of that."""

    def __init__(self, given: list[Any], needs: Sequence[bool], n_carries: int) -> None:
        self.inputs: list[Var] = [sym.storage.current for sym in given]
        self.leaves = [wrap(sym) for sym in given]  # whose gradients are asked for
        self.given: list[Tensor] = []  # no leaves, as eager mode's are none from the second step on
        self.n_carries = n_carries
        self.gave: list[Tensor] = []
        self.new: list[Tensor] = []
        self.eqns: list[Eqn] = []
        self.atoms: list[Atom] = []
        self.nodes: set[Node] = set()
        self.inside = Inside(self.inputs)
        for leaf, is_needed in zip(self.leaves, needs, strict=True):
            leaf._requires_grad = bool(is_needed)
            self.given.append(hung(leaf._data, (leaf, 0)) if is_needed else leaf)
        self.nodes.update(t._node for t in self.given if t._node is not None)


def _turn(
    tracer: Any, step: Callable, carries: list[Tensor], xs: list[Tensor], needs: Sequence[bool]
) -> Turn | None:
    types = [Type(t._data.dtype, t._data.shape) for t in carries]
    types += [Type(t._data.dtype, t._data.shape[1:]) for t in xs]
    n = len(carries)
    turn = Turn([tracer.fresh(Var(type)) for type in types], [*needs, *(x._requires_grad for x in xs)], n)
    given = turn.given
    function = step.__self__.function  # type: ignore[attr-defined]
    state = quietly(_state_of)(function)
    if state is None:
        return None
    grads = dict(tracer.grads)
    drawn = {k: entry.drawn for k, entry in tracer.generators.entries.items()}
    outer, start = tracer.turn, len(tracer.eqns)

    def note(node: Node) -> None:
        if getattr(CONTEXT.get().evaluator, "graphs", None) is tracer.graphs:  # it may be wrapped
            turn.nodes.add(node)

    WATCHERS.append(note)
    try:
        tracer.turn = turn.inside
        turn.new, turn.gave = step(given[:n], given[n:])
        turn.atoms = [tracer.read(tracer.lift(t._data)) for t in (*turn.new, *turn.gave)]
    except OneByOne:
        for k, entry in tracer.generators.entries.items():
            entry.drawn = drawn.get(k, 0)
        return None
    finally:
        WATCHERS.remove(note)
        tracer.turn = outer
        turn.eqns = tracer.eqns[start:]
        del tracer.eqns[start:]
        tracer.refuse_later(turn.inside)
    if quietly(_state_of)(function) != state or tracer.grads.keys() != grads.keys():
        raise CompileError(
            f"{user_source()}: the function that '{tracer.name}' hands to scan() changes a variable, list or "
            "object at each step, which a recording would do once: carry it, or give it as y."
        )
    if not all(_is_plain(t) for t in (*turn.new, *turn.gave)) or any(map(_is_library_call, turn.eqns)):
        return None
    return turn


def _is_library_call(eqn: Eqn) -> bool:
    """Whether no kernel computes it, nor a product of matrices: a table of rows has no place for it."""
    if eqn.op.kind is Kind.SCAN:
        return False
    if any(atom.dtype not in KERNEL_DTYPES for atom in (*eqn.inputs, *eqn.outputs)):
        return True
    if eqn.op.kind is Kind.CONTRACTION:
        return eqn.outputs[0].dtype not in (np.float32, np.float64)
    return not runs_in_loops(eqn) and (eqn.op.kind is not Kind.VIEW or eqn.op.affine is None)


def _state_of(function: Any) -> dict[int, Any] | None:
    """What the function leads to, in a form that compares; None where nobody can tell whether it changes."""
    found: dict[int, Any] = {}
    for value in led_to([function]):
        if value is UNKNOWN or kind_of(type(value)) is Of.ITERATOR:
            return None
        if isinstance(value, np.ndarray):
            found[id(value)] = value.tobytes()
        elif not isinstance(value, Tensor):
            found[id(value)] = tuple(map(id, parts_of(value)))
    return found


def _is_alike(a: Turn, b: Turn) -> bool:
    """Whether two calls have computed the same."""
    same = dict(zip(a.inputs, b.inputs, strict=True))

    def is_same(x: Atom, y: Atom) -> bool:
        if isinstance(x, Var):
            return same.get(x, x) is y
        return isinstance(y, Literal) and (x.value, x.dtype) == (y.value, y.dtype)

    if len(a.eqns) != len(b.eqns):
        return False
    for one, other in zip(a.eqns, b.eqns, strict=True):
        alike = len(one.inputs) == len(other.inputs) and all(map(is_same, one.inputs, other.inputs))
        if one.op is not other.op or one.statics != other.statics or not alike:
            return False
        same.update(zip(one.outputs, other.outputs, strict=True))
    return all(map(is_same, a.atoms, b.atoms))


# -- the equation --------------------------------------------------------------------------------------------


class Loop:
    """A turn as an equation of the recording, and what goes back through it."""

    def __init__(
        self, tracer: Any, turn: Turn, carries: list[Tensor], xs: list[Tensor], steps: Any, reverse: bool
    ) -> None:
        self.tracer, self.turn, self.steps, self.reverse = tracer, turn, steps, reverse
        self.carries, self.xs = carries, xs
        self.has_gradient = CONTEXT.get().grad and any(t._requires_grad for t in (*turn.new, *turn.gave))
        self.edges = list(_edges_out_of(turn)) if self.has_gradient else []
        n = turn.n_carries
        cut = _Cut(turn.eqns, turn.inputs[:n], turn.inputs[n:])
        finals = [cut.own(atom) for atom in turn.atoms[:n]]
        given = [cut.own(atom) for atom in turn.atoms[n:]]
        kept = list(dict.fromkeys(cut.produced() if self.has_gradient else cut.unread_checks()))
        before = [cut.own(var) for var in turn.inputs[:n]] if self.has_gradient else []
        more = [var for var in kept if var not in given and var not in before]
        outputs = cut.finish(finals, [*given, *before, *more])
        self.moving = [tracer.read(tracer.lift(x._data)) for x in xs]
        made = cut.emit(
            tracer, "scan", outputs, [tracer.read(tracer.lift(c._data)) for c in carries], self.moving,
            steps, reverse,
        )  # fmt: skip
        self.finals = [_latest(tracer, var) for var in made[:n]]
        self.given = [tracer.fresh(var) for var in made[n : n + len(given)]]
        # what each step had, for the way back: a variable of the turn -> that of all steps
        self.kept: dict[Var, Var] = dict(zip(turn.inputs[n:], self.moving, strict=True))
        self.kept |= dict(zip(turn.inputs[:n], made[n + len(given) :], strict=False))  # those ``before``
        self.kept |= dict(zip((*given, *before, *more), made[n:], strict=True))

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
                f"{user_source()}: '{tracer.name}' differentiates the gradient of a scan(), which is "
                "recorded for one pass back: write it as a Python loop, or compute that outside."
            )
        shown = [k for k, g in enumerate(grads[n:]) if g is not None and turn.gave[k]._requires_grad]
        flows, to_first = self._flows([k for k in range(n) if grads[k] is not None], shown)
        if not flows and not shown:
            return [None] * (len(turn.given) + len(self.edges))
        cotangents = [Var(turn.inputs[k].type) for k in flows]
        slopes = [Var(_type_of(turn.gave[k])) for k in shown]
        wanted = [turn.leaves[k] for k in flows]
        wanted += [t for t in turn.leaves[n:] if t._requires_grad]
        ways = [_at(tracer, edge) for edge in self.edges]
        roots = [(turn.new[k], var) for k, var in zip(flows, cotangents, strict=True)]
        roots += [(turn.gave[k], var) for k, var in zip(shown, slopes, strict=True)]
        roots = [(tensor, var) for tensor, var in roots if tensor._requires_grad]
        start, outer = len(tracer.eqns), tracer.turn
        inside = Inside((*cotangents, *slopes))
        try:
            tracer.turn = inside
            found = _Back(turn, self.edges).play(
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
                f"{user_source()}: on the way back through a scan() of '{tracer.name}' a step {error}, which "
                "would be recorded once: write it as a Python loop."
            ) from None
        finally:
            tracer.turn = outer
            eqns = tracer.eqns[start:]
            del tracer.eqns[start:]
            tracer.refuse_later(inside)
        if any(map(_is_library_call, eqns)):
            raise CompileError(
                f"{user_source()}: the way back through a scan() of '{tracer.name}' needs a library call at "
                "each step: write it as a Python loop."
            )
        carried = [*cotangents, *filter(None, sums)]
        cut = _Cut(eqns, carried, slopes)
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
        made = iter(cut.emit(tracer, "scan_back", outputs, begin, moving, self.steps, not self.reverse))
        lasts = {k: wrap(_latest(tracer, next(made))) for k in flows}
        totals = [None if var is None else wrap(_latest(tracer, next(made))) for var in sums]
        several = iter([None if var is None else wrap(tracer.fresh(next(made))) for var in parts])
        of_xs = [next(several) if t._requires_grad else None for t in turn.given[n:]]
        return [*(lasts[k] if k in to_first else None for k in range(n)), *of_xs, *totals]

    def _flows(self, given: Iterable[int], shown: Iterable[int]) -> tuple[list[int], set[int]]:
        """(which of what is carried has a gradient at some step, which at the first one), where the last
        carries and the results with these numbers have one."""
        turn = self.turn
        places = {id(t): k for k, t in enumerate(turn.leaves[: turn.n_carries])}

        def reached(tensor: Tensor) -> set[int]:
            return {places[k] for k in _leaves_under(turn, tensor) if k in places}

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


class _Cut:
    """Equations that were cut out of a recording, as a graph of their own: of what is ``carried`` from step
    to step, of what it reads otherwise (``free``), and of what is ``moving`` on."""

    def __init__(self, eqns: list[Eqn], carried: Sequence[Var], moving: Sequence[Var]) -> None:
        self.eqns, self.carried, self.moving = list(eqns), list(carried), list(moving)
        self.outputs: list[Var] = []
        self.free: list[Var] = []

    def produced(self) -> list[Var]:
        return [var for eqn in self.eqns for var in eqn.outputs]

    def own(self, atom: Atom) -> Var:
        """``atom`` as an output that is no other one, and none of the inputs."""
        made = {var for eqn in self.eqns for var in eqn.outputs}
        if isinstance(atom, Literal):
            out = Var(Type(atom.dtype, ()))
            self.eqns.append(repeated(atom, out))
        elif atom in made and atom not in self.outputs:
            out = atom
        else:
            out = Var(atom.type)
            self.eqns.append(Eqn(_CLONE, (atom,), {}, (out,), user_source()))
        self.outputs.append(out)
        return out

    def unread_checks(self) -> list[Var]:
        """What may be an error and is needed for none of the outputs."""
        return unread_checks(Graph("", (), tuple(self.eqns), tuple(self.outputs)))

    def zeros(self, type: Type) -> Var:
        out = Var(type)
        self.eqns.append(repeated(Literal(0.0, type.dtype), out))
        return out

    def finish(self, finals: list[Var], others: list[Var]) -> list[Var]:
        """All outputs; what is read and not made is known from now on."""
        made = {*self.produced(), *self.carried, *self.moving}
        read = (a for eqn in self.eqns for a in eqn.inputs if isinstance(a, Var))
        self.free = [v for v in dict.fromkeys(read) if v not in made]
        return [*finals, *others]

    def emit(
        self, tracer: Any, name: str, outputs: list[Var], begin: list[Atom], moving: list[Atom], steps: Any,
        reverse: bool,
    ) -> tuple[Var, ...]:  # fmt: skip
        """Those of the loop's equation: of what is carried the two latest ones, the last one first."""
        graph = Graph(name, (*self.carried, *self.free, *self.moving), tuple(self.eqns), tuple(outputs))
        op = loop_of(graph, len(self.carried))
        statics = {"constants": len(self.free), "reverse": reverse, "options": (), "steps": steps}
        return tracer.emit(op, [*begin, *self.free, *moving], statics)


def loop_of(graph: Graph, n_carried: int, checked: tuple[int, ...] | None = None) -> Op:
    """The op that runs ``graph`` for each step; the first of its outputs are what is carried, those that are
    ``checked`` may be errors."""
    types = [atom.type for atom in graph.outputs if isinstance(atom, Var)]
    several = len(types) > 1

    def shape(*given: Any, constants: int, reverse: bool, options: Any, steps: Any) -> Any:
        found = [(2 if k < n_carried else steps, *type.shape) for k, type in enumerate(types)]
        return found if several else found[0]

    def dtype(*given: Any) -> Any:
        found = tuple(type.dtype for type in types)
        return found if several else found[0]

    def body(
        xp: Any, *values: Any, constants: int, reverse: bool, options: Any, steps: int
    ) -> tuple[np.ndarray, ...] | np.ndarray:
        carries, fixed, moving = scan.parted(values, constants)
        made = [np.empty((2 if k < n_carried else steps, *t.shape), t.dtype) for k, t in enumerate(types)]
        for t in reversed(range(steps)) if reverse else range(steps):
            found = _run(graph, [*carries, *fixed, *(x[t] for x in moving)])
            for k, (out, value) in enumerate(zip(made, found, strict=True)):
                if k < n_carried:
                    out[1] = out[0]
                out[0 if k < n_carried else t] = value
            carries = found[:n_carried]
        return tuple(made) if several else made[0]

    if checked is None:
        made_by: dict[Any, Eqn] = {var: eqn for eqn in graph.eqns for var in eqn.outputs}
        others = enumerate(graph.outputs[n_carried:], start=n_carried)
        checked = tuple(k for k, var in others if may_stop(made_by[var]))
    like = functools.partial(loop_of, n_carried=n_carried)
    scan = Scan(body, tuple(range(n_carried)), graph, checked, like)
    return Op(
        Kind.SCAN, body, name=graph.name, scan=scan, n_outputs=len(types), shape=shape, dtype=dtype,
        public=None, differentiable=False,
    )  # fmt: skip


def _run(graph: Graph, given: list[Any]) -> list[Any]:
    values = {var: np.asarray(a, var.dtype) for var, a in zip(graph.inputs, given, strict=True)}
    for eqn in graph.eqns:
        out = eqn.op.body(numpy_xp, *(value_of(values, a) for a in eqn.inputs), **eqn.statics)
        for var, value in zip(eqn.outputs, out if len(eqn.outputs) > 1 else (out,), strict=True):
            values[var] = np.asarray(value).reshape(var.shape)
    return [np.array(value_of(values, atom)) for atom in graph.outputs]


def _latest(tracer: Any, pair: Var) -> Any:
    """The last one of what is carried, as traced memory of its own."""
    shape = pair.shape
    n = len(shape)
    start, stop, step = (0,) * n, (1, *shape[1:]), (1,) * n
    one = tracer.record(_SLICE, tracer.fresh(pair), start=start, stop=stop, step=step)
    return tracer.fresh(tracer.read(tracer.record(_RESHAPE, one, shape=shape[1:])))


# -- the way back --------------------------------------------------------------------------------------------


def _edges_out_of(turn: Turn) -> Iterable[tuple[Any, int]]:
    """Where the tape of a turn leaves it: nodes and leaves that were there before, each output once."""
    own = set(map(id, turn.leaves))
    found: dict[tuple[int, int], tuple[Any, int]] = {}
    stack: list[tuple[Any, int]] = [
        (t._node or t, t._index) for t in (*turn.new, *turn.gave) if t._requires_grad
    ]
    seen: set[int] = set()
    while stack:
        target, index = stack.pop()
        if _is_of(turn, target):
            if id(target) not in seen:
                seen.add(id(target))
                stack += [edge for edge in target.edges if edge is not None]
        elif id(target) not in own:
            found.setdefault((id(target), index), (target, index))
    return found.values()


def _leaves_under(turn: Turn, tensor: Tensor) -> set[int]:
    """The ids of what the turn was given that a tensor which it has made has a gradient of."""
    own = set(map(id, turn.leaves))
    found: set[int] = set()
    stack: list[Any] = [tensor._node or tensor] if tensor._requires_grad else []
    seen: set[int] = set()
    while stack:
        target = stack.pop()
        if id(target) in own:
            found.add(id(target))
        elif id(target) not in seen and _is_of(turn, target):
            seen.add(id(target))
            stack += [edge[0] for edge in target.edges if edge is not None]
    return found


def _is_of(turn: Turn, target: Any) -> bool:
    """Whether a node was made in the turn. Those of writes in place tell nobody that they are made: they are
    its own where they lead to what is."""
    if target in turn.nodes:
        return True
    if type(target) not in _OF_WRITES:
        return False
    ends = [edge[0] for edge in target.edges if edge is not None]
    if any(end is leaf for end in ends for leaf in turn.leaves) or any(_is_of(turn, end) for end in ends):
        turn.nodes.add(target)
        return True
    return False


_OF_WRITES = (CopySlices, CopyBackwards, Identity)


def _at(tracer: Any, edge: tuple[Any, int]) -> Tensor:
    """A tensor at the end of an edge, of which only the gradient matters."""
    target, index = edge
    if isinstance(target, Tensor):
        return target
    meta = target.metadata[index] if isinstance(target.metadata, list) else target.metadata
    shape, dtype = meta
    return hung(tracer.fresh(Var(Type(dtype, tuple(shape)))), edge)


class _Back(Run):
    """A pass through the tape of one turn, which ends where that does."""

    def __init__(self, turn: Turn, edges: list[tuple[Any, int]]) -> None:
        super().__init__(create_graph=False, retain_graph=True)
        self.turn = turn

    def _limit(self, wanted: Sequence[Tensor]) -> None:
        nodes = self.turn.nodes
        self.captured = [None] * len(wanted)
        self.captures = {}
        for k, t in enumerate(wanted):
            self.captures.setdefault(t._node or t, []).append((t._index, k))
        roots = {t._node or t for t in (*self.turn.new, *self.turn.gave)}
        slots = {r: slot_of(r, 0) for r in self.slots if r in roots}
        stack = [r for r in slots if r in nodes]
        while stack:
            for edge in stack.pop().edges:
                if edge is None:
                    continue
                target = edge[0]
                if target not in slots:
                    slots[target] = slot_of(target, 0)
                    if target in nodes:
                        stack.append(target)
                slots[target][LEFT] += 1
        for target, slot in slots.items():
            slot[LEAF] = target not in nodes
        self.slots, self.running = slots, nodes

    def _finish_leaf(self, leaf: Any, g: Any) -> None:
        assert self.captures is not None
        for index, k in self.captures.get(leaf, ()):
            self.captured[k] = g[index] if g.__class__ is list else g


class _Scanned(Function):
    """A loop as one node of the tape."""

    @staticmethod
    def forward(ctx: Any, loop: Any, made: list[Tensor], *tensors: Tensor) -> Any:
        ctx.loop = loop
        ctx.set_materialize_grads(False)
        pairs = zip((*loop.turn.new, *loop.turn.gave), made, strict=True)
        ctx.mark_non_differentiable(*(t for like, t in pairs if not like._requires_grad))
        return tuple(made)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor | None) -> Any:
        return None, None, *ctx.loop.gradients(grads)
