"""Running plans on a CUDA device: what a call brings is copied to where the plan has its place for it, what
it gives is copied from there; from the host's memory, or on the device where tensors lie there.

On the device everything has its place for good: inputs, results, gradients, the arena. What the function
reaches by itself and lies on the device, as parameters do, is worked on where it lies. A run is copies, one
small kernel that sets what are single words (``cuda_patch``), one graph or several with calls of the host's
between them (``cuda_graph``), and copies. To Python the copies are one instruction, and so is a graph with
them that writes where others look: Ctrl-C comes before all that, or after. Nothing outside of the plan is
written where a step reported an error: a plan of which one may has places of its own for all that it writes.
"""

from __future__ import annotations

import collections
import ctypes
import functools
import itertools
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from jtorch.compile.codegen.code import Code
from jtorch.compile.graph.access import layout_of
from jtorch.compile.plan.plan import Place, Task, Where
from jtorch.compile.run.cuda_graph import CudaGraph
from jtorch.compile.run.cuda_patch import patch
from jtorch.compile.run.cuda_steps import Steps
from jtorch.compile.run.cuda_times import Timer
from jtorch.compile.run.replay import failure_of
from jtorch.compile.run.runner import Runner, store
from jtorch.compile.target import Binding
from jtorch.core.device_array import DeviceArray, address_of
from jtorch.core.failure import Failure
from jtorch.core.settings import allows_tf32
from jtorch.native.cuda.device import Device
from jtorch.native.cuda.memory import Buffer

_WORD = 8


class _Copy(NamedTuple):
    """A place, and where the plan has it on the device."""

    place: Place
    address: int
    nbytes: int


class Ends:
    """How many runs have ended. ``one()`` gives what adds one, which to Python is one instruction."""

    def __init__(self) -> None:
        self._runs, self._done = itertools.count(1), collections.deque([0], 1)

    def one(self) -> Callable[[], None]:
        return functools.partial(self._done.extend, itertools.islice(self._runs, 1))

    @property
    def number(self) -> int:
        return self._done[-1]


class CudaRunner(Runner):
    """The same duties as ``Replay``, on a device. ``allocate`` gives memory that runs leave nothing in for
    others, ``ends`` counts the runs that have ended: several runners, of which one runs at a time, may have
    both in common."""

    def __init__(
        self, code: Code, binding: Binding, device: Device,
        allocate: Callable[[int], Buffer] | None = None, ends: Ends | None = None,
    ) -> None:  # fmt: skip
        super().__init__()
        self._ends = ends or Ends()
        self.timer: Timer | None = None
        self.steps = Steps(code)  # refuses what cannot be done, before anything is allocated
        self.code, self.plan, self.device = code, code.plan, device
        self.numbers, self.fixed, self.dynamic = binding.numbers, binding.fixed, binding.dynamic
        self.resident = binding.resident
        with device.own():
            self._allocate(allocate or device.allocate)
        multiplied = {step.product.dtype for step in self.steps.all if step.product}
        self.may_round = np.dtype(np.float32) in multiplied  # factors of products, to TF32
        self.graph = self._captured(allocate or device.allocate)
        self.compiled = self.graph.compiled
        self.inner = self.steps.codes[1:]

    def _allocate(self, allocate: Callable[[int], Buffer]) -> None:
        """Memory for each place outside of the arena that steps touch: single words side by side."""
        read, written = self._touched("reads"), self._touched("writes")
        sizes = read | written
        may_fail = any(step.is_host or (step.kernel and step.kernel.errors) for step in self.steps.all)
        may_fail |= self.steps.asks_elements  # Ctrl-C may come between turns
        in_place = {p for p in self.resident & sizes.keys() if p.kind is Where.INPUT}
        in_place -= written.keys() if may_fail else set()
        outside = [p for p in sizes if p.kind is Where.INPUT and p not in self.resident]
        words = [p for p in outside if p in self.fixed and sizes[p] == _WORD]
        own = {place: n for place, n in sizes.items() if place not in in_place}
        self.words = allocate(_WORD * len(words))
        self.word_places = words
        self.buffers = {place: allocate(n) for place, n in own.items() if place not in words}
        self.addresses = {place: buffer.address for place, buffer in self.buffers.items()}
        self.addresses |= {place: self.words.address + _WORD * k for k, place in enumerate(words)}
        self.addresses |= {place: self.fixed[place] for place in in_place}
        copies = [_Copy(place, self.addresses[place], nbytes) for place, nbytes in own.items()]
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

    def _captured(self, allocate: Callable[[int], Buffer]) -> CudaGraph:
        return CudaGraph(self.steps, self.device, self.addresses, allocate, self.may_round and allows_tf32())

    def _follow_settings(self) -> None:
        """What products may round to is a part of the graph, which is captured again where that changed."""
        if self.may_round and self.graph.tf32 != allows_tf32():
            self.graph = self._captured(self.device.allocate)

    # -- running ---------------------------------------------------------------------------------------------

    def run(self, *arguments: Any) -> int:
        with self.alone:
            self._follow_settings()
            with self.device.own():
                self._bring(arguments)
            failed = self.graph.run()
            if failed is not None:
                self.failed, code = failed
                return (self.plan.tasks.index(self.failed.whole) << 16) | code
            with self.device.own():
                self._end(arguments)
        return 0

    def _bring(self, arguments: Sequence[Any]) -> None:
        """What a call brings goes to where the plan has it."""
        store(self.numbers, arguments)
        for place, address, nbytes in self.uploads:
            source, is_there = self._outside(place, arguments)
            copy = self.device.copy if is_there else self.device.upload
            copy(address, source, nbytes)
        patch(self.device, self.words.address, [_word(self.fixed[place]) for place in self.word_places])

    def _end(self, arguments: Sequence[Any]) -> None:
        """What is left of a run goes through, and what it gives goes to where it is wanted."""
        copies: dict[bool, list[tuple[int, int, int]]] = {True: [], False: []}
        for place, address, nbytes in self.downloads:
            to, is_there = self._outside(place, arguments)
            copies[is_there].append((to, address, nbytes))
        last = [self.graph.last.handle] if self.graph.last else []
        self.device.finish(last, copies[True], copies[False], self._ends.one())

    @property
    def ended(self) -> int:
        return self._ends.number

    def _outside(self, place: Place, arguments: Sequence[Any]) -> tuple[int, bool]:
        """(where what a place stands for lies in this call, whether that is on the device)"""
        if place in self.fixed:
            return self.fixed[place], place in self.resident
        array = arguments[self.dynamic[place]]
        return address_of(array), array.__class__ is DeviceArray

    def move(self, place: Place, address: int) -> None:
        """Give a place outside another address."""
        self.fixed[place] = address

    def failure(self, status: int) -> Failure:
        """What went wrong."""
        return failure_of(self.failed.code, self.failed.task, status & 0xFFFF)

    def call_of(self, *tasks: Task) -> Callable[..., int]:
        raise RuntimeError("the steps of a plan on a CUDA device are one graph, of which none runs alone")

    def begin(self) -> None:
        """The same for a plan that is reached by addresses alone."""
        with self.device.own():
            self._bring(())

    def timer_of(self, *tasks: Task) -> Callable[[], float]:
        """A step as a graph of its own, timed on the device."""
        (task,) = tasks
        if self.timer is None:
            self.timer = Timer(self.device)
        return self.timer.of(self.graph.alone(task))

    def flops_of(self, scan: Task) -> int:
        """Floating-point operations of the products of a loop over time."""
        return self.steps.scans[scan].steps * self.steps.turns[scan].flops


def _word(address: int) -> int:
    return ctypes.c_int64.from_address(address).value
