"""Faults of the compiler: what must not happen, told with the user's line and the way round it.

An exception that jtorch's own code meets while it records, compiles or replays says nothing to a user:
``KeyError: <Var g f32[3, 3]>``. It becomes the cause of an ``InternalError``. What the user's code raises,
what eager mode raises in such a place, lack of memory and Ctrl-C are let through.
"""

from __future__ import annotations

import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any

from jtorch.compile.graph.ir import Eqn
from jtorch.core.errors import (
    CompileError,
    FailedCheck,
    GraphError,
    InternalError,
    KernelError,
    OtherBranch,
    Source,
    VerifyError,
    is_raised,
    is_users,
    line_of,
)

_OURS = (str(Path(__file__).resolve().parents[1]), "<jtorch call>")  # beginnings of the names of files
_CALLER = "_called"  # of ``capture.py``: where it ends, the user's function is one of C's (``operator.lt``)
_NAMED = (CompileError, FailedCheck, GraphError, KernelError, OtherBranch, VerifyError)  # say what they are
_NO_FAULT = (*_NAMED, ImportError, MemoryError, OSError, Warning)  # what is missing is said by name, too
_ALWAYS = (AssertionError, KeyError, NameError)  # in code of ours: nothing of the user's asks for them there
_BY_NOBODY = (TypeError, ValueError, IndexError, AttributeError, RuntimeError)  # where no ``raise`` made them


@contextmanager
def told(name: str) -> Iterator[None]:
    """What fails inside, where no code of the user's runs, is a fault in compiling the function ``name``."""
    try:
        yield
    except _NO_FAULT:
        raise
    except Exception as error:
        raise internal_error(error, name) from error


def fault_in(error: Exception, name: str) -> InternalError | None:
    """``error``, which passed code of the user's, as a fault in compiling the function ``name``; None where
    it is none."""
    if isinstance(error, _NO_FAULT):
        return None
    origin = _origin(error)
    frames = _frames(origin)
    if not frames or not frames[-1].f_code.co_filename.startswith(_OURS):
        return None
    if frames[-1].f_code.co_name == _CALLER:
        return None
    raised = is_raised(origin)
    asked = len(frames) > 1 and is_users(frames[-2].f_code.co_filename)  # of a stand-in, in Python's words
    if isinstance(origin, AttributeError) and raised:
        return None if asked else internal_error(origin, name, line_of(error))
    found = isinstance(origin, _ALWAYS) or (isinstance(origin, _BY_NOBODY) and not raised)
    return internal_error(origin, name, line_of(error)) if found else None


def internal_error(error: Exception, name: str, line: Source | None = None) -> InternalError:
    """What says that ``error`` came up while the function ``name`` was compiled, where, and the way round:
    at the line of an equation, else at ``line``."""
    equations = map(_equation_at, reversed(_frames(error)))
    where = next(filter(None, equations), None) or line or line_of(error)
    made = InternalError(
        f"{where}: compiling '{name}' failed by a fault of jtorch's, not of your program "
        f"({type(error).__name__}: {error}). Until it is mended, run with JTORCH_COMPILE=0, leave '{name}' "
        "uncompiled, or put what stands at that line into a function under @jtorch.compiler.disable. "
        "JTORCH_DUMP=folder keeps what a report needs."
    )
    made.origin = error
    return made


def _origin(error: Exception) -> Exception:
    """``error``, or the one that an op of eager mode's said in its own words."""
    frames = _frames(error)
    told = error.__suppress_context__ and frames and frames[-1].f_code.co_filename.startswith("<jtorch eager")
    return error.__context__ if told and isinstance(error.__context__, Exception) else error


def _frames(error: BaseException) -> list[FrameType]:
    return [frame for frame, _ in traceback.walk_tb(error.__traceback__)]


def _equation_at(frame: FrameType) -> Source | None:
    """The line of the equation that a function of the compiler was at."""
    if not frame.f_code.co_filename.startswith(_OURS):
        return None
    sources = (_source_of(value) for value in frame.f_locals.values())
    return next(filter(None, sources), None)


def _source_of(value: Any) -> Source | None:
    """The line of an equation, or of the first one of a group, a nest or a task."""
    if isinstance(value, Eqn):
        return value.source
    eqns = getattr(getattr(value, "step", value), "eqns", None) if _is_ours(value) else None
    return next((e.source for e in eqns or () if isinstance(e, Eqn) and e.source is not None), None)


def _is_ours(value: Any) -> bool:
    """Whether it is a part of a plan; a whole graph says nothing about a place in it."""
    cls = type(value)
    return cls.__module__.startswith("jtorch.compile.plan") and cls.__name__ != "Plan"
