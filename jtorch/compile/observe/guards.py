"""What a recording read from outside its arguments, as guards: one small object for each distinct read.

A read knows how to look again (``now``), whether that is still what was recorded (``holds``), and its test as
source text, since one function made of all tests costs 10 to 20 ns a read. Numbers, strings and tuples of
them are compared by value, all else by identity.
"""

from __future__ import annotations

import enum
import keyword
import math
import operator
import threading
import types
import weakref
from collections import Counter, OrderedDict, defaultdict, deque
from collections.abc import Callable, Iterable
from types import FunctionType, MappingProxyType, MemberDescriptorType
from typing import Any

import numpy as np

from jtorch.core import watch
from jtorch.core.errors import Source

PLAIN = (bool, int, float, complex, str, bytes, type(None))
_HOLDERS: tuple[Any, ...] = (list, tuple, set, frozenset, deque, bytearray)
_COMPARED = (*PLAIN, tuple)
_EXACT = frozenset(_COMPARED)
# What looking again raises where something is no more
GONE = (KeyError, IndexError, AttributeError, ValueError, TypeError)
MISSING = watch.MISSING


def same(now: Any, before: Any) -> bool:
    """Whether a value found again is the one that was recorded."""
    if now is before:
        return True
    if now.__class__ is not before.__class__:
        return False
    if isinstance(before, np.generic):
        return bool(now.dtype == before.dtype and now.tobytes() == before.tobytes())
    if before.__class__ not in _EXACT and isinstance(before, _COMPARED) and not is_bare(now, before):
        return False
    if isinstance(before, float) and (not before or before != before):
        return bool(now == before or (now != now and before != before)) and (
            math.copysign(1.0, now) == math.copysign(1.0, before)
        )
    if isinstance(before, complex):
        return same(now.real, before.real) and same(now.imag, before.imag)
    if isinstance(before, tuple):
        return tuple.__len__(now) == tuple.__len__(before) and all(
            map(same, tuple.__iter__(now), tuple.__iter__(before))
        )
    for cls in PLAIN:
        if isinstance(before, cls):
            equal: Any = cls.__eq__  # a class's own may do anything
            return equal(now, before) is True
    return False


def by_value(value: Any) -> Any:
    """Something that is equal for two plain values that are the same."""
    if isinstance(value, np.generic):
        return type(value), value.dtype, value.tobytes()
    for cls in PLAIN:
        if isinstance(value, cls):  # of a class that derives from it: its own text may be any
            return (type(value), as_text(cls, value)) if is_bare(value) else id(value)
    return id(value)


def as_text(cls: Any, value: Any) -> str:
    """``value`` as the plain class ``cls``, which its own may derive from, writes it."""
    text: str = cls.__repr__(value)
    return text


def is_bare(*values: Any) -> bool:
    """Whether these numbers, texts or tuples, of a user's class, have no attributes of their own."""
    for value in values:
        for base in value.__class__.__mro__:
            if base in _EXACT:
                break
            if any(isinstance(fact, MemberDescriptorType) for fact in vars(base).values()):  # a slot
                return False
        if instance_facts(value):
            return False
    return True


def instance_facts(owner: Any) -> dict[str, Any] | None:
    """The instance's own dict, without running code of the user's."""
    try:
        facts = object.__getattribute__(owner, "__dict__")
    except AttributeError:
        return None
    return facts if isinstance(facts, dict) else None


def slot_of(owner: Any, name: str) -> Any:
    """What a slot holds, or MISSING where nothing is in it."""
    for base in type(owner).__mro__:
        if isinstance(slot := vars(base).get(name), MemberDescriptorType):
            try:
                return slot.__get__(owner)
            except AttributeError:
                return MISSING
    return MISSING


def in_words(value: Any) -> str:
    """A key or a value as text, never by a ``__repr__`` of the user's, which may print, or fail: a tuple by
    its parts, a number or text of the user's class as what it derives from, an object by its class."""
    if type(value) is tuple:
        return f"({', '.join(map(in_words, value))}{',' * (len(value) == 1)})"
    if type(value) is slice:
        return f"slice({', '.join(map(in_words, (value.start, value.stop, value.step)))})"
    if isinstance(value, enum.Enum):
        return f"{type(value).__name__}.{value._name_}"
    if value is MISSING or isinstance(value, np.generic):
        return repr(value)
    return next((as_text(cls, value) for cls in PLAIN if isinstance(value, cls)), f"<{type(value).__name__}>")


def told(value: Any) -> str:
    """A value as messages name it; never by a ``__repr__`` of the user's, which may print, or fail."""
    short = value is MISSING or type(value) in PLAIN or isinstance(value, np.generic)
    if short and len(repr(value)) < 80:
        return repr(value)
    if isinstance(value, np.ndarray):
        return "a NumPy array"
    if isinstance(value, type):
        return f"the class {value.__name__}"
    return f"{'an' if type(value).__name__[:1] in 'aeiouAEIOU' else 'a'} {type(value).__name__}"


class Read:
    """One read. ``guarded`` is False where somebody else tells of changes between calls, and only those
    during a recording matter."""

    __slots__ = ("container", "guarded", "key", "source", "value")

    def __init__(
        self, container: Any, key: Any, value: Any, source: Source | None = None, guarded: bool = True
    ) -> None:
        self.container = container
        self.key = key
        self.value = value
        self.source = source
        self.guarded = guarded

    def now(self) -> Any:
        """The value as it is now, or MISSING."""
        try:
            return self._look()
        except GONE:
            return MISSING

    def holds(self) -> bool:
        return same(self.now(), self.value)

    def change(self) -> tuple[str, str]:
        """What it was and what it is now, as messages say it."""
        return told(self.value), told(self.now())

    def restore(self) -> None:
        """Put the value back, where that can be done."""

    def test(self, name: Callable[[str, Any], str]) -> str:
        """An expression that is true while the read holds; ``name(prefix, value)`` names a value."""
        return f"({self._text(name)} is {name('V', self.value)} or {name('again', self)}.holds())"

    def facts(self) -> tuple:
        """What it is, in a form that compares."""
        return type(self), id(self.container), self._key(), by_value(self.value), self.guarded

    def _key(self) -> Any:
        return self.key if isinstance(self.key, PLAIN) else id(self.key)

    def _look(self) -> Any:
        raise NotImplementedError

    def _text(self, name: Callable[[str, Any], str]) -> str:
        raise NotImplementedError

    def __str__(self) -> str:
        return f"{self.label()} = {told(self.value)}"

    def label(self) -> str:
        return in_words(self.key)


class ItemRead(Read):
    """``container[key]``: an item of a dict, of a list, or a global."""

    __slots__ = ()

    def _look(self) -> Any:
        if isinstance(self.container, dict):
            return dict.get(self.container, self.key, MISSING)
        return self.container[self.key]

    def restore(self) -> None:
        if self.value is MISSING:
            self.container.pop(self.key, None)
        else:
            self.container[self.key] = self.value

    def _text(self, name: Callable[[str, Any], str]) -> str:
        if type(self.container) not in (dict, list):
            return f"{name('again', self)}.now()"
        container = name("g", self.container)
        key = repr(self.key) if self.key.__class__ in (str, int) else name("K", self.key)
        if self.value is MISSING:
            return f"{container}.get({key}, {name('V', MISSING)})"
        return f"{container}[{key}]"


class OptionRead(ItemRead):
    """An item of a dict that library code decides by: a flag, or a count of changes to something else, which
    is no number to compute with however often it moves."""

    __slots__ = ()


def content_of(cell: types.CellType) -> Any:
    """What a closure's cell holds; MISSING where its variable has no value."""
    try:
        return cell.cell_contents
    except ValueError:
        return MISSING


class CellRead(Read):
    """The content of a closure's cell; ``key`` is the variable's name."""

    __slots__ = ()

    def _look(self) -> Any:
        return self.container.cell_contents

    def restore(self) -> None:
        self.container.cell_contents = self.value

    def _text(self, name: Callable[[str, Any], str]) -> str:
        return f"{name('g', self.container)}.cell_contents"

    def test(self, name: Callable[[str, Any], str]) -> str:
        if self.value is MISSING:  # asking an empty cell raises ValueError
            return f"{name('again', self)}.holds()"
        return super().test(name)


class AttributeRead(Read):
    """``container.key`` where that runs no code of the user: an instance's or a class's own value."""

    __slots__ = ()

    def _look(self) -> Any:
        return getattr(self.container, self.key)

    def restore(self) -> None:
        if self.value is not MISSING:
            setattr(self.container, self.key, self.value)

    def _text(self, name: Callable[[str, Any], str]) -> str:
        if self.value is MISSING or not self.key.isidentifier() or keyword.iskeyword(self.key):
            return f"{name('again', self)}.now()"
        return f"{name('g', self.container)}.{self.key}"

    def label(self) -> str:
        owner = self.container
        whose = owner.__name__ if isinstance(owner, (type, FunctionType)) else f"a {type(owner).__name__}"
        return f"{in_words(self.key)} of {whose}"


class LocalRead(Read):
    """An attribute that a ``threading.local`` has in this thread, by itself."""

    __slots__ = ()

    def _look(self) -> Any:
        return local_facts(self.container).get(self.key, MISSING)

    def restore(self) -> None:
        if self.value is MISSING:
            local_facts(self.container).pop(self.key, None)
        else:
            local_facts(self.container)[self.key] = self.value

    def _text(self, name: Callable[[str, Any], str]) -> str:
        return f"{name('again', self)}.now()"


def local_facts(local: threading.local) -> dict[str, Any]:
    """The dict of a ``threading.local`` that is this thread's, without running code of the user's."""
    return threading.local.__getattribute__(local, "__dict__")


class _OfObject(Read):
    """A fact about an object that ``look`` tells. Does not keep it alive, where that can be; when it is no
    more, nobody can ask."""

    __slots__ = ()

    look: Callable[[Any], Any]

    def __init__(self, owner: Any, source: Source | None = None) -> None:
        weak = type(owner).__weakrefoffset__
        super().__init__(weakref.ref(owner) if weak else _Kept(owner), None, type(self).look(owner), source)

    def _look(self) -> Any:
        owner = self.container()
        return self.value if owner is None else type(self).look(owner)

    def _text(self, name: Callable[[str, Any], str]) -> str:
        return f"{name('look', type(self).look)}({name('g', self.container)}())"

    def facts(self) -> tuple:
        return type(self), id(self.container()), id(self.value)


class ClassRead(_OfObject):
    """Which class an object is of."""

    __slots__ = ()

    look = type

    def restore(self) -> None:
        self.container().__class__ = self.value

    def label(self) -> str:
        return f"the class of {'an' if self.value.__name__[:1] in 'AEIOU' else 'a'} {self.value.__name__}"


class OwnDictRead(_OfObject):
    """Which dict has an object's attributes: it may be given another one."""

    __slots__ = ()

    look = staticmethod(instance_facts)

    def holds(self) -> bool:
        return self.now() is self.value or self.container() is None

    def restore(self) -> None:
        self.container().__dict__ = self.value

    def label(self) -> str:
        return f"the __dict__ of {told(self.container())}"


class _Kept:
    """What stands for a weak reference to an object that takes none."""

    def __init__(self, owner: Any) -> None:
        self.owner = owner

    def __call__(self) -> Any:
        return self.owner


class OwnRead(Read):
    """What a class has under a name in its own dict, without asking descriptors; MISSING where it has none,
    and a base's counts."""

    __slots__ = ()

    def _look(self) -> Any:
        return vars(self.container).get(self.key, MISSING)

    def restore(self) -> None:
        if self.value is not MISSING:
            type.__setattr__(self.container, self.key, self.value)
        elif self.key in vars(self.container):
            type.__delattr__(self.container, self.key)

    def _text(self, name: Callable[[str, Any], str]) -> str:
        return f"{name('g', vars(self.container))}.get({self.key!r}, {name('V', MISSING)})"

    def label(self) -> str:
        return f"{self.key!r} of {self.container.__name__}"


class ContextRead(Read):
    """What a ``contextvars.ContextVar`` has."""

    __slots__ = ()

    def _look(self) -> Any:
        return self.container.get(MISSING)

    def _text(self, name: Callable[[str, Any], str]) -> str:
        return f"{name('g', self.container)}.get({name('V', MISSING)})"

    def label(self) -> str:
        return f"the context variable {self.container.name!r}"


class AnswerRead(Read):
    """What a function of jtorch's without arguments answers: a setting of the process."""

    __slots__ = ()

    def _look(self) -> Any:
        return self.container()

    def _text(self, name: Callable[[str, Any], str]) -> str:
        return f"{name('again', self)}.now()"

    def label(self) -> str:
        return f"{self.container.__name__}()"


class LengthRead(Read):
    """``len(container)``, or its truth."""

    __slots__ = ()

    def _look(self) -> Any:
        return len(self.container)

    def test(self, name: Callable[[str, Any], str]) -> str:
        return f"len({name('g', self.container)}) == {self.value}"

    def label(self) -> str:
        return f"the length of a {type(self.container).__name__}"


class TruthRead(LengthRead):
    """Whether ``container`` holds anything."""

    __slots__ = ()

    def _look(self) -> Any:
        return len(self.container) > 0

    def test(self, name: Callable[[str, Any], str]) -> str:
        return f"len({name('g', self.container)}) {'> 0' if self.value else '== 0'}"

    def label(self) -> str:
        return f"whether a {type(self.container).__name__} holds anything"


class ReachRead(LengthRead):
    """Whether ``container`` holds ``key`` entries, or more."""

    __slots__ = ()

    def _look(self) -> Any:
        return len(self.container) >= self.key

    def test(self, name: Callable[[str, Any], str]) -> str:
        return f"len({name('g', self.container)}) {'>=' if self.value else '<'} {self.key}"

    def label(self) -> str:
        return f"whether a {type(self.container).__name__} holds {self.key} entries"


class AttributesRead(LengthRead):
    """How many attributes an object has, whose dict this is, other than those in ``key``, which the function
    has written: beside the value of each, that there are no others."""

    __slots__ = ()

    def _look(self) -> Any:
        return len(self.container.keys() - self.key)

    def _key(self) -> Any:
        return self.key

    def test(self, name: Callable[[str, Any], str]) -> str:
        if not self.key:
            return super().test(name)
        return f"len({name('g', self.container)}.keys() - {name('K', self.key)}) == {self.value}"

    def label(self) -> str:
        return "how many attributes an object has"


class MembershipRead(Read):
    """``key in container`` of a dict or a set."""

    __slots__ = ()

    def _look(self) -> Any:
        return self.key in self.container

    def test(self, name: Callable[[str, Any], str]) -> str:
        key = repr(self.key) if self.key.__class__ in (str, int) else name("K", self.key)
        return f"{key} {'in' if self.value else 'not in'} {name('g', self.container)}"

    def label(self) -> str:
        return f"whether a {type(self.container).__name__} has {told(self.key)}"


def contents(container: Any) -> tuple:
    """All that is in a container, in its order: keys before values."""
    if isinstance(container, OrderedDict):  # has an order of its own
        return (*OrderedDict.keys(container), *OrderedDict.values(container))
    if isinstance(container, dict):
        return (*dict.keys(container), *dict.values(container))
    if isinstance(container, MappingProxyType):
        return (*container.keys(), *container.values())
    for cls in _HOLDERS if type(container) not in _HOLDERS else ():
        if isinstance(container, cls):  # a user's __iter__ is watched where the program calls it
            return tuple(cls.__iter__(container))
    return tuple(container)


class ContentsRead(Read):
    """All entries of a container: what iterating over it reads. Costs some 30 ns an entry."""

    __slots__ = ()

    def _look(self) -> Any:
        return contents(self.container)

    def holds(self) -> bool:
        now, before = contents(self.container), self.value
        return len(now) == len(before) and (all(map(operator.is_, now, before)) or same(now, before))

    def restore(self) -> None:
        kind, n = type(self.container), len(self.value) // 2
        if kind in (list, bytearray):
            self.container[:] = kind(self.value)
        elif kind in (set, deque):
            self.container.clear()
            (self.container.update if kind is set else self.container.extend)(self.value)
        elif kind in (dict, OrderedDict, Counter, defaultdict):
            self.container.clear()
            for key, value in zip(self.value[:n], self.value[n:], strict=True):
                self.container[key] = value

    def test(self, name: Callable[[str, Any], str]) -> str:
        return f"{name('again', self)}.holds()"

    def facts(self) -> tuple:
        return type(self), id(self.container), tuple(map(by_value, self.value))

    def label(self) -> str:
        return f"the entries of a {type(self.container).__name__}"


class MembersRead(ContentsRead):
    """All that a class or a module has of its own: what ``dir()`` and ``inspect.getmembers()`` go through."""

    __slots__ = ()

    def _look(self) -> Any:
        return contents(vars(self.container))

    def holds(self) -> bool:
        return same(self._look(), self.value)

    def restore(self) -> None:
        pass

    def label(self) -> str:
        return f"what {self.container.__name__} has"


def tests_of(reads: Iterable[Read], names: dict[str, Any]) -> str:
    """An expression that is true while all of them hold; what it names goes into ``names``. It may raise
    what is in GONE, where one does not:

        (g_0['scale'] is V_1 or again_2.holds()) and (g_3.cell_contents is V_4 or again_5.holds())
    """
    known: dict[tuple[str, int], str] = {}

    def name(prefix: str, value: Any) -> str:
        made = known.setdefault((prefix, id(value)), f"{prefix}_{len(known)}")
        names[made] = value
        return made

    return " and ".join(read.test(name) for read in reads)


def test_of(reads: Iterable[Read]) -> Callable[[], bool]:
    """The same as a function, which raises nothing."""
    names: dict[str, Any] = {"GONE": GONE}
    text = (
        f"def reads_hold():\n    try:\n        return {tests_of(reads, names) or True}\n"
        "    except GONE:\n        return False\n"
    )
    exec(compile(text, "<jtorch guards>", "exec"), names)
    return names["reads_hold"]
