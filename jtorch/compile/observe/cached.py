"""Calls of functions that ``functools.lru_cache`` or ``cache`` wraps: what eager mode computes once.

A result that is there is one from outside, and each call looks whether it is there still, asking the cache as
eager mode does (``KeptRead``). One that is not there is computed now, as plain Python and with all that this
changes, before the recording goes on and finds it: see ``record/once.py``. Where it may rest on what the
compiled function has changed by then, it is recorded with it, and may change nothing.
"""

from __future__ import annotations

import functools
import gc
import operator
import types
from collections.abc import Callable
from typing import Any

from jtorch.compile.observe.fact_guards import MissesRead
from jtorch.compile.observe.guards import MISSING, PLAIN, Read, by_value, same
from jtorch.compile.observe.kinds import Kind, kind_of
from jtorch.compile.observe.observer import Observer
from jtorch.compile.observe.questions import ArgumentReached
from jtorch.compile.observe.reading import source_of
from jtorch.compile.observe.scalar import Scalar
from jtorch.compile.observe.stepping import Stop
from jtorch.core.dim import is_symbolic
from jtorch.core.environment import Exact
from jtorch.eager.tensor import Tensor

CACHE = type(functools.lru_cache(lambda: None))  # the class of what ``lru_cache`` and ``cache`` give
_LASTING = (Kind.PLAIN, Kind.VALUE, Kind.TYPE, Kind.NAMESPACE)


class KeptRead(Read):
    """What a cache keeps for ``key``, which is what it makes of ``args`` and ``keywords``, and the ``result``
    that a call gives for it. A cache with a ``maxsize`` keeps results in links, and a link that it threw out
    serves for a later result, maybe of the same key."""

    __slots__ = ("args", "entries", "keywords", "result")

    def __init__(self, cache: Any, key: Any, args: tuple, keywords: dict[str, Any], source: Any) -> None:
        self.entries, self.args, self.keywords = entries_of(cache), args, keywords
        self.result: Any = MISSING
        super().__init__(cache, key, self.entries.get(key, MISSING), source)

    def _look(self) -> Any:
        return self.entries.get(self.key, MISSING)

    def asks(self) -> bool:
        """Whether it is there still: the cache counts that, and remembers that it was used."""
        if not same(self.entries.get(self.key, MISSING), self.value):
            return False
        return same(self.container(*self.args, **self.keywords), self.result)

    def facts(self) -> tuple:
        return *super().facts(), by_value(self.result)

    def test(self, name: Callable[[str, Any], str]) -> str:
        return f"{name('again', self)}.asks()"

    def label(self) -> str:
        return f"what the cache of {self.container.__name__}() keeps"


def see_cached(stop: Stop, cache: Any, args: list[Any], names: tuple[str, ...]) -> None:
    """``cache(*args)`` is about to be called; ``names`` are those of the last arguments."""
    observer, frame = stop.observer, stop.frame
    parameters = cache.cache_parameters()
    if id(cache) not in observer.outside or parameters["maxsize"] == 0:
        return  # made anew by each call, or no cache at all
    try:
        hash(tuple(args))
    except TypeError:  # which the call raises, too
        return
    try:
        args = [_as_key(observer, value, parameters["typed"]) for value in args]
    except _MadeAnewError:
        return
    observer.caches.setdefault(id(cache), (cache, source_of(frame)))
    n = len(args) - len(names)
    positional, keywords = tuple(args[:n]), dict(zip(names, args[n:], strict=True))
    key = _key(cache, positional, keywords, parameters["typed"])
    entries = entries_of(cache)
    if observer.has_symbols and (key not in entries or any(map(is_symbolic, args))):
        raise Exact(
            f"{cache.__name__}, whose results functools caches, gets sizes or runs for the first time"
        )
    if key not in entries and not observer.once(
        source_of(frame), cache.__name__, cache.__wrapped__, args, lambda: cache(*positional, **keywords)
    ):
        before = observer.progress()
        stop.pending = functools.partial(_check_unchanged, observer, frame, cache, before)
        return
    if key not in entries:
        raise observer.error(
            frame, f"asks {cache.__name__}(), in whose cache nobody finds what it keeps", "Ask it outside."
        )
    identity = KeptRead, id(cache), key
    if identity not in observer.reads:
        observer.reads[identity] = KeptRead(cache, key, positional, keywords, source_of(frame))
    stop.pending = functools.partial(_found, observer, observer.reads[identity])


def _found(observer: Observer, read: KeptRead, value: Any) -> None:
    read.result = value
    observer.meet(value)


def see_handed(observer: Observer, frame: types.FrameType, value: Any) -> None:
    """``value`` goes to code that is not watched, which may call it: ``map(cached, values)``."""
    while isinstance(value, (types.MethodType, functools.partial)):
        value = value.__func__ if isinstance(value, types.MethodType) else value.func
    if isinstance(value, CACHE) and id(value) in observer.outside:
        observer.facts(MissesRead, frame, value)


def entries_of(cache: Any) -> dict[Any, Any]:
    """The dict in which it keeps results, or what holds them, by the keys that ``_key`` makes: the last but
    its own attributes among all that it shows to the garbage collector."""
    held = [part for part in gc.get_referents(cache) if type(part) is dict and part is not vars(cache)]
    return held[-1]


def _key(cache: Any, args: tuple, keywords: dict[str, Any], typed: bool) -> Any:
    """The same as ``lru_cache_make_key`` of CPython's ``_functoolsmodule.c``, from 3.11 to 3.15."""
    if not typed and not keywords:
        return args[0] if len(args) == 1 and type(args[0]) in (int, str) else args
    key = args
    if keywords:
        mark = next(part for part in gc.get_referents(cache) if type(part) is object)
        key = (*args, mark, *(part for item in keywords.items() for part in item))
    if typed:
        key = (*key, *map(type, args), *map(type, keywords.values()))
    return key


class _MadeAnewError(Exception):
    """An argument is another one at each call, which finds nothing that an earlier one kept."""


def _as_key(observer: Observer, value: Any, typed: bool) -> Any:
    """An argument as eager mode has it."""
    if issubclass(type(value), Scalar):
        if typed:  # the call itself would find nothing by what stands for a number
            raise value.refuse("a cache that tells types apart")
        return float(value)
    if isinstance(value, (tuple, frozenset)):
        parts = [_as_key(observer, part, typed) for part in value]
        return value if all(map(operator.is_, parts, value)) else type(value)(parts)
    if isinstance(value, Tensor) and id(value) in observer.places:
        raise ArgumentReached(observer.places[id(value)])
    if isinstance(value, types.MethodType):
        _as_key(observer, value.__self__, typed)
    elif not _lasts(observer, value):
        raise _MadeAnewError
    return value


def _lasts(observer: Observer, value: Any) -> bool:
    """Whether the next call finds by it what this one keeps."""
    if isinstance(value, Tensor):
        return not observer.holds_traced(value)
    if kind_of(type(value)) in _LASTING or observer.is_outside(value):
        return True
    by_value = type(value).__hash__ is not object.__hash__
    return by_value and not isinstance(value, types.FunctionType) and not observer.holds_traced(value)


def _check_unchanged(
    observer: Observer, frame: types.FrameType, cache: Any, before: tuple[int, ...], value: Any
) -> None:
    """A cached function has been recorded: it may have changed nothing."""
    if observer.progress() != before:
        cache.cache_clear()
        raise observer.error(
            frame,
            f"asks '{cache.__name__}' for the first time, whose result functools caches, and it changes "
            "something outside or draws random numbers, after that function has done so, which a recording "
            "would do at each call: its cache is emptied",
            "Call it once before, outside, or ask it first.",
        )
    if not isinstance(value, PLAIN) and not issubclass(type(value), Scalar):
        observer.refilled = True  # then it is one from outside


def is_kept(stop: Stop) -> bool:
    """Whether a function that ``functools`` caches runs, whose result eager mode keeps."""
    kept = [getattr(cache.__wrapped__, "__code__", None) for cache, _ in stop.observer.caches.values()]
    frame: types.FrameType | None = stop.frame if kept else None
    while frame is not None:
        if frame.f_code in kept:
            return True
        frame = frame.f_back
    return False
