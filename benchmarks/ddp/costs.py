"""What an ``all_reduce`` costs by the alpha-beta model, and the fit of its constants to measured points.

A message takes ``alpha`` seconds and ``beta`` for each of its bytes, adding takes ``gamma`` for each byte,
and a collective's own code ``call``, with however many processes. The algorithms differ in how often each
occurs on the longest way through them.
Source: Thakur, Rabenseifner and Gropp 2005, doi:10.1177/1094342005051521, section 4.5 (n bytes, p processes).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import NamedTuple

import numpy as np

from jtorch.distributed import reduction


class Terms(NamedTuple):
    """How many messages, sent bytes and added bytes stand one after another in a collective."""

    messages: float
    sent: float
    added: float


class Point(NamedTuple):
    """A measured ``all_reduce`` of ``nbytes`` in ``ranks`` processes."""

    nbytes: int
    ranks: int
    seconds: float


@dataclass(frozen=True)
class Network:
    """The constants of a network, in seconds: of a call, a message, a sent byte, and an added byte."""

    name: str
    call: float
    alpha: float
    beta: float
    gamma: float

    def seconds(self, terms: Terms) -> float:
        sending = terms.messages * self.alpha + terms.sent * self.beta
        return self.call + sending + terms.added * self.gamma

    def all_reduce(self, nbytes: int, ranks: int) -> float:
        """Seconds that ``jtorch.distributed.all_reduce`` of floats takes."""
        return self.seconds(of_all_reduce(nbytes, ranks))

    def as_dict(self) -> dict[str, object]:
        return asdict(self)


def _levels(ranks: int) -> int:
    return math.ceil(math.log2(ranks))


def binomial(nbytes: float, ranks: int) -> Terms:
    """Everything up a tree to one process, and down again: what Open MPI's ``Iallreduce`` does in place."""
    levels = _levels(ranks)
    return Terms(2 * levels, 2 * levels * nbytes, levels * nbytes)


def broadcast(nbytes: float, ranks: int) -> Terms:
    """Down a tree of processes."""
    return Terms(_levels(ranks), _levels(ranks) * nbytes, 0)


def recursive_doubling(nbytes: float, ranks: int) -> Terms:
    """Everything exchanged with a process at distance 1, 2, 4 and so on."""
    levels = _levels(ranks)
    return Terms(levels, levels * nbytes, levels * nbytes)


def ring(nbytes: float, ranks: int) -> Terms:
    """One part at a time to the next process, around twice: added up first, then handed out."""
    share = (ranks - 1) / ranks * nbytes
    return Terms(2 * (ranks - 1), 2 * share, share)


def halving_and_doubling(nbytes: float, ranks: int) -> Terms:
    """Rabenseifner's: reduce-scatter by halves, allgather by doubling."""
    share = (ranks - 1) / ranks * nbytes
    return Terms(2 * _levels(ranks), 2 * share, share)


def exchange(nbytes: float, ranks: int) -> Terms:
    """``steps.ordered_all_reduce``: each process gets its part of all others, and gives the sum to each.

    A ring's terms: all other processes are sent to directly, one message after another.
    """
    return ring(nbytes, ranks)


def algorithm(nbytes: float) -> Callable[[float, int], Terms]:
    """What ``jtorch.distributed.all_reduce`` of so many bytes of floats goes by."""
    in_order = reduction.in_order(reduction.ReduceOp.SUM, np.dtype(np.float32), int(nbytes))
    return exchange if in_order else binomial


def of_all_reduce(nbytes: float, ranks: int) -> Terms:
    return algorithm(nbytes)(nbytes, ranks) if ranks > 1 else Terms(0, 0, 0)


def fit(name: str, points: Sequence[Point], call: float, gamma: float) -> Network:
    """The alpha and beta whose predictions of ``points`` have the least squared relative error.

    Neither is below 0. Raises ValueError for fewer than two points.
    """
    if len(points) < 2:
        raise ValueError(f"{name}: two constants can't be fitted to {len(points)} point(s)")
    terms = [of_all_reduce(p.nbytes, p.ranks) for p in points]
    took = np.array([p.seconds for p in points])
    known = np.array([call + t.added * gamma for t in terms])
    columns = np.array([[t.messages, t.sent] for t in terms]) / took[:, None]
    alpha, beta = _not_negative(columns, (took - known) / took)
    return Network(name, call, alpha, beta, gamma)


def _not_negative(columns: np.ndarray, wanted: np.ndarray) -> tuple[float, float]:
    """The two factors of ``columns`` that come closest to ``wanted``, none of them below 0."""
    scale = np.linalg.norm(columns, axis=0)
    found = np.linalg.lstsq(columns / scale, wanted, rcond=None)[0] / scale
    if (found >= 0).all():
        return float(found[0]), float(found[1])
    alone = np.maximum(wanted @ columns / scale**2, 0.0)  # each factor with the other at 0
    errors = [np.linalg.norm(wanted - columns[:, k] * alone[k]) for k in (0, 1)]
    best = int(np.argmin(errors))
    return (float(alone[0]), 0.0) if best == 0 else (0.0, float(alone[1]))


def relative_error(predicted: float, measured: float) -> float:
    """How far the prediction is off, in parts of what was measured; below 0 where it is too small."""
    return predicted / measured - 1
