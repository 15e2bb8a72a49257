"""Results that are no trees of tensors and numbers: what a replay may give again, and what it may not."""

from __future__ import annotations

import types
from collections.abc import Iterator
from typing import Any

from jtorch.compile.observe.guards import content_of, contents
from jtorch.compile.observe.kinds import Kind, kind_of
from jtorch.compile.observe.observer import Observer
from jtorch.compile.observe.scalar import Scalar
from jtorch.compile.record.sym import Sym
from jtorch.core.errors import CompileError
from jtorch.eager.tensor import Tensor

_SUSPENDED = (types.CoroutineType, types.AsyncGeneratorType)
_COPIED = (Kind.ARRAY, Kind.CONTAINER, Kind.OBJECT)
_LIMIT = 10_000  # parts of an object that are looked at


def is_made_anew(observer: Observer, value: Any) -> bool:
    """Whether eager mode gives a new object like ``value`` at each call: a replay gives copies.

    Raises CompileError for what runs after the call, and for objects that hold traced tensors or arguments.
    """
    kind = kind_of(type(value))
    if id(value) in observer.outside or isinstance(value, Tensor):
        return False
    if kind is Kind.ITERATOR or isinstance(value, _SUSPENDED):
        raise CompileError(
            f"'{observer.name}' returns a {type(value).__name__}, which runs after the call and cannot be "
            "run again: return a list of what it gives."
        )
    if kind is Kind.OBJECT and observer.is_outside(value):
        raise CompileError(
            f"'{observer.name}' returns a {type(value).__name__} that came out of code which is not watched: "
            "nobody can tell whether it is a new one at each call. Make it in the function, or read it there."
        )
    if any(isinstance(part, (Sym, Scalar)) or id(part) in observer.places for part in _parts(value)):
        raise CompileError(
            f"'{observer.name}' returns a {type(value).__name__} that holds what it computed or was given, "
            "which a replay would not put there again: return a tuple, list, dict, named tuple or dataclass."
        )
    return kind in _COPIED


def _parts(value: Any) -> Iterator[Any]:
    """Everything in ``value``, its attributes and cells included."""
    stack, seen = [value], {id(value): value}
    while stack and len(seen) < _LIMIT:
        value = stack.pop()
        yield value
        for part in _inside(value):
            if id(part) not in seen:
                seen[id(part)] = part
                stack.append(part)


_OF_FUNCTIONS = (
    "__self__", "__func__", "func", "args", "keywords", "__defaults__", "__kwdefaults__", "__dict__",
)  # fmt: skip


def _inside(value: Any) -> Iterator[Any]:
    kind = kind_of(type(value))
    if kind is Kind.TENSOR:
        yield value._data
    elif kind in (Kind.CONTAINER, Kind.TUPLE):
        yield from contents(value)
    elif kind is Kind.FUNCTION:
        for name in _OF_FUNCTIONS:
            yield getattr(value, name, None)
        for cell in getattr(value, "__closure__", None) or ():
            yield content_of(cell)
    elif kind in (Kind.OBJECT, Kind.OURS, Kind.MODULE, Kind.FOREIGN):
        yield getattr(value, "__dict__", None)
        for name in (n for c in type(value).__mro__ for n in _slots(c)):
            yield getattr(value, name, None)


def _slots(cls: type) -> tuple[str, ...]:
    names = vars(cls).get("__slots__", ())
    return (names,) if isinstance(names, str) else tuple(names)
