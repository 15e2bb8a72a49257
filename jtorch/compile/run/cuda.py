"""Running plans on a CUDA device, over the host's memory: what a call reads is copied to the device, what it
wrote is copied back.

On the device everything has its place for good: inputs, results, gradients, the arena. A run is uploads, one
small kernel that sets what are single words (``cuda_patch``), one graph (``cuda_graph``), and downloads.
Nothing of the host's is written where a kernel reported an error.
"""

from __future__ import annotations

import collections
import ctypes
import functools
import itertools
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from jtorch.compile.codegen.code import Code
from jtorch.compile.graph.access import layout_of
from jtorch.compile.plan.plan import Place, Task, Where
from jtorch.compile.run.cuda_graph import CudaGraph, products_of
from jtorch.compile.run.cuda_patch import patch
from jtorch.compile.run.replay import failure_of
from jtorch.compile.run.runner import Runner, store
from jtorch.compile.target import Binding
from jtorch.core.failure import Failure
from jtorch.native.cuda.device import Device

_WORD = 8


class _Copy(NamedTuple):
    """A place, and where it lies on the device."""

    place: Place
    address: int
    nbytes: int


class CudaRunner(Runner):
    """The same duties as ``Replay``, on a device."""

    def __init__(self, code: Code, binding: Binding, device: Device) -> None:
        super().__init__()
        self._runs, self._done = itertools.count(1), collections.deque([0], 1)  # how many have ended
        products_of(code)  # refuses what cannot be done, before anything is allocated
        self.code, self.plan, self.device = code, code.plan, device
        self.numbers, self.fixed, self.dynamic = binding.numbers, binding.fixed, binding.dynamic
        with device.own():
            self._allocate()
        self.graph = CudaGraph(code, device, self.addresses)
        self.compiled = self.graph.compiled

    def _allocate(self) -> None:
        """Memory for each place outside of the arena that steps touch: single words side by side."""
        read, written = self._touched("reads"), self._touched("writes")
        sizes = read | written
        words = [p for p in sizes if p.kind is Where.INPUT and p in self.fixed and sizes[p] == _WORD]
        self.words = self.device.allocate(_WORD * len(words))
        self.word_places = words
        self.buffers = {place: self.device.allocate(n) for place, n in sizes.items() if place not in words}
        self.addresses = {place: buffer.address for place, buffer in self.buffers.items()}
        self.addresses |= {place: self.words.address + _WORD * k for k, place in enumerate(words)}
        copies = [_Copy(place, self.addresses[place], nbytes) for place, nbytes in sizes.items()]
        self.uploads = [c for c in copies if c.place.kind is Where.INPUT and c.place not in words]
        self.downloads = [c for c in copies if c.place in written and c.nbytes]

    def _touched(self, what: str) -> dict[Place, int]:
        """The places of variables outside of the arena that steps read, or write, and their sizes."""
        found: dict[Place, int] = {}
        for task in self.plan.tasks:
            for var in getattr(task, what):
                layout = layout_of(var, self.plan.fused.find)
                assert layout is not None
                place = self.plan.places[layout.owner]
                if place.kind is not Where.ARENA:
                    found[place] = max(found.get(place, 0), layout.owner.type.nbytes)
        return found

    # -- running ---------------------------------------------------------------------------------------------

    def run(self, *arguments: Any) -> int:
        with self.alone, self.device.own():
            store(self.numbers, arguments)
            for place, address, nbytes in self.uploads:
                self.device.upload(address, self._host(place, arguments), nbytes)
            patch(self.device, self.words.address, [_word(self.fixed[place]) for place in self.word_places])
            self.graph.launch()
            failed = self.graph.table.failed()
            if failed is not None:
                self.failed, code = failed
                return (self.plan.tasks.index(self.failed) << 16) | code
            copies = [(self._host(place, arguments), address, n) for place, address, n in self.downloads]
            self.device.download_all(
                copies, functools.partial(self._done.extend, itertools.islice(self._runs, 1))
            )
        return 0

    @property
    def ended(self) -> int:
        return self._done[-1]

    def _host(self, place: Place, arguments: Sequence[Any]) -> int:
        """Where the host's memory for a place is in this call."""
        if place in self.fixed:
            return self.fixed[place]
        return arguments[self.dynamic[place]].__array_interface__["data"][0]

    def move(self, place: Place, address: int) -> None:
        """Give a place of the host another address."""
        self.fixed[place] = address

    def failure(self, status: int) -> Failure:
        """What went wrong."""
        return failure_of(self.code, self.failed, status & 0xFFFF)

    def call_of(self, *tasks: Task) -> Callable[..., int]:
        raise RuntimeError("the steps of a plan on a CUDA device are one graph, of which none runs alone")


def _word(address: int) -> int:
    return ctypes.c_int64.from_address(address).value
