"""Memory of the host that the driver has pinned: copies from it to the device go on while the program does.

What was freed is kept, as that of the device is. A copy may still read what nobody has any more, so before
memory is given out again the device is waited for, if it was asked for such a copy since the last time.
"""

from __future__ import annotations

import bisect
import collections
import ctypes
import weakref
from typing import TYPE_CHECKING

import numpy as np

from jtorch.native.cuda.memory import rounded

if TYPE_CHECKING:
    from jtorch.native.cuda.device import Device


class _Memory:
    """Pinned bytes, as NumPy takes them for an array, until nobody has them."""

    __slots__ = ("__array_interface__", "__weakref__")

    def __init__(self, address: int, nbytes: int) -> None:
        self.__array_interface__ = {
            "version": 3, "typestr": "|u1", "data": (address, False), "shape": (nbytes,)
        }  # fmt: skip


class Pinned:
    """The pinned memory of a device's process. Whoever calls it holds ``device.alone``."""

    def __init__(self, device: Device) -> None:
        self._device = weakref.proxy(device)
        self._kept: dict[int, list[int]] = {}  # size -> addresses
        self._freed: collections.deque[tuple[int, int]] = collections.deque()  # at any moment
        self._begins: list[int] = []  # of what somebody has, sorted
        self._sizes: dict[int, int] = {}  # address -> size, of the same
        self.is_read = False  # whether a copy may read some of it still

    def empty(self, nbytes: int) -> np.ndarray:
        """That many bytes of undefined content. Raises CudaError where there are none left."""
        self._collect()
        size = rounded(nbytes)
        kept = self._kept.get(size)
        if kept and self.is_read:
            self._device.synchronize()
        address = kept.pop() if kept else self._from_driver(size)
        bisect.insort(self._begins, address)
        self._sizes[address] = size
        memory = _Memory(address, nbytes)
        weakref.finalize(memory, self._freed.append, (address, size)).atexit = False
        return np.asarray(memory)

    def holds(self, address: int) -> bool:
        """Whether it is an address in here."""
        if not self._begins:
            return False
        k = bisect.bisect_right(self._begins, address) - 1
        return k >= 0 and address < self._begins[k] + self._sizes[self._begins[k]]

    def empty_cache(self) -> None:
        """Give the driver back what is kept; all that was asked of the device is done."""
        self._collect()
        for addresses in self._kept.values():
            while addresses:
                self._device.cuda.cuMemFreeHost(addresses.pop())

    def _collect(self) -> None:
        while self._freed:
            address, size = self._freed.popleft()
            del self._sizes[address]
            self._begins.remove(address)
            self._kept.setdefault(size, []).append(address)

    def _from_driver(self, size: int) -> int:
        address = ctypes.c_void_p()
        self._device.cuda.cuMemHostAlloc(ctypes.byref(address), size, 0)
        return address.value or 0
