"""Reads that compare facts by value: the elements and flags of arrays, memory that is lent, what is alive."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from jtorch.compile.observe.guards import PLAIN, Read, told
from jtorch.core.errors import Source


def _shown(value: Any) -> str:
    is_short = isinstance(value, tuple) and all(isinstance(v, PLAIN) for v in value) and len(value) < 10
    return str(value) if is_short else told(value)


class FactsRead(Read):
    """What ``facts_of(container)`` gives, a tuple that compares by value."""

    __slots__ = ()
    facts_of: Callable[[Any], tuple]

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
        pairs = zip(self.value, self.now(), strict=False)
        before, now = next((pair for pair in pairs if pair[0] != pair[1]), ("", ""))
        return _shown(before), _shown(now)


class ArrayRead(FactsRead):
    """The elements of a small NumPy array, compared bytewise, and how they lie, which what is made of it
    shows: 250 ns."""

    __slots__ = ()

    @staticmethod
    def facts_of(array: np.ndarray) -> tuple:
        flags = array.flags
        return array.shape, array.strides, flags.writeable, flags.num, array.dtype.str, array.tobytes()

    def change(self) -> tuple[str, str]:
        before, now = self.value, self.now()
        if before[:-1] != now[:-1]:
            names = ("shape", "strides", "writeable", "flags", "dtype")
            found = next(f for f in zip(names, before, now, strict=False) if f[1] != f[2])
            return f"{found[0]} {_shown(found[1])}", f"{found[0]} {_shown(found[2])}"
        dtype, shape = self.container.dtype, self.container.shape
        old, new = (np.frombuffer(facts[-1], np.uint8).reshape(-1, dtype.itemsize) for facts in (before, now))
        at = int(np.argmax((old != new).any(axis=1)))  # by bytes, as they are compared: NaN and -0.0
        place = ", ".join(map(str, np.unravel_index(at, shape)))
        return tuple(f"[{place}]: {facts[at].view(dtype)[0]}" for facts in (old, new))  # type: ignore

    def label(self) -> str:
        return f"the elements of an array of shape {self.container.shape}"


_FLAGS = ("WRITEABLE", "C_CONTIGUOUS", "F_CONTIGUOUS", "OWNDATA", "ALIGNED", "WRITEBACKIFCOPY")


class FlagsRead(FactsRead):
    """The flags of a NumPy array: whether it may be written, and in which order it lies."""

    __slots__ = ()

    @staticmethod
    def facts_of(array: np.ndarray) -> tuple:
        flags: Any = array.flags
        return (flags.num, *(f"{name} {flags[name]}" for name in _FLAGS))

    def change(self) -> tuple[str, str]:
        pairs = zip(self.value[1:], self.now()[1:], strict=False)
        return next((pair for pair in pairs if pair[0] != pair[1]), ("", ""))

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
