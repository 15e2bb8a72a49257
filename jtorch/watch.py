"""How a compiled plan learns, at no cost per call, that something it relied on was changed outside.

Plans capture arrays, modules and optimizers. Asking each of them before each call would cost more than
the call; instead whoever changes one of them says so here. Two channels:

* ``structure``: an epoch that modules, optimizers, hooks and modes advance. A plan that sees another epoch
  than its own looks at everything it captured once and stamps itself again.
* ``captured``: the arrays that plans point into. Rebinding a tensor's data or switching its
  ``requires_grad`` advances the epoch only when the array is one of those.
"""

from __future__ import annotations

import functools
from collections import defaultdict
from contextvars import ContextVar
from typing import Any

structure = [0]
captured: dict[int, Any] = {}

# In a thread that records a function: the generators it seeded or gave a state, by id, and where they were.
moved: ContextVar[dict[int, tuple[Any, tuple[int, int]]] | None] = ContextVar("jtorch_moved", default=None)


def advance() -> None:
    """Something that any plan may rely on has changed."""
    structure[0] += 1


def touched(array: Any) -> None:
    """The tensor that holds ``array`` was rebound or changed its ``requires_grad``."""
    if id(array) in captured:
        structure[0] += 1


_CHANGING = (
    "__setitem__", "__delitem__", "__iadd__", "__ior__", "append", "extend", "insert", "pop", "popitem",
    "remove", "clear", "sort", "reverse", "update", "setdefault",
)  # fmt: skip


def _telling(cls: type) -> type:
    """Let every method of ``cls`` that changes an instance say so."""
    for name in _CHANGING:
        method = getattr(cls, name, None)
        if method is not None:
            setattr(cls, name, _and_advance(method))
    return cls


def _and_advance(method: Any) -> Any:
    @functools.wraps(method)
    def changing(self: Any, *args: Any, **kwargs: Any) -> Any:
        structure[0] += 1
        return method(self, *args, **kwargs)

    return changing


@_telling
class Dict(dict):
    """A dict on whose entries plans rely: a module's parameters, a parameter's optimizer state."""


@_telling
class List(list):
    """A list on whose entries plans rely: an optimizer's groups and their parameters."""


@_telling
class DefaultDict(defaultdict):
    """The same as a defaultdict: the state of an optimizer's parameters."""
