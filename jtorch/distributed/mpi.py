"""MPI, loaded when it is first needed, and left at the end of the program without a hang.

``MPI_Finalize`` waits for all processes, for ever if one of them is dead. So it is called only after all of
them have said that they came to their end; a process that ends by an exception ends without it, which the
``mpiexec`` that started it takes as a failure of the job.
"""

from __future__ import annotations

import atexit
import importlib.util
import os
import sys
import threading
from collections.abc import Callable
from typing import Any

LOCK = threading.RLock()  # around all calls of MPI: enough for any MPI but one for a single thread
_INSTALL = (
    "jtorch.distributed needs mpi4py and an MPI library: python -m pip install 'jtorch-compile[mpi]' "
    "(from a clone: python -m pip install -e '.[mpi]')"
)


class _State:
    """What this process knows of MPI."""

    module: Any = None
    pid = 0
    finalizes_itself = False  # mpi4py was imported by the program before, and does so
    failed = False
    last_barrier: Callable[[], bool] | None = None  # set by the default group


def is_installed() -> bool:
    return importlib.util.find_spec("mpi4py") is not None


def load() -> Any:
    """The module ``mpi4py.MPI``, with MPI initialised. Raises ModuleNotFoundError where there is none."""
    if _State.module is not None:
        return _State.module
    if not is_installed():
        raise ModuleNotFoundError(_INSTALL, name="mpi4py")
    import mpi4py

    _State.finalizes_itself = "mpi4py.MPI" in sys.modules and bool(mpi4py.rc.finalize is not False)
    if "mpi4py.MPI" not in sys.modules:
        mpi4py.rc.initialize = mpi4py.rc.finalize = False
    from mpi4py import MPI

    if not MPI.Is_initialized():
        MPI.Init_thread(MPI.THREAD_MULTIPLE)
    if MPI.Query_thread() < MPI.THREAD_SERIALIZED:
        raise RuntimeError(
            "jtorch.distributed: MPI was initialised for one thread (MPI_THREAD_SINGLE or _FUNNELED), and "
            "backward() may run in another; let mpi4py initialise it with MPI_THREAD_MULTIPLE"
        )
    _State.module, _State.pid = MPI, os.getpid()
    _watch_failures()
    atexit.register(_leave)
    return MPI


def is_forked() -> bool:
    """Whether this is a child of the process that initialised MPI, which may not use it."""
    return _State.pid != os.getpid()


def at_the_end(last_barrier: Callable[[], bool] | None) -> None:
    """What tells, at the end of the program, whether all processes came to theirs."""
    _State.last_barrier = last_barrier


def note_failure() -> None:
    """This process ends by a failure: it leaves MPI without the others, who may never come."""
    _State.failed = True


def _watch_failures() -> None:
    before = sys.excepthook

    def noting(kind: Any, error: Any, trace: Any) -> None:
        note_failure()
        before(kind, error, trace)

    sys.excepthook = noting


def _leave() -> None:
    """End MPI together with the others; without them after an exception or if they don't come."""
    MPI = _State.module
    if is_forked() or MPI.Is_finalized():
        return
    if _State.failed:
        _abandon(MPI)
    elif _State.last_barrier is not None and not _State.last_barrier():
        _abandon(MPI)
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(1)  # the status of this process cannot be changed otherwise by now
    elif not _State.finalizes_itself:
        MPI.Finalize()


def _abandon(MPI: Any) -> None:
    """Leave without the others; where mpi4py would wait for them after this, end the job instead."""
    if _State.finalizes_itself:
        sys.stdout.flush()
        sys.stderr.flush()
        MPI.COMM_WORLD.Abort(1)
