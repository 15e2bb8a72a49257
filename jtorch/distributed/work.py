"""Something that is under way between processes, and waiting for it: never longer than a deadline.

Open MPI moves messages only while somebody calls it, so whoever waits keeps asking. Python code runs between
two questions, so Ctrl-C gets through.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import TYPE_CHECKING, Any, NamedTuple

from jtorch.distributed.errors import DistBackendError, refuse_recording
from jtorch.futures import Future

if TYPE_CHECKING:
    from jtorch.distributed.group import ProcessGroup

_SPINNING = 0.02  # seconds of asking without a pause: large messages arrive in many pieces
_PAUSE = 0.0005  # seconds between two questions later on
LOOK = 0.05  # seconds between two looks at the other processes; mpiexec ends a broken job after 0.25


class Order(NamedTuple):
    """What a collective is asked to do; all processes of the group must ask for the same."""

    op: str
    shape: tuple[int, ...] = ()
    dtype: str = ""
    detail: str = ""

    def __str__(self) -> str:
        size = f"{self.dtype}[{', '.join(map(str, self.shape))}]" if self.dtype else ""
        return f"{self.op}({', '.join(part for part in (size, self.detail) if part)})"


def seconds(timeout: timedelta | float | None, default: float) -> float:
    if timeout is None:
        return default
    return timeout.total_seconds() if isinstance(timeout, timedelta) else float(timeout)


def poll(done: Callable[[], bool], timeout: float, look: Callable[[float], None]) -> bool:
    """Ask ``done`` until it says so, or ``timeout`` seconds have passed; ``look`` may raise in between."""
    begin = time.monotonic()
    looked = begin
    while not done():
        now = time.monotonic()
        if now - begin > timeout:
            return done()
        if now - looked > LOOK:
            looked = now
            look(now - begin)
        if now - begin < _SPINNING:
            os.sched_yield()
        else:
            time.sleep(_PAUSE)
    return True


class Work:
    """A collective under way. ``wait()`` returns when it is done here, and raises where it cannot be.

    ``steps`` starts it and gives MPI's requests one after another; where there are two, the second travels on
    the group's second communicator, in the same order in all processes. What it holds on to (the tensors)
    lives until MPI is done with it.
    Source: https://docs.pytorch.org/docs/stable/distributed.html#torch.distributed.Work
    """

    def __init__(
        self, group: ProcessGroup, order: Order, number: int, steps: Iterator[Any], stages: int = 1
    ) -> None:
        self.group = group
        self.order = order
        self.number = number
        self.digest: int | None = None  # of the order; None where nobody compares it
        self.stages_left = stages  # that have not been started
        self._steps = steps
        self._request: Any = None
        self._done = False
        self._error: BaseException | None = None
        self._result: Any = None
        self._future: Future | None = None

    # -- progress ----------------------------------------------------------------------------------------

    def start(self) -> None:
        """Start the next step; where there is none, the work is done."""
        self.stages_left -= 1
        try:
            self._request = next(self._steps)
        except StopIteration as stop:
            self._result = stop.value
            self._finish(None)
        except Exception as error:
            self._finish(self._translated(error))

    def arrived(self) -> bool:
        """Whether what was started last has been done."""
        if self._done:
            return True
        try:
            return bool(self._request.Test())
        except Exception as error:
            self._finish(self._translated(error))
            return True

    def _finish(self, error: BaseException | None) -> None:
        self._done, self._error, self._request = True, error, None
        if error is None and self.digest is not None:
            self._error = self.group.compared(self)

    def _translated(self, error: Exception) -> Exception:
        if not hasattr(error, "Get_error_string"):
            return error
        return DistBackendError(f"{self.told()}: MPI: {error.Get_error_string()}. {self.group.told(self)}")

    # -- waiting -----------------------------------------------------------------------------------------

    def told(self) -> str:
        """``all_reduce(float32[3], SUM) #4 on rank 1 of 2``"""
        return f"{self.order} #{self.number} on {self.group.place()}"

    def wait(self, timeout: timedelta | float | None = None) -> bool:
        """Return True when it is done; DistBackendError says which process did not come, and why.

        ``timeout`` (a timedelta or seconds) takes the place of the group's.
        """
        refuse_recording("Work.wait")
        limit = seconds(timeout, self.group.timeout)
        begin = time.monotonic()
        if not self._done and not poll(self.is_completed, limit, self._look):
            self._give_up(f"waited {time.monotonic() - begin:.1f} s, the timeout is {limit:g} s")
        if self._error is not None:
            raise self._error
        return True

    def _look(self, waited: float) -> None:
        gone = self.group.dead()
        if gone and not self.is_completed():
            names = ", ".join(map(str, gone))
            self._give_up(f"waited {waited:.1f} s for rank {names}, whose process is dead")

    def _give_up(self, why: str) -> None:
        text = f"{self.told()} {why}. {self.group.told(self)}"
        self.group.broken = text
        raise DistBackendError(text)

    def is_completed(self) -> bool:
        """Whether it is done here; does not wait."""
        if not self._done:
            self.group.progress()
        return self._done

    def is_success(self) -> bool:
        return self._done and self._error is None

    def exception(self) -> BaseException | None:
        return self._error

    def synchronize(self) -> None:
        self.wait()

    def result(self) -> Any:
        """The tensors it wrote, in a list."""
        self.wait()
        return self._result

    def source_rank(self) -> int:
        raise RuntimeError("sourceRank() may only be called on work objects of recv or recv from any source")

    def get_future(self) -> Future:
        """A Future of the tensors that it writes, in a list.

        Source: https://docs.pytorch.org/docs/stable/futures.html
        """
        if self._future is None:
            self._future = Future.of(self.is_completed, self.result)
        return self._future
