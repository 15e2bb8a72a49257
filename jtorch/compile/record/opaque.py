"""Results that are no trees of tensors and numbers: what a replay may give again, and what it may not."""

from __future__ import annotations

import types
from typing import Any

from jtorch.compile.observe.kinds import Kind, kind_of
from jtorch.compile.observe.observer import Observer
from jtorch.compile.observe.reach import UNKNOWN, led_to
from jtorch.compile.observe.scalar import StandIn
from jtorch.compile.record.sym import Sym
from jtorch.core.errors import CompileError
from jtorch.eager.tensor import Tensor

_SUSPENDED = (types.CoroutineType, types.AsyncGeneratorType)
_COPIED = (Kind.ARRAY, Kind.CONTAINER, Kind.OBJECT)


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
    if any(_is_computed(observer, part) for part in led_to([value])):
        raise CompileError(
            f"'{observer.name}' returns a {type(value).__name__} that holds what it computed or was given, "
            "which a replay would not put there again: return a tuple, list, dict, named tuple or dataclass."
        )
    return kind in _COPIED


def _is_computed(observer: Observer, part: Any) -> bool:
    """Whether a replay computes it, or is given another one."""
    value = part._data if isinstance(part, Tensor) else part
    if isinstance(value, Sym) or issubclass(type(value), StandIn):
        return value.tracer.observer is observer
    return part is UNKNOWN or id(part) in observer.places
