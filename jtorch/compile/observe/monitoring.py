"""Who stops the interpreter from CPython 3.12 on: ``sys.monitoring``, where the code of the user's functions
is told to announce its instructions, one by one, until nobody wants to hear of them.

It leaves the trace function to debuggers and the tool numbers of debuggers, coverage and profilers alone.
Events come from all threads: those of others are passed over. Source: PEP 669.
"""

from __future__ import annotations

import os
import sys
import threading
import types
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from jtorch.compile.observe.stepping import Table, step
from jtorch.core.errors import CompileError

_TOOLS = (3, 4, 5, 2, 1, 0)  # 0, 1, 2 and 5 are meant for debuggers, coverage, profilers and optimizers
_NAME = "jtorch.compile"
_active: _Watch | None = None  # one thread records at a time
_unstopped: set[_Watch] = set()


class _Watch:
    """One recording: whom to tell, of which thread, and the code that announces its instructions."""

    def __init__(self, observer: Any) -> None:
        self.observer = observer
        self.thread = threading.get_ident()
        self.tool = _take_tool(observer.name)
        self.tables: dict[int, Table] = {}  # by the identity of the code: to hash code takes long
        self.codes: list[types.CodeType] = []
        self.paused = 0
        self.over = False  # an event after that: Ctrl-C came while it was being stopped

    def start(self) -> None:
        events = sys.monitoring.events  # type: ignore[attr-defined]
        sys.monitoring.register_callback(self.tool, events.PY_START, self._enter)  # type: ignore[attr-defined]
        sys.monitoring.register_callback(self.tool, events.INSTRUCTION, self._step)  # type: ignore[attr-defined]
        sys.monitoring.set_events(self.tool, events.PY_START)  # type: ignore[attr-defined]

    def stop(self) -> None:
        monitoring = sys.monitoring  # type: ignore[attr-defined]
        if monitoring.get_tool(self.tool) != _NAME:  # the event of calling this function did it
            return
        monitoring.set_events(self.tool, 0)
        for code in self.codes:
            monitoring.set_local_events(self.tool, code, 0)
        for event in (monitoring.events.PY_START, monitoring.events.INSTRUCTION):
            monitoring.register_callback(self.tool, event, None)
        monitoring.free_tool_id(self.tool)
        _unstopped.discard(self)

    def check(self) -> None:
        """Raise CompileError where another tool watched lines of the same code: CPython 3.12 and 3.13 drop
        the event of an instruction with which a line begins once that tool disables the line's own."""
        if sys.version_info >= (3, 14):
            return
        monitoring = sys.monitoring  # type: ignore[attr-defined]
        for tool in set(_TOOLS) - {self.tool}:
            if (name := monitoring.get_tool(tool)) is None:
                continue
            events = monitoring.get_events(tool)
            for code in self.codes:
                events |= monitoring.get_local_events(tool, code)
            if events & monitoring.events.LINE:
                raise CompileError(
                    f"'{self.observer.name}' cannot be recorded while {name} watches its lines by "
                    "sys.monitoring, since CPython 3.12 and 3.13 then hide instructions. Record it without "
                    "that tool, or let the tool use a trace function (coverage: COVERAGE_CORE=ctrace)."
                )

    def _enter(self, code: types.CodeType, offset: int) -> Any:
        if self.over:
            if threading.get_ident() == self.thread:  # others may be in the middle of what it does
                self.stop()
            return None
        if self.paused or threading.get_ident() != self.thread:
            return None
        table, ever = self.observer.enter(sys._getframe(1))
        if table is None:
            return None if ever else sys.monitoring.DISABLE  # type: ignore[attr-defined]
        if id(code) not in self.tables:
            self.tables[id(code)] = table
            self.codes.append(code)
            events = sys.monitoring.events  # type: ignore[attr-defined]
            sys.monitoring.set_local_events(self.tool, code, events.INSTRUCTION)  # type: ignore[attr-defined]
        return None

    def _step(self, code: types.CodeType, offset: int) -> Any:
        if self.over:
            if threading.get_ident() == self.thread:  # others may be in the middle of what it does
                self.stop()
            return None
        table = self.tables[id(code)]
        if offset not in table.places:
            return sys.monitoring.DISABLE  # type: ignore[attr-defined]
        if not self.paused and threading.get_ident() == self.thread:
            step(self.observer, sys._getframe(1), offset, table)
        return None


def _take_tool(name: str) -> int:
    for tool in _TOOLS:
        try:
            sys.monitoring.use_tool_id(tool, _NAME)  # type: ignore[attr-defined]
        except ValueError:  # somebody has it
            continue
        return tool
    taken = ", ".join(str(sys.monitoring.get_tool(tool)) for tool in sorted(_TOOLS))  # type: ignore[attr-defined]
    raise CompileError(
        f"'{name}' cannot be recorded: all tool numbers of sys.monitoring are taken ({taken}). "
        "Run it without one of these tools."
    )


def _forget_in_child() -> None:
    """A fork may come while another thread of the parent records; that thread does not exist in the child."""
    global _active
    if _active is not None and _active.thread != threading.get_ident():
        _active.stop()
        _active = None


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_in_child)


@contextmanager
def watching(observer: Any) -> Iterator[None]:
    """Tell ``observer`` of each function that is called and each place that is reached, in this thread."""
    global _active
    for left in [watch for watch in _unstopped if watch.over]:  # by Ctrl-C
        left.stop()
    before, watch = _active, _Watch(observer)
    try:
        _unstopped.add(watch)
        _active = watch
        watch.start()
        yield
        if observer.problem is None:
            watch.check()
    finally:  # in an order in which Ctrl-C may come after each
        watch.over = True
        if _active is watch:
            _active = before
        watch.stop()


def quietly(function: Callable) -> Callable:
    """``function`` without being watched."""

    def run(*values: Any, **statics: Any) -> Any:
        watch = _active
        if watch is None or watch.thread != threading.get_ident():
            return function(*values, **statics)
        watch.paused += 1
        try:
            return function(*values, **statics)
        finally:
            watch.paused -= 1

    return run
