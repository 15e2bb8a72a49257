"""Collectives inside compiled functions: what a recording holds of them, and what its replays begin.

Each is one equation, which begins when what it sends has been computed, and is waited for by who reads what
it gives. They are those of eager mode, of the same order and number: a process that runs compiled meets
others that do not.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from jtorch.core.errors import CompileError
from jtorch.distributed import reduction, steps
from jtorch.distributed.reduction import ReduceOp
from jtorch.distributed.work import Order, Work
from jtorch.eager.public import Tensor, exchanged, no_grad


class Collective:
    """One collective of a recording. ``start(flat)`` begins it in place: in memory for all elements of this
    process, or for those of all processes, one part each."""

    def __init__(
        self, group: Any, order: Order, begin: Callable[[Any], Iterator[Any]], stages: int = 1,
        gathers: bool = False,
    ) -> None:  # fmt: skip
        self.group, self.order, self._begin, self.stages = group, order, begin, stages
        self.name = order.op
        self.parts: int = group.size() if gathers else 1
        self.place: int = group.rank() if gathers else 0

    def start(self, flat: np.ndarray) -> Work:
        work = self.group.start(self.order, self._begin(Memory(flat)), True, self.stages)
        assert work is not None
        return work

    def __str__(self) -> str:
        return str(self.order)


class Memory:
    """What a collective of a replay writes, in the place of a tensor: see ``buffers.Target``."""

    tensor = None

    def __init__(self, flat: np.ndarray) -> None:
        self.flat = flat

    def commit(self) -> None:
        pass


class Begun:
    """A collective of a recording, whose result is flat; averages are divided where it is asked for."""

    def __init__(self, flat: Tensor, divisor: int = 1) -> None:
        self._flat, self._divisor = flat, divisor

    def result(self, begin: int, shape: tuple[int, ...]) -> Tensor:
        """The elements from number ``begin`` on, in this shape."""
        part = self._flat[begin : begin + math.prod(shape)].view(shape)
        return part if self._divisor == 1 else part / self._divisor


class RecordedWork:
    """What ``all_reduce`` and ``broadcast`` of ``tensor`` give with ``async_op=True``: ``wait()`` puts the
    result into it."""

    def __init__(self, tensor: Tensor, begun: Begun) -> None:
        self._tensor, self._begun = tensor, begun

    def wait(self, timeout: Any = None) -> bool:
        with no_grad():
            self._tensor.copy_(self._begun.result(0, tuple(self._tensor.shape)))
        return True

    def __getattr__(self, name: str) -> Any:
        raise CompileError(f"Work.{name} in a compiled function: a recording knows wait() alone")


def given(tensor: Tensor, begun: Begun, async_op: bool) -> Any:
    """What ``all_reduce`` and ``broadcast`` give."""
    work = RecordedWork(tensor, begun)
    if async_op:
        return work
    work.wait()
    return None


def all_reduce(
    group: Any, tensors: list[Tensor], order: Order, op: ReduceOp, in_order: bool = False
) -> Begun:
    """The elements of ``tensors``, reduced over all processes; with ``in_order`` in that of the ranks.

    Averages are divided in the recording, where kernels that read them do so.
    """
    dtype = tensors[0].dtype.numpy
    how = ReduceOp.SUM if op is ReduceOp.AVG and reduction.is_native(dtype) else op
    in_order = in_order or reduction.in_order(op, dtype, sum(t.numel() for t in tensors) * dtype.itemsize)
    begin = steps.ordered_all_reduce if in_order else steps.all_reduce
    stages = 2 if begin is steps.ordered_all_reduce else 1
    collective = Collective(group, order, lambda memory: begin(group, memory, how), stages)
    return Begun(_begun(collective, tensors), 1 if how is op else group.size())


def broadcast(group: Any, tensors: list[Tensor], order: Order, root: int) -> Begun:
    """The elements that ``tensors`` have in the process ``root``."""
    return Begun(
        _begun(Collective(group, order, lambda memory: steps.broadcast(group, memory, root)), tensors)
    )


def all_gather(group: Any, tensors: list[Tensor], order: Order) -> Begun:
    """The elements of ``tensors`` in all processes, in the order of ranks."""
    begin = functools.partial(steps.all_gather_in_place, group)
    return Begun(_begun(Collective(group, order, begin, gathers=True), tensors))


def _begun(collective: Collective, tensors: list[Tensor]) -> Tensor:
    with no_grad():
        return exchanged(collective, [t.detach() for t in tensors])
