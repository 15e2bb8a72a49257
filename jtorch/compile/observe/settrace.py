"""Who stops the interpreter on CPython 3.11: a trace function, which is asked before each instruction.

Newer versions have ``monitoring``, which costs a fifth and leaves the trace function to debuggers.
"""

from __future__ import annotations

import sys
import types
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from jtorch.compile.observe.stepping import Table, step
from jtorch.core.errors import CompileError


@contextmanager
def watching(observer: Any) -> Iterator[None]:
    """Tell ``observer`` of each function that is called and each place that is reached, in this thread."""
    before = sys.gettrace()

    def enter(frame: types.FrameType, event: str, arg: Any) -> Any:
        try:
            table, _ = observer.enter(frame)
        except BaseException:
            frame.f_trace = _Again(frame, None)
            raise
        if table is None:
            return None
        frame.f_trace_lines = False
        frame.f_trace_opcodes = True
        return _Steps(observer, table)

    try:  # before the change: Ctrl-C may come right after it
        sys.settrace(enter)
        yield
        if observer.problem is None and sys.gettrace() is not enter:
            raise CompileError(
                f"'{observer.name}' sets sys.settrace, by which the recording is observed: do it outside."
            )
    finally:
        sys.settrace(before)


class _Steps:
    """The trace function of one frame."""

    __slots__ = ("observer", "table")

    def __init__(self, observer: Any, table: Table) -> None:
        self.observer = observer
        self.table = table

    def __call__(self, frame: types.FrameType, event: str, arg: Any) -> _Steps:
        if event == "opcode":
            try:
                step(self.observer, frame, frame.f_lasti, self.table)
            except BaseException:
                frame.f_trace = _Again(frame, self)
                raise
        return self


class _Again:
    """Has a thread traced on, and ``frame`` by ``steps``, after a trace function raised.

    The interpreter then takes away the trace function of the thread, and after that the frame's own, which
    is this object: it dies of that. Whatever a ``finally`` or an ``__exit__`` does on the way out would be
    done for good if nobody watched.
    """

    __slots__ = ("frame", "steps", "trace")

    def __init__(self, frame: types.FrameType, steps: _Steps | None) -> None:
        self.frame = frame
        self.steps = steps
        self.trace = sys.gettrace()

    def __call__(self, frame: types.FrameType, event: str, arg: Any) -> None:
        """Nothing: what is called after this one raised is ``steps``."""

    def __del__(self) -> None:
        if sys.gettrace() is None:
            sys.settrace(self.trace)
            self.frame.f_trace = self.steps


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
