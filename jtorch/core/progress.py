"""A line on a terminal while a first call takes long: what is compiled, how much is left. Gone at the end.

    jtorch: compiling step, 23/67 kernels, about 9 s left (kept for next time)

Nothing is written where standard error is no terminal, in CI and under pytest, by processes other than the
first of several, where logging is off, and with ``JTORCH_LOG=quiet``.
"""

from __future__ import annotations

import logging
import os
import shutil
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from jtorch.core import config

_PATIENCE = 2.0  # seconds that a call may take without a word
_EVERY = 0.1  # seconds between two lines
_WIPE = "\r\x1b[K"
_writing = threading.Lock()  # threads may compile at a time: their lines take turns
_current: ContextVar[Progress | None] = ContextVar("jtorch_progress", default=None)


class Progress:
    """The first call of the function ``name``, which began just now."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.start = self.last = time.perf_counter()
        self.first_kernel: float | None = None
        self.is_shown = False

    def tell(self, done: int, of: int, kept: bool) -> None:
        """So many kernels are compiled, ``of`` all; ``kept``: on disk, too."""
        now = time.perf_counter()
        if not done or self.first_kernel is None:
            self.first_kernel = now
        left = (now - self.first_kernel) / done * (of - done) if done else 0.0
        if now - self.start + left < _PATIENCE or (self.is_shown and now - self.last < _EVERY):
            return
        self.last, self.is_shown = now, True
        estimate = f", about {max(round(left), 1)} s left" if done else ""
        note = " (kept for next time)" if kept else ""
        _write(f"jtorch: compiling {self.name}, {done}/{of} kernels{estimate}{note}")

    def end(self) -> None:
        if self.is_shown:
            _write("")
            self.is_shown = False


def _write(line: str) -> None:
    columns = shutil.get_terminal_size().columns
    with _writing:
        try:
            sys.stderr.write(_WIPE + line[: max(columns - 1, 10)])
            sys.stderr.flush()
        except (OSError, ValueError):  # the terminal is gone
            pass


def is_wanted() -> bool:
    """Whether somebody watches."""
    stream = sys.stderr
    try:
        if stream is None or not stream.isatty():
            return False
    except (AttributeError, ValueError):  # of another kind, or closed
        return False
    surroundings = os.environ
    if any(surroundings.get(name) for name in ("CI", "PYTEST_CURRENT_TEST")):
        return False
    if surroundings.get("TERM") == "dumb" or surroundings.get("RANK", "0") != "0":
        return False
    loud = logging.getLogger("jtorch.compile").isEnabledFor(logging.WARNING)
    return loud and "quiet" not in str(config.get("LOG")).split(",")


@contextmanager
def of(name: str) -> Iterator[None]:
    """What this thread compiles in the block is for a call of the function ``name``."""
    if _current.get() is not None or not is_wanted():  # a function inside is part of the call
        yield
        return
    progress = Progress(name)
    token = _current.set(progress)
    try:
        yield
    finally:
        _current.reset(token)
        progress.end()


def tell(done: int, of: int, kept: bool) -> None:
    """A compilation of kernels is so far: see ``Progress.tell``."""
    progress = _current.get()
    if progress is not None:
        progress.tell(done, of, kept)
