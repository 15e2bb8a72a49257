"""Writes through views, as the tape sees them.

A view remembers how it was made: ``view._how`` is (the tensor it was made of, op, statics...), up to the base
that owns the memory. When a view is written to where gradients flow, the *base's* place on the tape becomes
a ``CopySlices`` node, whose gradient is the old base's with a hole where the view is, and what was written's
in the hole. The place of every other living view of that memory is then taken anew from the base, so that
no tensor's gradient is of elements that are gone.

Source: https://docs.pytorch.org/docs/stable/notes/autograd.html#in-place-operations-with-autograd
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Sequence
from typing import Any

from jtorch.core import op as op_module
from jtorch.core.op import Op
from jtorch.eager.node import Node
from jtorch.eager.tensor import Tensor, rehang
from jtorch.eager.views import list_all, living, source_of
from jtorch.ops.slicing import OVERLAPPING

LEAF = "a leaf Variable that requires grad is being used in an in-place operation."
LEAF_WRITTEN = "a leaf Variable that requires grad has been used in an in-place operation."  # by a Function
VIEW_OF_LEAF = "a view of a leaf Variable that requires grad is being used in an in-place operation."
UNKNOWN_VIEW = (
    "A view was created in no_grad mode and is being modified inplace with grad mode enabled. Given that "
    "this use case is ambiguous and error-prone, it is forbidden. You can clarify your code by moving both "
    "the view and the inplace either both inside the no_grad block (if you don't want the inplace to be "
    "tracked) or both outside (if you want the inplace to be tracked)."
)

_OF_SEVERAL = (
    "This view is the output of a function that returns multiple views. Such functions do not allow the "
    "output views to be modified inplace. You should replace the inplace operation by an out-of-place one."
)
_ONE_OF_SEVERAL = f"Output {{place}} of {{name}} is a view and is being modified inplace. {_OF_SEVERAL}"
_ONE_WITHOUT_GRAPH = (
    f"A view was created in no_grad mode and is being modified inplace with grad mode enabled. {_OF_SEVERAL}"
)
_OF_FUNCTION = (
    "This view was created inside a custom Function (or because an input was returned as-is) and the "
    "autograd logic to handle view+inplace would override the custom backward associated with the custom "
    "Function, leading to incorrect gradients. This behavior is forbidden. You can fix this by cloning the "
    "output of the custom Function."
)


Step = tuple[Op, dict[str, Any]]  # one view op and its statics


class OneOfSeveral:
    """How view number ``place`` was made, see above, by a function called ``name`` in errors that gives
    several: PyTorch writes to none of them. ``statics(place)`` are those of the op.
    """

    __slots__ = ("name", "op", "place", "source", "statics")

    def __init__(
        self, source: Tensor, op: Op, statics: Callable[[int], Sequence[Any]], place: int, name: str
    ) -> None:
        self.source, self.op, self.statics, self.place, self.name = source, op, statics, place, name

    @classmethod
    def of(cls, how: tuple, place: int, name: str) -> OneOfSeveral:
        """The same as ``how``, of one of several."""
        source, op, *statics = how
        return cls(source, op, lambda _: statics, place, name)

    @property
    def steps(self) -> tuple[Step, ...]:
        """The view ops that made it."""
        return (_step(self.op, self.statics(self.place)),)


def steps_of(how: Any) -> tuple[Tensor, tuple[Step, ...]]:
    """(what a view was made of, the view ops from there to it), if ``how`` is how it was made."""
    if how.__class__ is not tuple:
        return how.source, how.steps
    source, op, *statics = how
    return source, (_step(op, statics),)


def _step(op: Op, statics: Sequence[Any]) -> Step:
    return op, dict(zip(op.statics, statics, strict=True))


def several(views: tuple[Tensor, ...], name: str) -> tuple[Tensor, ...]:
    """``views``, that the function called ``name`` in errors gave, marked as such."""
    for place, view in enumerate(views):
        if view._base is not None and view._how is not None:
            view._how = OneOfSeveral.of(view._how, place, name)
    return views


class FromFunction(tuple):
    """How a view was made, see above, that a custom Function returned: only its backward knows the gradient,
    so nothing that the tape follows may be written to that memory. Also one whose source is ``renamed``.
    """

    of_several = False
    reason = ""  # of the refusal, where it is no custom Function's

    def refusal(self, view: Tensor, elsewhere: bool) -> RuntimeError:
        """PyTorch's error for a write through ``view``, which is this or a view of it, or ``elsewhere``."""
        if self.reason:
            return RuntimeError(self.reason)
        what = "its base or another view of its base has been" if elsewhere else "is being"
        why = _OF_SEVERAL if self.of_several else _OF_FUNCTION
        if view._node is None:
            text = f"A view was created in no_grad mode and {what} modified inplace with grad mode enabled."
        else:
            name = view._node.name().partition("Backward")[0]
            text = f"Output {view._index} of {name} is a view and {what} modified inplace."
        return RuntimeError(f"{text} {why}")


class Overwritten(Node):
    """In the place of the node of a custom Function's view whose memory was written to since."""

    __slots__ = ()
    frees = False

    def __init__(self, view: Tensor, how: FromFunction, edge: Any) -> None:
        sentence = str(how.refusal(view, True))
        super().__init__((edge,), (sentence,), (), (view._data.shape, view._data.dtype))

    def usable(self) -> Node:
        raise RuntimeError(self.saved[0])

    @staticmethod
    def vjp(xp: Any, g: Any, sentence: str) -> Any:
        raise RuntimeError(sentence)

    def backward_on_tensors(self, xp: Any, g: Any) -> Any:
        return self.vjp(xp, g, *self.saved)


FROM_FUNCTIONS: dict[int, list[Any]] = {}  # id of a cell -> the living views of that memory, weakly


def note_from_function(view: Tensor) -> None:
    """``view`` is a custom Function's: a write to its memory must find it."""
    key = id(view._cell)

    def forget(reference: Any) -> None:
        kept = FROM_FUNCTIONS.get(key, [])
        if reference in kept:
            kept.remove(reference)
        if not kept:
            FROM_FUNCTIONS.pop(key, None)

    FROM_FUNCTIONS.setdefault(key, []).append(weakref.ref(view, forget))


def refuse_views_of_functions(cell: list, base: Tensor | None = None) -> None:
    """The memory of ``cell`` was written to: gradients of views of it that custom Functions made are refused.

    Of those that had none, too, where the tape followed: to ``base``.
    """
    for reference in FROM_FUNCTIONS.get(id(cell), ()):
        view = reference()
        if view is None:
            continue
        for one in (view, *(v for v in living(view) if _is_of(v, view))):
            edge = edge_of(one) or (None if base is None else edge_of(base))
            if edge is not None and not isinstance(one._node, Overwritten):
                rehang(one, Overwritten(one, view._how, edge), 0)


def renamed(source: Tensor, name: str) -> None:
    """The method ``name`` has given ``source`` another shape: its views are no longer what it tells of them,
    and a write that the tape follows is refused, as with the views of custom Functions."""
    list_all(source)
    for view in living(source):
        if view is not source and _is_of(view, source):
            how = view._how = FromFunction((source,))
            how.reason = (
                f"a view was made of a tensor that {name}() has given another shape since, so gradients "
                f"can't follow what is written to its memory: make it anew, or use {name.rstrip('_')}()"
            )
            note_from_function(view)


def _is_of(view: Tensor, source: Tensor) -> bool:
    return any(one is source for one in _sources(view))


def _sources(view: Tensor) -> list[Tensor]:
    """What ``view`` was made of, step by step, as far as it is known."""
    found: list[Tensor] = []
    while view._base is not None and view._how:
        view = source_of(view._how)
        found.append(view)
    return found


def _made_in_function(view: Tensor) -> FromFunction | None:
    """How a view was made that a custom Function returned, which ``view`` is or was made of."""
    for one in (view, *_sources(view)):
        if one._base is not None and one._how.__class__ is FromFunction:
            return one._how
    return None


class CopySlices(Node):
    """The base after a write through a view of it; its edges are the base before, and what was written."""

    __slots__ = ()
    frees = False

    @staticmethod
    def vjp(xp: Any, g: Any, chain: tuple[Step, ...]) -> tuple[Any, Any]:
        seen = [g]
        for op, statics in chain:
            seen.append(op.body(xp, seen[-1], **statics))
        hole = _zeros_like(xp, seen[-1])
        for (op, statics), base in zip(reversed(chain), reversed(seen[:-1]), strict=True):
            assert op.put is not None
            hole = op.put(xp, base, hole, **statics)
        return hole, seen[-1]

    def backward_on_tensors(self, xp: Any, g: Any) -> Any:
        return self.vjp(xp, g, *self.check_saved())


class CopyBackwards(Node):
    """A tensor after ``copy_``: its old elements get zeros, the source gets the gradient."""

    __slots__ = ()
    frees = False

    @staticmethod
    def vjp(xp: Any, g: Any) -> tuple[Any, Any]:
        return _zeros_like(xp, g), g

    def backward_on_tensors(self, xp: Any, g: Any) -> Any:
        return self.vjp(xp, g)


def _zeros_like(xp: Any, value: Any) -> Any:
    return xp.full(0.0, shape=tuple(value.shape), dtype=value.dtype)


def edge_of(tensor: Tensor) -> Any:
    """Where the gradient of ``tensor`` goes; None where it needs none."""
    return (tensor._node or tensor, tensor._index) if tensor._requires_grad else None


def is_tracked(tensor: Tensor, *others: Any) -> bool:
    """Whether the tape must know of a write to ``tensor`` that involves ``others``."""
    return op_module.CONTEXT.get().grad and any(
        isinstance(t, Tensor) and t._requires_grad for t in (tensor, tensor._base, *others)
    )


def check_allowed(tensor: Tensor, others: tuple = ()) -> None:
    """Raise where writing over ``tensor`` would leave the tape wrong, before anything is written."""
    base = tensor._base
    if base is None:
        if tensor._node is None and tensor._requires_grad:
            raise RuntimeError(LEAF)
        if is_tracked(tensor, *others):
            list_all(tensor)
    elif is_tracked(tensor, *others):
        if (how := _made_in_function(tensor)) is not None:
            raise how.refusal(tensor, False)
        chain_of(tensor)
        # of a view, too, that became a leaf itself over memory without a graph
        if base._node is None and (tensor._requires_grad or base._requires_grad):
            raise RuntimeError(VIEW_OF_LEAF)
        list_all(base)


def chain_of(view: Tensor) -> tuple[Step, ...]:
    """The view ops from the base to ``view``. Raises RuntimeError for views that can't be written through."""
    steps: list[Step] = []
    written = view
    while view._base is not None:
        how = view._how
        if how is None:
            raise RuntimeError(UNKNOWN_VIEW)
        if how.__class__ is OneOfSeveral:
            raise RuntimeError(_one_of_several(written, how))
        parent, made = steps_of(how)
        if any(op.put is None for op, _ in made) or view._data.size > parent._data.size:  # expanded
            raise RuntimeError(OVERLAPPING)
        steps += reversed(made)
        view = parent
    return tuple(reversed(steps))


def _one_of_several(view: Tensor, how: OneOfSeveral) -> str:
    """The error of a write to ``view``, which was made that way or is a view of what was."""
    if view._node is None:
        return _ONE_WITHOUT_GRAPH
    if view._how is how:
        return _ONE_OF_SEVERAL.format(place=how.place, name=how.name)
    name = view._node.name().partition("Backward")[0]
    return _ONE_OF_SEVERAL.format(place=view._index, name=name)


def move(tensor: Tensor, edge: Any) -> None:
    """After a write: the new places of ``tensor``, its base and its views; ``edge`` is what was written's."""
    base = tensor._base
    if base is None:
        if edge is not None:
            rehang(tensor, *edge)
            _retake_views(tensor)
        return
    if edge is None and not base._requires_grad:
        return
    metadata = (base._data.shape, base._data.dtype)
    node = CopySlices((edge_of(base), edge), (chain_of(tensor),), (), metadata)
    rehang(base, node, 0)
    _retake_views(base)


def _retake_views(base: Tensor) -> None:
    """Hang the living views of ``base`` on its new place; those made first come first."""
    if FROM_FUNCTIONS:
        refuse_views_of_functions(base._cell, base)
    if len(base._cell) == 1:
        return
    list_all(base)
    from jtorch.eager.binding import APPLY

    for view in living(base):
        if view._base is not base:
            continue
        if _made_in_function(view) is not None:
            continue
        fresh, steps = steps_of(view._how)
        for op, statics in steps:
            fresh = APPLY[op.name](fresh, **statics)
        rehang(view, fresh._node, fresh._index, fresh._requires_grad)
