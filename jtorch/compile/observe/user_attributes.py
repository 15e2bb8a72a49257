"""What users hang on tensors (``p.tag = 1``), read and written by a function that is recorded.

Of a captured tensor it is state outside as any object's. Of an argument each call asks its own tensor again.
What a function hangs on its arguments a replay would not: that is refused; and so is what it hangs on tensors
that it makes, if these outlive the call.
"""

from __future__ import annotations

import types
from collections.abc import Iterable
from typing import Any

from jtorch.compile.observe.effects import Place
from jtorch.compile.observe.guards import MISSING, ItemRead, same
from jtorch.compile.observe.observer import Observer
from jtorch.compile.observe.reading import source_of
from jtorch.core.errors import CompileError, Source
from jtorch.core.op import CONTEXT


def is_hung(tensor: Any, name: str) -> bool:
    """Whether ``name`` is nothing that tensors have by themselves."""
    return not name.startswith("__") and not hasattr(type(tensor), name)


def see(observer: Observer, frame: types.FrameType, tensor: Any, name: str) -> None:
    """``tensor.name`` is about to be read."""
    if CONTEXT.get().evaluator.made(tensor):
        return
    place = observer.places.get(id(tensor))
    if place is None:
        facts = tensor.__dict__
        observer.read(ItemRead, frame, facts, name, facts.get(name, MISSING))
        return
    value = observer.leaves[place].__dict__.get(name, MISSING)
    if value is not MISSING:
        tensor.__dict__[name] = value
        observer.meet(value)
    observer.ask(("hung", place, name), lambda named: _test(place, name, value, named))


def _test(place: int, name: str, value: Any, named: Any) -> str:
    found = f"a{place}.__dict__.get({name!r}, {named('V', MISSING)})"
    return f"{named('same', same)}({found}, {named('V', value)})"


def see_all(observer: Observer, frame: types.FrameType, tensor: Any) -> None:
    """``vars(tensor)`` is about to be read: all that hangs on it. Raises CompileError for arguments."""
    if CONTEXT.get().evaluator.made(tensor):
        return
    if id(tensor) in observer.places:
        raise observer.error(
            frame,
            "asks for all attributes of an argument at once, which are others at each call",
            "Ask for them by name: hasattr(x, name), getattr(x, name, None).",
        )
    observer.contents(frame, observer.met(tensor.__dict__))


def write(observer: Observer, frame: types.FrameType, tensor: Any, name: str, value: Any) -> None:
    """``tensor.name = value`` is about to happen; MISSING deletes it. Raises CompileError, see above."""
    is_given = id(tensor) in observer.places
    if is_given or CONTEXT.get().evaluator.made(tensor):
        if is_given or observer.on_the_way_back:
            raise _refusal(observer, source_of(frame), name, "is given" if is_given else "makes")
        observer.effects.leave_turn("hangs something on a tensor")
        observer.hung[id(tensor), name] = tensor, source_of(frame)
        return
    before = tensor.__dict__.get(name, MISSING)
    place = None if value is MISSING else Place(tensor.__dict__, name)
    observer.write(frame, tensor, name, before, value, place)


def check(observer: Observer, leaving: Iterable[Any] | None) -> None:
    """Raise CompileError where something hangs on a tensor that the function has made and that is among those
    ``leaving`` it; which may be any where that is None."""
    if observer.hung:
        outlive = None if leaving is None else {id(value) for value in leaving}
        for (_, name), (tensor, source) in observer.hung.items():
            if (outlive is None or id(tensor) in outlive) and name in tensor.__dict__:
                raise _refusal(observer, source, name, "makes and keeps or returns")


def _refusal(observer: Observer, source: Source | None, name: str, whose: str) -> CompileError:
    return CompileError(
        f"{source}: '{observer.name}' hangs '{name}' on a tensor that it {whose}, which no replay would do. "
        "Keep it in a variable, or hang it on the tensor outside."
    )
