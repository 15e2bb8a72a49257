"""What the model says of whole steps, and of more processes than there are."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from benchmarks.ddp.costs import (
    Network,
    Point,
    Terms,
    broadcast,
    halving_and_doubling,
    of_all_reduce,
    recursive_doubling,
    relative_error,
    ring,
)  # fmt: skip
from benchmarks.ddp.measure import Row

RANKS = (8, 64, 512, 4096)
OTHERS: dict[str, Callable[[float, int], Terms]] = {
    "ring": ring, "halving and doubling": halving_and_doubling, "recursive doubling": recursive_doubling,
}  # fmt: skip
BACKWARD = 2 / 3  # of a step: two products a layer, where forward has one


@dataclass(frozen=True)
class Prediction:
    """Of one figure: what it is of, seconds as the model says, and as measured."""

    what: str
    predicted: float
    measured: float

    @property
    def error(self) -> float:
        return relative_error(self.predicted, self.measured)

    def as_dict(self) -> dict[str, Any]:
        return {
            "what": self.what, "predicted_s": self.predicted, "measured_s": self.measured,
            "relative_error": self.error,
        }  # fmt: skip


def points(network: Network, measured: Sequence[Point]) -> list[Prediction]:
    """Of ``all_reduce`` alone."""
    return [
        Prediction(
            f"{p.nbytes:,} bytes, {p.ranks} processes", network.all_reduce(p.nbytes, p.ranks), p.seconds
        )
        for p in measured
    ]


def communication(
    network: Network, row: Row, ranks: int, how: Callable[[float, int], Terms] = of_all_reduce
) -> list[float]:
    """Seconds of each bucket's collective; the broadcasts of buffers are counted to the first one's."""
    found = [network.seconds(how(n, ranks)) for n in row.buckets]
    found[0] += sum(network.seconds(broadcast(n, ranks)) for n in row.buffers)
    return found


def step(computing: float, buckets: Sequence[int], collectives: Sequence[float], hides: bool) -> float:
    """Seconds of a step that takes ``computing`` without collectives.

    With ``hides`` they run beside backward, which is the last BACKWARD of the step and gives gradients at an
    even rate; each begins when its bucket is full and the one before has ended. Without, all of them
    come on top, as where the processor that computes carries the messages, too.
    """
    if not hides:
        return computing + sum(collectives)
    ended, begin = 0.0, computing * (1 - BACKWARD)
    for sent, seconds in zip(itertools.accumulate(buckets), collectives, strict=True):
        ready = begin + computing * BACKWARD * sent / sum(buckets)
        ended = max(ready, ended) + seconds
    return max(ended, computing)


def of_row(network: Network, row: Row, who: str, ranks: int) -> list[Prediction]:
    """The collectives of a row, and its step with nothing hidden and with all hidden that can be."""
    cost, alone = row.costs[who], communication(network, row, ranks)
    name = row.workload.what
    found = [Prediction(f"{name}: collectives", sum(alone), cost.collectives.median)]
    for hides, how in ((False, "nothing hidden"), (True, "hidden as backward allows")):
        seconds = step(cost.apart.median, row.buckets, alone, hides)
        found.append(Prediction(f"{name}: step, {how}", seconds, cost.averaged.median))
    return found


def of_rows(network: Network, rows: Sequence[Row], who: str, ranks: int) -> list[Prediction]:
    """Of those that have figures of this contestant."""
    return [p for row in rows if who in row.costs for p in of_row(network, row, who, ranks)]


@dataclass(frozen=True)
class Scale:
    """A step in ``ranks`` processes, as the model says; never measured. Seconds."""

    ranks: int
    collectives: float
    step: float
    hidden_step: float
    others: dict[str, float]  # the collectives by other algorithms
    computing: float

    @property
    def efficiency(self) -> tuple[float, float]:
        """With nothing hidden, and with all hidden that can be."""
        return self.computing / self.step, self.computing / self.hidden_step

    def as_dict(self) -> dict[str, Any]:
        return {
            "ranks": self.ranks, "collectives_s": self.collectives, "step_s": self.step,
            "hidden_step_s": self.hidden_step, "other_algorithms_s": self.others,
            "computing_s": self.computing, "efficiency": self.efficiency,
        }  # fmt: skip


def extrapolated(network: Network, row: Row, computing: float) -> list[Scale]:
    """More processes, each a host of its own in ``network``, whose step takes ``computing`` seconds alone."""
    found = []
    for ranks in RANKS:
        each = communication(network, row, ranks)
        steps = [step(computing, row.buckets, each, hides) for hides in (False, True)]
        others = {name: sum(communication(network, row, ranks, how)) for name, how in OTHERS.items()}
        found.append(Scale(ranks, sum(each), steps[0], steps[1], others, computing))
    return found
