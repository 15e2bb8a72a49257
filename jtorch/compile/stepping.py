"""Stepping through a frame: which instructions are looked at, and who does it."""

from __future__ import annotations

import dis
import sys
import types
import weakref
from collections.abc import Callable
from typing import Any

from jtorch.compile import frames
from jtorch.errors import CompileError

Handler = Callable[["Watch", types.FrameType, int], None]
HANDLERS: dict[int, Handler] = {}  # by opcode: filled by the module ``instructions``
Table = dict[int, tuple[Handler, int]]  # by offset in the code: who looks, and the instruction's argument
_TABLES: weakref.WeakKeyDictionary[types.CodeType, Table] = weakref.WeakKeyDictionary()
_EXTENDED, _CALL = dis.opmap["EXTENDED_ARG"], dis.opmap["CALL"]  # a call is PRECALL, then CALL


class Watch:
    """The trace function of one frame. ``pending`` gets the value that an instruction leaves on the stack."""

    __slots__ = ("observer", "pending", "table")

    def __init__(self, observer: Any, table: Table) -> None:
        self.observer = observer
        self.table = table
        self.pending: Callable[[Any], None] | None = None

    def __call__(self, frame: types.FrameType, event: str, arg: Any) -> Watch:
        if event != "opcode":
            self.pending = None
            return self
        if self.pending is not None and frame.f_code.co_code[frame.f_lasti] != _CALL:
            pending, self.pending = self.pending, None
            pending(frames.peek(frame, 1))
        found = self.table.get(frame.f_lasti)
        if found is not None:
            try:
                found[0](self, frame, found[1])
            except CompileError as problem:
                self.observer.problem = problem
                raise
        return self


def table_of(code: types.CodeType) -> Table:
    """By offset, the instructions that somebody wants to look at."""
    table = _TABLES.get(code)
    if table is None:
        table = _TABLES[code] = {}
        raw, extended, start = code.co_code, 0, 0
        for at in range(0, len(raw), 2):
            arg = raw[at + 1] | extended
            if raw[at] == _EXTENDED:  # the interpreter may stop at the prefix alone
                start, extended = start if extended else at, arg << 8
                continue
            handler = HANDLERS.get(raw[at])
            if handler is not None:
                table[at] = (handler, arg)
                if extended:
                    table[start] = (handler, arg)
            extended = 0
    return table


def quietly(function: Callable) -> Callable:
    """``function``, which runs no code of the user, without being watched: a trace function makes the
    interpreter three times slower also where nothing is looked at."""

    def run(*values: Any, **statics: Any) -> Any:
        trace = sys.gettrace()
        if trace is None:
            return function(*values, **statics)
        sys.settrace(None)
        try:
            return function(*values, **statics)
        finally:
            sys.settrace(trace)

    return run
