"""``torch.multiprocessing``: Python's ``multiprocessing``, with ``spawn``, which starts a function in several
processes and tells what went wrong in them.

Tensors of shared memory are sent as memory, others are copied. Ranks of ``torch.distributed`` are started by
its launcher instead.
Source: https://docs.pytorch.org/docs/stable/multiprocessing.html
"""

from __future__ import annotations

import multiprocessing as _multiprocessing
import multiprocessing.connection as _connection
import os as _os
import pickle as _pickle
import signal as _signal
import sys as _sys
import tempfile as _tempfile
import traceback as _traceback
import warnings as _warnings
from collections.abc import Callable as _Callable
from pathlib import Path as _Path
from typing import Any as _Any


class ProcessException(Exception):  # noqa: N818 - PyTorch's name
    """A process has ended before its function was done."""

    __slots__ = ("error_index", "error_pid")

    def __init__(self, msg: str, error_index: int, pid: int) -> None:
        super().__init__(msg)
        self.msg = msg
        self.error_index = error_index
        self.pid = pid

    def __reduce__(self) -> _Any:
        return type(self), (self.msg, self.error_index, self.pid)


class ProcessRaisedException(ProcessException):
    """The function has raised an exception, whose traceback is the message."""


class ProcessExitedException(ProcessException):
    """The process was ended by a signal, or by an exit code."""

    __slots__ = ("exit_code", "signal_name")

    def __init__(
        self, msg: str, error_index: int, error_pid: int, exit_code: int, signal_name: str | None = None
    ) -> None:
        super().__init__(msg, error_index, error_pid)
        self.exit_code = exit_code
        self.signal_name = signal_name

    def __reduce__(self) -> _Any:
        return type(self), (self.msg, self.error_index, self.pid, self.exit_code, self.signal_name)


def _run(function: _Callable, index: int, args: tuple, error_file: str) -> None:
    """What each process does: its traceback goes into a file, which the parent reads."""
    try:
        function(index, *args)
    except KeyboardInterrupt:
        pass  # the parent's, too
    except Exception:
        _Path(error_file).write_bytes(_pickle.dumps(_traceback.format_exc()))
        _sys.exit(1)


class ProcessContext:
    """The processes that run a function, and what waits for them."""

    def __init__(self, processes: list[_Any], error_files: list[str]) -> None:
        self.processes = processes
        self.error_files = error_files
        self.sentinels = {process.sentinel: k for k, process in enumerate(processes)}

    def pids(self) -> list[int]:
        """The numbers of the processes."""
        return [int(process.pid) for process in self.processes]

    def join(self, timeout: float | None = None, grace_period: float | None = None) -> bool:
        """Wait until one of the processes ends, or all of them have; whether they have. Where one has failed
        the others are ended, after ``grace_period`` seconds, and its error is raised."""
        if not self.sentinels:
            return True
        ready = _connection.wait(list(self.sentinels), timeout=timeout)
        failed = None
        for sentinel in ready:
            k = self.sentinels.pop(sentinel)  # type: ignore[call-overload]
            self.processes[k].join()
            if self.processes[k].exitcode != 0:
                failed = k
                break
        if failed is None:
            return not self.sentinels
        self._end_others(grace_period)
        raise self._error(failed)

    def _end_others(self, grace_period: float | None) -> None:
        if grace_period is not None:
            for process in self.processes:
                process.join(grace_period)
        for end in ("terminate", "kill"):
            for process in self.processes:
                if process.is_alive():
                    getattr(process, end)()
            for process in self.processes:
                process.join(30 if end == "terminate" else None)

    def _error(self, k: int) -> ProcessException:
        process, file = self.processes[k], _Path(self.error_files[k])
        if file.is_file() and file.stat().st_size:
            told = _pickle.loads(file.read_bytes())
            said = f"\n\n-- Process {k} terminated with the following error:\n{told}"
            return ProcessRaisedException(said, k, process.pid)
        code = process.exitcode
        if code >= 0:
            return ProcessExitedException(
                f"process {k} terminated with exit code {code}", k, process.pid, code
            )
        try:
            name = _signal.Signals(-code).name
        except ValueError:
            name = f"<Unknown signal {-code}>"
        return ProcessExitedException(
            f"process {k} terminated with signal {name}", k, process.pid, code, name
        )


SpawnContext = ProcessContext


def start_processes(
    fn: _Callable, args: tuple = (), nprocs: int = 1, join: bool = True, daemon: bool = False,
    start_method: str = "spawn", numa_options: _Any = None,
) -> ProcessContext | None:  # fmt: skip
    """``fn(k, *args)`` in processes k = 0 to ``nprocs`` - 1; see ``spawn``."""
    context: _Any = _multiprocessing.get_context(start_method)
    folder = _tempfile.mkdtemp(prefix="jtorch-errors-")
    processes, files = [], []
    for k in range(nprocs):
        file = _os.path.join(folder, f"{k}.pickle")  # noqa: PTH118 - handed on as text
        process = context.Process(target=_run, args=(fn, k, args, file), daemon=daemon)
        process.start()
        processes.append(process)
        files.append(file)
    started = ProcessContext(processes, files)
    if not join:
        return started
    try:
        while not started.join():
            pass
    finally:
        for file in files:
            _Path(file).unlink(missing_ok=True)
        _Path(folder).rmdir()
    return None


def spawn(
    fn: _Callable, args: tuple = (), nprocs: int = 1, join: bool = True, daemon: bool = False,
    start_method: str = "spawn",
) -> ProcessContext | None:  # fmt: skip
    """``fn(k, *args)`` in new processes k = 0 to ``nprocs`` - 1, which import the module of ``fn`` anew.

    Waits for them, or gives what waits where ``join`` is false. Raises ProcessRaisedException, with the
    traceback, where one of them raises, ProcessExitedException where one is killed; the others are ended
    then.
    """
    if start_method != "spawn":
        _warnings.warn(
            f"This method only supports start_method=spawn (got: {start_method}).\n"
            "To use a different start_method use:\n\t\t torch.multiprocessing.start_processes(...)",
            FutureWarning,
            stacklevel=2,
        )
    return start_processes(fn, args, nprocs, join, daemon, start_method="spawn")


def get_all_sharing_strategies() -> set[str]:
    """{"file_system"}: shared tensors are files in memory."""
    return {"file_system"}


def get_sharing_strategy() -> str:
    """The one that there is."""
    return "file_system"


def set_sharing_strategy(new_strategy: str) -> None:
    """Takes the one strategy there is. Raises ValueError for another one."""
    if new_strategy not in get_all_sharing_strategies():
        raise ValueError(f"set_sharing_strategy({new_strategy!r}): tensors are shared as 'file_system' here")


def __getattr__(name: str) -> _Any:
    return getattr(_multiprocessing, name)


def __dir__() -> list[str]:
    return sorted({*globals(), *dir(_multiprocessing)})
