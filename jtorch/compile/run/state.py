"""What a plan owns between calls: gradient buffers, and the versions of the tensors it writes.

A replay does no Python work per parameter. ``tensor._grad`` holds a ``PlanGrad`` that finds the
gradient in the plan's memory when somebody asks for it; a buffer that was handed out is replaced
before the next replay, so a kept gradient stays what it was. Versions follow the count of the plan.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import Any

import numpy as np

from jtorch.compile.graph.ir import Type
from jtorch.core.device_array import address_of, copied
from jtorch.core.lazy_grad import LazyGrad
from jtorch.eager.evaluate import EAGER
from jtorch.eager.tensor import Tensor, wrap


class Clock:
    """How often a plan has run."""

    __slots__ = ("count", "stopped")

    def __init__(self) -> None:
        self.count = 0
        self.stopped = False

    def stop_with(self, call: Callable) -> None:
        """No more is counted once ``call``, which counts, is gone (no thread can be inside it then)."""
        weakref.finalize(call, setattr, self, "stopped", True).atexit = False


class PlanVersion:
    """The version of a tensor that a plan writes: a number plus the plan's count. Stands in a version cell
    where an int stood; ``cell[0] + 0`` reads it, ``cell[0] += 1`` moves it."""

    __slots__ = ("base", "clocks")

    def __init__(self, base: int) -> None:
        self.base = base
        self.clocks: list[tuple[Clock, int]] = []  # with how far each of their counts moves it

    def __int__(self) -> int:
        total = self.base
        for clock, advances in self.clocks:  # nearly always one: a generator would cost four times this
            total += clock.count * advances
        return total

    __index__ = __int__

    def __add__(self, other: int) -> int:
        return self.__int__() + other

    def __iadd__(self, other: int) -> PlanVersion:
        self.base += other
        return self

    def __eq__(self, other: object) -> bool:
        return self.__int__() == other

    def __hash__(self) -> int:
        return id(self)

    def __repr__(self) -> str:
        return str(int(self))

    def follow(self, clock: Clock, advances: int) -> None:
        if not any(c is clock for c, _ in self.clocks):
            stopped = [pair for pair in self.clocks if pair[0].stopped]  # of plans dropped for newer ones
            self.clocks = [*(pair for pair in self.clocks if not pair[0].stopped), (clock, advances)]
            self.base += sum(c.count * n for c, n in stopped) - clock.count * advances


def follow(cell: list, clock: Clock, advances: int = 1) -> None:
    """Let the version in ``cell`` move on by ``advances`` at each count of ``clock``."""
    if not isinstance(cell[0], PlanVersion):
        cell[0] = PlanVersion(int(cell[0]))
    cell[0].follow(clock, advances)


class PlanGrad(LazyGrad):
    """The gradient of one tensor in a plan's memory."""

    __slots__ = ("buffer", "escaped", "index", "owner", "tensor", "view")

    def __init__(
        self, owner: Gradients, index: int, tensor: Tensor, type: Type, zeros: Callable[..., Any]
    ) -> None:
        self.owner = owner
        self.index = index
        self.tensor = tensor
        self.buffer = zeros(type.shape, type.dtype)
        self.view: Tensor | None = None
        self.escaped = False

    def resolve(self) -> Tensor:
        if self.view is None:
            self.view = wrap(self.buffer)
            self.escaped = True
            self.owner.stale = True
        return self.view

    def forget(self) -> None:
        self.owner.unbound = self.owner.stale = True


class Gradients:
    """The gradients that a plan sets. ``stale`` says that ``refresh`` has something to do."""

    def __init__(self) -> None:
        self.slots: list[PlanGrad] = []
        self.stale = self.unbound = True
        self.zeros: Callable[..., Any] = np.zeros  # makes a buffer
        self.move: Any = None  # replay's move(place, address), by slot

    def add(self, tensor: Tensor, type: Type) -> PlanGrad:
        slot = PlanGrad(self, len(self.slots), tensor, type, self.zeros)
        self.slots.append(slot)
        return slot

    def refresh(self) -> list[tuple[Tensor, Any]]:
        """Replace the buffers that were handed out; put each slot back where it was taken from.

        Until the replay a new buffer holds the old gradient, for another thread may take it. The answer is
        what ``restore`` needs if the replay fails.
        """
        before: list[tuple[Tensor, Any]] = []
        unbound = self.unbound
        self.stale = self.unbound = False  # first: a gradient that another thread takes now is for next time
        try:
            fresh = [(slot, copied(slot.buffer)) for slot in self.slots if slot.escaped]
            for slot, buffer in fresh:
                if slot.tensor._grad is slot:
                    before.append((slot.tensor, slot.view))
                slot.buffer = buffer
                slot.view, slot.escaped = None, False
                self.move(slot.index, address_of(buffer))
            for slot in self.slots if unbound else ():
                if slot.tensor._grad is not slot:
                    before.append((slot.tensor, slot.tensor._grad))
                    EAGER.set_grad(slot.tensor, slot)
        except BaseException:  # no memory, or Ctrl-C
            self.restore(before)
            self.stale = self.unbound = True
            raise
        return before

    def restore(self, before: list[tuple[Tensor, Any]]) -> None:
        """Give the tensors the gradients they had before ``refresh``."""
        for tensor, grad in before:
            EAGER.set_grad(tensor, grad)
