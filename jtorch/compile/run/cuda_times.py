"""How long steps of a plan on a CUDA device take, and what the device can do at its best.

The marks around a step go through the stream as it does. So that the device does not wait for the host
between them, a copy of many bytes goes before: while it runs, all three are asked for.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from jtorch.eager.evaluate import EAGER
from jtorch.native.cuda.device import Device
from jtorch.native.cuda.graph import Graph

if TYPE_CHECKING:
    from jtorch.compile.run.cuda_graph import Parts

_AHEAD = 10  # how many times the bytes of the copy before are doubled to be all memory: 64 MB of 64 GB
_LARGEST = 6  # the same of those whose copy gives the speed of memory
_ROWS = (64, 256, 1024, 4096)  # of factors; the best of them counts


class Timer:
    """Tells how long things take that are asked of a device."""

    def __init__(self, device: Device) -> None:
        self.device = device
        with device.own():
            self.begin, self.end = device.event(True, False), device.event(True, False)
            _, total = device.memory.free_and_total()
            self.half = total >> _AHEAD + 1
            self.copied = device.allocate(2 * self.half)
            device.clear(self.copied.address, self.copied.nbytes)

    def asked(self, ask: Callable[[], Any]) -> float:
        """The microseconds on the device of what ``ask`` puts into its stream."""
        with self.device.own():
            self.device.copy(self.copied.address, self.copied.address + self.half, self.half)
            self.begin.record()
            ask()
            self.end.record()
            self.end.synchronize()
            return self.begin.milliseconds_to(self.end) * 1e3

    def called(self, call: Callable[[], Any]) -> float:
        """The microseconds of the host, until the device is done."""
        with self.device.own():
            self.device.synchronize()
        start = time.perf_counter_ns()
        call()
        with self.device.own():
            self.device.synchronize()
        return (time.perf_counter_ns() - start) / 1e3

    def of(self, parts: Parts) -> Callable[[], float]:
        """What runs a step, and gives the microseconds that it took: by the clock of the host where that has
        a part in it."""
        if all(isinstance(part, Graph) for part in parts.parts):
            return lambda: self.asked(parts.launch)  # which keeps the memory that its graphs need
        return lambda: self.called(parts.run)


class Best:
    """The speeds of a device, the best of what was measured: operations a second, of products of float32 by
    cuBLAS, and bytes a second, of copies in its memory, by how many are read and written."""

    def __init__(self, memory: Any) -> None:
        self.device, self.timer = memory.native, Timer(memory.native)
        with self.device.own():
            most = self.device.memory.free_and_total()[1] >> _LARGEST
        self.multiply = EAGER.on_device.xp(memory).matmul
        rows = [n for n in _ROWS if 12 * n * n <= most]
        self.factors = [memory.filled(np.float32(1.0), (n, n)) for n in rows]
        sizes = [1 << k for k in range(16, 40, 2)]
        self.bytes_a_second = {size: 0.0 for size in sizes if size <= most}
        with self.device.own():
            self.copied = self.device.allocate(max(self.bytes_a_second))
            self.device.clear(self.copied.address, self.copied.nbytes)
        for x in self.factors:
            self.multiply(x, x)  # which loads what it needs
        self.flops = 0.0

    def measure(self) -> None:
        """Once more."""
        for x in self.factors:
            us = self.timer.asked(partial(self.multiply, x, x))
            self.flops = max(self.flops, 2 * x.shape[0] ** 3 / us * 1e6)
        begin = self.copied.address
        for size, before in self.bytes_a_second.items():
            us = self.timer.asked(partial(self.device.copy, begin + size // 2, begin, size // 2))
            self.bytes_a_second[size] = max(before, size / us * 1e6)
