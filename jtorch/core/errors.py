"""The errors jtorch raises beside Python's own, and the frame of the user's line."""

from __future__ import annotations

import dis
import functools
import inspect
import os
import re
import sys
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import Any

import numpy as np

_PACKAGE = str(Path(__file__).resolve().parents[1]) + os.sep
_NUMPY = str(Path(np.__file__).resolve().parent) + os.sep  # which asks values for their elements
_STANDARD = str(Path(os.__file__).parent) + os.sep  # whose copy.py asks tensors for a copy of theirs
NOT_THE_USERS = (_PACKAGE, _NUMPY, "<jtorch ")  # beginnings of the names of files


@dataclass(frozen=True, slots=True)
class Source:
    """Where in the user's program something was written."""

    file: str
    line: int
    function: str

    def __str__(self) -> str:
        return f"{self.file}:{self.line} in {self.function}"


def user_source() -> Source:
    """The innermost frame outside the jtorch package and the standard library: the line the user wrote."""
    frame = sys._getframe(1)
    while not _IS_USERS[frame.f_code.co_filename] and frame.f_back is not None:
        frame = frame.f_back
    return _source(frame.f_code.co_filename, frame.f_lineno, frame.f_code.co_name)


_source = functools.lru_cache(maxsize=4096)(Source)  # one for all that a line records


class _Asked(dict[str, bool]):
    """Of files, whether they are the user's: asked for each frame, at each op that is recorded."""

    def __missing__(self, file: str) -> bool:
        if len(self) >= 4096:  # of a notebook each cell is one
            self.clear()
        standard = file.startswith(_STANDARD) and "site-packages" not in file and "dist-packages" not in file
        self[file] = found = not standard and not file.startswith(NOT_THE_USERS)
        return found


_IS_USERS = _Asked()


def is_users(file: str) -> bool:
    """Whether code of the user's, or of a library that is none of Python's own, is in ``file``."""
    return _IS_USERS[file]


def add_line(error: Exception) -> None:
    """Say in the text of an error that code of jtorch raised which line of the user's led there."""
    told = len(error.args) == 1 and isinstance(error.args[0], str)
    passed = [frame.f_code.co_filename for frame, _ in traceback.walk_tb(error.__traceback__)]
    if not told or not any(map(is_users, passed)) or is_users(passed[-1]):  # the last: a `raise` of theirs
        return
    where = str(line_of(error))
    if where not in error.args[0]:
        error.args = (f"{error.args[0]} (at {where})",)


_PLACE = re.compile(r":\d+ in ")  # of a Source


def name_line(error: CompileError, function: Callable) -> None:
    """Say in the text of a refusal which line of the user's it is about, where it does not: the innermost one
    that it passed, or the first of ``function``, which had ended when the recording found out."""
    if _PLACE.search(str(error)):
        return
    passed = [
        Source(frame.f_code.co_filename, line, frame.f_code.co_name)
        for seen in (error.__cause__, error)
        if seen is not None
        for frame, line in traceback.walk_tb(seen.__traceback__)
        if is_users(frame.f_code.co_filename)
    ]
    error.args = (f"{passed[-1] if passed else _first_line_of(function)}: {error}", *error.args[1:])


def _first_line_of(function: Callable) -> Source:
    while isinstance(function, functools.partial):
        function = function.func
    code = getattr(inspect.unwrap(getattr(function, "forward", function)), "__code__", None)
    if code is None or not is_users(code.co_filename):
        return user_source()
    return Source(code.co_filename, code.co_firstlineno, code.co_name)


def instruction_of(error: BaseException) -> tuple[FrameType | None, str]:
    """(frame, name of the instruction) that ``error`` came up in: (None, "") where no Python was running."""
    last = error.__traceback__
    while last is not None and last.tb_next is not None:
        last = last.tb_next
    if last is None:
        return None, ""
    return last.tb_frame, dis.opname[last.tb_frame.f_code.co_code[last.tb_lasti]]


def is_raised(error: BaseException) -> bool:
    """Whether a ``raise`` made ``error``, not the interpreter or what was called in C."""
    return instruction_of(error)[1] in ("RAISE_VARARGS", "RERAISE")


def is_raised_by_user(error: BaseException) -> bool:
    """Whether a ``raise`` in the user's code made ``error``."""
    frame, _ = instruction_of(error)
    return frame is not None and is_users(frame.f_code.co_filename) and is_raised(error)


def line_of(error: BaseException) -> Source:
    """The innermost line of the user's that ``error`` passed; where it passed none, the one that runs now."""
    found = user_source()
    for frame, line in traceback.walk_tb(error.__traceback__):
        if is_users(frame.f_code.co_filename):
            found = Source(frame.f_code.co_filename, line, frame.f_code.co_name)
    return found


_refused: ContextVar[list[BaseException] | None] = ContextVar("jtorch_refused", default=None)


@contextmanager
def noting() -> Iterator[list[BaseException]]:
    """The refusals of what runs inside, as they come: a function that catches one has not obeyed it."""
    before = _refused.get()
    noted: list[BaseException] = []
    try:  # before the change: Ctrl-C may come right after it
        _refused.set(noted)
        yield noted
    finally:
        _refused.set(before)
        if before is not None:
            before += noted


def _note(error: BaseException) -> None:
    noted = _refused.get()
    if noted is not None:
        noted.append(error)


class CompileError(RuntimeError):
    """A program that cannot be captured as it is written. The text names the line and the rewrite. ``final``:
    what has been run of it must not run once more. ``read``: what it had read by then, as far as that is
    known. ``answers``: what disabled functions gave that have run, for the call to go on from in eager mode.
    ``in_program``: it came up while the program ran, not when it had ended. ``decided``: elements had decided
    by then which way it goes."""

    final = False
    decided = False
    read: Sequence[Any] = ()
    answers: Sequence[Any] = ()
    in_program = False

    def __init__(self, *args: object) -> None:
        super().__init__(*args)
        _note(self)


class InternalError(CompileError):
    """A fault of the compiler, never of the user. The text names the line and the way round; ``__cause__`` is
    what came up, also ``origin``, which no ``raise ... from None`` on the way takes off."""

    origin: BaseException | None = None


class Restart(BaseException):
    """A recording must begin again, knowing something that was found out on the way."""

    def __init__(self, *args: object) -> None:
        super().__init__(*args)
        _note(self)


class OtherBranch(Exception):  # noqa: N818 - no error: the caller tries another plan
    """A plan stopped, with nothing written, because a branch in it goes another way for this call."""


class OtherCount(OtherBranch):
    """A plan stopped, with nothing written, because number ``which`` of the counts that it rests on is
    ``count`` for this call."""

    def __init__(self, which: int, count: int) -> None:
        super().__init__()
        self.which, self.count = which, count


class CountNeeded(Restart):
    """A recording needs to know how many elements a mask names, at ``line``."""

    def __init__(self, line: Source) -> None:
        super().__init__(f"the number of elements at {line}")
        self.line = line

    @property
    def refusal(self) -> str:
        """What is said where that cannot be followed."""
        return (
            f"{self.line}: indexing with a boolean mask needs the number of its elements, which cannot be "
            "followed here. What is done to each element and written back to the same places works "
            "(x[mask] += 1, x[mask] = x[mask].exp()); otherwise use jtorch.where, or leave this function "
            "uncompiled."
        )


class FailedCheck(Exception):  # noqa: N818 - none that users see: the caller runs the function itself
    """A plan stopped, with nothing written, as a check in it failed or a library call raised ``error``."""

    def __init__(self, error: Exception) -> None:
        super().__init__(str(error))
        self.error = error


class RetraceError(CompileError):
    """A function compiled with ``on_retrace="raise"`` would have been recorded again."""


class RetraceWarning(UserWarning):
    """A function compiled with ``on_retrace="warn"`` was recorded again."""


class EagerWarning(UserWarning):
    """Calls of a compiled function run eagerly: what they do cannot be recorded."""


class VerifyError(AssertionError):
    """A replay and an eager run of one call differ: a fault of the compiler. The text names the equation."""


class GraphError(AssertionError):
    """A graph that breaks the rules of the IR: a fault of a pass, never of the user."""


class KernelError(RuntimeError):
    """A kernel that stopped with a status nobody declared: a fault of the code generator."""


class CudaError(RuntimeError):
    """A function of CUDA's libraries failed, with this ``status``, or cannot be called."""

    def __init__(self, message: str, function: str = "", status: int = 0) -> None:
        super().__init__(message)
        self.function, self.status = function, status


class DataError(ValueError):
    """A data file that is missing, truncated or not what it claims to be."""


class LinAlgError(RuntimeError):
    """A matrix that the algorithm cannot take: singular, not positive-definite, with NaNs."""


for _error in (
    CompileError, DataError, GraphError, EagerWarning, InternalError, KernelError, LinAlgError, RetraceError,
    RetraceWarning, VerifyError,
):  # fmt: skip
    _error.__module__ = "jtorch.errors"  # where users find it, and what a traceback says
