"""How a compiled plan learns, at no cost per call, that something it relied on was changed outside.

Plans capture arrays, modules and optimizers. Asking each of them before each call would cost more than
the call; instead whoever changes one of them says so here. Two channels:

* ``structure``: an epoch that modules, optimizers, hooks and modes advance. A plan that sees another epoch
  than its own is recorded again, unless all that was told meanwhile is as it was (``is_as_before``): modes
  and flags that were set and put back.
* ``captured``: the arrays that plans point into. Rebinding a tensor's data or switching its
  ``requires_grad`` advances the epoch only when the array is one of those.
"""

from __future__ import annotations

import functools
import itertools
import types
import weakref
from collections import defaultdict, deque
from collections.abc import Callable, Container
from contextvars import ContextVar
from functools import partial
from threading import active_count, get_ident
from typing import Any, NamedTuple

structure = [0]
captured: dict[int, Any] = {}

_COMPARED = (bool, int, str, type(None))


class _Step(NamedTuple):
    """One advance of the epoch, told by ``thread``. Where ``owner()`` is somebody, its attribute ``name`` was
    ``before``; else nobody can tell whether it is as it was."""

    epoch: int
    thread: int
    owner: Callable[[], Any] | None
    name: str
    before: Any


_numbers = itertools.count(1)  # no two threads get one
_steps: deque[_Step] = deque(maxlen=1 << 14)

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

    def owners(self) -> list[Any]:
        """Whose parts were changed until now: for each part its owner."""
        return [owner for owner, _, _ in self._changes.values()]

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


def advance(owner: Any = None, name: str = "", before: Any = None) -> None:
    """Something that any plan may rely on has changed: the attribute ``name`` of ``owner``, which was
    ``before``, where that is known."""
    known = owner is not None and before.__class__ in _COMPARED
    epoch = next(_numbers)
    told = (weakref.ref(owner), name, before) if known else (None, "", None)  # keeps nothing alive
    _steps.append(_Step(epoch, get_ident(), *told))
    structure[0] = epoch


def touched(array: Any, owner: Any = None, name: str = "", before: Any = None) -> None:
    """The tensor that holds ``array`` was rebound or changed its ``requires_grad``."""
    if id(array) in captured:
        advance(owner, name, before)


def _since(epoch: int) -> list[_Step] | None:
    """The steps after ``epoch``, the newest first; None where they are not all known any more."""
    for _ in range(3):
        found: list[_Step] = []
        try:
            for step in reversed(_steps):
                if step.epoch <= epoch:
                    return found
                found.append(step)
            return found if len(_steps) < (_steps.maxlen or 0) else None
        except RuntimeError:  # another thread told of something meanwhile
            pass
    return None


def is_as_before(epoch: int) -> bool:
    """Whether all that was told since ``epoch`` is as it was then: what was set has been put back."""
    steps = _since(epoch)
    if steps is None or len(steps) != structure[0] - epoch:
        return False
    first: dict[tuple[int, str], _Step] = {}
    for step in steps:
        owner = None if step.owner is None else step.owner()
        if owner is None:
            return False
        first[id(owner), step.name] = step
    return all(map(_is_put_back, first.values()))


def _is_put_back(step: _Step) -> bool:
    assert step.owner is not None
    try:
        now = object.__getattribute__(step.owner(), step.name)
    except AttributeError:
        return False
    return now.__class__ is step.before.__class__ and now == step.before


def own_since(epoch: int) -> bool:
    """Whether only this thread has told of something since ``epoch``."""
    steps, mine = _since(epoch), get_ident()
    if steps is None:
        return active_count() == 1
    return all(step.thread == mine for step in steps)


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
        advance()
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
