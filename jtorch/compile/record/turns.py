"""One step of a user's loop while a function is recorded: what it computes, and the tape of that.

The user's function is called once, with stand-ins for what is carried and for one part of what is gone over.
A turn that does more than compute (it writes, draws, branches, calls out) is no loop.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from jtorch.compile.graph.ir import Atom, Eqn, Literal, Type, Var
from jtorch.compile.graph.reads import KERNEL_DTYPES, runs_in_loops
from jtorch.compile.observe.kinds import Kind as Of, kind_of
from jtorch.compile.observe.observer import quietly
from jtorch.compile.observe.reach import UNKNOWN, led_to, parts_of
from jtorch.core.device_array import ARRAYS
from jtorch.core.errors import CompileError, user_source
from jtorch.core.op import CONTEXT, Kind
from jtorch.eager.engine import Run
from jtorch.eager.node import Identity, Node, hung
from jtorch.eager.passes import LEAF, LEFT, slot_of
from jtorch.eager.rebase import CopyBackwards, CopySlices
from jtorch.eager.scanning import Steps
from jtorch.eager.tensor import Tensor, wrap
from jtorch.eager.unusual import WATCHERS


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


def is_plain(tensor: Tensor) -> bool:
    data = tensor._data
    return (hasattr(data, "tracer") or isinstance(data, ARRAYS)) and data.dtype.kind in "fiub"


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


def turn_of(tracer: Any, steps: Steps, needs: Sequence[bool]) -> Turn | None:
    """One step, where the carries that ``needs`` says have a gradient; None where it is no loop's."""
    carries, xs = steps.carries, steps.xs
    types = [Type(t._data.dtype, t._data.shape) for t in carries]
    types += [Type(t._data.dtype, t._data.shape[1:]) for t in xs]
    n = len(carries)
    turn = Turn([tracer.fresh(Var(type)) for type in types], [*needs, *(x._requires_grad for x in xs)], n)
    given = turn.given
    state = quietly(_state_of)(steps.functions)
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
        turn.new, turn.gave = steps.step(given[:n], given[n:])
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
    if quietly(_state_of)(steps.functions) != state or tracer.grads.keys() != grads.keys():
        raise CompileError(
            f"{user_source()}: the function that '{tracer.name}' hands to {steps.name}() changes a variable, "
            f"list or object at each step, which a recording would do once: {steps.way_out}."
        )
    if not all(is_plain(t) for t in (*turn.new, *turn.gave)) or any(map(is_library_call, turn.eqns)):
        return None
    return turn


def is_library_call(eqn: Eqn) -> bool:
    """Whether no kernel computes it, nor a product of matrices: a table of rows has no place for it."""
    if eqn.op.kind is Kind.SCAN:
        return False
    if any(atom.dtype not in KERNEL_DTYPES for atom in (*eqn.inputs, *eqn.outputs)):
        return True
    if eqn.op.kind is Kind.CONTRACTION:
        return eqn.outputs[0].dtype not in (np.float32, np.float64)
    return not runs_in_loops(eqn) and (eqn.op.kind is not Kind.VIEW or eqn.op.affine is None)


def _state_of(functions: Iterable[Any]) -> dict[int, Any] | None:
    """What the functions lead to, in a form that compares; None where nobody can tell whether it changes."""
    found: dict[int, Any] = {}
    for value in led_to(functions):
        if value is UNKNOWN or kind_of(type(value)) is Of.ITERATOR:
            return None
        if isinstance(value, np.ndarray):
            found[id(value)] = value.tobytes()
        elif not isinstance(value, Tensor):
            found[id(value)] = tuple(map(id, parts_of(value)))
    return found


def is_alike(a: Turn, b: Turn) -> bool:
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


# -- its tape ------------------------------------------------------------------------------------------------


def edges_out_of(turn: Turn) -> list[tuple[Any, int]]:
    """Where the tape of a turn leaves it: nodes and leaves that were there before, each output once."""
    own = set(map(id, turn.leaves))
    return [edge for edge in _ends(turn, (*turn.new, *turn.gave)) if id(edge[0]) not in own]


def leaves_under(turn: Turn, tensor: Tensor) -> set[int]:
    """The ids of what the turn was given that a tensor which it has made has a gradient of."""
    return {id(target) for target, _ in _ends(turn, (tensor,))}.intersection(map(id, turn.leaves))


def _ends(turn: Turn, tensors: Iterable[Tensor]) -> list[tuple[Any, int]]:
    """Where the tape under some tensors ends, or leaves the turn: each output of a node or leaf once."""
    return _walked(turn, tensors)[0]


def nodes_of(turn: Turn) -> list[Node]:
    """The turn's own nodes under what it has made."""
    return _walked(turn, (*turn.new, *turn.gave))[1]


def _walked(turn: Turn, tensors: Iterable[Tensor]) -> tuple[list[tuple[Any, int]], list[Node]]:
    found: dict[tuple[int, int], tuple[Any, int]] = {}
    stack: list[tuple[Any, int]] = [(t._node or t, t._index) for t in tensors if t._requires_grad]
    seen: dict[int, Node] = {}
    while stack:
        target, index = stack.pop()
        if not _is_of(turn, target):
            found.setdefault((id(target), index), (target, index))
        elif id(target) not in seen:
            seen[id(target)] = target
            stack += [edge for edge in target.edges if edge is not None]
    return list(found.values()), list(seen.values())


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


class Back(Run):
    """A pass through the tape of one turn, which ends where that does."""

    def __init__(self, turn: Turn) -> None:
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
