"""Timing a statement, as the standard library's ``timeit`` does, often enough for a median.

Source: https://docs.pytorch.org/docs/stable/benchmark_utils.html#torch.utils.benchmark.Timer
"""

from __future__ import annotations

import statistics
import textwrap
import timeit
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, NoReturn

import jtorch
from jtorch.utils.benchmark.measurement import Measurement, TaskSpec

timer = timeit.default_timer  # jtorch's ops on CPU are done when they return


@contextmanager
def _threads(n: int) -> Iterator[None]:
    before = jtorch.get_num_threads()
    jtorch.set_num_threads(n)
    try:
        yield
    finally:
        jtorch.set_num_threads(before)


def _dedented(code: str) -> str:
    return textwrap.dedent(code).removeprefix("\n").rstrip()


class Timer:
    """Times ``stmt``, Python code that sees ``globals``, after ``setup``.

    ``torch`` in the code is jtorch unless ``globals`` has another. ``label``, ``sub_label``, ``description``
    and ``env`` name the measurement. ``num_threads`` goes to ``set_num_threads`` while it runs: it holds for
    jtorch's ops, not for NumPy's own calls. Raises ValueError for a ``stmt`` that is no string,
    NotImplementedError for C++.
    """

    def __init__(
        self,
        stmt: str = "pass",
        setup: str = "pass",
        global_setup: str = "",
        timer: Callable[[], float] = timer,
        globals: dict[str, Any] | None = None,
        label: str | None = None,
        sub_label: str | None = None,
        description: str | None = None,
        env: str | None = None,
        num_threads: int = 1,
        language: str = "python",
    ) -> None:
        if not isinstance(stmt, str):
            raise ValueError("Currently only a `str` stmt is supported.")
        if language in ("cpp", "c++"):
            raise NotImplementedError("Timer: language='c++': jtorch times Python code only")
        if language not in ("py", "python"):
            raise ValueError(f"Invalid language `{language}`.")
        if global_setup:
            raise ValueError(
                f"global_setup is C++ only, got `{global_setup}`. Most likely this code can simply be moved "
                "to `setup`."
            )
        stmt, setup = _dedented(stmt), _dedented(setup)
        seen = {"torch": jtorch} | (globals or {})
        self._timer = timeit.Timer(stmt=stmt, setup=setup, timer=timer, globals=seen)
        self._spec = TaskSpec(stmt, setup, global_setup, label, sub_label, description, env, num_threads)

    def _timeit(self, number: int) -> float:
        return max(self._timer.timeit(number), 1e-9)  # a clock's step: nothing takes no time

    def timeit(self, number: int = 1000000) -> Measurement:
        """One time of ``number`` calls, after a hundredth as many to warm up."""
        with _threads(self._spec.num_threads):
            self._timeit(max(number // 100, 2))
            return Measurement(number, [self._timeit(number)], self._spec)

    def repeat(self, repeat: int = -1, number: int = -1) -> NoReturn:
        raise NotImplementedError("See `Timer.blocked_autorange.`")

    def autorange(self, callback: Callable[[int, float], Any] | None = None) -> NoReturn:
        raise NotImplementedError("See `Timer.blocked_autorange.`")

    def blocked_autorange(
        self, callback: Callable[[int, float], Any] | None = None, min_run_time: float = 0.2
    ) -> Measurement:
        """Times of blocks of calls until ``min_run_time`` seconds have passed.

        A block is long enough for the clock's own time not to count. ``callback(number, seconds)`` hears of
        each block.
        """
        number = self._block(min_run_time)
        return self._measure(number, lambda times: sum(times) >= min_run_time, callback)

    def adaptive_autorange(
        self,
        threshold: float = 0.1,
        *,
        min_run_time: float = 0.01,
        max_run_time: float = 10.0,
        callback: Callable[[int, float], Any] | None = None,
    ) -> Measurement:
        """As ``blocked_autorange``, until the interquartile range is below ``threshold`` of the median.

        It takes between ``min_run_time`` and about ``max_run_time`` seconds.
        """
        number = self._block(0.05)

        def enough(times: list[float]) -> bool:
            if sum(times) > max_run_time:
                return True
            calm = len(times) > 3 and Measurement(number, times, self._spec).meets_confidence(threshold)
            return calm and sum(times) >= min_run_time

        return self._measure(number, enough, callback)

    def _block(self, min_run_time: float) -> int:
        """How many calls make a block: 10,000 times what the timing itself takes, or ``min_run_time``."""
        with _threads(self._spec.num_threads):
            overhead = statistics.median(self._timeit(0) for _ in range(5))
            number = 1
            while True:
                taken = self._timeit(number)
                if taken > min_run_time or taken >= max(1e4 * overhead, min_run_time / 1000):
                    return number
                number *= 10

    def _measure(
        self, number: int, enough: Callable[[list[float]], bool], callback: Callable[[int, float], Any] | None
    ) -> Measurement:
        times: list[float] = []
        with _threads(self._spec.num_threads):
            while not times or not enough(times):
                times.append(self._timeit(number))
                if callback is not None:
                    callback(number, times[-1])
        return Measurement(number, times, self._spec)
