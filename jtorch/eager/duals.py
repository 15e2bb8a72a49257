"""Dual tensors: what a level of forward mode keeps, and which tangent a tensor has there.

A tangent belongs to memory, as elements do. So a view has none of its own: it is seen through the same view
of the tangent of what it was made of, and a write through it changes that. Each tangent is in a cell that the
level empties at its end.
"""

from __future__ import annotations

import weakref
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

from jtorch.core import op as op_module
from jtorch.core.op import Context, Op
from jtorch.eager.rebase import UNKNOWN_VIEW, FromFunction, Step, steps_of
from jtorch.eager.tensor import Tensor, wrap

KEY = "_tangent"  # in the __dict__ of a tensor: its ``Cell``, or how it was made where the tape does not know
OUT = "Trying to use forward AD with {name}_out that does not support it because it is an out= function"
NO_RULE = (
    "Trying to use forward AD with {name} that does not support it because it has not been implemented yet: "
    "it has no gradient."
)
_WRITTEN = (
    "A tensor that has a tangent is written to by a function that forward mode can't follow: write to its "
    ".detach(), or outside of the dual_level."
)
_OF_FUNCTION = (
    "forward mode can't follow a write to a view that a custom Function returned: clone() its output first."
)


class Cell:
    """A tangent, while its level lasts."""

    __slots__ = ("__weakref__", "value")

    def __init__(self, value: Tensor | None = None) -> None:
        self.value = value


class Level:
    """One ``dual_level``: the cells that it empties at its end."""

    def __init__(self) -> None:
        self.cells: weakref.WeakSet[Cell] = weakref.WeakSet()
        self.covered = 0  # how many blocks are in force that carry no tangents along

    def cell(self, tangent: Tensor) -> Cell:
        cell = Cell(tangent)
        self.cells.add(cell)
        return cell

    def give(self, tensor: Tensor, tangent: Tensor) -> None:
        """From now on ``tensor`` has this tangent, which is brought to its dtype and shape."""
        tensor.__dict__[KEY] = self.cell(fitted(tangent, tensor))

    def close(self) -> None:
        for cell in self.cells:
            cell.value = None


OPEN: ContextVar[Level | None] = ContextVar("jtorch_dual_level", default=None)


def enter() -> Level:
    """A level, from now on in this thread of control. Raises RuntimeError inside another one."""
    context = op_module.CONTEXT.get()
    context.evaluator.refuse(
        "entering a level of forward mode",
        "Enter it outside of the compiled function, which runs eagerly there.",
    )
    if OPEN.get() is not None:
        raise RuntimeError("Nested forward mode AD is not supported at the moment")
    level = Level()
    OPEN.set(level)
    op_module.CONTEXT.set(context.at_level(level))
    return level


def leave(level: Level) -> None:
    """End ``level``: its tangents are freed."""
    level.close()
    OPEN.set(None)
    context = op_module.CONTEXT.get()
    if context.level is level:
        op_module.CONTEXT.set(context.at_level(None))


def fitted(tangent: Tensor, tensor: Tensor) -> Tensor:
    """``tangent`` in the dtype and shape of ``tensor``."""
    from jtorch.eager.binding import APPLY

    data = tensor._data
    if tangent._data.dtype is not data.dtype:
        tangent = APPLY["cast"](tangent, dtype=data.dtype)
    if tuple(tangent._data.shape) != tuple(data.shape):
        tangent = APPLY["expand"](tangent, shape=tuple(data.shape))
    return tangent


@contextmanager
def beneath(context: Context) -> Iterator[None]:
    """Ops of the block carry no tangents along."""
    level = context.level
    if level is None:
        yield
        return
    level.covered += 1
    try:  # before the change: Ctrl-C may come right after it
        op_module.CONTEXT.set(context.at_level(None))
        yield
    finally:
        op_module.CONTEXT.set(context)
        level.covered -= 1


def tangent_of(tensor: Any) -> Tensor | None:
    """The tangent of ``tensor`` at the level in force; None where it has none, or is no tensor."""
    context = op_module.CONTEXT.get()
    if context.level is None or not isinstance(tensor, Tensor):
        return None
    with beneath(context):
        return _found(tensor)


def _found(tensor: Tensor) -> Tensor | None:
    cell = tensor.__dict__.get(KEY)
    if cell.__class__ is Cell:
        return cell.value
    if tensor._base is None:
        return None
    how = _how(tensor)
    if how is None:
        if _found(tensor._base) is not None:
            raise RuntimeError(_unknown(tensor))
        return None
    parent, steps = steps_of(how)
    tangent = _found(parent)
    return None if tangent is None else _seen(tangent, steps)


def _seen(tangent: Tensor, steps: Iterable[Step]) -> Tensor:
    from jtorch.eager.binding import APPLY

    for op, statics in steps:
        tangent = APPLY[op.name](tangent, **statics)
    return tangent


def _how(view: Tensor) -> tuple | None:
    """How ``view`` was made: (the tensor it was made of, op, statics...); None where that is not known."""
    how = view.__dict__.get(KEY) or view._how
    return None if how.__class__ is FromFunction else how


def _unknown(view: Tensor) -> str:
    return UNKNOWN_VIEW if view._how is None else _OF_FUNCTION


def note_how(view: Tensor, op: Op, source: Tensor, statics: dict[str, Any]) -> None:
    """A view that was made under ``no_grad``, where the tape doesn't note how."""
    if view._base is not None and view._how is None:
        view.__dict__[KEY] = (source, op, *(statics[s] for s in op.statics))


def is_dual(*tensors: Any) -> bool:
    """Whether one of these has a tangent at the level in force."""
    if op_module.CONTEXT.get().level is None:
        return False
    return any(tangent_of(t) is not None for t in tensors)


def refuse(name: str, *tensors: Any) -> None:
    """Raise where one of ``tensors`` has a tangent that the function called ``name`` would drop."""
    if is_dual(*tensors):
        raise NotImplementedError(NO_RULE.format(name=name))


def share(tensor: Tensor, other: Tensor) -> None:
    """``other`` is ``tensor`` under another class: both have one tangent."""
    if KEY in tensor.__dict__:
        other.__dict__[KEY] = tensor.__dict__[KEY]


def checked(tangent: Tensor, tensor: Tensor) -> Tensor:
    """``tangent``, which must have the shape of ``tensor``."""
    if tangent.shape != tensor.shape:
        raise RuntimeError(
            "Trying to set a forward gradient that has a different size than that of the original Tensor, "
            f"this is not supported. Tensor is of size {list(tensor.shape)} while the given forward gradient "
            f"is of size {list(tangent.shape)}."
        )
    return tangent


def made(tensor: Tensor, tangent: Tensor) -> Tensor:
    """A dual tensor over the memory of ``tensor``; where the tape is on a view of it."""
    level = op_module.CONTEXT.get().level
    dual = primal_of(tensor)
    level.give(dual, tangent)
    return dual


def primal_of(tensor: Tensor) -> Tensor:
    """``tensor`` without its tangent: where the tape is on a view of it."""
    context = op_module.CONTEXT.get()
    with beneath(context):
        made = tensor.view_as(tensor) if context.grad else tensor.detach()
    made.__dict__[KEY] = Cell()
    return made


def refuse_written(tensor: Tensor) -> None:
    """Raise where ``tensor`` has a tangent: it is about to be written to by what carries none along."""
    if is_dual(tensor):
        raise RuntimeError(_WRITTEN)


def carry(tensor: Tensor, other: Tensor) -> Tensor:
    """``other``, which has the elements of ``tensor``, with its tangent, too."""
    level = op_module.CONTEXT.get().level
    if level is not None and (tangent := tangent_of(tensor)) is not None:
        level.give(other, tangent)
    return other


def written(tensor: Tensor, tangent: Tensor | None) -> None:
    """The elements of ``tensor`` were overwritten: ``tangent`` is of the new ones, None where they are
    constants."""
    context = op_module.CONTEXT.get()
    if context.level is None:
        return
    with beneath(context):
        root, steps = _root(tensor)
        held = _found(root)
        if held is None and tangent is None:
            return
        _write(context.level, root, steps, held, tangent)


def _root(tensor: Tensor) -> tuple[Tensor, list[Step]]:
    """(whose tangent that of ``tensor`` is seen through, the views on the way)"""
    steps: list[Step] = []
    while tensor._base is not None and tensor.__dict__.get(KEY).__class__ is not Cell:
        how = _how(tensor)
        if how is None:
            break
        tensor, made = steps_of(how)
        steps += reversed(made)
    return tensor, steps[::-1]


def _write(level: Level, root: Tensor, steps: list, held: Tensor | None, tangent: Tensor | None) -> None:
    from jtorch.eager.binding import APPLY

    if root._base is not None and (root._how is None or root._how.__class__ is FromFunction):
        raise RuntimeError(_unknown(root))
    if not steps and tangent is not None:
        _replace(level, root, tangent)
        return
    made = zeros_like(root) if held is None or not steps else APPLY["clone"](held)
    if steps:
        view = made
        view = _seen(view, steps)
        view.copy_(zeros_like(view) if tangent is None else tangent)
    _replace(level, root, made)


def _replace(level: Level, root: Tensor, tangent: Tensor) -> None:
    """Another tangent for what was overwritten, in the cell that it may share."""
    cell = root.__dict__.get(KEY)
    if cell.__class__ is Cell:
        cell.value = fitted(tangent, root)
        level.cells.add(cell)
    else:
        level.give(root, tangent)


def zeros_like(tensor: Tensor) -> Tensor:
    """Zeros off the tape, of the shape and dtype of ``tensor``."""
    from jtorch.eager.factory import like

    data = tensor._data
    xp = op_module.CONTEXT.get().evaluator.namespace(data)
    return like(tensor, wrap(xp.full(0.0, shape=tuple(data.shape), dtype=data.dtype)))
