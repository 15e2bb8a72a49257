"""Memory that the processes of one host share: which collective each of them has started, and who is alive.

It is read, never waited for, so it tells why a collective does not end, even of a process that is stopped or
dead. Of processes on other hosts nothing is known here.
"""

from __future__ import annotations

import contextlib
import mmap
import os
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

_TEXT = 160  # bytes of an order's description
_RING = 256  # orders that are remembered, to compare those of other processes with
_ROW = np.dtype(
    [
        ("pid", np.int64), ("born", np.int64), ("started", np.int64), ("since", np.float64),
        ("text", f"S{_TEXT}"), ("numbers", np.int64, _RING), ("digests", np.uint64, _RING),
    ]
)  # fmt: skip


class Board:
    """One row for each process of the host. ``ranks`` are theirs in the group, ``mine`` is this one's."""

    def __init__(self, rows: np.ndarray, ranks: list[int], mine: int) -> None:
        self.rows = rows
        self.places = {rank: k for k, rank in enumerate(ranks)}
        self.mine = rows[self.places[mine]]
        self.mine["pid"], self.mine["born"] = os.getpid(), _birth(os.getpid()) or 0
        self.mine["started"], self.mine["numbers"] = -1, -1
        self.seen: list[int] = []  # other processes that can be looked at

    def meet(self) -> None:
        """Note whose process is visible from here: in containers apart it is not."""
        mine = self.mine["pid"]
        self.seen = [r for r, k in self.places.items() if self._lives(k) and self.rows[k]["pid"] != mine]

    def start(self, number: int, text: str, digest: int) -> None:
        """This process starts collective ``number``."""
        mine = self.mine
        place = number % _RING
        mine["numbers"][place] = -1
        mine["digests"][place] = digest
        mine["numbers"][place] = number
        mine["text"] = text.encode()[:_TEXT]
        mine["started"], mine["since"] = number, time.monotonic()

    def others(self, number: int, digest: int) -> list[int]:
        """The processes that are known to have started something else as their collective ``number``."""
        place = number % _RING
        started, digests = self.rows["numbers"][:, place], self.rows["digests"][:, place]
        if not ((started == number) & (digests != digest)).any():
            return []
        wrong = (started == number) & (digests != digest) & (self.rows["numbers"][:, place] == number)
        return [rank for rank, k in self.places.items() if wrong[k]]

    def dead(self) -> list[int]:
        """The processes that are gone."""
        return [rank for rank in self.seen if not self._lives(self.places[rank])]

    def behind(self, number: int) -> list[int]:
        """The processes that have not started collective ``number``."""
        return [rank for rank, k in self.places.items() if self.rows[k]["started"] < number]

    def told(self, rank: int) -> str:
        """``rank 1 (process 4711, stopped) is at all_reduce(float32[3]) #4, since 2.1 s``"""
        row = self.rows[self.places[rank]]
        pid, at = int(row["pid"]), int(row["started"])
        state = _state(pid, int(row["born"])) if rank in self.seen else ""
        who = f"rank {rank} (process {pid}{', ' + state if state else ''})"
        if at < 0:
            return f"{who} has started no collective"
        since = time.monotonic() - float(row["since"])
        return f"{who} started {row['text'].decode(errors='replace')} #{at} {since:.1f} s ago as its last"

    def _lives(self, place: int) -> bool:
        row = self.rows[place]
        return _state(int(row["pid"]), int(row["born"])) != "dead"


def _stat(pid: int) -> list[str]:
    """The fields of /proc/PID/stat after the name; none where there is no such process."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return []


def _birth(pid: int) -> int | None:
    """When a process began: two processes of one number have two of these. None where nobody knows."""
    fields = _stat(pid)
    return int(fields[19]) if len(fields) > 19 else None


def _state(pid: int, born: int) -> str:
    fields = _stat(pid)
    if not fields or int(fields[19]) != born or fields[0] in "ZXx":
        return "dead"
    return "stopped" if fields[0] in "Tt" else ""


def make(comm: Any, local: Any) -> Board | None:
    """The board of a host's processes (``local``) in ``comm``; None where they share no memory.

    Both are communicators; all processes call this, and none is left waiting: each has come here already.
    """
    ranks = local.allgather(comm.rank)
    path = _new_file(len(ranks)) if local.rank == 0 else None
    path = local.bcast(path)
    rows = _mapped(path, len(ranks)) if path else None
    everyone = all(local.allgather(rows is not None))
    if local.rank == 0 and path:
        with contextlib.suppress(OSError):
            Path(path).unlink()  # the memory lives as long as somebody has it mapped
    if not everyone or rows is None:
        return None
    board = Board(rows, ranks, comm.rank)
    local.allgather(None)  # all rows are filled in
    board.meet()
    return board


def _new_file(count: int) -> str | None:
    folder = "/dev/shm" if Path("/dev/shm").is_dir() else None
    try:
        handle, path = tempfile.mkstemp(prefix="jtorch-board-", dir=folder)
        with os.fdopen(handle, "wb") as file:
            file.truncate(count * _ROW.itemsize)
    except OSError:
        return None
    return path


def _mapped(path: str, count: int) -> np.ndarray | None:
    try:
        with Path(path).open("r+b") as file:
            return np.frombuffer(mmap.mmap(file.fileno(), count * _ROW.itemsize), _ROW)
    except (OSError, ValueError):
        return None
