"""Noting when ops, gradients and named blocks of the program begin and end.

While a recording is on, each entry of the eager evaluator's tables is one that notes its times; at other
times ops pay nothing. An in-place op shows as the op that computes its values. What compiled code does inside
one call of it is not seen.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any

from jtorch.core import op as op_module, watch
from jtorch.core.errors import CompileError, user_source
from jtorch.core.narrow import evaluated
from jtorch.core.op import BY_NAME
from jtorch.eager.evaluate import EAGER
from jtorch.eager.tensor import wrap

_ON: list[Recording] = []  # the recording in force, if any
_TABLES: Any = (EAGER.table, EAGER.on_host)  # Python's way takes one, machine code the other


class Event:
    """A piece of the run: times in nanoseconds, the piece it happened in, and what happened in it."""

    __slots__ = ("children", "end", "name", "parent", "shapes", "start", "thread")

    def __init__(self, name: str, parent: Event | None, thread: int, shapes: list | None) -> None:
        self.name = name
        self.parent = parent
        self.children: list[Event] = []
        self.thread = thread
        self.shapes = shapes
        self.end = 0
        self.start = time.perf_counter_ns()


class Watch:
    """Stands before each op and each gradient of eager mode, between ``start`` and ``stop``.

    ``of_op(op, function)`` is called in the place of ``function``; ``of_gradient(node, xp, g, compute)`` in
    that of ``compute``. The one that started last ends first.
    """

    def __init__(self, of_op: Callable, of_gradient: Callable) -> None:
        self._of_op, self._of_gradient = of_op, of_gradient

    def start(self) -> None:
        self._plain = [list(table) for table in _TABLES]
        for table in _TABLES:
            table[:] = [self._of_op(op, function) for op, function in zip(evaluated(), table, strict=True)]
        self._before, compute = dict(EAGER.__dict__), EAGER.backward
        EAGER.__dict__.update(
            runs_nodes=False, skips_table=False,
            backward=lambda node, xp, g: self._of_gradient(node, xp, g, compute),
        )  # fmt: skip

    def stop(self) -> None:
        for table, plain in zip(_TABLES, self._plain, strict=True):
            table[:] = plain
        for name in ("runs_nodes", "backward"):
            del EAGER.__dict__[name]
        EAGER.__dict__.update(self._before)


class WatchOfAll(Watch):
    """One that sees the ops of compiled functions, too: they run eagerly meanwhile.

    Raises CompileError where it starts in a function that is recorded, which would do it once.
    """

    def start(self) -> None:
        if op_module.CONTEXT.get().table is not EAGER.table:
            raise CompileError(
                f"{user_source()}: ops are watched from inside a compiled function, which would do it once: "
                "watch the call of it from outside."
            )
        super().start()
        _set_watching([*WATCHING, self])

    def stop(self) -> None:
        super().stop()
        _set_watching([each for each in WATCHING if each is not self])


WATCHING: list[WatchOfAll] = []


def _set_watching(watches: list[WatchOfAll]) -> None:
    before = list(WATCHING)
    WATCHING[:] = watches
    watch.tell_all("ops are watched", lambda: before == WATCHING)


class Recording:
    """Everything between ``start`` and ``stop``, in all threads, in the order it began."""

    def __init__(self, shapes: bool) -> None:
        self.shapes = shapes  # whether to note those of the ops' arguments
        self.events: list[Event] = []
        self._open = threading.local()
        self._watch = Watch(lambda op, function: self._noting(op.name, function), self._backward)

    def start(self) -> None:
        """Raises RuntimeError where a recording is on already."""
        if _ON:
            raise RuntimeError("Profiler is already enabled on this thread")
        _ON.append(self)
        self._watch.start()

    def stop(self) -> None:
        _ON.remove(self)
        self._watch.stop()
        now = time.perf_counter_ns()
        for event in self.events:  # blocks that have not ended
            event.end = event.end or now

    def begin(self, name: str, shapes: list | None = None) -> Event:
        parent = getattr(self._open, "event", None)
        event = Event(name, parent, threading.get_native_id(), shapes)
        if parent is not None:
            parent.children.append(event)
        self.events.append(event)
        self._open.event = event
        return event

    def finish(self, event: Event) -> None:
        event.end = time.perf_counter_ns()
        self._open.event = event.parent

    def _noting(self, name: str, function: Callable) -> Callable:
        def noted(*values: Any, **statics: Any) -> Any:
            event = self.begin(name, [_shape(v) for v in values] if self.shapes else None)
            try:
                return function(*values, **statics)
            finally:
                self.finish(event)

        return noted

    def _backward(self, node: Any, xp: Any, g: Any, compute: Callable) -> Any:
        event = self.begin(node.name(), [_shape(g)] if self.shapes else None)
        try:
            return compute(node, xp, g)
        finally:
            self.finish(event)


def shown(value: Any) -> Any:
    """What an op takes or gives as whoever watches may see it: tensors, off the tape."""
    if isinstance(value, (tuple, list)):
        return tuple(shown(v) for v in value)
    return wrap(EAGER.as_value(value)) if hasattr(value, "dtype") else value


def copied(value: Any) -> Any:
    """It in memory of its own."""
    if isinstance(value, (tuple, list)):
        return tuple(copied(v) for v in value)
    return EAGER.table[BY_NAME["clone"].index](value) if hasattr(value, "dtype") else value


def _shape(value: Any) -> list:
    if isinstance(value, (tuple, list)):
        return [_shape(v) for v in value]
    return list(getattr(value, "shape", ()))


def current() -> Recording | None:
    """The recording in force."""
    return _ON[0] if _ON else None
