"""Plans over symbols on a CUDA device: recorded once, planned for each call's sizes.

The texts of kernels serve every size (``codegen/cuda_launch.py``), so one never seen before costs passes, a
plan, a table of arguments and a graph; nothing is recorded, and seldom a text is new. It runs what a
recording of these sizes would run. The latest ones are kept, and share all memory that no call finds again:
their runs are in one queue.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from jtorch.compile.codegen.code import Code
from jtorch.compile.codegen.cuda import emit_cuda
from jtorch.compile.graph.at_sizes import at_sizes
from jtorch.compile.graph.halves import Multiplies
from jtorch.compile.graph.ir import Graph
from jtorch.compile.pipeline import planned
from jtorch.compile.plan.plan import Place
from jtorch.compile.run.cuda import CudaRunner, Ends
from jtorch.compile.run.runner import Runner, keep
from jtorch.compile.target import Binding
from jtorch.compile.timings import Timings
from jtorch.core.environment import Environment
from jtorch.core.errors import CompileError, CudaError
from jtorch.core.failure import Failure
from jtorch.native.cuda.device import Device
from jtorch.native.cuda.memory import Buffer

MOST = 16
"""Sizes of a plan whose graphs are kept."""


class Instance(CudaRunner):
    """What runs calls of some sizes. ``used``: a call has run it since it was looked at as one to drop."""

    used = True


class CudaSizes(Runner):
    """The same duties as ``Instances``, on a device. ``graph`` is the recorded one; one for the sizes that it
    was recorded at is made at once, and refuses what a device cannot do."""

    def __init__(
        self, code: Code, graph: Graph, binding: Binding, env: Environment, names: Sequence[str],
        device: Device,
    ) -> None:  # fmt: skip
        super().__init__()
        self.code, self.graph, self.binding, self.device = code, graph, binding, device
        self.names, self.functions = names, env.functions
        tests = [test for test in (*env.limits, *env.tests) if env.is_about(test, names)]
        text = f"lambda {', '.join(names)}: {' and '.join(tests)}"
        self.holds: Callable[..., bool] = eval(text, dict(env.functions))
        self.found: dict[Any, Instance] = {}
        self.failed: Instance | None = None  # that of the latest call that failed
        self.room, self.ends = Room(device), Ends()
        first = self._made(tuple(env.value_of(name) for name in names))
        self.compiled, self.inner = first.compiled, first.inner

    def instantiate(self, *sizes: int) -> Instance | None:
        """What runs calls of these sizes; None where a guard does not hold, or a device has no graph of them:
        then a recording says why."""
        with self.alone:
            try:
                return self._made(sizes) if self.holds(*sizes) else None
            except (ArithmeticError, ValueError, CompileError):  # an integer that no int64 holds is one
                return None

    def _made(self, sizes: tuple[int, ...]) -> Instance:
        space = self.functions | dict(zip(self.names, sizes, strict=True))
        graph, destinations = at_sizes(self.graph, space), self.code.plan.destinations
        code = emit_cuda(planned(graph, destinations, Timings(), Multiplies.ALL))
        if self.room.is_short and self.room.block.nbytes:
            self.found.clear()  # or the memory that they are in would stay
        self.room.begin()
        try:
            made = self._instance(code)
        except CudaError:
            if not self.found:
                raise
            self.found.clear()  # and what memory they have: there may be enough then
            self.room = Room(self.device)
            made = self._instance(code)
        keep(self.found, sizes if len(sizes) > 1 else sizes[0], made, MOST)
        return made

    def _instance(self, code: Code) -> Instance:
        made = Instance(code, self.binding, self.device, self.room.take, self.ends)
        made.alone = self.alone
        return made

    # -- being asked ---------------------------------------------------------------------------------------

    def at(self, *sizes: int) -> Instance | None:
        """A runner for calls of these sizes; None where a guard does not hold."""
        return self.found.get(sizes if len(sizes) > 1 else sizes[0]) or self.instantiate(*sizes)

    def run(self, *arguments: Any) -> int:
        raise NotImplementedError  # an instance does

    @property
    def ended(self) -> int:
        return self.ends.number

    def move(self, place: Place, address: int) -> None:
        """Give a place outside another address: all instances read it there."""
        self.binding.fixed[place] = address

    def failure(self, status: int) -> Failure:
        """What went wrong."""
        assert self.failed is not None
        return self.failed.failure(status)


class Room:
    """Memory on a device that several graphs have in turn. What finds no room in it has memory of its own."""

    _ALIGNMENT, _MORE = 256, 1.5

    def __init__(self, device: Device) -> None:
        self.device = device
        with device.own():  # other threads allocate, too
            self.block = device.allocate(0)
        self._at = self._wanted = 0  # of the latest graph
        self._refused = math.inf

    @property
    def is_short(self) -> bool:
        """Whether a graph had not enough of it, and the next one may have more, in another place."""
        return self.block.nbytes < self._wanted < self._refused

    def begin(self) -> None:
        """With the next graph, in more room where there is some."""
        if self.is_short:
            try:
                with self.device.own():
                    self.block = self.device.allocate(int(self._wanted * self._MORE))
            except CudaError:  # then what is too large has memory of its own, or none
                self._refused = self._wanted
        self._at = self._wanted = 0

    def take(self, nbytes: int) -> Buffer:
        """Memory for the graph at hand, as long as whoever has it keeps the block, too."""
        begin = self._at
        self._at = begin + -(-nbytes // self._ALIGNMENT) * self._ALIGNMENT
        self._wanted = self._at
        if begin + nbytes > self.block.nbytes:
            return self.device.allocate(nbytes)
        return Shared(self.block, begin, nbytes)


class Shared(Buffer):
    """A part of a block, which it keeps."""

    __slots__ = ("block",)

    def __init__(self, block: Buffer, begin: int, nbytes: int) -> None:
        super().__init__(block.address + begin, nbytes)
        self.block = block
