"""Reads that compare facts by value: the elements and flags of arrays, memory that is lent, what is alive."""

from __future__ import annotations

import abc
import operator
from _abc import _get_dump  # type: ignore[import-not-found]
from collections.abc import Callable
from typing import Any

import numpy as np

from jtorch.compile.observe.guards import MISSING, PLAIN, Read, told
from jtorch.core.errors import Source


def _shown(value: Any) -> str:
    is_short = isinstance(value, tuple) and all(isinstance(v, PLAIN) for v in value) and len(value) < 10
    return str(value) if is_short else told(value)


class FactsRead(Read):
    """What ``facts_of(container)`` gives, a tuple that compares by value."""

    __slots__ = ()
    facts_of: Callable[[Any], tuple]
    names: tuple[str, ...] = ()  # of the facts, for messages

    def __init__(self, container: Any, source: Source | None = None) -> None:
        super().__init__(container, None, type(self).facts_of(container), source)

    def _look(self) -> Any:
        return type(self).facts_of(self.container)

    def holds(self) -> bool:
        return bool(self.now() == self.value)

    def test(self, name: Callable[[str, Any], str]) -> str:
        return f"{name('again', self)}.holds()"

    def facts(self) -> tuple:
        return type(self), id(self.container), self.value

    def change(self) -> tuple[str, str]:
        now = self.now()
        if now is MISSING:
            return super().change()
        at = next((k for k, fact in enumerate(self.value) if fact != now[k]), 0)
        name = f"{self.names[at]} " if self.names else ""
        return name + _shown(self.value[at]), name + _shown(now[at])


class ArrayRead(FactsRead):
    """The elements of a small NumPy array, compared bytewise, and how they lie, which what is made of it
    shows: 0.7 us."""

    __slots__ = ()
    names = ("shape", "strides", "writeable", "flags", "dtype", "elements")

    @staticmethod
    def facts_of(array: np.ndarray) -> tuple:
        flags = array.flags
        return array.shape, array.strides, flags.writeable, flags.num, array.dtype.str, array.tobytes()

    def restore(self) -> None:
        array = self.container
        if array.flags.writeable and array.shape == self.value[0] and array.dtype.str == self.value[4]:
            array[...] = np.frombuffer(self.value[-1], array.dtype).reshape(array.shape)

    def change(self) -> tuple[str, str]:
        now = self.now()
        if now is MISSING or now[:-1] != self.value[:-1]:
            return super().change()
        dtype, shape = self.container.dtype, self.container.shape
        old, new = (np.frombuffer(f[-1], np.uint8).reshape(-1, dtype.itemsize) for f in (self.value, now))
        at = int(np.argmax((old != new).any(axis=1)))  # by bytes, as they are compared: NaN and -0.0
        place = ", ".join(map(str, np.unravel_index(at, shape)))
        before, after = (f"[{place}]: {facts[at].view(dtype)[0]}" for facts in (old, new))
        return before, after

    def label(self) -> str:
        return f"the elements of an array of shape {self.container.shape}"


_FLAGS = ("writeable", "c_contiguous", "f_contiguous", "owndata", "aligned", "writebackifcopy")


class FlagsRead(FactsRead):
    """The flags of a NumPy array: whether it may be written, and in which order it lies."""

    __slots__ = ()
    names = (*map(str.upper, _FLAGS), "flags")
    _each = operator.attrgetter(*_FLAGS)

    @staticmethod
    def facts_of(array: np.ndarray) -> tuple:
        flags = array.flags
        return *FlagsRead._each(flags), flags.num

    def label(self) -> str:
        return f"the flags of an array of shape {self.container.shape}"


class MemoryRead(FactsRead):
    """The memory of an object that lends it (``array.array`` and what derives from it, ``ctypes``)."""

    __slots__ = ()

    @staticmethod
    def facts_of(owner: Any) -> tuple:
        with memoryview(owner) as view:  # given back: who lends it can't grow
            return view.format, view.shape, view.tobytes()

    def label(self) -> str:
        return f"the memory of a {type(self.container).__name__}"


class AliveRead(FactsRead):
    """Whether what a weak reference names is still there. Does not keep it alive."""

    __slots__ = ()

    @staticmethod
    def facts_of(reference: Any) -> tuple:
        return (reference() is not None,)

    def label(self) -> str:
        return "whether a weak reference is alive"


class CacheRead(FactsRead):
    """What a function of ``functools.lru_cache`` says of its cache."""

    __slots__ = ()
    names = ("hits", "misses", "maxsize", "currsize")

    @staticmethod
    def facts_of(function: Any) -> tuple:
        return tuple(function.cache_info())

    def label(self) -> str:
        return f"what the cache of {getattr(self.container, '__name__', 'a function')}() has seen"


class MissesRead(FactsRead):
    """The same, but for hits, of a function that code which is not watched may ask."""

    __slots__ = ()
    names = CacheRead.names[1:]
    label = CacheRead.label

    @staticmethod
    def facts_of(function: Any) -> tuple:
        return tuple(function.cache_info())[1:]

    def restore(self) -> None:
        self.container.cache_clear()  # what it keeps was recorded


class DecimalsRead(FactsRead):
    """What ``decimal.getcontext()`` says of how decimals are computed: 1 us."""

    __slots__ = ()
    names = ("prec", "rounding", "Emin", "Emax", "capitals", "clamp", "traps")
    _each = operator.attrgetter(*names[:-1])

    @staticmethod
    def facts_of(getcontext: Callable[[], Any]) -> tuple:
        now = getcontext()
        return *DecimalsRead._each(now), tuple(
            signal.__name__ for signal, traps in now.traps.items() if traps
        )

    def label(self) -> str:
        return "the context of decimal"


_subclasses_of: Callable[[Any], list[type]] = type.__subclasses__


class RegistryRead(FactsRead):
    """Whether a class counts as an abstract one by what was registered. It is asked again where anything was
    registered anywhere, which imports do, too."""

    __slots__ = ("token",)

    def __init__(self, container: tuple[type, abc.ABCMeta], source: Source | None = None) -> None:
        self.token = abc.get_cache_token()
        super().__init__(container, source)

    @staticmethod
    def facts_of(pair: tuple[type, abc.ABCMeta]) -> tuple:
        """Without asking the classes, whose hooks may be the user's."""
        of, cls = pair
        bases = {id(base) for base in of.__mro__}
        stack: list[type] = [cls]
        seen: set[int] = set()
        while stack:
            each = stack.pop()
            if id(each) in bases:
                return (True,)
            if id(each) not in seen and isinstance(each, abc.ABCMeta):
                seen.add(id(each))
                stack += _subclasses_of(each)
                stack += [known for ref in _get_dump(each)[0] if (known := ref()) is not None]
        return (False,)

    def holds(self) -> bool:
        token = abc.get_cache_token()
        if token != self.token and not super().holds():
            return False
        self.token = token
        return True

    def test(self, name: Callable[[str, Any], str]) -> str:
        again = name("again", self)
        return f"({name('token', abc.get_cache_token)}() == {again}.token or {again}.holds())"

    def facts(self) -> tuple:
        return type(self), *map(id, self.container), self.value

    def label(self) -> str:
        of, cls = self.container
        return f"whether {of.__name__} is registered as a {cls.__name__}"
