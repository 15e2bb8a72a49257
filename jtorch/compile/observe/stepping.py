"""Stopping before instructions: which of them are looked at, and what the one who looks finds there.

Who stops the interpreter is another matter: ``settrace`` on CPython 3.11, ``monitoring`` on newer ones.
"""

from __future__ import annotations

import dis
import types
import weakref
from collections.abc import Callable
from typing import Any, NamedTuple

from jtorch.compile.observe import frames
from jtorch.compile.observe.stack_depth import depths
from jtorch.core.errors import CompileError

Handler = Callable[["Stop"], None]
HANDLERS: dict[str, Handler] = {}  # by the instruction's name: filled by the module ``instructions``
LEAVING: set[str] = set()  # those whose handlers may ask for the value that the instruction leaves
_FIRST = {"PRECALL": "CALL"}  # what comes in two instructions: the value is there after the second


class Place(NamedTuple):
    """A place in code where somebody looks, or waits for the value of the instruction before it. Of the
    handler's instruction, as ``dis`` has them: its name, its argument as a number, what that stands for (a
    name, mostly) and its symbol; of a call the ``names`` of keywords, where the code before it has them.
    ``depth`` is that of the stack. Its value is there before the instructions at ``after``: two offsets,
    since the interpreter may stop at a prefix of an instruction."""

    handler: Handler | None
    depth: int
    opname: str = ""
    arg: int = 0
    argval: Any = None
    symbol: str = ""
    after: tuple[int, int] = (-1, -1)
    names: tuple[str, ...] = ()
    choice: Choice | None = None  # that it begins


class Table(NamedTuple):
    """The places of one code object by their offsets, and how many words of its frames are no stack."""

    places: dict[int, Place]
    n_locals: int


_TABLES: weakref.WeakKeyDictionary[types.CodeType, Table] = weakref.WeakKeyDictionary()


class Stop:
    """A frame before an instruction that is looked at. ``pending``, where the handler sets it, gets the
    value that the instruction leaves on the stack. ``callee``: how far down the stack the function lies that
    it calls, 0 where another one cannot be put there."""

    __slots__ = ("_top", "callee", "frame", "observer", "pending", "place")

    def __init__(self, observer: Any, frame: types.FrameType, table: Table, place: Place) -> None:
        self.observer = observer
        self.frame = frame
        self.place = place
        self.pending: Callable[[Any], None] | None = None
        self.callee = 0
        self._top = frames.locals_of(frame) + 8 * (table.n_locals + place.depth)

    def peek(self, depth: int) -> Any:
        """The value ``depth`` places down the stack (1 is the top), NULL where an instruction put none."""
        if not 0 < depth <= self.place.depth:
            raise IndexError(f"{self.place.opname} has no operand {depth} on a stack of {self.place.depth}")
        return frames.value_at(self._top - 8 * depth)

    def put(self, depth: int, value: Any) -> None:
        """Have the instruction find ``value`` there."""
        frames.put(self._top - 8 * depth, value)


class Instead:
    """What the frame is to find instead of the value that the instruction leaves."""

    def __init__(self, value: Any) -> None:
        self.value = value

    def __call__(self, found: Any) -> None:
        """Nothing: see ``step``."""


def step(observer: Any, frame: types.FrameType, offset: int, table: Table) -> None:
    """``frame`` is about to run the instruction at ``offset``."""
    place = table.places.get(offset)
    if place is None or observer.is_apart(frame):
        return
    stop = Stop(observer, frame, table, place)
    if observer.pending:
        after, receive = observer.pending.pop(id(frame), ((-1, -1), None))
        if after[0] <= offset <= after[1]:  # no exception came instead of the value
            if type(receive) is Instead:
                stop.put(1, receive.value)
            else:
                receive(stop.peek(1))
        elif type(receive) is Instead:  # the condition's truth was taken, and is jumped by
            observer.pending[id(frame)] = after, receive
    if place.handler is None:
        return
    try:
        place.handler(stop)
    except (CompileError, MemoryError):
        raise
    except Exception as error:  # which the function would take for its own
        raise observer.error(
            frame,
            f"does what cannot be looked at, since that raises {type(error).__name__}: {error}",
            "Do it outside.",
        ) from error
    if stop.pending is not None:
        of_choice = type(stop.pending) is Instead and place.choice is not None
        after = (place.choice.after,) * 2 if of_choice else place.after  # type: ignore[union-attr]
        observer.pending[id(frame)] = (after, stop.pending)


def table_of(code: types.CodeType) -> Table:
    """Where somebody wants to look while ``code`` runs."""
    table = _TABLES.get(code)
    if table is None:
        table = _TABLES[code] = Table(_places(code), frames.n_locals(code))
    return table


def _places(code: types.CodeType) -> dict[int, Place]:
    instructions = list(dis.get_instructions(code))
    depth = depths(code, instructions)
    places: dict[int, Place] = {}
    start = 0  # the first of the prefixes that enlarge the argument of what follows
    for k, it in enumerate(instructions):
        prefixed = k > 0 and instructions[k - 1].opname == "EXTENDED_ARG"
        start = start if prefixed else it.offset
        handler = HANDLERS.get(it.opname)
        if handler is None or it.offset not in depth:
            continue
        here = depth[it.offset]
        after = _after(instructions, k) if it.opname in LEAVING else (-1, -1)
        before = instructions[k - 1] if k else it
        names = code.co_consts[before.arg or 0] if before.opname == "KW_NAMES" else ()
        choice = choice_at(instructions, k)
        place = Place(handler, here, it.opname, it.arg or 0, it.argval, it.argrepr, after, names, choice)
        for offset in {start, it.offset} if frames.STOPS_AT_PREFIX else {it.offset}:
            places[offset] = place
        for offset in (*after, *((choice.after,) if choice is not None else ())):
            if offset in depth:
                places.setdefault(offset, Place(None, depth[offset]))
    return places


class Choice(NamedTuple):
    """``a if condition else b`` of constants, whose condition is about to be asked: what is loaded where it
    ``holds`` and where not, whether the code goes straight on with the first, and the offset behind that.
    (Not where both are returned by one instruction, RETURN_CONST.)"""

    holds: Any
    fails: Any
    falls_through: bool
    after: int


def choice_at(instructions: list[dis.Instruction], k: int) -> Choice | None:
    """The one that instruction ``k`` begins, if it does."""
    if instructions[k].opname == "TO_BOOL":
        k += 1
    jump = instructions[k]
    if not jump.opname.startswith("POP_JUMP") or not jump.opname.endswith(("_IF_FALSE", "_IF_TRUE")):
        return None
    place = {it.offset: n for n, it in enumerate(instructions)}
    first, other = _skipped(instructions, k + 1), place.get(jump.argval, len(instructions))
    other = _skipped(instructions, other)
    if max(first + 1, other + 1) >= len(instructions):
        return None
    one, two, end = instructions[first], instructions[other], instructions[first + 1]
    loads = one.opname in _CONSTANTS and two.opname in _CONSTANTS
    if not loads or not _go_on_alike(instructions, first + 1, other + 1):
        return None
    falls_through = jump.opname.endswith("_IF_FALSE")  # where the condition holds
    holds, fails = (one, two) if falls_through else (two, one)
    return Choice(holds.argval, fails.argval, falls_through, end.offset)


def _go_on_alike(instructions: list[dis.Instruction], a: int, b: int) -> bool:
    """Whether the code from ``a`` on does what it does from ``b`` on: it leads there, or is a copy, as newer
    compilers make of what is short and leaves the function."""
    for one, other in zip(instructions[a : a + _SHORT], instructions[b:], strict=False):
        if one.opname == "JUMP_FORWARD" and one.argval == other.offset:
            return True
        if (one.opname, one.argval) != (other.opname, other.argval):
            return False
        if one.opname in ("RETURN_VALUE", "RERAISE", "JUMP_BACKWARD"):
            return True
    return False


_SHORT = 64  # instructions that are compared


def _skipped(instructions: list[dis.Instruction], k: int) -> int:
    """The first instruction from ``k`` on that does something."""
    while k < len(instructions) and instructions[k].opname in ("NOT_TAKEN", "NOP", "EXTENDED_ARG"):
        k += 1
    return k


_CONSTANTS = ("LOAD_CONST", "LOAD_SMALL_INT")  # of numbers


def _after(instructions: list[dis.Instruction], k: int) -> tuple[int, int]:
    """The offsets of what follows instruction ``k``: with its prefixes, and without them."""
    k += 2 if _FIRST.get(instructions[k].opname) == instructions[k + 1].opname else 1
    first = k
    while instructions[k].opname == "EXTENDED_ARG":
        k += 1
    return instructions[first].offset, instructions[k].offset
