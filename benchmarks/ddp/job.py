"""Several processes that are asked together: a question goes to all ranks, and all answers come back.

They sleep while nobody asks, so that those of one library are not beside the samples of another. They connect
to a socket in the file system, which processes in other network namespaces reach, too.
"""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Mapping, Sequence
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Any

from benchmarks.peers import PeerError

START, ANSWER = 90.0, 300.0  # seconds until they must have connected, and answered


class Job:
    """The processes of ``commands``, ``count`` of them in all; a context manager.

    Each is told the address to connect to by the variable ``ADDRESS``, and says its rank first. Raises
    PeerError where they don't come, or where one of them raises or is gone: then all are ended.
    """

    ADDRESS = "JTORCH_BENCHMARK_SOCKET"

    def __init__(
        self, name: str, commands: Sequence[tuple[Sequence[str], Mapping[str, str]]], count: int
    ) -> None:
        self.name, self.count = name, count
        self._cleanup = contextlib.ExitStack()
        self._pipes: list[Connection] = []
        self._processes: list[subprocess.Popen] = []
        self._commands = commands

    def __enter__(self) -> Job:
        try:
            self._start()
        except BaseException:
            self.end()
            raise
        return self

    def __exit__(self, *error: Any) -> None:
        self.end()

    def _start(self) -> None:
        folder = Path(self._cleanup.enter_context(tempfile.TemporaryDirectory(prefix="jt")))
        self._printed = folder / "printed"
        errors = self._cleanup.enter_context(self._printed.open("wb"))
        address = str(folder / "s")
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as listener:
            listener.bind(address)
            listener.listen(self.count)
            listener.settimeout(0.1)
            for command, variables in self._commands:
                environment = {**os.environ, **variables, self.ADDRESS: address}
                self._processes.append(subprocess.Popen(
                    command, env=environment, stdin=subprocess.DEVNULL, stdout=errors, stderr=errors,
                    start_new_session=True,
                ))  # fmt: skip
            self._accept(listener)

    def _accept(self, listener: socket.socket) -> None:
        by_rank: dict[int, Connection] = {}
        end = time.monotonic() + START
        while len(by_rank) < self.count:
            try:
                pipe = Connection(listener.accept()[0].detach())
            except TimeoutError:
                if time.monotonic() > end or any(p.poll() is not None for p in self._processes):
                    raise PeerError(f"{self.name} did not start: {self._last_words()}") from None
                continue
            self._pipes.append(pipe)
            by_rank[self._received(pipe)] = pipe
        self._pipes = [by_rank[rank] for rank in sorted(by_rank)]

    def ask(self, *question: Any) -> list[Any]:
        """The answers of all ranks, in their order."""
        if not self._pipes:
            raise PeerError(f"{self.name} has ended")
        try:
            for pipe in self._pipes:
                pipe.send(question)
            return self._answers()
        except (OSError, PeerError) as error:
            words = str(error) if isinstance(error, PeerError) else self._last_words()
            self.end()  # the other ranks may wait for the one that failed
            raise PeerError(words) from None

    def _answers(self) -> list[Any]:
        answers: dict[Connection, Any] = {}
        end = time.monotonic() + ANSWER
        while len(answers) < self.count:
            ready = wait([p for p in self._pipes if p not in answers], max(end - time.monotonic(), 0.0))
            if not ready:
                raise PeerError(f"{self.name}: no answer after {ANSWER:g} s")
            for pipe in ready:
                assert isinstance(pipe, Connection)
                answers[pipe] = self._received(pipe)
        return [answers[pipe] for pipe in self._pipes]

    def _received(self, pipe: Connection) -> Any:
        try:
            good, answer = pipe.recv()
        except (EOFError, OSError):
            raise PeerError(f"{self.name}: a process ended without an answer: {self._last_words()}") from None
        if not good:
            raise PeerError(answer)
        return answer

    def _last_words(self) -> str:
        """The end of what the processes printed."""
        lines = self._printed.read_text(errors="replace").strip().splitlines()
        return " / ".join(lines[-8:]) or "it printed nothing"

    def end(self) -> None:
        """Let the processes go, and kill those that stay."""
        for pipe in self._pipes:
            pipe.close()
        asked_to_end = bool(self._pipes)
        self._pipes = []
        for process in self._processes:
            for grace, number in ((5.0 if asked_to_end else 0.0, signal.SIGTERM), (3.0, signal.SIGKILL)):
                with contextlib.suppress(subprocess.TimeoutExpired):
                    process.wait(grace)
                    break
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(process.pid, number)
            process.wait()
        self._processes = []
        self._cleanup.close()


class Together:
    """A contestant of all ranks at once: they start together, and the slowest counts."""

    def __init__(self, job: Job, name: str) -> None:
        self._job, self._name = job, name

    def run(self, calls: int) -> float:
        return max(self._job.ask("run", self._name, calls))
