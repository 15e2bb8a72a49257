"""Contestants in processes of their own: PyTorch, JAX, and jtorch's modes where several are measured.

A process apart, since thread pools of two libraries in one process disturb each other (OpenMP
workers spin for a while after each parallel region). Only one process computes at a time: the
parent asks for a sample and waits for it, so peers take their turns in the same interleaved rounds.
All get the same number of threads, or each what it takes by itself. JAX's pool can only be switched
off, which --threads 1 does; its dispatcher keeps a thread of its own, so it may use a little more
than one core.
"""

from __future__ import annotations

import contextlib
import importlib.metadata
import importlib.util
import multiprocessing
import os
import signal
import threading
from collections.abc import Iterator
from multiprocessing.connection import Connection
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any

from benchmarks.agree import Record
from benchmarks.contestant import Local, StepTime
from benchmarks.machine import thread_variables

if TYPE_CHECKING:
    from benchmarks.costs.peak import Memory

PEERS = {"torch": "PyTorch eager", "jax": "jax.jit"}


class PeerError(Exception):
    """A peer failed; the message is its own."""


def installed() -> dict[str, str]:
    """name -> version of each peer that can be imported here"""
    return {n: importlib.metadata.version(n) for n in PEERS if importlib.util.find_spec(n)}


class Peer:
    """A contestant's process. Prepare a workload, then time it; a context manager."""

    def __init__(self, name: str, threads: int | None) -> None:
        context = multiprocessing.get_context("spawn")
        self._pipe, theirs = context.Pipe()
        environment = dict(os.environ)
        os.environ.update(thread_variables(threads))  # inherited by the new process
        if name == "jax":
            os.environ["XLA_FLAGS"] = _xla_flags(threads)
            os.environ["JAX_PLATFORMS"] = "cpu"
        try:
            self._process = context.Process(target=_serve, args=(theirs, name, threads), daemon=True)
            with _without_interrupts():
                self._process.start()
        finally:
            os.environ.clear()
            os.environ.update(environment)
        theirs.close()

    def prepare(self, row: str, steps: int) -> Record:
        """Build a workload's program; what its first steps compute."""
        return self._ask("prepare", row, steps)

    def run(self, calls: int) -> float:
        return self._ask("run", calls)

    def cores_used(self) -> float:
        return self._ask("cores_used")

    def profile(self) -> list[StepTime]:
        return self._ask("profile")

    def memory(self, row: str, steps: int) -> Memory:
        return self._ask("memory", row, steps)

    def _ask(self, *question: Any) -> Any:
        try:
            self._pipe.send(question)
            good, answer = self._pipe.recv()
        except (EOFError, OSError):
            raise PeerError("its process ended without an answer") from None
        if not good:
            raise PeerError(answer)
        return answer

    def __enter__(self) -> Peer:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._pipe.close()
        self._process.join(timeout=5)
        if self._process.is_alive():
            self._process.terminate()
            self._process.join()


@contextlib.contextmanager
def _without_interrupts() -> Iterator[None]:
    """A process started here ignores Ctrl-C, which reaches all of a terminal: its pipe's end is its own."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def _xla_flags(threads: int | None) -> str:
    flags = os.environ.get("XLA_FLAGS", "")
    return f"{flags} --xla_cpu_multi_thread_eigen=false".strip() if threads == 1 else flags


def _serve(pipe: Connection, name: str, threads: int | None) -> None:
    """Answer questions until the other end closes: what the peer's process runs."""
    with Path(os.devnull).open("w") as nowhere, contextlib.redirect_stdout(nowhere):
        # what users' steps print is no figure
        contestant = Local(name, threads)
        with contextlib.suppress(EOFError, OSError):  # OSError: closed without reading the last answer
            while True:
                question, *arguments = pipe.recv()
                pipe.send(_answer(contestant, question, arguments))


def _answer(contestant: Local, question: str, arguments: list[Any]) -> tuple[bool, Any]:
    try:
        return True, getattr(contestant, question)(*arguments)
    except Exception as error:
        return False, contestant.told(error)
