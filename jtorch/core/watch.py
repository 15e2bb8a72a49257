"""How a compiled plan learns, at no cost per call, that something it relies on was changed outside.

Plans rely on modules, optimizers and arrays. Asking each of them before each call would cost more than the
call; instead whoever changes one of them tells so here: ``tell(container, key)``, where the container is the
object's own dict, a dict of parameters, a list of groups, or an array. A plan has a ``Subscription`` to the
facts that its recording went by, and hears of nothing else: what was not read never costs a call. What it
hears of makes it look again at these facts, and at these alone, before its next call; what is as it was (a
mode that was set and put back, an equal number) leaves the plan as it is.

What many plans may rely on without anybody knowing which (the default dtype, a method of ``Tensor``, hooks of
all modules) is told to all of them: ``tell_all``.
"""

from __future__ import annotations

import functools
import os
import threading
import types
import weakref
from collections import OrderedDict, defaultdict
from collections.abc import Callable, Container, Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import partial
from threading import get_ident
from typing import Any, Protocol

MISSING: Any = type("Missing", (), {"__repr__": lambda self: "nothing"})()
WHOLE: Any = type("Whole", (), {"__repr__": lambda self: "whole"})()  # the key of all that is in a container

_listeners: dict[int, Listener | Subscription] = {}  # those who hear of everything, for a time
_subscribers: dict[int, tuple[weakref.ref[Subscription], ...]] = {}  # by id of the container
_everyone: dict[int, weakref.ref[Subscription]] = {}
_joining = threading.RLock()  # finalizers, which leave, may come while the same thread joins


def _fresh_lock() -> None:
    # A fork may come while another thread of the parent joins; that thread does not exist in the child.
    global _joining
    _joining = threading.RLock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_fresh_lock)


class Fact(Protocol):
    """Something that a plan relies on: part of ``container``, which it keeps alive."""

    container: Any

    def concerns(self, key: Any) -> bool:
        """Whether it may be another one where ``key`` of the container was changed."""

    def holds(self, key: Any) -> bool:
        """Whether it is as it was, as far as ``key`` goes."""

    def label(self, key: Any) -> str:
        """How a message names what was told."""


def tell(
    container: Any, key: Any = WHOLE, before: Any = MISSING, holds: Callable[[], bool] | None = None,
    by_write: bool = False,
) -> None:  # fmt: skip
    """``key`` of ``container``, which was ``before``, has been changed. ``holds()`` says whether it is as it
    was, where those who rely on it cannot tell. What a write ``by_write`` to elements did besides is no news
    to a ``Listener``: it is the write that may be done, or not."""
    if _listeners:  # first: a recording that ends meanwhile is a subscriber before it listens no more
        for listener in list(_listeners.values()):
            if not (by_write and isinstance(listener, Listener)):
                listener.listen(container, key, before)
    found = _subscribers.get(id(container))
    if found is not None:
        for reference in found:
            subscription = reference()
            if subscription is not None:
                subscription.hear(id(container), key, holds)


def is_relied_on(container: Any) -> bool:
    """Whether anybody might want to be told of ``container``."""
    return bool(_listeners) or id(container) in _subscribers


def tell_all(what: str, holds: Callable[[], bool] = lambda: False) -> None:
    """Something that any plan may rely on has changed; ``holds()`` says whether it is as it was."""
    for listener in list(_listeners.values()):
        listener.listen(None, what, MISSING)
    for reference in list(_everyone.values()):
        subscription = reference()
        if subscription is not None and not holds():
            subscription.news.setdefault((0, what), (holds, what))


class Subscription:
    """What one recording relies on, and which of that was told to be another one since.

    It begins with the recording, when nobody knows yet what that goes by: whatever another thread
    tells meanwhile counts as seen or not seen, nobody knows which. With ``close(facts)`` it is a subscription
    to these.
    """

    __slots__ = ("__weakref__", "_facts", "_own", "_strange", "_thread", "news")

    def __init__(self) -> None:
        self.news: dict[tuple, tuple[Callable[[], bool], str]] = {}  # what was told: (holds, its label)
        self._facts: dict[int, list[Fact]] = {}
        self._strange: list[tuple[Any, Any]] = []
        self._own: dict[int, tuple[Any, list[Any]]] = {}  # what the recording thread told, by the container
        self._thread = get_ident()

    @contextmanager
    def recording(self) -> Iterator[None]:
        """What the block records is what it will be a subscription for."""
        _listeners[id(self)] = self
        try:
            yield
        finally:
            del _listeners[id(self)]

    def close(self, facts: Iterable[Fact] = ()) -> None:
        """The recording has ended and relies on ``facts``, as they are now."""
        self._own.clear()
        for fact in facts:
            self._facts.setdefault(id(fact.container), []).append(fact)
        reference = weakref.ref(self)
        with _joining:
            _everyone[id(self)] = reference
            for k in self._facts:
                _subscribers[k] = (*_living(k), reference)
        weakref.finalize(self, _leave, id(self), tuple(self._facts)).atexit = False
        for container, key in self._strange:
            if container is None or any(f.concerns(key) for f in self._facts.get(id(container), ())):
                self.expire("what another thread changed while it was recorded")
                break

    def listen(self, container: Any, key: Any, before: Any) -> None:
        if get_ident() != self._thread:
            self._strange.append((container, key))
        else:
            self._own.setdefault(id(container), (container, []))[1].append(key)

    def has_told(self, fact: Fact) -> bool:
        """Whether the recording thread has told of what ``fact`` is about."""
        _, keys = self._own.get(id(fact.container), (None, ()))
        return any(map(fact.concerns, keys))

    def hear(self, where: int, key: Any, holds: Callable[[], bool] | None) -> None:
        for fact in self._facts.get(where, ()):
            if fact.concerns(key):
                test = holds or partial(fact.holds, key)
                if not test():
                    self.news.setdefault((where, key, id(fact)), (test, fact.label(key)))

    def expire(self, why: str) -> None:
        """It holds no longer, whatever is put back."""
        self.news[0, why] = _never, why

    def is_as_before(self) -> bool:
        """Whether all that was told is as it was; it is forgotten then.

        Others may tell of more meanwhile. They do so after the change: so one that is forgotten with what was
        told before is seen when the facts are looked at once more.
        """
        news = list(self.news.items())
        if not all(holds() for _, (holds, _) in news):
            return False
        for identity, _ in news:
            self.news.pop(identity, None)
        if all(holds() for _, (holds, _) in news):
            return True
        for identity, told in news:
            self.news.setdefault(identity, told)
        return False

    def forget(self, listener: Listener) -> None:
        """What ``listener`` has heard is known to be as it was."""
        told = {
            (0 if container is None else id(container), key) for container, key, _ in listener.heard.values()
        }
        for identity in list(self.news):
            if identity[:2] in told:
                self.news.pop(identity, None)

    def told(self) -> list[str]:
        """What was told and is not as it was, in words."""
        return list(dict.fromkeys(label for holds, label in list(self.news.values()) if not holds()))


def _never() -> bool:
    return False


def _living(where: int) -> tuple[weakref.ref[Subscription], ...]:
    return tuple(r for r in _subscribers.get(where, ()) if r() is not None)


def _leave(identity: int, containers: tuple[int, ...]) -> None:
    with _joining:
        _everyone.pop(identity, None)
        for k in containers:
            if left := _living(k):
                _subscribers[k] = left
            else:
                _subscribers.pop(k, None)


class Listener:
    """What this thread tells for a time: (container, key, what was there before)."""

    def __init__(self) -> None:
        self.thread = get_ident()
        self.heard: dict[tuple[int, Any], tuple[Any, Any, Any]] = {}

    def listen(self, container: Any, key: Any, before: Any) -> None:
        if get_ident() == self.thread:
            self.heard.setdefault((id(container), key), (container, key, before))

    def is_as_before(self, counts: Callable[[Any, Any], bool] = lambda container, key: True) -> bool:
        """Whether all of it that ``counts`` is as it was, as far as that can be told."""
        return all(
            isinstance(container, dict)
            and key is not WHOLE
            and (now := dict.get(container, key, MISSING)).__class__ is before.__class__
            and (now is before or (isinstance(before, _COMPARED) and now == before))
            for container, key, before in self.heard.values()
            if counts(container, key)
        )


_COMPARED = (bool, int, str, type(None))


@contextmanager
def listening() -> Iterator[Listener]:
    """Within this block it is heard what this thread tells."""
    listener = Listener()
    _listeners[id(listener)] = listener
    try:
        yield listener
    finally:
        del _listeners[id(listener)]


class Seeding(Protocol):
    """Who knows where generators are while a function is recorded, and is told where they shall be."""

    def position_of(self, generator: Any) -> tuple[int, int]: ...

    def move_to(self, generator: Any, position: tuple[int, int]) -> None: ...

    def draw_seed(self) -> None:
        """A generator is about to get a seed from the system."""


seeding: ContextVar[Seeding | None] = ContextVar("jtorch_seeding", default=None)


# what moved a tensor on the tape: a write to its memory, a Function that gave it as its own, detach_()
WRITTEN, GIVEN, DETACHED = "written", "given", "detached"


class Journal:
    """What a recording changes in objects of the library, with what makes each of them as it was before;
    others make what is ``known`` as it was."""

    def __init__(self, known: Container[tuple[int, Any]] = ()) -> None:
        self._changes: dict[tuple[int, Any], tuple[Any, Callable[[], Any], Callable[[Any], None]]] = {}
        self._before: dict[tuple[int, Any], Any] = {}
        self._known = known
        self.check: Callable[[Any], None] | None = None  # raises for owners whose parts may not change

    def note(
        self, owner: Any, container: Any, key: Any, now: Callable[[], Any], put: Callable[[Any], None]
    ) -> None:
        """``key`` of ``container``, a part of ``owner``, is about to change: ``now()`` tells what it is,
        ``put(before)`` sets it."""
        if self.check is not None:
            self.check(owner)
        identity = id(container), key
        if identity not in self._changes:
            self._before[identity] = now()
            self._changes[identity] = owner, now, put

    def owners(self, key: str | None = None) -> list[Any]:
        """Whose parts were changed until now: for each part its owner; of those called ``key`` alone."""
        changes = self._changes.items()
        return [owner for (_, name), (owner, _, _) in changes if key is None or name is key]

    def places(self) -> set[tuple[int, Any]]:
        """What was changed until now, as (id of a container, key), None for all of it."""
        return {*self._changes}

    def undo(self) -> None:
        """Make everything as it was."""
        for identity, (_, now, put) in reversed(self._changes.items()):
            if identity not in self._known:
                put(self._as_it_was(identity, now))
        self._forget()

    def _as_it_was(self, identity: tuple[int, Any], now: Callable[[], Any]) -> Any:
        """What is to be put there again. Of a dict as a whole the entries that others care for are as they
        have left them: it may have been noted while a stand-in was there."""
        before, (container, key) = self._before[identity], identity
        if key is not None or not isinstance(before, dict):
            return before
        known = self._known
        left = {k: value for k, value in now().items() if (container, k) in known}
        return {
            k: left.get(k, v) for k, v in before.items() if (container, k) not in known or k in left
        } | left

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


class TellingClass(type):
    """A class that says so when a method of it is replaced. Plain values that users hang on a class of their
    own are read by their code alone, which is watched."""

    def __setattr__(cls, name: str, value: Any) -> None:
        before = vars(cls).get(name, MISSING)
        super().__setattr__(name, value)
        if not (_is_plain(before) and _is_plain(value)) or _is_ours(cls, name):
            _tell_of_entry(cls, name, before)

    def __delattr__(cls, name: str) -> None:
        before = vars(cls).get(name, MISSING)
        super().__delattr__(name)
        _tell_of_entry(cls, name, before)


def _is_plain(value: Any) -> bool:
    return not callable(value) and not hasattr(type(value), "__get__")


def _is_ours(cls: type, name: str) -> bool:
    """Whether a class of the library's has something under ``name``."""
    return any(name in vars(base) for base in cls.__mro__ if base.__module__.startswith("jtorch."))


class TellingModule(types.ModuleType):
    """A module of functions that library code calls by name: it says so when one of them is replaced."""

    def __setattr__(self, name: str, value: Any) -> None:
        before = vars(self).get(name, MISSING)
        super().__setattr__(name, value)
        _tell_of_entry(self, name, before)

    def __delattr__(self, name: str) -> None:
        before = vars(self).get(name, MISSING)
        super().__delattr__(name)
        _tell_of_entry(self, name, before)


def _tell_of_entry(owner: Any, name: str, before: Any) -> None:
    tell_all(f"{name!r} of {owner.__name__}", lambda: vars(owner).get(name, MISSING) is before)


_CHANGING = (
    "__setitem__", "__delitem__", "__iadd__", "__ior__", "append", "extend", "insert", "pop", "popitem",
    "remove", "clear", "sort", "reverse", "update", "setdefault", "move_to_end",
)  # fmt: skip


def _telling(cls: type) -> type:
    """Let every method of ``cls`` that changes an instance say so."""
    for name in _CHANGING:
        method = getattr(cls, name, None)
        if method is not None:
            setattr(cls, name, _and_tell(method))
    return cls


def _and_tell(method: Any) -> Any:
    @functools.wraps(method)
    def changing(self: Any, *args: Any, **kwargs: Any) -> Any:
        noting = journal.get()
        if noting is not None:
            noting.note(self, self, None, partial(_copied, self), partial(_refill, self))
        try:
            return method(self, *args, **kwargs)
        finally:
            tell(self)

    return changing


def _copied(container: Any) -> Any:
    return dict(container) if isinstance(container, dict) else list(container)


def _refill(container: Any, before: Any) -> None:
    if isinstance(container, OrderedDict):  # which keeps an order of its own
        OrderedDict.clear(container)
        OrderedDict.update(container, before)
    elif isinstance(container, dict):
        dict.clear(container)
        dict.update(container, before)
    else:
        list.__setitem__(container, slice(None), before)


@_telling
class Dict(dict):
    """A dict on whose entries plans rely: a module's parameters, a parameter's optimizer state."""


@_telling
class HookDict(OrderedDict):
    """The same in an order that may change: the hooks of a module."""


@_telling
class List(list):
    """A list on whose entries plans rely: an optimizer's groups and their parameters."""


@_telling
class DefaultDict(defaultdict):
    """The same as a defaultdict: the state of an optimizer's parameters."""
