"""Memory of a device that is not there: on the host, at addresses that are not the host's.

New memory is garbage, guard bytes lie around it, and freed memory is never given out again, so whoever uses
it is told by its name. Each byte knows whether anybody has written it. ``watching()`` tells which bytes are
read and written meanwhile.
"""

from __future__ import annotations

import bisect
import contextlib
from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np

from tests.cuda.ptx import memory as ptx

BASE = 0x0700_0000_0000_0000  # added to the host's addresses: to use one on the host crashes
ALIGNMENT, GUARD = 256, 256
NEW, FREED = 0xCB, 0xDD


class Fault(Exception):  # noqa: N818 - of the program that is run, not of ours
    """What a device would punish, or bear in silence. ``status`` is what its driver returns from then on."""

    def __init__(self, text: str, status: int = 700) -> None:
        super().__init__(text)
        self.status = status


@dataclass(eq=False)
class Allocation:
    """``data`` are the bytes, ``written`` tells which of them were written."""

    number: int
    base: int
    size: int
    room: np.ndarray
    begin: int  # of the data in ``room``, which has guards around it
    freed: bool = False
    written: np.ndarray = field(init=False)

    def __post_init__(self) -> None:
        self.written = np.zeros(self.size, bool)

    def __str__(self) -> str:
        return f"allocation {self.number} of {self.size} bytes{', which was freed' if self.freed else ''}"

    @property
    def data(self) -> np.ndarray:
        return self.room[self.begin : self.begin + self.size]

    def guards_hold(self) -> bool:
        return bool(
            (self.room[: self.begin] == NEW).all() and (self.room[self.begin + self.size :] == NEW).all()
        )


class Touched:
    """The bytes of allocations that one operation read and wrote."""

    def __init__(self) -> None:
        self.masks: dict[Allocation, tuple[np.ndarray, np.ndarray]] = {}
        self.ranges: list[tuple[Allocation, bool, int, int]] = []

    def mask(self, allocation: Allocation, written: bool) -> np.ndarray:
        if allocation not in self.masks:
            self.masks[allocation] = np.zeros_like(allocation.written), np.zeros_like(allocation.written)
        return self.masks[allocation][written]

    def spans(self) -> dict[Allocation, tuple[np.ndarray, np.ndarray]]:
        """For each allocation what was read and what was written, as rows of (begin, end)."""
        found: dict[Allocation, tuple[list, list]] = {}
        for allocation, masks in self.masks.items():
            parts = found.setdefault(allocation, ([], []))
            for part, mask in zip(parts, masks, strict=True):
                edges = np.flatnonzero(np.diff(mask, prepend=False, append=False))
                part.append(edges.reshape(-1, 2))
        for allocation, written, begin, end in self.ranges:
            found.setdefault(allocation, ([], []))[written].append(np.array([[begin, end]]))
        empty = np.empty((0, 2), np.int64)
        return {a: (np.concatenate([empty, *r]), np.concatenate([empty, *w])) for a, (r, w) in found.items()}


class Memory:
    """All allocations there ever were, in the order of their addresses. ``seen`` are those that kernels may
    touch: nobody tells a driver what memory is for, so in all of it several threads may write one value to
    one place, as they do to words of errors. ``plans.py`` knows better, and allows that there alone."""

    def __init__(self) -> None:
        self.allocations: list[Allocation] = []
        self.seen = ptx.Memory()
        self.whose: dict[ptx.Allocation, Allocation] = {}
        self._bases: list[int] = []
        self._made = 0
        self._touched: Touched | None = None

    def allocate(self, nbytes: int) -> int:
        room = np.full(nbytes + 2 * GUARD + ALIGNMENT, NEW, np.uint8)
        begin = GUARD + -(room.ctypes.data + GUARD) % ALIGNMENT
        base = room.ctypes.data + begin + BASE
        k = bisect.bisect(self._bases, base)
        self._bases.insert(k, base)
        self.allocations.insert(k, made := Allocation(self._made, base, nbytes, room, begin))
        self._made += 1
        if nbytes:
            shown = ptx.Allocation(base, made.data, str(made), made.written, flags=True)
            self.whose[self.seen.add(shown)] = made
        return base

    def free(self, address: int) -> None:
        allocation, begin = self.find(address, 0)
        if begin:
            raise Fault(f"free of {address:#x}, {begin} bytes into {allocation}", 1)
        self.check_guards(allocation)
        allocation.data[...] = FREED
        allocation.freed = True
        shown = self.seen.at(allocation.base)
        if shown is not None:
            self.seen.remove(shown)
            del self.whose[shown]

    def check_guards(self, *allocations: Allocation) -> None:
        for allocation in allocations or self.allocations:
            if not allocation.freed and not allocation.guards_hold():
                raise Fault(f"something wrote beside {allocation}")

    def find(self, address: int, nbytes: int) -> tuple[Allocation, int]:
        """Whose memory so many bytes are, and where they begin in it."""
        k = bisect.bisect(self._bases, address) - 1
        allocation = self.allocations[k] if k >= 0 else None
        if allocation is None or address > allocation.base + allocation.size + GUARD:
            raise Fault(f"{address:#x} is no address of device memory")
        begin = address - allocation.base
        if allocation.freed or begin + nbytes > allocation.size:
            raise Fault(f"{nbytes} bytes at {address:#x} are wanted, {begin} bytes into {allocation}")
        return allocation, begin

    # -- ranges ----------------------------------------------------------------------------------------------

    def read(self, address: int, nbytes: int) -> np.ndarray:
        """The bytes, all of which must have been written."""
        allocation, begin = self.find(address, nbytes)
        self._touch(allocation, False, begin, begin + nbytes)
        where = allocation.written[begin : begin + nbytes]
        if not where.all():
            raise Fault(
                f"byte {begin + int(np.argmin(where))} of {allocation} is read, which nobody has written"
            )
        return allocation.data[begin : begin + nbytes]

    def write(self, address: int, nbytes: int) -> np.ndarray:
        """The bytes, to be written."""
        allocation, begin = self.find(address, nbytes)
        self._touch(allocation, True, begin, begin + nbytes)
        allocation.written[begin : begin + nbytes] = True
        return allocation.data[begin : begin + nbytes]

    def _touch(self, allocation: Allocation, written: bool, begin: int, end: int) -> None:
        if self._touched is not None and begin < end:
            self._touched.ranges.append((allocation, written, begin, end))

    def mark(self, allocation: Allocation, written: bool, which: np.ndarray) -> None:
        """Note that these bytes, one truth each and maybe some more, were read or written."""
        if self._touched is not None:
            self._touched.mask(allocation, written)[...] |= which[: allocation.size]

    @contextlib.contextmanager
    def watching(self) -> Iterator[Touched]:
        """What is touched meanwhile."""
        self._touched = found = Touched()
        try:
            yield found
        finally:
            self._touched = None
