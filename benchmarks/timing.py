"""Interleaved timing of several contestants, by pyperf's method.

Each contestant runs a calibrated number of calls per sample, without Python's garbage collector; the
samples of all contestants take turns (A B A B ...), and medians, minima and quartiles are reported: a
machine that slows down for a while slows down all of them. Several processes in turn give samples to
one Timing: hash seeds and addresses, which differ between processes, are part of the noise then.
Source: https://pyperf.readthedocs.io/en/latest/run_benchmark.html
"""

from __future__ import annotations

import contextlib
import gc
import itertools
import math
import statistics
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol


class Contestant(Protocol):
    """Something whose calls can be timed, here or in another process."""

    def run(self, calls: int) -> float:
        """Make that many calls from the initial state; the seconds they took."""


@dataclass(frozen=True)
class Effort:
    """How long to measure: ``rounds`` samples of about ``seconds`` each, with a ``pause`` before each.

    Threads of another process spin for a while after its sample, and would be beside the next one.
    ``processes`` one after the other do so; with 0 it is done here.
    """

    rounds: int
    seconds: float
    pause: float = 0.0
    processes: int = 0


FULL = Effort(rounds=15, seconds=0.04)
QUICK = Effort(rounds=3, seconds=0.004)
_BOOKED = 0.001  # seconds until other threads rest: Linux books their time then, or every 4 ms
UNSTABLE = 0.1  # of the median: an interquartile range that wide, of samples or of processes


@dataclass(frozen=True)
class Timing:
    """Seconds per call, one number for each sample, of ``calls`` calls each.

    ``per_process`` counts the samples of each process, in order; empty where all are of one.
    """

    samples: tuple[float, ...]
    calls: int
    per_process: tuple[int, ...] = ()

    @property
    def median(self) -> float:
        return statistics.median(self.samples)

    @property
    def minimum(self) -> float:
        return min(self.samples)

    @property
    def spread(self) -> float:
        """The interquartile range: the width of the middle half of the samples."""
        low, high = self.middle_half
        return high - low

    @property
    def middle_half(self) -> tuple[float, float]:
        """The first and the third quartile."""
        if len(self.samples) < 2:
            return self.samples[0], self.samples[0]
        low, _, high = statistics.quantiles(self.samples, n=4, method="inclusive")
        return low, high

    @property
    def processes(self) -> tuple[tuple[float, ...], ...]:
        """The samples of each process."""
        rest = iter(self.samples)
        return tuple(tuple(itertools.islice(rest, n)) for n in self.per_process or (len(self.samples),))

    @property
    def unstable(self) -> bool:
        """Whether the middle half of the samples is so wide that the median says little."""
        return self.spread > UNSTABLE * self.median

    def joined(self, other: Timing) -> Timing:
        """With the samples of another process after its own."""
        counts = (self.per_process or (len(self.samples),), other.per_process or (len(other.samples),))
        return Timing(self.samples + other.samples, self.calls, counts[0] + counts[1])

    def beyond(self, other: Timing) -> float:
        """Seconds more than ``other``: the median over pairs of samples that took turns, so that what slows
        the machine down for a while is in both of a pair."""
        return statistics.median(a - b for a, b in zip(self.samples, other.samples, strict=True))

    def as_dict(self) -> dict[str, Any]:
        return {
            "median_s": self.median,
            "min_s": self.minimum,
            "iqr_s": self.spread,
            "unstable": self.unstable,
            "calls_per_sample": self.calls,
            "samples_per_process": [len(samples) for samples in self.processes],
            "samples_s": list(self.samples),
        }


def host_clock() -> Callable[[], float]:
    """Start the clock of the host."""
    start = time.perf_counter()
    return lambda: time.perf_counter() - start


@dataclass
class Calls:
    """A contestant in this process: ``function`` called with each of ``arguments`` in turn.

    ``reset`` restores the initial state before each sample, outside the timed part. ``settle``
    waits for a result that is still being computed, inside it. ``mode`` makes a context manager
    that holds during a sample, entered outside the timed part. ``clock`` starts one, and gives what reads its
    seconds. ``cores_used`` is how many cores the latest sample kept busy.
    """

    function: Callable[..., Any]
    arguments: Sequence[tuple]
    reset: Callable[[], None] = lambda: None
    settle: Callable[[Any], Any] = lambda result: result
    mode: Callable[[], Any] = contextlib.nullcontext
    clock: Callable[[], Callable[[], float]] = host_clock
    cores_used: float = field(default=1.0, init=False)

    def run(self, calls: int) -> float:
        self.reset()
        self._warm_up(calls)
        todo = list(itertools.islice(itertools.cycle(self.arguments), calls))
        function, result = self.function, None
        with self.mode(), _without_garbage_collection():
            busy, seconds = time.process_time(), self.clock()
            for arguments in todo:
                result = function(*arguments)
            self.settle(result)
            took = seconds()
            time.sleep(_BOOKED)
            self.cores_used = (time.process_time() - busy) / max(took, 1e-9)
            return took

    def _warm_up(self, calls: int) -> None:
        """A quarter as many calls that nobody times, where a sample has several.

        After a pause the caches are another program's: in samples of 17 calls the MLP's eager step took 18%
        longer than in samples of 35, so that it depended on what a run had calibrated.
        """
        if calls > 1:
            with self.mode():
                for arguments in itertools.islice(itertools.cycle(self.arguments), max(1, calls // 4)):
                    self.settle(self.function(*arguments))


@contextlib.contextmanager
def _without_garbage_collection() -> Iterator[None]:
    """Which would run in some samples and not in others."""
    before = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if before:
            gc.enable()


def calibrate(contestant: Contestant, seconds: float) -> int:
    """How many calls take about ``seconds``: 1, or a power of two, so that runs mostly have the same number.

    Also warms the contestant up. Each number is tried several times, since a busy machine may take any of it.
    """
    calls, took = 1, contestant.run(1)  # the first call of all may compile or allocate
    while True:
        took = min(took, *(contestant.run(calls) for _ in range(3)))
        if took >= seconds / 2:
            break
        calls *= max(2, 2 ** math.floor(math.log2(min(16.0, seconds / max(took, 1e-9)))))
        took = math.inf
    return max(1, 2 ** round(math.log2(calls * seconds / took)))


def interleave(
    contestants: Mapping[str, Contestant], effort: Effort, calls: Mapping[str, int] | None = None
) -> dict[str, Timing]:
    """Time all contestants in turns, one sample of each per round.

    ``calls`` per sample as a process before calibrated them; then one sample of each warms up.
    """
    counts = {n: _warmed_up(c, (calls or {}).get(n), effort) for n, c in contestants.items()}
    samples: dict[str, list[float]] = {name: [] for name in contestants}
    for _ in range(effort.rounds):
        for name, contestant in contestants.items():
            time.sleep(effort.pause)
            samples[name].append(contestant.run(counts[name]) / counts[name])
    return {name: Timing(tuple(s), counts[name]) for name, s in samples.items()}


def _warmed_up(contestant: Contestant, calls: int | None, effort: Effort) -> int:
    if calls is None:
        return calibrate(contestant, effort.seconds)
    contestant.run(calls)
    return calls
