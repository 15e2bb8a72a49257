"""Whether functions can be recorded by this interpreter, found out by trying, before the first recording.

First where the interpreter keeps the operands of instructions, on a call that is known; then on a program
whose reads are known, whether the observer sees these and no others. A Python that differs is an error
that says so, never a wild pointer and never a read that nobody guards.
"""

from __future__ import annotations

import dis
import functools
import types
from collections import Counter
from typing import Any

from jtorch.compile.observe import frames, instructions
from jtorch.compile.observe.guards import Read
from jtorch.compile.observe.observer import Observer, watching
from jtorch.compile.observe.stepping import Place, Stop, Table


def check() -> None:
    """Raise NotImplementedError unless functions can be observed here."""
    frames.require_known()
    why = _fault()
    if why is not None:
        raise frames.unsupported(why)


@functools.cache
def _fault() -> str | None:
    if unknown := instructions.unknown():
        return f"nobody has looked at its instructions {', '.join(unknown)}"
    if not _finds_operands():
        return "its frames are laid out otherwise"
    if wrong := _wrong_reads():
        return f"a trial recording saw {wrong}"
    return None


def _pair(first: Any, second: Any) -> tuple:
    return (first, second)


def _finds_operands() -> bool:
    """Whether a frame holds what it must at the instruction that makes a tuple of two arguments, and what is
    put there is in the tuple."""
    found: list[bool] = []
    one, two, three = object(), object(), object()

    def look(stop: Stop) -> None:
        values = (one, two, one, two)  # the locals, and both of them loaded
        found.append(frames.is_right(_pair.__code__, _pair, stop.frame, values))  # type: ignore[arg-type]
        if found[-1]:
            stop.put(1, three)

    build = next(i for i in dis.get_instructions(_pair) if i.opname == "BUILD_TUPLE")
    table = Table({build.offset: Place(look, 2)}, 2)
    with watching(_Waiting(table)):
        made = _pair(one, two)
    return found == [True] and made == (one, three)


class _Waiting:
    """An observer of ``_pair``."""

    name = "_pair"
    problem = None

    def __init__(self, table: Table) -> None:
        self.table = table
        self.pending: dict[int, Any] = {}

    def enter(self, frame: types.FrameType) -> tuple[Table | None, bool]:
        return (self.table if frame.f_code is _pair.__code__ else None), False

    def is_apart(self, frame: types.FrameType) -> bool:
        return False


# -- a program whose reads are known -----------------------------------------------------------------------

_PROGRAM = """
import collections

class Base:
    def shift(self, x):
        return x + BASE

class Derived(Base):
    def __init__(self):
        self.size = 3

    def shift(self, x):
        return super().shift(x) + self.size

BASE, TABLE, ITEMS, THING = 1, {"a": 1, "b": [1, 2]}, [1, 2, 3], Derived()
LEFT, RIGHT, EMPTY, ROUND, SPREAD, WORDS = [1], [2], [], [3], [5, 6], {"sep": 1}

def maker():
    held = 5

    def program(x):
        own = [x, held]
        own[0] += TABLE["a"]
        own.extend(ITEMS[1:])
        if EMPTY or LEFT == RIGHT:
            own.append(1)
        made = [y + BASE for y in ROUND]
        helper = lambda z: z + own[0] + held
        first, *_ = SPREAD
        text = f"{THING.size}"
        more = (2 in TABLE["b"]) + first + len(text) + given(*own, **WORDS)
        return helper(THING.shift(x)) + len(made) + more

    return program

def given(*args, sep):
    return len(args) + sep
"""
_READS = (
    "'BASE' = 1", "'EMPTY' = a list", "'ITEMS' = a list", "'LEFT' = a list", "'RIGHT' = a list",
    "'ROUND' = a list", "'SPREAD' = a list", "'TABLE' = a dict", "'THING' = a Derived", "'WORDS' = a dict",
    "the class of a Derived = the class Derived", "the __dict__ of a Derived = a dict",
    "'__code__' of given = a code", "'__code__' of program = a code",
    *2 * ["'__code__' of shift = a code"],
    "'a' = 1", "'b' = a list", "'given' = a function", "'held' = 5", "'len' = nothing",
    "'shift' = nothing", "'shift' of Derived = a function", "'shift' of Base = a function", "'size' = 3",
    "'super' = nothing", "the entries of a dict = a tuple", *6 * ["the entries of a list = a tuple"],
    "whether a list holds anything = False",
)  # fmt: skip
_UNSEEN = "'__class__' = the class Derived"  # on 3.11, where super() looks into the cell by itself


def _wrong_reads() -> str:
    """How the reads seen of the program differ from the known ones; nothing where they don't."""
    seen = Counter(str(read) for read in _trial().values() if str(read) != _UNSEEN)
    missing, more = (sorted(c.elements()) for c in (Counter(_READS) - seen, seen - Counter(_READS)))
    if not missing and not more:
        return ""
    return f"too little: {', '.join(missing) or 'none'}; too much: {', '.join(more) or 'none'}"


def _trial() -> dict[Any, Read]:
    names: dict[str, Any] = {"__name__": "trial"}
    exec(compile(_PROGRAM, "<trial recording of jtorch>", "exec"), names)
    program, observer = names["maker"](), Observer("program")
    observer.start(program, [1], ())
    with observer.observing():
        program(1)
    return observer.reads
