"""A process group: some of the processes, their communicators, and what is under way between them."""

from __future__ import annotations

import contextlib
import hashlib
import os
import signal
import sys
import threading
from collections import deque
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from jtorch.core import config
from jtorch.distributed import board as boards, mpi
from jtorch.distributed.errors import DistBackendError
from jtorch.distributed.work import Order, Work, poll


class Scratch:
    """Memory that collectives need while they are under way, kept for the next ones."""

    def __init__(self) -> None:
        self._free: dict[int, list[np.ndarray]] = {}

    def take(self, size: int, dtype: np.dtype) -> np.ndarray:
        """``size`` elements, of any value."""
        free = self._free.get(size * dtype.itemsize)
        return free.pop().view(dtype) if free else np.empty(size, dtype)

    def give_back(self, array: np.ndarray) -> None:
        self._free.setdefault(array.nbytes, []).append(array.reshape(-1).view(np.uint8))


class ProcessGroup:
    """Processes that take part in collectives together, numbered from 0 in the order of their global ranks.

    ``comm`` carries the collectives, ``second`` the second steps of those that have two, ``control`` what
    is done at once, and ``messages`` what one process sends another.
    """

    def __init__(self, comm: Any, ranks: list[int], name: str, timeout: float, backend: str) -> None:
        self.comm = comm
        self.ranks = ranks  # global ranks, by rank in this group
        self.group_name = name
        self.timeout = timeout
        self.backend = backend
        self.second, self.control, self.messages = comm.Dup(), comm.Dup(), comm.Dup()
        local = comm.Split_type(mpi.load().COMM_TYPE_SHARED, key=comm.rank)
        self.board = boards.make(comm, local)
        local.Free()
        self.broken = ""
        self.scratch = Scratch()
        self.pending: deque[Work] = deque()
        self.twin: ProcessGroup | None = None  # of the same processes, for what threads do: see ``beside``
        self.before_leaving: list[Callable[[], None]] = []  # called when the group is left
        self.checks_orders = debug_level() == "DETAIL"
        self._next = 0
        self._rank, self._size = comm.rank, comm.size

    def rank(self) -> int:
        return self._rank

    def size(self) -> int:
        return self._size

    def name(self) -> str:
        return self.backend

    def place(self) -> str:
        """``rank 1 of 2``, for errors; of another group than the default one with its name."""
        name = "" if self.group_name == "default_pg" else f" in {self.group_name}"
        return f"rank {self._rank} of {self._size}{name}"

    def __repr__(self) -> str:
        return f"<ProcessGroup {self.group_name!r}: rank {self._rank} of {self._size}, over MPI>"

    # -- starting ----------------------------------------------------------------------------------------

    def start(self, order: Order, steps: Iterator[Any], async_op: bool, stages: int = 1) -> Work | None:
        """Begin a collective; wait for it, too, unless ``async_op``."""
        self._check_usable(order)
        with mpi.LOCK:
            work = self._numbered(order, steps, stages)
            self.pending.append(work)
            work.start()
            self.progress()
        if async_op:
            return work
        work.wait()
        return None

    def settle(self, order: Order, steps: Iterator[Any]) -> Any:
        """Do a collective of any number of steps at once, on ``control``; what its steps return."""
        self._check_usable(order)
        with mpi.LOCK:
            work = self._numbered(order, steps, 1)
        return self._finished(work)

    def quietly(self, work: Work, steps: Iterator[Any]) -> Any:
        """Do ``steps``, which belong to ``work`` and are no collective of the user's, at once."""
        part = Work(self, work.order, work.number, steps)
        return self._finished(part)

    def _finished(self, work: Work) -> Any:
        work.start()

        def done() -> bool:
            with mpi.LOCK:
                self.progress()
                while not work._done and work.arrived():
                    if not work._done:
                        work.start()
                return work._done

        if not poll(done, self.timeout, work._look):
            work._give_up(f"waited {self.timeout:g} s, the timeout")
        work.wait()
        return work._result

    def _numbered(self, order: Order, steps: Iterator[Any], stages: int) -> Work:
        work = Work(self, order, self._next, steps, stages)
        self._next += 1
        text = str(order)
        work.digest = int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest(), "little")
        if self.board is not None:
            self.board.start(work.number, text, work.digest)
        if self.checks_orders and self._size > 1:
            from jtorch.distributed import orders

            orders.check(self, work)
        return work

    def _check_usable(self, order: Order) -> None:
        if mpi.is_forked():
            raise RuntimeError(f"{order}: this process was forked from one that uses MPI, and can't use it")
        if self.broken:
            raise DistBackendError(
                f"{order} on {self.place()}: the group can't be used any more, since an "
                f"earlier collective was given up: {self.broken}"
            )

    # -- progress ----------------------------------------------------------------------------------------

    def progress(self) -> None:
        """Look at all that is under way, and go on with what has arrived.

        A second step begins only after those of all earlier works: on its communicator, too, all processes
        must start everything in the same order.
        """
        with mpi.LOCK:
            held = False
            for work in list(self.pending):
                if work.arrived() and not work._done and not (held and work.stages_left > 0):
                    work.start()
                held = held or (not work._done and work.stages_left > 0)
            while self.pending and self.pending[0]._done:
                self.pending.popleft()

    # -- when something is wrong --------------------------------------------------------------------------

    def dead(self) -> list[int]:
        """The processes of this group that are known to be gone, by rank in the group."""
        return [] if self.board is None else self.board.dead()

    def compared(self, work: Work) -> DistBackendError | None:
        """The error of a work that ended while another process did something else at its turn."""
        if self.board is None or self._size == 1:
            return None
        other = self._others(work)
        if not other:
            return None
        self.broken = (
            f"{work.told()}: rank {', '.join(map(str, other))} asked for something else at that turn. "
            f"{self.told(work)}"
        )
        return DistBackendError(self.broken)

    def _others(self, work: Work) -> list[int]:
        """The processes that are known to do something else at the turn of ``work``."""
        if self.board is None or work.digest is None:
            return []
        return self.board.others(work.number, work.digest)

    def told(self, work: Work) -> str:
        """What is known about the others while ``work`` does not end."""
        if self.board is None:
            return "Set JTORCH_DISTRIBUTED_DEBUG=DETAIL to have the order of collectives compared."
        other = self._others(work)
        ranks = sorted({*self.board.behind(work.number), *self.board.dead(), *other} - {self._rank})
        facts = [self.board.told(rank) for rank in ranks]
        if len(self.board.places) < self._size:
            facts.append("of processes on other hosts nothing is known")
        way_out = (
            " All processes must ask for the same collectives, of the same shapes and dtypes, in the same "
            "order."
        )
        text = "; ".join(facts) or "every process of this host has started it"
        return f"{text[0].upper()}{text[1:]}.{way_out if other else ''}"

    def all_came(self, comm: Any = None) -> bool:
        """Whether all processes came to this place in time; says on stderr which did not.

        ``comm`` is what they meet on: at the end of the program the group's own are gone.
        """
        if self.broken:
            return False
        request = (comm or self.control).Ibarrier()
        work = Work(self, Order("end of the program"), self._next, iter(()))
        lost: list[int] = []

        def look(_: float) -> None:
            lost[:] = self.dead()
            if lost:
                raise InterruptedError

        with contextlib.suppress(InterruptedError):
            if poll(request.Test, self.timeout, look):
                return True
        missing = f"rank {', '.join(map(str, lost))} is dead" if lost else self.told(work)
        print(f"jtorch.distributed: rank {self._rank} ends without the others: {missing}", file=sys.stderr)
        return False

    def free(self) -> None:
        """Give the communicators back; all processes have come to this place."""
        for comm in (self.second, self.control, self.messages, self.comm):
            comm.Free()


def debug_level() -> str:
    """OFF, INFO or DETAIL: ``JTORCH_DISTRIBUTED_DEBUG``, else ``TORCH_DISTRIBUTED_DEBUG``."""
    own = str(config.get("DISTRIBUTED_DEBUG"))
    if "JTORCH_DISTRIBUTED_DEBUG" in os.environ:
        return own
    theirs = os.environ.get("TORCH_DISTRIBUTED_DEBUG", "").upper() or own
    if theirs not in ("OFF", "INFO", "DETAIL"):
        raise RuntimeError("The value of TORCH_DISTRIBUTED_DEBUG must be OFF, INFO, or DETAIL.")
    return theirs


def report_termination(group: ProcessGroup) -> None:
    """On SIGTERM, which ``mpiexec`` sends when another process died, say what this one was waiting for."""
    if threading.current_thread() is not threading.main_thread():
        return
    if signal.getsignal(signal.SIGTERM) is not signal.SIG_DFL:
        return
    pid = os.getpid()

    def terminated(number: int, frame: Any) -> None:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        work = next((w for w in group.pending if not w._done), None)
        if os.getpid() == pid and work is not None:
            text = f"jtorch.distributed: terminated while {work.told()} was under way. {group.told(work)}\n"
            os.write(2, text.encode())
        os.kill(os.getpid(), signal.SIGTERM)

    signal.signal(signal.SIGTERM, terminated)
