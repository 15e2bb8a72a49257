"""Which steps of a graph wait for which: those that touch the same bytes, if one of them writes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from jtorch.compile.codegen.cuda_launch import Footprint


class _Touched(NamedTuple):
    begin: int
    end: int
    step: int
    written: bool


class Edges:
    """``add`` is called for one step after the other."""

    def __init__(self) -> None:
        self._touched: list[_Touched] = []  # what a later step may have to wait for
        self._before: list[int] = []  # of each step all that run before it, as bits

    def add(self, footprint: Footprint) -> list[int]:
        """The steps that a further one, which touches this memory, waits for: the fewest, as paths count."""
        step, found = len(self._before), 0
        for part, written in ((footprint.reads, False), (footprint.writes, True)):
            for span in part:
                for other in self._touched:
                    if (written or other.written) and span.start < other.end and other.begin < span.stop:
                        found |= 1 << other.step
        before = found
        for other_step in _bits(found):
            before |= self._before[other_step]
        self._before.append(before)
        self._note(step, footprint)
        beyond = 0  # what runs before one of those anyway
        for other_step in _bits(found):
            beyond |= self._before[other_step]
        return _bits(found & ~beyond)

    def _note(self, step: int, footprint: Footprint) -> None:
        """What is written over needs no more be waited for: who wrote over it has."""
        for span in footprint.writes:
            self._touched = [t for t in self._touched if not (span.start <= t.begin and t.end <= span.stop)]
        self._touched += [_Touched(s.start, s.stop, step, False) for s in footprint.reads if s]
        self._touched += [_Touched(s.start, s.stop, step, True) for s in footprint.writes if s]


def union(footprints: Sequence[Footprint]) -> Footprint:
    """What several steps touch."""
    return Footprint(
        tuple(span for f in footprints for span in f.reads),
        tuple(span for f in footprints for span in f.writes),
    )


def _bits(number: int) -> list[int]:
    found = []
    while number:
        lowest = number & -number
        found.append(lowest.bit_length() - 1)
        number ^= lowest
    return found
