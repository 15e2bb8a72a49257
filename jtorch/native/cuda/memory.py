"""Memory of a device. What was freed is kept, and given to the next who asks for as much: asking the driver
takes some hundred microseconds, and a program that asks for the same sizes in the same order gets the same
addresses.

All that a device does is in one stream, so memory may be handed on while what used it still runs.
"""

from __future__ import annotations

import collections
import ctypes
import weakref
from dataclasses import dataclass

from jtorch.core.errors import CudaError
from jtorch.native.cuda.driver import Library

ALIGNMENT = 512
_STEPS = 8  # sizes that are kept apart between a power of two and the next one
OUT_OF_MEMORY = 2


@dataclass
class Statistics:
    """Bytes: what is in use, what the driver was asked for and has not got back, and the most of each."""

    allocated: int = 0
    reserved: int = 0
    max_allocated: int = 0
    max_reserved: int = 0
    driver_calls: int = 0  # how often the driver was asked for memory


class Buffer:
    """``nbytes`` of memory at ``address``, until nobody has this any more."""

    __slots__ = ("__weakref__", "address", "nbytes")

    def __init__(self, address: int, nbytes: int) -> None:
        self.address, self.nbytes = address, nbytes

    def __repr__(self) -> str:
        return f"<{self.nbytes} bytes of device memory at {self.address:#x}>"


class Allocator:
    """``caching=False`` asks the driver each time, for no more than is wanted: a debugger's way, which finds
    what is used after it was freed."""

    def __init__(self, cuda: Library, caching: bool = True) -> None:
        self.cuda, self.caching = cuda, caching
        self.statistics = Statistics()
        self._kept: dict[int, list[int]] = {}  # size -> addresses, the latest last
        # Python may let go of a buffer at any moment, in the middle of this, too
        self._freed: collections.deque[tuple[int, int]] = collections.deque()

    def allocate(self, nbytes: int) -> Buffer:
        """Memory of undefined content. Raises CudaError where there is none left."""
        self.collect()
        size = rounded(nbytes) if self.caching else max(nbytes, 1)
        kept = self._kept.get(size)
        address = kept.pop() if kept else self._ask(size)
        found, now = Buffer(address, nbytes), self.statistics
        weakref.finalize(found, self._freed.append, (address, size)).atexit = False
        now.allocated += size
        now.max_allocated = max(now.max_allocated, now.allocated)
        return found

    def collect(self) -> None:
        """Take back what nobody has any more."""
        while self._freed:
            address, size = self._freed.popleft()
            self.statistics.allocated -= size
            if self.caching:
                self._kept.setdefault(size, []).append(address)
            else:
                self._give_back(address, size)

    def empty_cache(self) -> None:
        """Give the driver back what is kept."""
        self.collect()
        for size, addresses in self._kept.items():
            while addresses:
                self._give_back(addresses.pop(), size)

    def _ask(self, size: int) -> int:
        try:
            return self._from_driver(size)
        except CudaError as error:
            if error.status != OUT_OF_MEMORY or not any(self._kept.values()):
                raise self._explained(error, size) from None
        self.empty_cache()
        try:
            return self._from_driver(size)
        except CudaError as error:
            raise self._explained(error, size) from None

    def _from_driver(self, size: int) -> int:
        address = ctypes.c_uint64()
        self.cuda.cuMemAlloc_v2(ctypes.byref(address), size)
        now = self.statistics
        now.driver_calls += 1
        now.reserved += size
        now.max_reserved = max(now.max_reserved, now.reserved)
        return address.value

    def _give_back(self, address: int, size: int) -> None:
        self.cuda.cuMemFree_v2(address)
        self.statistics.reserved -= size

    def free_and_total(self) -> tuple[int, int]:
        """Bytes of the device that nobody has, and all of them, as the driver counts."""
        free, total = ctypes.c_size_t(), ctypes.c_size_t()
        self.cuda.cuMemGetInfo_v2(ctypes.byref(free), ctypes.byref(total))
        return free.value, total.value

    def _explained(self, error: CudaError, size: int) -> Exception:
        if error.status != OUT_OF_MEMORY:
            return error
        free, total = self.free_and_total()
        text = (
            f"CUDA out of memory. Tried to allocate {_in_words(size)}. The GPU has a total capacity of "
            f"{_in_words(total)} of which {_in_words(free)} is free. Of the allocated memory "
            f"{_in_words(self.statistics.allocated)} is in use."
        )
        return CudaError(text, error.function, error.status)


def rounded(nbytes: int) -> int:
    """The size of the memory that so many bytes get: one of few, and at most an eighth larger where it is
    more than some KiB."""
    step = max(ALIGNMENT, (1 << max(nbytes, 1).bit_length() - 1) // _STEPS)
    return -(-max(nbytes, 1) // step) * step


def _in_words(nbytes: int) -> str:
    for unit, power in (("GiB", 30), ("MiB", 20), ("KiB", 10)):
        if nbytes >= 1 << power:
            return f"{nbytes / (1 << power):.2f} {unit}"
    return f"{nbytes} bytes"
