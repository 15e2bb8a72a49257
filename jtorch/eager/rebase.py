"""Writes through views, as the tape sees them.

A view remembers how it was made: ``view._how`` is (the tensor it was made of, op, statics...), up to the base
that owns the memory. When a view is written to where gradients flow, the *base's* place on the tape becomes
a ``CopySlices`` node, whose gradient is the old base's with a hole where the view is, and what was written's
in the hole. The place of every other living view of that memory is then taken anew from the base, so that
no tensor's gradient is of elements that are gone; where PyTorch refuses to use the view, it gets a node that
raises. Views with hooks, and those older than the base's ``requires_grad``, are taken anew by writes that the
tape does not follow, too.

Source: https://docs.pytorch.org/docs/stable/notes/autograd.html#in-place-operations-with-autograd
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Sequence
from typing import Any

from jtorch.core import op as op_module
from jtorch.core.op import Op
from jtorch.eager.node import Node
from jtorch.eager.tensor import Tensor, has_elements, reads_elements, rehang
from jtorch.eager.views import list_all, living, source_of
from jtorch.ops.slicing import OVERLAPPING

LEAF = "a leaf Variable that requires grad is being used in an in-place operation."
LEAF_WRITTEN = "a leaf Variable that requires grad has been used in an in-place operation."  # by a Function
VIEW_OF_LEAF = "a view of a leaf Variable that requires grad is being used in an in-place operation."
_WRITTEN, _WRITTEN_ELSEWHERE = "is being", "its base or another view of its base has been"
_WITHOUT_GRAPH = f"A view was created in no_grad mode and {_WRITTEN} modified inplace with grad mode enabled."
UNKNOWN_VIEW = (
    f"{_WITHOUT_GRAPH} Given that "
    "this use case is ambiguous and error-prone, it is forbidden. You can clarify your code by moving both "
    "the view and the inplace either both inside the no_grad block (if you don't want the inplace to be "
    "tracked) or both outside (if you want the inplace to be tracked)."
)

_OF_SEVERAL = (
    "This view is the output of a function that returns multiple views. Such functions do not allow the "
    "output views to be modified inplace. You should replace the inplace operation by an out-of-place one."
)
_ONE_OF_SEVERAL = f"Output {{place}} of {{name}} is a view and {_WRITTEN} modified inplace. {_OF_SEVERAL}"
_ONE_WITHOUT_GRAPH = f"{_WITHOUT_GRAPH} {_OF_SEVERAL}"
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
        what = _WRITTEN_ELSEWHERE if elsewhere else _WRITTEN
        why = _OF_SEVERAL if self.of_several else _OF_FUNCTION
        if view._node is None:
            text = f"A view was created in no_grad mode and {what} modified inplace with grad mode enabled."
        else:
            name = view._node.name().partition("Backward")[0]
            text = f"Output {view._index} of {name} is a view and {what} modified inplace."
        return RuntimeError(f"{text} {why}")


class Overwritten(Node):
    """In the place of the node of a view whose memory was written to since, where gradients can't, or in
    PyTorch don't, follow: the sentence that says so."""

    __slots__ = ()
    frees = False

    def __init__(self, view: Tensor, sentence: str, edge: Any) -> None:
        super().__init__((edge,), (sentence,), (), (view._data.shape, view._data.dtype))

    def usable(self) -> Node:
        raise RuntimeError(self.saved[0])

    @staticmethod
    def vjp(xp: Any, g: Any, sentence: str) -> Any:
        raise RuntimeError(sentence)

    def backward_on_tensors(self, xp: Any, g: Any) -> Any:
        return self.vjp(xp, g, *self.saved)


NOTED: dict[int, list[Any]] = {}  # id of a cell -> the living views that any write there must find, weakly


def note_for_writes(view: Tensor) -> None:
    """``view`` is a custom Function's, or has a hook, or its base got ``requires_grad`` after it was made: a
    write to its memory must find it, also one that the tape does not follow."""
    key = id(view._cell)

    def forget(reference: Any) -> None:
        kept = NOTED.get(key, [])
        if reference in kept:
            kept.remove(reference)
        if not kept:
            NOTED.pop(key, None)

    NOTED.setdefault(key, []).append(weakref.ref(view, forget))


def note_all_for_writes(base: Tensor) -> None:
    """``base`` begins to require grad: views that there are have no graph, as in PyTorch, until the memory is
    written to."""
    for view in living(base):
        if view._base is base and view._node is None:
            note_for_writes(view)


def tell_noted(cell: list, base: Tensor | None = None) -> None:
    """The memory of ``cell`` was written to. Gradients of views of it that custom Functions made are refused
    (of those that had none, too, where the tape followed: to ``base``); others are taken anew, as PyTorch
    does, so hooks see what was computed of them before alone."""
    for reference in tuple(NOTED.get(id(cell), ())):
        view = reference()
        if view is None:
            continue
        for one in (view, *(v for v in living(view) if _is_of(v, view))):
            if view._how.__class__ is FromFunction:
                _refuse(one, view._how, base)
            elif base is None and (reads_elements() or not has_elements(one)):  # else the plan's calls do
                _retake_quietly(one)


def refuse_use(view: Tensor) -> None:
    """``view`` was made under ``no_grad`` and written to there: PyTorch refuses to use it where gradients
    flow. What a recording writes to outside stays a constant."""
    if (
        (reads_elements() or not has_elements(view))
        and not isinstance(view._node, Overwritten)
        and view._data.dtype.kind in "fcV"
    ):
        sentence = UNKNOWN_VIEW.replace(_WRITTEN, _WRITTEN_ELSEWHERE)
        rehang(view, Overwritten(view, sentence, edge_of(view._base)), 0)


def _refuse(view: Tensor, how: FromFunction, base: Tensor | None) -> None:
    edge = edge_of(view) or (None if base is None else edge_of(base))
    if edge is not None and not isinstance(view._node, Overwritten):
        rehang(view, Overwritten(view, str(how.refusal(view, True)), edge), 0)


def tell_each(cells: Sequence[list]) -> None:
    """The memory of all of these was written to, by a plan."""
    for cell in cells:
        tell_noted(cell)


def _retake_quietly(view: Tensor) -> None:
    """Take a view anew after a write that the tape did not follow."""
    from jtorch.eager.grad_mode import enable_grad

    if view._base._requires_grad and not isinstance(view._node, Overwritten):
        with enable_grad():
            _take_place_anew(view, _from_base)


def renamed(source: Tensor, name: str) -> None:
    """The method ``name`` has given ``source`` another shape: its views are no longer what it tells of them,
    and a write that the tape follows is refused, as with the views of custom Functions."""
    list_all(source)
    for view in living(source):
        if view is not source and _is_of(view, source):
            how = view._how = FromFunction((source,))
            how.reason = _RENAMED.format(
                name=name, what="follow what is written to its memory", out=name[:-1]
            )
            note_for_writes(view)


_RENAMED = (
    "a view was made of a tensor that {name}() has given another shape since, so gradients can't {what}: "
    "make it anew, or use {out}()"
)


def leaf_renamed(leaf: Tensor, name: str) -> None:
    """The same for a leaf, where the views are known: they lead to it as it was."""
    list_all(leaf)
    sentence = _RENAMED.format(name=name, what="go from it to that", out=name[:-1])
    for view in living(leaf):
        if view._base is leaf and view._requires_grad:
            rehang(view, Overwritten(view, sentence, (leaf, 0)), 0)


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


def edge_past_hooks(tensor: Tensor) -> Any:
    """The same for what is written over it: as in PyTorch, no hook on a view sees the gradient of that."""
    if not NOTED or tensor._base is None or _refused_elsewhere(tensor) or _made_in_function(tensor):
        return edge_of(tensor)
    nodes = [one._node for one in (tensor, *_sources(tensor)[:-1])]
    hooked = any(node is not None and node.extras is not None and node.extras.pre_hooks for node in nodes)
    return edge_of(made_anew(tensor)) if hooked else edge_of(tensor)


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
    if isinstance(view._node, Overwritten):
        return view._node.saved[0].replace(_WRITTEN_ELSEWHERE, _WRITTEN)
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
    """Hang the living views of ``base`` on its new place, or what PyTorch says of those that it refuses."""
    if NOTED:
        tell_noted(base._cell, base)
    if len(base._cell) == 1:
        return
    list_all(base)
    for view in living(base):
        if view._base is base and _made_in_function(view) is None:
            _take_place_anew(view, _from_source)


def _refused_elsewhere(view: Tensor) -> str | None:
    """What PyTorch says where ``view`` is used after the tape followed a write elsewhere to its memory."""
    for one in (view, *_sources(view)):
        how = None if one._base is None else one._how
        if one._base is not None and how is None:
            return UNKNOWN_VIEW.replace(_WRITTEN, _WRITTEN_ELSEWHERE)
        if how.__class__ is OneOfSeveral:
            return _one_of_several(view, how).replace(_WRITTEN, _WRITTEN_ELSEWHERE)
    return None


def _take_place_anew(view: Tensor, origin: Callable) -> None:
    """Hang ``view`` on what it comes from as that is now, or on what PyTorch says of its use."""
    if (sentence := _refused_elsewhere(view)) is None:
        fresh = made_anew(view, origin)
        rehang(view, fresh._node, fresh._index, fresh._requires_grad)
    elif not isinstance(view._node, Overwritten):
        rehang(view, Overwritten(view, sentence, edge_of(view._base)), 0)


def _from_source(view: Tensor) -> tuple[Tensor, Sequence[Step]]:
    return steps_of(view._how)


def _from_base(view: Tensor) -> tuple[Tensor, Sequence[Step]]:
    steps: list[Step] = []
    while view._base is not None:
        view, made = steps_of(view._how)
        steps += reversed(made)
    return view, steps[::-1]


def made_anew(view: Tensor, origin: Callable = _from_base) -> Tensor:
    """``view`` once more, made of its base, or of what it was made of, as that is now. From the base on no
    hook on ``view``, nor on what lies in between, sees a gradient of that."""
    from jtorch.eager.binding import APPLY

    fresh, steps = origin(view)
    for op, statics in steps:
        fresh = APPLY[op.name](fresh, **statics)
    return fresh
