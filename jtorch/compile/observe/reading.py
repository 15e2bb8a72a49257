"""The part of an observer that sees reads: each distinct one from outside becomes a guard (``guards``).

What is handed to code that is not watched counts as read, all of it (``deep``).
"""

from __future__ import annotations

import _thread
import abc
import contextvars
import datetime
import decimal
import enum
import functools
import logging
import numbers
import operator
import pathlib
import re
import struct
import threading
import types
import typing
import weakref
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy as np

from jtorch.compile.observe.effects import Effects
from jtorch.compile.observe.fact_guards import ArrayRead, DecimalsRead, MemoryRead, RegistryRead
from jtorch.compile.observe.guards import (
    GONE,
    MISSING,
    PLAIN,
    AttributeRead,
    AttributesRead,
    ClassRead,
    ContentsRead,
    ItemRead,
    LengthRead,
    MembersRead,
    OwnRead,
    ReachRead,
    Read,
    TruthRead,
    contents,
    instance_facts,
    same,
    slot_of,
    told,
)
from jtorch.compile.observe.kinds import (
    IGNORED,
    OF_SIGNATURES,
    POINTER,
    WITH_A_CLASS,
    Kind,
    held_by_class,
    is_users,
    keeps_attributes,
    kind_of,
    lends_memory,
    origin_of,
)
from jtorch.compile.observe.made_arrays import MadeArrays
from jtorch.compile.observe.relied import Relied
from jtorch.compile.observe.scalar import StandIn
from jtorch.compile.observe.stand_ins import NUMBERS, Closed, is_stand_in
from jtorch.core.dim import is_symbolic
from jtorch.core.errors import CompileError, Source
from jtorch.core.sizes import settled
from jtorch.eager.tensor import Tensor

# From a function that names a value to a text that is true of the arguments ``a0, a1, ...``
Question = Callable[[Callable[[str, Any], str]], str]

SMALL = 4096  # bytes of a NumPy array that are compared at each call
LOCKS = (type(_thread.allocate_lock()), _thread.RLock)  # ``with`` which nothing is changed in the end
LIMIT = 100_000  # reads of one recording
_STILL = (  # classes of objects that do not change, or only by what is seen
    type(...), re.Pattern, re.Match, numbers.Number,
    datetime.date, datetime.time, datetime.timedelta, datetime.tzinfo,
    pathlib.PurePath, types.MappingProxyType, types.CodeType, weakref.ref, logging.Logger, BaseException,
    contextvars.ContextVar, contextvars.Context, contextvars.Token, operator.itemgetter, operator.attrgetter,
    operator.methodcaller, struct.Struct, np.ufunc, type(functools.lru_cache(int)), property,
    *OF_SIGNATURES,
)  # fmt: skip
WHOLE = (ContentsRead, LengthRead, TruthRead)  # reads of a container that any change changes


class Reading:
    """What was read from outside so far, and how more of it is noted."""

    effects: Effects
    reads: dict[Any, Read]
    questions: dict[tuple, Question]
    made_arrays: MadeArrays
    relied: Relied
    places: dict[int, int]
    drawn: Any
    decimals: decimal.Context
    open_places: dict[Any, Any]
    on_the_way_back: bool
    handed: list[Any]
    whole: bool
    name: str
    _sets: dict[frozenset[Any], frozenset[Any]]

    def is_outside(self, value: Any) -> bool:
        raise NotImplementedError

    def meet(self, value: Any) -> None:
        raise NotImplementedError

    def met(self, value: Any) -> Any:
        raise NotImplementedError

    def error(self, frame: types.FrameType | None, does: str, way_out: str) -> CompileError:
        raise NotImplementedError

    def through_pointer(self, frame: types.FrameType | None) -> CompileError:
        raise NotImplementedError

    def read(
        self, kind: type[Read], frame: types.FrameType | None, container: Any, key: Any, value: Any,
        guarded: bool = True,
    ) -> None:  # fmt: skip
        """``container`` was asked for ``key`` and had ``value``."""
        key = settled(key)
        if isinstance(key, (*PLAIN, Tensor)) and (id(container), key) in self.effects.known:
            if self.on_the_way_back:
                if (id(container), key) in self.open_places:
                    raise Closed(self.open_places[id(container), key])
                raise self.error(
                    frame,
                    "reads on the way back what it has written, of which a later call may have written more",
                    "Keep it on ctx in forward, or call backward() inside.",
                )
            return
        if id(container) in self.effects.grown or (id(container) in self.effects.changed and kind in WHOLE):
            raise self.error(
                frame,
                f"reads a {type(container).__name__} from outside that it has changed, whose entries are "
                "known only when a replay has ended",
                "Collect in a container of its own and return that, or read before you write.",
            )
        if id(container) in self.effects.unsettled:
            raise self.error(
                frame,
                f"reads {told(key) if key is not None else 'the entries'} of {told(container)} after a call "
                "of a scheduler's step(), a scaler's update(), or append() with a text, that changes it",
                "A compiled function makes these calls when it has ended: read before them, or outside.",
            )
        if kind is ContentsRead and self.open_places:
            self._check_open_entries(container, value)
        self._note(kind, frame, container, key, value, guarded)

    def read_before_growth(
        self, kind: type[Read], frame: types.FrameType | None, container: list, key: Any, value: Any
    ) -> None:
        """Before what the function has appended to ``container``, there was ``value`` at ``key``."""
        if (id(container), key) not in self.effects.known:
            self._note(kind, frame, container, key, value, True)

    def see_names(self, frame: types.FrameType | None, container: Any, key: int, n: int) -> None:
        """An entry of a list or deque that holds ``n`` before the call is read at ``key``. From the other end
        it has another name: if what is there under that one is the call's, it is the same entry at this
        length alone."""
        other = key + n if key < 0 else key - n
        if (id(container), other) in self.effects.known:
            for reach in (n, n + 1):
                self._note(ReachRead, frame, container, reach, n >= reach, True)

    def _note(
        self, kind: type[Read], frame: types.FrameType | None, container: Any, key: Any, value: Any,
        guarded: bool,
    ) -> None:  # fmt: skip
        identity = (kind, id(container), (type(key), key) if isinstance(key, PLAIN) else id(key))
        if identity not in self.reads:
            if len(self.reads) >= LIMIT:
                raise self.error(frame, f"reads more than {LIMIT} things from outside", "Hand it less.")
            self.reads[identity] = kind(container, key, value, source_of(frame), guarded)
            self.meet(value)

    def _check_open_entries(self, container: Any, entries: Iterable[Any]) -> None:
        """Raise Closed where one of all entries that are read stands for a number of the call."""
        if any(map(is_stand_in, entries)):
            for (owner, _), place in self.open_places.items():
                if owner == id(container):
                    raise Closed(place)

    def see_class(self, frame: types.FrameType | None, owner: Any) -> None:
        """Which class ``owner`` is of counts, if that is a user's: it may get another one. Modules tell."""
        cls = type(owner)
        kind = kind_of(cls)
        if kind in WITH_A_CLASS and is_users(cls) and self.is_outside(owner):
            self.facts(ClassRead, frame, owner)

    def ask(self, identity: tuple, test: Question) -> None:
        """The function depends on what ``test`` says of its arguments: of those at the positions that come
        after the first part of ``identity``, or at the first of these."""
        of_several = identity[0] in ("is", "apart")
        self.drawn.check_unasked(identity[1:] if of_several else identity[1:2])
        self.questions.setdefault(identity, test)

    def contents(self, frame: types.FrameType | None, container: Any) -> None:
        """All entries of an outside container were read."""
        kind = kind_of(type(container))
        if isinstance(container, POINTER) and self.is_outside(container):
            raise self.through_pointer(frame)
        if kind is Kind.ARRAY:
            self.array(frame, container)
        elif kind is Kind.CONTAINER and self.is_outside(container):
            self.read(ContentsRead, frame, container, None, contents(container))
            for value in contents(container):
                self.meet(value)
        elif kind in (Kind.FOREIGN, Kind.OBJECT) and self.is_outside(container) and lends_memory(container):
            self.memory(frame, container)
        elif kind is Kind.FOREIGN and self.is_outside(container):
            if instance_facts(container):
                self.deep(frame, container)
            elif _is_iterable(container):
                self.read(ContentsRead, frame, container, None, contents(container))

    def nested(self, frame: types.FrameType | None, values: Any) -> None:
        """All entries of nested lists and tuples were read."""
        if type(values) in (list, tuple):
            self.contents(frame, values)
            for value in values:
                self.nested(frame, value)

    def partial(self, frame: types.FrameType | None, made: functools.partial) -> None:
        """What a ``functools.partial`` calls, and with what, was read."""
        if self.is_outside(made):
            for name in ("func", "args", "keywords"):  # which __setstate__ replaces
                self.read(AttributeRead, frame, made, name, getattr(made, name))
        self.contents(frame, made.keywords)

    def members(self, frame: types.FrameType | None, owner: Any) -> None:
        """All that an object, a class or a module has, by name, was read."""
        facts, kind = instance_facts(owner), kind_of(type(owner))
        if kind is Kind.MODULE:
            self.relied.open(owner)
        if facts is not None and kind not in (Kind.TYPE, Kind.NAMESPACE) and self.is_outside(owner):
            self.contents(frame, self.met(facts))
        for holder in (owner,) if kind is Kind.NAMESPACE else _classes_of(owner):
            if kind is Kind.NAMESPACE or is_users(holder):
                self.read(MembersRead, frame, holder, None, contents(vars(holder)))

    def registry(self, frame: types.FrameType | None, value: Any, cls: Any) -> None:
        """Whether ``value``, or its class, is a ``cls`` was asked: other classes may be registered with an
        abstract one later."""
        for part in cls if isinstance(cls, tuple) else typing.get_args(cls):  # int | str, too
            self.registry(frame, value, part)
        cls = origin_of(cls)  # typing.Sequence
        for of in (value, type(value)) if isinstance(cls, abc.ABCMeta) else ():
            identity = (RegistryRead, id(of), id(cls))
            if isinstance(of, type) and self.is_outside(of) and identity not in self.reads:
                self.reads[identity] = RegistryRead((of, cls), source_of(frame))

    def beside_tensor(self, frame: types.FrameType, value: Any) -> None:
        """A tensor is about to be computed with ``value``, or made over it."""
        if isinstance(value, np.ndarray) and not self.is_outside(value) and id(value) not in self.places:
            self.made_arrays.meet(value, source_of(frame))

    def array(self, frame: types.FrameType | None, array: np.ndarray) -> None:
        """Elements of an outside NumPy array were read."""
        if not self.is_outside(array):
            return
        if id(array) in self.places:
            self._array_argument(frame, array)
            return
        if array.nbytes > SMALL or array.dtype.hasobject:
            raise self.error(
                frame,
                f"reads elements of a NumPy array from outside (of shape {array.shape}), "
                "which a recording would keep",
                "Use jtorch.from_numpy(array), whose elements are read at each call.",
            )
        self.facts(ArrayRead, frame, array)

    def _array_argument(self, frame: types.FrameType | None, array: np.ndarray) -> None:
        """NumPy reads elements of an array that is an argument: they count by what they are."""
        self.drawn.check_unread(self.places[id(array)])
        if array.nbytes > SMALL:
            raise self.error(
                frame,
                f"reads elements of a NumPy array argument (of shape {array.shape}) without jtorch, "
                "which a recording would keep",
                "Use jtorch.from_numpy(array), whose elements are read at each call.",
            )
        if (ArrayRead, id(array)) not in self.reads:
            self.facts(ArrayRead, frame, array)
            self.reads[ArrayRead, id(array)].guarded = False  # what is passed is asked
            place, read = self.places[id(array)], array.tobytes()
            self.ask(("elements", place), lambda name: f"a{place}._data.tobytes() == {name('V', read)}")

    def memory(self, frame: types.FrameType | None, owner: Any) -> None:
        """The memory of an outside object that lends it was read."""
        self.facts(MemoryRead, frame, owner)

    def decimal_context(self, frame: types.FrameType | None) -> None:
        """Decimals are about to be computed, or what says how was asked; of a context that the function has
        entered it is known already."""
        if decimal.getcontext() is self.decimals:
            self.facts(DecimalsRead, frame, decimal.getcontext)

    def facts(self, kind: Callable[..., Read], frame: types.FrameType | None, owner: Any) -> None:
        """What ``kind`` compares of an outside object was read."""
        if (kind, id(owner)) not in self.reads:
            self.reads[kind, id(owner)] = kind(owner, source_of(frame))

    def deep(self, frame: types.FrameType | None, value: Any, objects: bool = True) -> None:
        """``value`` was handed to code that is not watched: all of it counts as read. What was made inside
        is looked through for what it holds from outside; ``objects`` are left alone where that is False."""
        stack, seen = [value], set()
        while stack:
            value = stack.pop()
            kind = kind_of(type(value))
            if kind is Kind.MODULE:
                self.relied.hand(value)
            elif is_symbolic(value) or (kind is Kind.PLAIN and issubclass(type(value), StandIn)):
                self.handed.append(value)
            if isinstance(value, types.MethodWrapperType) and isinstance(value.__self__, NUMBERS):
                raise self.number_method(frame, value)
            if kind in IGNORED or kind is Kind.MODULE or id(value) in seen:
                continue
            if isinstance(value, logging.Logger):  # which keeps what it has been asked
                continue
            seen.add(id(value))
            if objects:
                self.see_class(frame, value)
            self.hand_foreign(frame, value)
            if isinstance(value, decimal.Decimal):
                self.decimal_context(frame)
            if isinstance(value, BaseException) and self.is_outside(value):  # its text is made of them
                self.read(AttributeRead, frame, value, "args", value.args)
                stack.append(value.args)
            if kind is Kind.FUNCTION:
                if isinstance(value, functools.partial):
                    self.partial(frame, value)
                    stack += (value.func, *value.args, *value.keywords.values())
            elif kind in (Kind.CONTAINER, Kind.TUPLE):
                self.contents(frame, value)
                stack += contents(value)
                if objects and instance_facts(value) is not None:
                    stack += self._facts(frame, value)
            elif kind is Kind.ARRAY:
                self.array(frame, value)
            elif kind is Kind.FOREIGN and not (facts := instance_facts(value)):
                self.contents(frame, value)
                if isinstance(value, types.MappingProxyType):
                    stack += contents(value)
                if objects and (facts is not None or held_by_class(type(value))):  # none yet, or slots
                    stack += self._facts(frame, value)
            elif objects:
                if kind is Kind.OBJECT:  # of a class that derives from one of C's
                    self.contents(frame, value)
                stack += self._facts(frame, value)

    def number_method(self, frame: types.FrameType | None, method: types.MethodWrapperType) -> CompileError:
        """Why ``map((1.0).__add__, values)`` cannot be recorded: it looks at classes."""
        return self.error(
            frame,
            f"hands {method.__name__}() of a number to code that is not watched: it looks at the class of "
            "what it gets, which may stand for a number",
            "Use an operator, in a function of your own (lambda v: 1.0 + v).",
        )

    def hand_foreign(self, frame: types.FrameType | None, value: Any) -> None:
        """Code that is not watched gets an object, of whose state nobody sees what that does: where calls may
        run eagerly, this one does."""
        if self.whole or kind_of(type(value)) is not Kind.FOREIGN or isinstance(value, _STILL):
            return
        if self.is_outside(value) and instance_facts(value) is None:
            raise self.error(
                frame,
                f"hands a {type(value).__name__} from outside to code that is not watched, which may change "
                "what is in it, and a recording would do that once",
                "Do it outside, or in a function that is disabled for compiling (jtorch.compiler.disable).",
            )

    def _facts(self, frame: types.FrameType | None, value: Any) -> Iterator[Any]:
        """What an object holds: in its own dict, in slots, and of a user's class the constants in there."""
        outside = self.is_outside(value)
        if isinstance(value, enum.Enum):  # its own parts do not change
            for name in [name for name in vars(value) if not name.startswith("_")]:
                self.read(ItemRead, frame, vars(value), name, vars(value)[name])
            yield from (value._value_, *vars(value).values())
            return
        facts = instance_facts(value)
        if facts is None:
            facts = {}
        elif outside and not keeps_attributes(type(value)):
            written = self._written_in(facts)
            self.read(AttributesRead, frame, facts, written, len(facts.keys() - written))
        for name, fact in list(facts.items()):
            if outside:
                self.read(ItemRead, frame, facts, name, fact)
            if not (isinstance(value, threading.Thread) and isinstance(fact, contextvars.Context)):
                yield fact  # but what a thread runs in, kept from Python 3.14 on: a recording sets some in it
        for name, base in held_by_class(type(value)):
            if base is None:  # a slot
                fact = slot_of(value, name)
                if isinstance(value, OF_SIGNATURES):  # which stays
                    self.meet(fact)
                elif outside:
                    self.read(AttributeRead, frame, value, name, fact)
            else:
                fact = vars(base).get(name, MISSING)
                self.read(OwnRead, frame, base, name, fact)
            yield fact

    def _written_in(self, facts: dict[str, Any]) -> frozenset[Any]:
        """The attributes of an object that the function has written: one set for all reads of the same."""
        if id(facts) not in self.effects.changed:
            return frozenset()
        names = frozenset(key for container, key in self.effects.known if container == id(facts))
        return self._sets.setdefault(names, names)


def _classes_of(owner: Any) -> tuple[type, ...]:
    return (owner if isinstance(owner, type) else type(owner)).__mro__


def _is_iterable(value: Any) -> bool:
    """Whether there are entries to read: what has items may refuse to be gone through (``re.Match``), or have
    no end (``numpy.r_``)."""
    cls = type(value)
    try:
        iter(value)
        return hasattr(cls, "__iter__") or len(value) > 0
    except TypeError:
        return False


def put_back(reads: Iterable[Read]) -> bool:
    """What a recording did that is over has been undone, as far as it was seen: put back what code written in
    C did to containers and arrays; whether all that had been read is as it was then."""
    found = [read for read in reads if not _is_of_the_recording(read.value)]
    try:
        changed = [read for read in found if not read.holds()]
        for read in changed:
            if isinstance(read, (ArrayRead, ContentsRead)):
                read.restore()
        return all(read.holds() for read in changed)
    except GONE:
        return False


def _is_of_the_recording(value: Any) -> bool:
    """Whether it is, or holds, what stands for a tensor or a number: read after it was written."""
    if type(value) is tuple:
        return any(map(_is_of_the_recording, value))
    return issubclass(type(value), StandIn) or (isinstance(value, Tensor) and hasattr(value._data, "tracer"))


def check_reads(reads: Iterable[Read], name: str, finalized: str = "") -> None:
    """Raise a CompileError for a read that no longer holds, after putting back what can be put back.
    ``finalized`` is the class of something that died meanwhile, whose finalizer may be what changed it."""
    changed = [(read, read.now()) for read in reads if not read.holds()]
    for read, _ in changed:
        if not _is_of_the_recording(read.value):  # what stood there meanwhile
            read.restore()
    by = f", perhaps in __del__ of the {finalized} it makes" if finalized else ""
    for read, now in changed:
        raise CompileError(
            f"{f'{read.source}: ' if read.source else ''}'{name}' changes {read.label()} that it reads from "
            f"outside ({became(read, now)}){by}: a recording would not. Pass it in and return the new one."
        )


def became(read: Read, now: Any = None) -> str:
    """How what was read differs from what is there ``now``."""
    now = read.now() if now is None else now
    before = read.value
    if isinstance(before, tuple) and isinstance(now, tuple):
        if len(before) != len(now):
            parts = 2 if isinstance(read.container, dict) else 1
            return f"{len(before) // parts} entries became {len(now) // parts}"
        pairs = ((a, b) for a, b in zip(before, now, strict=True) if not same(b, a))
        before, now = next(pairs, (before, now))
    texts = told(before), told(now)
    return f"{texts[0]} became {texts[1] if texts[0] != texts[1] else 'another one'}"


def source_of(frame: types.FrameType | None) -> Source | None:
    """The line that a frame is at; of a method that ``dataclasses`` wrote, its caller's."""
    if frame is None:
        return None
    if frame.f_code.co_filename == "<string>" and frame.f_code.co_name.startswith("__") and frame.f_back:
        frame = frame.f_back
    return Source(frame.f_code.co_filename, frame.f_lineno, frame.f_code.co_name)
