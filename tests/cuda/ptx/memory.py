"""Memory that kernels reach by address: allocations with nothing in between."""

from __future__ import annotations

from bisect import bisect
from dataclasses import dataclass

import numpy as np

from tests.cuda.ptx.errors import OutOfBoundsError


@dataclass(eq=False)
class Allocation:
    """Bytes from the address ``base`` on, a multiple of 8: ``data``, uint8, which kernels change in place."""

    base: int
    data: np.ndarray
    name: str
    written: np.ndarray | None = None  # a bool per byte, kept up to date; None: all of them are
    constant: bool = False  # kernels may only read it
    flags: bool = False  # several threads may write one and the same value to one place
    row: int = 0  # bytes that each thread block has of its own at ``base``; 0: all have the same

    @property
    def size(self) -> int:
        return self.row or len(self.data)

    @property
    def stride(self) -> int:
        """Bytes of ``data`` from one row to the next."""
        return -(-self.size // 8) * 8

    def words(self, width: int) -> np.ndarray:
        """The bytes as unsigned integers of ``width`` bytes."""
        return self.data[: len(self.data) // width * width].view(f"u{width}")


@dataclass(frozen=True)
class Piece:
    """The part of an access that goes to one allocation: which of the lanes, at which offsets."""

    allocation: Allocation
    offsets: np.ndarray
    lanes: np.ndarray | slice


class Memory:
    """Allocations in the order of their addresses."""

    def __init__(self) -> None:
        self.bases: list[int] = []
        self.allocations: list[Allocation] = []

    def add(self, allocation: Allocation) -> Allocation:
        if allocation.base % 8:
            raise ValueError(f"{allocation.name} begins at {allocation.base:#x}, which is no multiple of 8")
        k = bisect(self.bases, allocation.base)
        end = allocation.base + allocation.size
        for other in self.allocations[max(k - 1, 0) : k + 1]:
            if other.base < end and allocation.base < other.base + other.size:
                raise ValueError(f"{allocation.name} and {other.name} overlap at {allocation.base:#x}")
        self.bases.insert(k, allocation.base)
        self.allocations.insert(k, allocation)
        return allocation

    def remove(self, allocation: Allocation) -> None:
        k = self.allocations.index(allocation)
        del self.bases[k], self.allocations[k]

    def at(self, address: int) -> Allocation | None:
        """The allocation that has the byte at ``address``."""
        below = self._below(address)
        return below if below and address < below.base + below.size else None

    def _below(self, address: int) -> Allocation | None:
        """The last one that begins at ``address`` or before, empty ones aside."""
        for found in reversed(self.allocations[: bisect(self.bases, address)]):
            if found.size:
                return found
        return None

    def pieces(self, addresses: np.ndarray, width: int) -> list[Piece]:
        """Where an access of all lanes goes: one allocation nearly always, several where a launch does many
        steps. Raises OutOfBoundsError."""
        first = self.at(int(addresses[0]))
        if first and self._inside(first, addresses, width).all():
            return [Piece(first, self._offsets(first, addresses), slice(None))]
        found = []
        left = np.ones(len(addresses), bool)
        while left.any():
            lane = int(np.argmax(left))
            allocation = self._around(int(addresses[lane]), width, lane)
            mine = self._inside(allocation, addresses, width)
            lanes = np.flatnonzero(mine)
            found.append(Piece(allocation, self._offsets(allocation, addresses[lanes]), lanes))
            left &= ~mine
        return found

    def _around(self, address: int, width: int, lane: int) -> Allocation:
        found = self.at(address)
        if found and address + width <= found.base + found.size:
            return found
        below = self._below(address)
        where = f"; {below.name} has {below.size} bytes, and this is {address - below.base}" if below else ""
        raise OutOfBoundsError(f"{width} bytes at {address:#x} are in no allocation{where}", lane)

    @staticmethod
    def _inside(allocation: Allocation, addresses: np.ndarray, width: int) -> np.ndarray:
        last = allocation.base + allocation.size - width
        return (addresses >= allocation.base) & (addresses <= last) if last >= 0 else addresses != addresses

    @staticmethod
    def _offsets(allocation: Allocation, addresses: np.ndarray) -> np.ndarray:
        return (addresses - np.uint64(allocation.base)).view(np.int64)
