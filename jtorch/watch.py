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
import types
import weakref
from collections import defaultdict
from collections.abc import Callable, Container
from contextvars import ContextVar
from functools import partial
from typing import Any

structure = [0]
captured: dict[int, Any] = {}

# In a thread that records a function: the generators it seeded or gave a state, by id, and where they were.
moved: ContextVar[dict[int, tuple[Any, tuple[int, int]]] | None] = ContextVar("jtorch_moved", default=None)


class Journal:
    """What a recording changes in objects of the library, with what makes each of them as it was before."""

    def __init__(self) -> None:
        self._changes: dict[tuple[int, Any], tuple[Any, Callable[[], Any], Callable[[Any], None]]] = {}
        self._before: dict[tuple[int, Any], Any] = {}

    def note(
        self, owner: Any, container: Any, key: Any, now: Callable[[], Any], put: Callable[[Any], None]
    ) -> None:
        """``key`` of ``container``, a part of ``owner``, is about to change: ``now()`` tells what it is,
        ``put(before)`` sets it."""
        identity = id(container), key
        if identity not in self._changes:
            self._before[identity] = now()
            self._changes[identity] = owner, now, put

    def undo(self, known: Container[tuple[int, Any]] = ()) -> None:
        """Make everything as it was, but for what is ``known`` to others, who did."""
        for identity, (_, _, put) in reversed(self._changes.items()):
            if identity not in known:
                put(self._before[identity])
        if self._changes:
            advance()
        self._forget()

    def _forget(self) -> None:
        self._changes.clear()
        self._before.clear()

    def finish(self, arguments: Container[int]) -> tuple[dict[tuple[int, Any], bool], bool]:
        """The changes stay: (the modes and ``requires_grad`` that were set, as they are now; whether any is
        another one than before). Those of objects that are gone with the recording are nobody's, and others
        care for those of ``arguments``, which are ids."""
        found = [
            (k, weakref.ref(owner), now(), self._before[k])
            for k, (owner, now, _) in self._changes.items()
            if k[1] in ("training", "requires_grad") and id(owner) not in arguments
        ]
        self._forget()
        alive = [(k, now, before) for k, owner, now, before in found if owner() is not None]
        return {k: now for k, now, _ in alive}, any(now is not before for _, now, before in alive)


journal: ContextVar[Journal | None] = ContextVar("jtorch_journal", default=None)


def note_attribute(owner: Any, name: str) -> None:
    """The attribute ``name`` of a module, kept in its own dict, is about to be set or deleted."""
    noting = journal.get()
    if noting is not None:
        facts = owner.__dict__

        def put(before: Any) -> None:
            if before is facts:  # there was none
                facts.pop(name, None)
            else:
                facts[name] = before

        noting.note(owner, facts, name, lambda: facts.get(name, facts), put)


def advance() -> None:
    """Something that any plan may rely on has changed."""
    structure[0] += 1


def touched(array: Any) -> None:
    """The tensor that holds ``array`` was rebound or changed its ``requires_grad``."""
    if id(array) in captured:
        structure[0] += 1


class TellingClass(type):
    """A class that says so when a method of it is replaced."""

    def __setattr__(cls, name: str, value: Any) -> None:
        super().__setattr__(name, value)
        advance()

    def __delattr__(cls, name: str) -> None:
        super().__delattr__(name)
        advance()


class TellingModule(types.ModuleType):
    """A module of functions that library code calls by name: it says so when one of them is replaced."""

    def __setattr__(self, name: str, value: Any) -> None:
        super().__setattr__(name, value)
        advance()

    def __delattr__(self, name: str) -> None:
        super().__delattr__(name)
        advance()


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
        noting = journal.get()
        if noting is not None:
            noting.note(self, self, None, partial(_copied, self), partial(_refill, self))
        return method(self, *args, **kwargs)

    return changing


def _copied(container: Any) -> Any:
    return dict(container) if isinstance(container, dict) else list(container)


def _refill(container: Any, before: Any) -> None:
    if isinstance(container, dict):
        dict.clear(container)
        dict.update(container, before)
    else:
        list.__setitem__(container, slice(None), before)


@_telling
class Dict(dict):
    """A dict on whose entries plans rely: a module's parameters, a parameter's optimizer state."""


@_telling
class List(list):
    """A list on whose entries plans rely: an optimizer's groups and their parameters."""


@_telling
class DefaultDict(defaultdict):
    """The same as a defaultdict: the state of an optimizer's parameters."""
