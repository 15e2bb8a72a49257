"""Which steps of a graph wait for which: those that touch the same bytes, if one of them writes."""

from __future__ import annotations

import bisect
from collections.abc import Iterator, Sequence

from jtorch.compile.codegen.cuda_launch import Footprint

_SEEN = 2048
"""How many steps back it is known what runs before a step: there may be tens of thousands."""


class _Piece:
    """What was done to the bytes between two addresses: the step that wrote them last, and those that have
    read them since."""

    __slots__ = ("readers", "writer")

    def __init__(self, writer: int | None, readers: tuple[int, ...]) -> None:
        self.writer, self.readers = writer, readers

    @property
    def users(self) -> tuple[int, ...]:
        return self.readers if self.writer is None else (self.writer, *self.readers)


class Edges:
    """``add`` is called for one step after the other."""

    def __init__(self) -> None:
        self._starts = [0]  # of the pieces that all memory is cut into, in order
        self._pieces = [_Piece(None, ())]
        self._before: list[int] = []  # of each step what runs before it: bit j is that of j + 1 steps ago

    def add(self, footprint: Footprint) -> list[int]:
        """The steps that a further one, which touches this memory, waits for: the fewest, as paths count, but
        for steps of long ago."""
        step = len(self._before)
        reads, writes = ([span for span in part if span] for part in (footprint.reads, footprint.writes))
        found = {w for span in reads for piece in self._at(span) if (w := piece.writer) is not None}
        found |= {user for span in writes for piece in self._at(span) for user in piece.users}
        beyond = 0  # what runs before one of those anyway
        for other in found:
            beyond |= self._before[other] << step - other
        self._before.append((beyond | sum(1 << step - 1 - other for other in found)) & ((1 << _SEEN) - 1))
        self._note(step, reads, writes)
        return sorted(other for other in found if not beyond >> step - 1 - other & 1)

    def _note(self, step: int, reads: Sequence[range], writes: Sequence[range]) -> None:
        """Who waits for this step has waited for readers that run before it, and for all where it writes."""
        for span in reads:
            for piece in self._at(span):
                others = (r for r in piece.readers if r != step and not self._runs_before(r, step))
                piece.readers = (*others, step)
        for span in writes:
            low, high = self._cut(span)
            self._starts[low:high] = [span.start]
            self._pieces[low:high] = [_Piece(step, ())]

    def _runs_before(self, one: int, step: int) -> bool:
        return bool(self._before[step] >> step - 1 - one & 1)

    def _at(self, span: range) -> Iterator[_Piece]:
        low, high = self._cut(span)
        return iter(self._pieces[low:high])

    def _cut(self, span: range) -> tuple[int, int]:
        """(the first piece of these bytes, the first one beyond them)"""
        for address in (span.start, span.stop):
            k = bisect.bisect_left(self._starts, address)
            if k == len(self._starts) or self._starts[k] != address:
                self._starts.insert(k, address)
                self._pieces.insert(k, _Piece(self._pieces[k - 1].writer, self._pieces[k - 1].readers))
        return bisect.bisect_left(self._starts, span.start), bisect.bisect_left(self._starts, span.stop)


def union(footprints: Sequence[Footprint]) -> Footprint:
    """What several steps touch."""
    return Footprint(
        tuple(span for f in footprints for span in f.reads),
        tuple(span for f in footprints for span in f.writes),
    )
