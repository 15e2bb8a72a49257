"""What all ways to run a plan share: memory of one arena, so one run at a time."""

from __future__ import annotations

import ctypes
import os
import threading
import time
import weakref
from collections.abc import Callable, Mapping, Sequence
from typing import Any


class Runner:
    """``run(*arguments)`` runs a plan and returns a status; ``failure(status)`` gives the exception that one
    other than 0 means, ``move`` says where an input lies from now on. A plan's caller takes ``run`` once,
    when it is made; plans for any sizes call that of the instance for their sizes (``instances.py``).

    ``alone`` is held during a run, and by callers around everything that must belong to one run. A plan that
    is one native call needs neither (``is_atomic``): that call keeps the interpreter's lock.
    """

    is_atomic = False
    is_cut = False  # whether threads share steps, and runs of them
    inner: Sequence[Any] = ()  # the code of what loops over time do at a step
    _ended = 0

    def __init__(self) -> None:
        self.alone = threading.RLock()
        _RUNNERS.add(self)

    def is_shared(self, *tasks: Any) -> bool:
        """Whether threads share one task, or all of a run."""
        return False

    def flops_of(self, scan: Any) -> int:
        """Floating-point operations of the products of a loop over time; 0 where that has no plan."""
        return 0

    def call_of(self, *tasks: Any) -> Any:
        """What runs one task alone, or all of a run, and gives its status."""
        raise RuntimeError('a function of mode="interpret" runs without kernels, so none can be timed alone')

    def timer_of(self, *tasks: Any) -> Callable[[], float]:
        """What runs one task alone, or all of a run, and gives the microseconds that it took."""
        call = self.call_of(*tasks)

        def timed() -> float:
            start = time.perf_counter_ns()
            call()
            return (time.perf_counter_ns() - start) / 1e3

        return timed

    def begin(self) -> None:
        """Have what a run brings where its steps look for it, before they run one by one."""

    @property
    def ended(self) -> int:
        """How many runs ended with status 0: Ctrl-C may come when one has, before Python knows it."""
        return self._ended


def keep(found: dict[Any, Any], sizes: Any, made: Any, most: int) -> None:
    """Keep an instance; of too many the oldest goes that no call has run since it was last looked at."""
    while len(found) >= most:
        oldest = next(iter(found))
        other = found.pop(oldest)
        if other.used:
            other.used = False
            found[oldest] = other
    found[sizes] = made


def store(words: Mapping[int, int], arguments: Sequence[Any]) -> None:
    """Put runtime scalars where kernels read them: argument -> address of its word."""
    for k, address in words.items():
        ctypes.c_double.from_address(address).value = arguments[k]


_RUNNERS: weakref.WeakSet[Runner] = weakref.WeakSet()


def _fresh_locks() -> None:
    # A fork may come while another thread of the parent runs a plan; that thread does not exist in the child.
    for runner in list(_RUNNERS):
        runner.alone = threading.RLock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_fresh_locks)
