"""Watching a function while it is recorded: what it reads from outside, and what it tries to change there.

Traced values cannot see plain Python reads: a number in a list, a flag of an object. Here the interpreter is
asked to stop before each instruction of the user's functions (``monitoring``, ``settrace``), and the
instructions that read or write something other than locals look at their operands on the frame's value stack
(``Stop.peek``). Each distinct read from outside becomes a guard (``guards``); a write to something from
outside is an effect that each replay has, too (``effects``), or an error before it happens.

*Outside* is what was reached from the function itself, its globals, cells, defaults and arguments, by the
reads seen so far. Of what was not reached so, objects of a user's class, modules, functions' namespaces and
classes are outside unless they were seen being made; containers, arrays and objects of a library are made
inside (``is_outside``). What is inside is not guarded, what it holds may be outside all the same: code of
jtorch, the standard library and NumPy is not watched, and what is handed to it counts as read, all of it,
through whatever the function made around it (``deep``).

The other mechanism that was tried rewrites the syntax trees of functions. Recording a step with Adam took
5.4 ms unobserved, 7.3 ms rewritten and 6.4 ms watched for three layers, 370, 366 and 393 ms for sixty (best
of interleaved runs). It needs the source text, and misses what jtorch and C code call: hooks, properties,
``sort(key=...)``. The interpreter's own events come from every frame.
"""

from __future__ import annotations

import contextvars
import enum
import functools
import logging
import sys
import threading
import types
import warnings
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from jtorch.compile.observe import frames
from jtorch.compile.observe.changes import Noted
from jtorch.compile.observe.effects import (
    Effects,
)  # fmt: skip
from jtorch.compile.observe.fact_guards import ArrayRead, MemoryRead
from jtorch.compile.observe.guards import (
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
    Read,
    contents,
    instance_facts,
    same,
    slot_of,
    told,
)  # fmt: skip
from jtorch.compile.observe.kinds import (
    POINTER,
    Kind,
    held_by_class,
    is_observed,
    is_users,
    keeps_attributes,
    kind_of,
    lends_memory,
)
from jtorch.compile.observe.made_arrays import MadeArrays
from jtorch.compile.observe.relied import Relied
from jtorch.compile.observe.scalar import Digits, Scalar
from jtorch.compile.observe.stand_ins import Closed
from jtorch.compile.observe.stepping import Table, table_of
from jtorch.compile.observe.unraisable import noted_already
from jtorch.compile.observe.writes import Writing
from jtorch.core import library_threads, watch
from jtorch.core.errors import CompileError, Source, noting
from jtorch.eager.tensor import Tensor
from jtorch.nn.module import Module
from jtorch.optim.optimizer import Optimizer

# From a function that names a value to a text that is true of the arguments ``a0, a1, ...``
Question = Callable[[Callable[[str, Any], str]], str]

SMALL = 4096  # bytes of a NumPy array that are compared at each call
LIMIT = 100_000  # reads of one recording
WHOLE = (ContentsRead, LengthRead)  # reads of a container that any change changes
_WITH_A_CLASS = (Kind.OBJECT, Kind.VALUE, Kind.CONTAINER, Kind.TUPLE)
_IGNORED = (Kind.PLAIN, Kind.TENSOR, Kind.NAMESPACE, Kind.TYPE)

# Where nothing is looked at. What makes machine code, at the first product of a process, runs llvmlite.
_APART = (logging.__file__, warnings.__file__, library_threads.__file__)
_NATIVE = str(Path(watch.__file__).parents[1] / "native")
_WARNED: set[tuple[str, int]] = set()
_CALL_OF_MODULES = Module.__call__.__code__

if sys.version_info >= (3, 12):
    from jtorch.compile.observe.monitoring import quietly as quietly
    from jtorch.compile.observe.monitoring import watching
else:
    from jtorch.compile.observe.settrace import quietly as quietly
    from jtorch.compile.observe.settrace import watching


def _never_once(source: Source | None, name: str, function: Any, args: Any, call: Callable) -> bool:
    return False


class Observer(Writing):
    """The reads of one recording. ``observing`` is the context in which the function runs."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.reads: dict[Any, Read] = {}
        self._sets: dict[frozenset[Any], frozenset[Any]] = {}  # of names, each once
        self.on_the_way_back = False  # through the results, for a backward() that comes later
        self.outside: dict[int, Any] = {}
        self.inside: dict[int, Any] = {}
        self.tables: dict[int, Table | None] = {}
        self.codes: list[types.CodeType] = []
        self.pending: dict[int, tuple[tuple[int, int], Any]] = {}  # by frame: where a value will be, for whom
        self.apart: types.FrameType | None = None  # an import, or a call of logging
        self.refused: list[BaseException] = []  # what ended the recording, whatever the function did then
        self.versions_before: dict[int, tuple[list, int]] = {}  # id of a moved version cell -> it, as it was
        self.modules: dict[int, Any] = {}  # those that were called, see ``library``
        self.relied = Relied()
        self.classes: dict[type, bool] = {}  # of which classes they are, and whether jtorch's code runs
        self.places: dict[int, int] = {}  # id of the stand-in of a tensor argument -> its place
        self.leaves: list[Any] = []  # the arguments themselves
        self.given: dict[int, Any] = {}  # containers of arguments, as they were built for this recording
        self.given_changed: list[Source | None] = []  # the lines that change one of them
        self.numbers: dict[int, int] = {}  # id of one that can be changed -> which it is, inner ones first
        self.effects = Effects()  # what it writes outside
        self.telling: Any = None  # (frame, where in it) that makes a text for a message: see ``texts``
        self.noted = Noted()  # objects of the library that may be changed
        self.journal = watch.Journal()  # and how those were that changed
        self.may_refill = True  # whether to record anew where such a cache kept what was recorded,
        self.refilled = False  # and whether one did
        self.once: Any = _never_once  # runs what a cache lacks: see ``record/once.py``
        self.progress: Any = tuple  # how much was written and drawn until now
        self.caches: dict[Any, tuple[Any, Source | None]] = {}  # of functools, with the line that called them
        self.opened: dict[int, Any] = {}  # id of what stands for a container outside -> its place
        self.open_places: dict[Any, Any] = {}  # those places by their identity
        self.handed: list[Scalar] = []  # numbers of the call that the latest call or operator got
        self.runtime_numbers: Callable[[list[Scalar]], Digits | None] = lambda among: None
        self.made_arrays = MadeArrays(name)
        self.questions: dict[tuple, Question] = {}  # what must be true of the arguments of each call

    # -- running -------------------------------------------------------------------------------------------

    @contextmanager
    def observing(self) -> Iterator[None]:
        with noting() as self.refused, noted_already(self.refused):
            try:
                with watching(self):
                    yield
            except (KeyboardInterrupt, MemoryError):
                raise
            except BaseException:
                self.obey()
                raise
            self.obey()

    @property
    def problem(self) -> BaseException | None:
        """The first refusal, or the first reason to record anew: all after it rests on what is wrong."""
        return self.refused[0] if self.refused else None

    def obey(self) -> None:
        """Raise that: the user's function may have caught it, or raised something else in its place."""
        if self.refused:
            del self.refused[1:]
            raise self.refused.pop()  # and keep it no longer, with all the values in its traceback

    def start(self, function: Any, leaves: list[Any], arguments: Any) -> None:
        """What there is before the first instruction: the function, what it is given, and the containers of
        arguments that were built for this recording."""
        self.meet(function)
        if isinstance(function, functools.partial):
            self.partial(None, function)
        self.leaves = leaves
        for leaf in leaves:
            self.meet(leaf)
        for tree in arguments:
            self.made_all(tree)

    def enter(self, frame: types.FrameType) -> tuple[Table | None, bool]:
        """A function is called: what of it is looked at, and whether to ask again at its next call."""
        code = frame.f_code
        if self.is_apart(frame):
            return None, True
        if code is _CALL_OF_MODULES:
            self.relied.meet(frame.f_locals["self"])
            return None, True
        file = code.co_filename
        if file in _APART or file.startswith(_NATIVE) or (
            code.co_name == "_find_and_load" and file.startswith("<frozen importlib")
        ):  # fmt: skip
            self.apart = frame
            return None, True
        table = self.tables.get(id(code), MISSING)
        if table is MISSING:
            observed = is_observed(code, frame.f_globals)
            table = self.tables[id(code)] = self._table(code) if observed else None
            self.codes.append(code)
        if table is not None:
            self.pending.pop(id(frame), None)  # of a frame that was at this address before
            self._begin(frame, code)
        return table, False

    def _table(self, code: types.CodeType) -> Table:
        try:
            return table_of(code)
        except ValueError as problem:
            raise CompileError(
                f"'{self.name}' calls {code.co_qualname}(), whose code no compiler of Python wrote: "
                f"{problem}. Call it outside."
            ) from problem

    def is_apart(self, frame: types.FrameType) -> bool:
        """Whether ``frame`` runs inside what is set apart: importing a module, which happens once in eager
        mode, too, and logging, which is warned of."""
        outer: types.FrameType | None = frame if self.apart is not None else None
        while outer is not None:
            if outer is self.apart:
                return True
            outer = outer.f_back
        self.apart = None
        return False

    def _begin(self, frame: types.FrameType, code: types.CodeType) -> None:
        if code.co_name in ("__init__", "__post_init__") and code.co_argcount:
            self.made(frame.f_locals.get(code.co_varnames[0]))
        cls: Any = type(frame.f_locals.get(code.co_varnames[0])) if code.co_argcount else object
        if kind_of(cls) is Kind.MODULE and getattr(cls.forward, "__code__", None) is code:
            self.read(AttributeRead, frame, cls, "forward", cls.forward)  # __call__ is not watched
        elif code.co_argcount and (code.co_name.startswith("__") or kind_of(cls) in _WITH_A_CLASS):
            self._begin_special(frame, code)
        function = frames.function_of(frame)
        if function is None or id(function) in self.inside:
            return
        self.read(AttributeRead, frame, function, "__code__", code)  # tools that reload a file replace it
        for name in ("__defaults__", "__kwdefaults__"):
            values = getattr(function, name)
            if values:
                self.read(AttributeRead, frame, function, name, values)
                if name == "__kwdefaults__":
                    self.contents(frame, values)

    def _begin_special(self, frame: types.FrameType, code: types.CodeType) -> None:
        """A method that the interpreter calls by itself, or that C code calls, is one of its class."""
        owner = frame.f_locals.get(code.co_varnames[0])
        cls = owner if code.co_name == "__new__" and isinstance(owner, type) else type(owner)
        names = [code.co_name]
        if not names[0].startswith("__"):  # __len__ = lambda self: 3
            facts = [fact for base in cls.__mro__ if is_users(base) for fact in vars(base).items()]
            ours = [name for name, fact in facts if getattr(fact, "__code__", None) is code]
            names = [name for name in ours if name.startswith("__")]
        for name in names:
            method = next((vars(c)[name] for c in cls.__mro__ if name in vars(c)), None)
            method = getattr(method, "__func__", method)
            if id(cls) not in self.inside and getattr(method, "__code__", None) is code:
                self.read(AttributeRead, frame, cls, name, method)
                self.see_class(frame, owner)

    # -- where things come from ------------------------------------------------------------------------------

    def meet(self, value: Any) -> None:
        """``value`` was reached from outside."""
        kind = kind_of(type(value))
        if kind in _IGNORED or id(value) in self.outside or id(value) in self.inside:
            return
        self.outside[id(value)] = value
        if kind is Kind.MODULE:
            self.relied.meet(value)
        elif isinstance(value, Optimizer):
            self.relied.meet_optimizer(value)
        parts: Iterable[Any] = ()
        if kind is Kind.TUPLE:
            parts = value
        elif isinstance(value, types.MethodType):
            parts = (value.__self__, value.__func__)
        elif isinstance(value, (types.BuiltinFunctionType, types.MethodWrapperType)):
            parts = (value.__self__,)
        elif isinstance(value, (functools.partial, functools.partialmethod)):
            parts = (value.func, *value.args, *value.keywords.values())
        for part in parts:
            self.meet(part)

    def met(self, value: Any) -> Any:
        self.meet(value)
        return value

    def made(self, value: Any) -> None:
        """``value`` was made by the function."""
        if id(value) not in self.outside and kind_of(type(value)) not in (Kind.PLAIN, Kind.TENSOR):
            self.inside[id(value)] = value

    def made_all(self, tree: Any) -> None:
        """The containers of a tree of arguments, which were built anew for this recording."""
        self.made(tree)
        self.given[id(tree)] = tree
        held = isinstance(tree, (list, tuple, dict))
        for part in contents(tree) if held else (instance_facts(tree) or {}).values():
            if isinstance(part, (list, tuple, dict)) or hasattr(type(part), "__dataclass_fields__"):
                self.made_all(part)

    def change_given(self, frame: types.FrameType, container: Any) -> None:
        """``container`` is about to be changed: if it is one of an argument, remember where."""
        if id(container) in self.given:
            self.given_changed.append(source_of(frame))

    def is_outside(self, value: Any) -> bool:
        """The rule of what is outside: see the module's text."""
        kind = kind_of(type(value))
        if kind in (Kind.MODULE, Kind.OBJECT, Kind.VALUE, Kind.NAMESPACE, Kind.TYPE):
            return id(value) not in self.inside
        return id(value) in self.outside

    def is_itself(self, value: Any) -> bool:
        """Whether a container that is returned or written somewhere is one from outside, which a replay
        gives as it is, with what it then holds; not if traced values got into it that nobody saw written.
        One of an argument is the caller's, in which a replay makes the same changes."""
        if id(value) in self.numbers:
            return True
        self.check_open(value)
        kept = id(value) in self.outside and kind_of(type(value)) in (Kind.CONTAINER, Kind.TUPLE, Kind.OBJECT)
        return kept and not self.holds_traced(value)

    def check_open(self, *values: Any) -> None:
        """Raise Closed where one of ``values`` stands for a container from outside, and that very object is
        needed."""
        for value in values if self.opened else ():
            if id(value) in self.opened:
                raise Closed(self.opened[id(value)])

    def check_handed(self, values: Iterable[Any]) -> None:
        """The same of what is handed to code that runs at each call, with all that is in there."""
        stack = list(values) if self.opened else []
        while stack:
            value = stack.pop()
            self.check_open(value)
            if type(value) in (list, tuple, dict):  # made by the function, or it was checked
                stack += contents(value)

    def holds_traced(self, value: Any) -> bool:
        """Whether a tree of containers holds what was computed, other than what was seen being written."""
        stack, seen = [value], set(self.effects.changed)  # which was seen, and is taken back
        while stack:
            value = stack.pop()
            if issubclass(type(value), Scalar) or (
                isinstance(value, Tensor) and value._data.__class__ is not np.ndarray
            ):
                return True
            if id(value) in seen:
                continue
            seen.add(id(value))
            if kind_of(type(value)) in (Kind.CONTAINER, Kind.TUPLE):
                stack += contents(value)
            elif hasattr(value, "__dataclass_fields__"):
                stack += [getattr(value, "__dict__", None)]
        return False

    # -- reads -----------------------------------------------------------------------------------------------

    def read(
        self, kind: type[Read], frame: types.FrameType | None, container: Any, key: Any, value: Any,
        guarded: bool = True,
    ) -> None:  # fmt: skip
        """``container`` was asked for ``key`` and had ``value``."""
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
                "of a scheduler's step(), or of a scaler's update(), that changes it",
                "A compiled function makes these calls when it has ended: read before them, or outside.",
            )
        identity = (kind, id(container), (type(key), key) if isinstance(key, PLAIN) else id(key))
        if identity not in self.reads:
            if len(self.reads) >= LIMIT:
                raise self.error(frame, f"reads more than {LIMIT} things from outside", "Hand it less.")
            self.reads[identity] = kind(container, key, value, source_of(frame), guarded)
            self.meet(value)

    def see_class(self, frame: types.FrameType | None, owner: Any) -> None:
        """Which class ``owner`` is of counts, if that is a user's: it may get another one. Modules tell."""
        cls = type(owner)
        kind = kind_of(cls)
        if kind in _WITH_A_CLASS and is_users(cls) and self.is_outside(owner):
            self.facts(ClassRead, frame, owner)

    def ask(self, identity: tuple, test: Question) -> None:
        """The function depends on what ``test`` says of its arguments."""
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
            elif kind is Kind.PLAIN and issubclass(type(value), Scalar):
                self.handed.append(value)
            if kind in _IGNORED or kind is Kind.MODULE or id(value) in seen:
                continue
            if isinstance(value, logging.Logger):  # which keeps what it has been asked
                continue
            seen.add(id(value))
            if objects:
                self.see_class(frame, value)
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
                if objects and facts is not None:  # none yet
                    stack += self._facts(frame, value)
            elif objects:
                if kind is Kind.OBJECT:  # of a class that derives from one of C's
                    self.contents(frame, value)
                stack += self._facts(frame, value)

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
                if outside:
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

    # -- refusals --------------------------------------------------------------------------------------------

    def error(self, frame: types.FrameType | None, does: str, way_out: str) -> CompileError:
        """The error of a program that ``does`` what a recording cannot."""
        where = f"{source_of(frame)}: " if frame is not None else ""
        return CompileError(f"{where}'{self.name}' {does}. {way_out}")

    def through_pointer(self, frame: types.FrameType | None) -> CompileError:
        """The error of a program that reads what a pointer of ctypes leads to."""
        does = "reads through a pointer of ctypes from outside"
        return self.error(frame, does, "Read it outside, and pass in what is there.")

    def warn(self, frame: types.FrameType, text: str) -> None:
        """Once for each place."""
        place = (frame.f_code.co_filename, frame.f_lineno)
        if place not in _WARNED:
            _WARNED.add(place)
            text = f"'{self.name}' {text}: it happens when the function is recorded, not at each call"
            warnings.warn_explicit(text, UserWarning, *place)

    def check(self) -> None:
        """Raise if something that was read has changed since."""
        check_reads(self.reads.values(), self.name)


def _classes_of(owner: Any) -> tuple[type, ...]:
    return (owner if isinstance(owner, type) else type(owner)).__mro__


def _is_iterable(value: Any) -> bool:
    """Whether there are entries to read: what has items may refuse to be gone through (``re.Match``)."""
    if not hasattr(type(value), "__iter__") and not hasattr(type(value), "__getitem__"):
        return False
    try:
        iter(value)
    except TypeError:
        return False
    return True


def check_reads(reads: Iterable[Read], name: str) -> None:
    """Raise a CompileError for a read that no longer holds, after putting back what can be put back."""
    changed = [(read, read.now()) for read in reads if not read.holds()]
    for read, _ in changed:
        read.restore()
    for read, now in changed:
        raise CompileError(
            f"{f'{read.source}: ' if read.source else ''}'{name}' changes {read.label()} that it reads from "
            f"outside ({became(read, now)}): a recording would not. Pass it in and return the new one."
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
