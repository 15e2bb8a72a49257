"""The arguments of a plan's CUDA kernels: a table with a row of 8-byte words a step, in device memory.

Beside the memory that the plan knows kernels have words for their errors and scratch memory for partial
results; each step has its own, so that steps may run at once. The turns of a loop have words of their own for
errors, and share the scratch memory.
"""

from __future__ import annotations

import bisect
import itertools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from jtorch.compile.codegen.cuda_launch import Scratch, Status, argument_block
from jtorch.compile.codegen.emitter import Pointer
from jtorch.compile.run.cuda_steps import Placed, Step
from jtorch.native.cuda.device import Device
from jtorch.native.cuda.memory import Buffer

_ALIGNMENT = 256
_WORD = 8


class Table:
    """``own``: what a step writes beside its variables. ``allocate`` gives memory that a run leaves nothing
    in for the next one; the table of another turn of the same steps has the memory of the first, ``like``."""

    def __init__(
        self, placed: Sequence[Placed], device: Device, allocate: Callable[[int], Buffer],
        like: Table | None = None,
    ) -> None:  # fmt: skip
        self.device, self.placed = device, [one for one in placed if one.step.kernel]
        self.firsts = [*itertools.accumulate((len(p.step.kernel.errors) for p in self.placed), initial=0)]
        self.n_errors = self.firsts.pop()
        self.status: Buffer = like.status if like else allocate(_WORD * self.n_errors)
        steps = dict.fromkeys(one.step for one in self.placed)
        rooms = [sum(map(_room, _scratch(step))) for step in steps]
        self.scratch: Buffer = like.scratch if like else allocate(sum(rooms))
        begins = itertools.accumulate(rooms, initial=self.scratch.address)
        self._scratch_of = dict(zip(steps, begins, strict=False))
        self.own: dict[Placed, list[range]] = {}

    def blocks(self) -> dict[Placed, np.ndarray]:
        """The rows, by the addresses of now."""
        self.own = {}
        return {one: self._block(one, first) for one, first in zip(self.placed, self.firsts, strict=True)}

    def _block(self, placed: Placed, first: int) -> np.ndarray:
        """The row of a step whose first error is this one of all."""
        own, scratch = self.own.setdefault(placed, []), self._scratch_of[placed.step]

        def place(argument: Any) -> int:
            nonlocal scratch
            if isinstance(argument, Pointer):
                return placed.address(argument.var)
            if isinstance(argument, Scratch):
                begin, nbytes = scratch, _room(argument)
                scratch += nbytes
            else:
                assert isinstance(argument, Status)
                begin, nbytes = self.status.address + _WORD * first, _WORD * argument.items
            own.append(range(begin, begin + nbytes))
            return begin

        return argument_block(placed.step.kernel.arguments, place)

    def upload(self, order: Sequence[Placed]) -> None:
        """Put the rows of all steps into device memory, in this order: those of one launch follow each
        other."""
        written = self.blocks()
        blocks = [written[one] for one in order]
        begins = itertools.accumulate((block.nbytes for block in blocks), initial=0)
        words = np.concatenate([np.empty(0, np.int64), *blocks])
        self.n_words = len(words)
        self.memory = self.device.allocate(words.nbytes)
        self.device.upload(self.memory.address, words.ctypes.data, words.nbytes)
        self.rows = {one: self.memory.address + n for one, n in zip(order, begins, strict=False)}

    @property
    def status_span(self) -> range:
        """The addresses of the words of errors, which must be 0 before a run."""
        return range(self.status.address, self.status.address + _WORD * self.n_errors)

    def failed(self) -> tuple[Step, int] | None:
        """Wait for the latest run: the first step that reported an error, and its number, from 1 on."""
        if not self.n_errors:
            self.device.synchronize()
            return None
        words = np.empty(self.n_errors, np.int64)
        self.device.download(words.ctypes.data, self.status.address, words.nbytes)
        hit = np.flatnonzero(words)
        if not len(hit):
            return None
        k = bisect.bisect_right(self.firsts, int(hit[0])) - 1
        return self.placed[k].step, int(hit[0]) - self.firsts[k] + 1


def _scratch(step: Step) -> list[Scratch]:
    return [argument for argument in step.kernel.arguments if isinstance(argument, Scratch)]


def _room(scratch: Scratch) -> int:
    return -(-scratch.items * scratch.dtype.itemsize // _ALIGNMENT) * _ALIGNMENT
