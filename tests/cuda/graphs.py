"""Graphs of operations: recorded by capture, run in any order that their edges allow.

Two operations of a graph between which no path of edges leads may run at the same time. If they touch the
same byte and one of them writes it, the graph lacks an edge, and a run of it tells which.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np

from tests.cuda.allocations import Allocation, Fault, Memory, Touched


@dataclass(eq=False)
class Node:
    """An operation, and the handles of those that it waits for."""

    name: str
    run: Callable[[], None]
    after: list[int] = field(default_factory=list)


Nodes = dict[int, Node]  # by their handles, in the order in which they were captured


def run(nodes: Nodes, memory: Memory, chance: random.Random) -> None:
    """Raises Fault for an operation that fails, and for two that nothing orders."""
    waiting, order = dict(nodes), []
    touched: dict[int, Touched] = {}
    while waiting:
        ready = [h for h, node in waiting.items() if not any(a in waiting for a in node.after)]
        handle = chance.choice(ready)
        node = waiting.pop(handle)
        with memory.watching() as seen:
            try:
                node.run()
            except Fault as fault:
                raise Fault(f"{node.name}: {fault}", fault.status) from None
        touched[handle] = seen
        order.append(handle)
    check_independence(nodes, touched)


def check_independence(nodes: Nodes, touched: dict[int, Touched]) -> None:
    """Of each two that no path connects."""
    bits = {handle: 1 << k for k, handle in enumerate(nodes)}
    before: dict[int, int] = {}
    for handle, node in nodes.items():
        before[handle] = 0
        for other in node.after:
            before[handle] |= before[other] | bits[other]
    seen: list[tuple[int, dict[Allocation, tuple[np.ndarray, np.ndarray]]]] = []
    for handle, node in nodes.items():
        spans = touched[handle].spans()
        for other, theirs in seen:
            if not before[handle] & bits[other]:
                _check(nodes[other].name, theirs, node.name, spans)
        seen.append((handle, spans))


def _check(first: str, theirs: dict, second: str, ours: dict) -> None:
    for allocation in theirs.keys() & ours.keys():
        (r, w), (s, v) = theirs[allocation], ours[allocation]
        for one, other in ((w, s), (w, v), (r, v)):
            byte = _common(one, other)
            if byte is not None:
                raise Fault(
                    f"'{first}' and '{second}' both touch byte {byte} of {allocation}, one of them writes "
                    "it, and no edge of the graph says which comes first"
                )


def _common(one: np.ndarray, other: np.ndarray) -> int | None:
    """A byte that spans of both have."""
    if not len(one) or not len(other):
        return None
    if one[:, 1].max() <= other[:, 0].min() or other[:, 1].max() <= one[:, 0].min():
        return None
    other = other[np.argsort(other[:, 0])]
    ends = np.maximum.accumulate(other[:, 1])
    for begin, end in one.tolist():
        k = int(np.searchsorted(other[:, 0], end)) - 1  # the last that begins before the end
        if k >= 0 and ends[k] > begin:
            covering: Sequence[int] = np.flatnonzero(other[: k + 1, 1] > begin)
            return max(begin, int(other[covering[0], 0]))
    return None
