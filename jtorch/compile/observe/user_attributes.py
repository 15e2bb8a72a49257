"""What users hang on tensors (``p.tag = 1``), read and written by a function that is recorded.

Of a captured tensor it is state outside as any object's. Of an argument each call asks its own tensor again.
What a function hangs on tensors that it makes, or that it is given, a replay would not: that is refused.
"""

from __future__ import annotations

import types
from typing import Any

from jtorch.compile.observe.effects import Place
from jtorch.compile.observe.guards import MISSING, ItemRead, same
from jtorch.compile.observe.observer import Observer
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
    if CONTEXT.get().evaluator.made(tensor) or id(tensor) in observer.places:
        raise observer.error(
            frame,
            f"hangs '{name}' on a tensor that it makes or is given, which no replay would do",
            "Keep it in a variable, or hang it on the tensor outside.",
        )
    before = tensor.__dict__.get(name, MISSING)
    place = None if value is MISSING else Place(tensor.__dict__, name)
    observer.write(frame, tensor, name, before, value, place)
