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

import decimal
import functools
import logging
import sys
import types
import warnings
from collections.abc import Callable, Iterable, Iterator, Set
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from jtorch.compile.observe import frames
from jtorch.compile.observe.as_met import AsMet
from jtorch.compile.observe.changes import Noted
from jtorch.compile.observe.effects import (
    Effects,
)  # fmt: skip
from jtorch.compile.observe.guards import (
    MISSING,
    AttributeRead,
    Read,
    contents,
    instance_facts,
)  # fmt: skip
from jtorch.compile.observe.kinds import IGNORED, WITH_A_CLASS, Kind, is_observed, is_users, kind_of
from jtorch.compile.observe.late_texts import LateTexts
from jtorch.compile.observe.made_arrays import MadeArrays
from jtorch.compile.observe.reading import Question, Reading, check_reads, source_of
from jtorch.compile.observe.relied import Relied
from jtorch.compile.observe.scalar import Digits, Scalar, StandIn
from jtorch.compile.observe.stand_ins import Closed, is_array_stand_in
from jtorch.compile.observe.stepping import Table, table_of
from jtorch.compile.observe.unraisable import noted_already
from jtorch.compile.observe.writes import Writing
from jtorch.core import library_threads, watch
from jtorch.core.errors import CompileError, Source, noting
from jtorch.core.op import CONTEXT
from jtorch.eager.tensor import Tensor
from jtorch.nn.module import Module
from jtorch.optim.optimizer import Optimizer

# Where nothing is looked at. What makes machine code, at the first product of a process, runs llvmlite.
_APART = (logging.__file__, warnings.__file__, library_threads.__file__)
_NATIVE = str(Path(watch.__file__).parents[1] / "native")
_WARNED: set[tuple[str, int]] = set()
_CALL_OF_MODULES = Module.__call__.__code__

if sys.version_info >= (3, 12):
    from jtorch.compile.observe.monitoring import quietly as quietly, watching
else:
    from jtorch.compile.observe.settrace import quietly as quietly, watching


def _never_once(source: Source | None, name: str, function: Any, args: Any, call: Callable) -> bool:
    return False


class Observer(Reading, Writing):
    """The reads of one recording. ``observing`` is the context in which the function runs."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.reads: dict[Any, Read] = {}
        self._sets: dict[frozenset[Any], frozenset[Any]] = {}  # of names, each once
        self.on_the_way_back = False  # through the results, for a backward() that comes later
        self.outside: dict[int, Any] = {}
        self.inside: dict[int, Any] = {}
        self.finalized = ""  # the class of something made that had a __del__
        self.tables: dict[int, Table | None] = {}
        self.codes: list[types.CodeType] = []
        self.pending: dict[int, tuple[tuple[int, int], Any]] = {}  # by frame: where a value will be, for whom
        self.apart: types.FrameType | None = None  # an import, or a call of logging
        self.refused: list[BaseException] = []  # what ended the recording, whatever the function did then
        self.versions_before: dict[int, tuple[list, int]] = {}  # id of a moved version cell -> it, as it was
        self.rebound: dict[int, list] = {}  # version cells of tensors that it gives other memory
        self.modules: dict[int, Any] = {}  # those that were called, see ``library``
        self.relied = Relied(self.inside)
        self.classes: dict[type, bool] = {}  # of which classes they are, and whether jtorch's code runs
        self.places: dict[int, int] = {}  # id of the stand-in of a tensor argument -> its place
        self.decided = False  # whether elements of a tensor have decided which way it goes
        # what hangs on tensors that it makes, and the line that hung it there: see ``user_attributes``
        self.hung: dict[tuple[int, str], Any] = {}
        self.leaves: list[Any] = []  # the arguments themselves
        self.given: dict[int, Any] = {}  # containers of arguments, as they were built for this recording
        self.given_changed: list[Source | None] = []  # the lines that change one of them
        self.numbers: dict[int, int] = {}  # id of one that can be changed -> which it is, inner ones first
        self.effects = Effects()  # what it writes outside
        self.telling: Any = None  # (frame, where in it) that makes a text for a message: see ``texts``
        self.text_was_told = False  # whether a text of a tensor has been made of what it is now
        self.late_texts = LateTexts()  # those of numbers that only a replay knows
        self.stdout = sys.stdout
        self.noted = Noted()  # objects of the library that may be changed
        self.as_met = AsMet()  # and all others that it came upon
        self.journal = watch.Journal(self.effects.known)  # and how those were that changed
        self.has_symbols = False  # whether sizes are symbols, so that it may have to be recorded without
        self.whole = True  # whether a call that cannot be recorded is an error
        self.may_refill = True  # whether to record anew where such a cache kept what was recorded,
        self.refilled = False  # and whether one did
        self.numpy_arrays: Any = None  # what stands for arrays and numbers of NumPy's
        self.read_clock: Any = None  # has each call read it: see ``record/clocks.py``
        self.once: Any = _never_once  # runs what a cache lacks: see ``record/once.py``
        self.progress: Any = tuple  # how much was written and drawn until now
        self.decimals = decimal.getcontext()  # that of the call
        self.drawn: Any = None  # what generators of Python and NumPy gave: see ``record/drawn.py``
        self.caches: dict[Any, tuple[Any, Source | None]] = {}  # of functools, with the line that called them
        self.opened: dict[int, Any] = {}  # id of what stands for a container outside -> its place
        self.open_places: dict[Any, Any] = {}  # those places by their identity
        self.handed: list[Any] = []  # numbers of the call, and sizes, that the latest call or operator got
        self.runtime_numbers: Callable[[list[Scalar]], Digits | None] = lambda among: None
        self.made_arrays = MadeArrays(name)
        self.array_stand_in: Callable[[np.ndarray], Any] = lambda array: array  # by what it is while recorded
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
        passed = frozenset(map(id, leaves))
        for tree in arguments:
            self.made_all(tree, passed)

    def enter(self, frame: types.FrameType) -> tuple[Table | None, bool]:
        """A function is called: what of it is looked at, and whether to ask again at its next call."""
        code = frame.f_code
        if self.is_apart(frame):
            return None, True
        if code is _CALL_OF_MODULES:
            self.relied.meet(frame.f_locals["self"])
            return None, True
        table = self.tables.get(id(code), MISSING)
        if table is MISSING:
            file = code.co_filename
            if file in _APART or file.startswith(_NATIVE) or (
                code.co_name == "_find_and_load" and file.startswith("<frozen importlib")
            ):  # fmt: skip
                self.apart = frame
                return None, True
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
        elif code.co_argcount and (code.co_name.startswith("__") or kind_of(cls) in WITH_A_CLASS):
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
        if kind in IGNORED or id(value) in self.outside or id(value) in self.inside:
            return
        self.outside[id(value)] = value
        if kind is Kind.MODULE:
            self.relied.meet(value)
            self.as_met.meet(value)
        elif isinstance(value, Optimizer):
            self.relied.meet_optimizer(value)
            self.as_met.meet(value)
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

    def let_go(self) -> None:
        """Keep nothing that was made and nobody else has any more: a generator among it, or in a closure,
        ends now, as it does in eager mode."""
        before = -1
        while before != len(self.inside):
            before = len(self.inside)
            for key in list(self.inside):
                if sys.getrefcount(self.inside[key]) <= 2:
                    if hasattr(type(self.inside[key]), "__del__"):
                        self.finalized = type(self.inside[key]).__name__
                    del self.inside[key]

    def made_all(self, tree: Any, passed: Set[int]) -> None:
        """The containers of a tree of arguments, which were built anew for this recording; not what is in
        those that are ``passed`` as they are."""
        self.made(tree)
        self.given[id(tree)] = tree
        held = isinstance(tree, (list, tuple, dict))
        for part in contents(tree) if held else (instance_facts(tree) or {}).values():
            if id(part) in passed:  # a list or dict of another class: what is in it is the caller's
                continue
            if isinstance(part, (list, tuple, dict)) or hasattr(type(part), "__dataclass_fields__"):
                self.made_all(part, passed)

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

    def takes_by_call(self, array: Any, key: Any) -> bool:
        """Whether ``array[key]`` takes elements of an array from outside by indices that each call has."""
        parts = key if type(key) is tuple else (key,)
        known = any(is_array_stand_in(part) or self._is_of_the_call(part) for part in parts)
        return known and type(array) is np.ndarray and self.is_outside(array) and array.dtype.kind in "fi"

    def _is_of_the_call(self, part: Any) -> bool:
        return type(part) is np.ndarray and id(part) in self.places

    def holds_traced(self, value: Any) -> bool:
        """Whether a tree of containers holds what was computed, other than what was seen being written."""
        stack, seen = [value], set(self.effects.changed)  # which was seen, and is taken back
        while stack:
            value = stack.pop()
            traced = isinstance(value, Tensor) and CONTEXT.get().evaluator.made(value)
            if traced or issubclass(type(value), StandIn):
                return True
            if id(value) in seen:
                continue
            seen.add(id(value))
            if kind_of(type(value)) in (Kind.CONTAINER, Kind.TUPLE):
                stack += contents(value)
            elif hasattr(value, "__dataclass_fields__"):
                stack += [getattr(value, "__dict__", None)]
        return False

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
        check_reads(self.reads.values(), self.name, self.finalized)
