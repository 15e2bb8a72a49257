"""The arguments of a plan's CUDA kernels: a table with a row of 8-byte words a step, in device memory.

Beside the memory that the plan knows kernels have words for their errors and scratch memory for partial
results; each step has its own, so that steps may run at once.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from jtorch.compile.codegen.code import Code
from jtorch.compile.codegen.cuda_launch import Scratch, Status, argument_block
from jtorch.compile.codegen.emitter import Pointer
from jtorch.compile.graph.ir import Var
from jtorch.compile.plan.plan import Task
from jtorch.native.cuda.device import Device

_ALIGNMENT = 256
_WORD = 8


class Table:
    """``address`` tells where variables begin. ``own``: what a step writes beside its variables."""

    def __init__(self, code: Code, device: Device, address: Callable[[Var], int]) -> None:
        self.code, self.device, self._address = code, device, address
        counts = [len(kernel.errors) for kernel in code.kernels.values()]
        self.n_errors = sum(counts)
        firsts = itertools.accumulate(counts, initial=0)
        self.errors = {
            task: range(n, n + c) for task, n, c in zip(code.kernels, firsts, counts, strict=False)
        }
        self.status = device.allocate(_WORD * self.n_errors)
        scratch = [a for k in code.kernels.values() for a in k.arguments if isinstance(a, Scratch)]
        self._begins = list(itertools.accumulate(map(_room, scratch), initial=0))
        self.scratch = device.allocate(self._begins[-1])
        self.own: dict[Task, list[range]] = {}

    def blocks(self) -> dict[Task, np.ndarray]:
        """The rows, by what ``address`` tells now."""
        self.own = {task: [] for task in self.code.kernels}
        left = iter(self._begins)
        return {task: self._block(task, left) for task in self.code.kernels}

    def _block(self, task: Task, begins: Iterator[int]) -> np.ndarray:
        def place(argument: Any) -> int:
            if isinstance(argument, Pointer):
                return self._address(argument.var)
            if isinstance(argument, Scratch):
                begin, nbytes = self.scratch.address + next(begins), _room(argument)
            else:
                assert isinstance(argument, Status)
                begin = self.status.address + _WORD * self.errors[task].start
                nbytes = _WORD * argument.items
            self.own[task].append(range(begin, begin + nbytes))
            return begin

        return argument_block(self.code.kernels[task].arguments, place)

    def upload(self, order: Sequence[Task]) -> None:
        """Put the rows of all steps into device memory, in this order: those of one launch follow each
        other."""
        written = self.blocks()
        blocks = [written[task] for task in order]
        begins = itertools.accumulate((block.nbytes for block in blocks), initial=0)
        words = np.concatenate([np.empty(0, np.int64), *blocks])
        self.n_words = len(words)
        self.memory = self.device.allocate(words.nbytes)
        self.device.upload(self.memory.address, words.ctypes.data, words.nbytes)
        self.rows = {task: self.memory.address + n for task, n in zip(order, begins, strict=False)}

    @property
    def status_span(self) -> range:
        """The addresses of the words of errors, which must be 0 before a run."""
        return range(self.status.address, self.status.address + _WORD * self.n_errors)

    def failed(self) -> tuple[Task, int] | None:
        """Wait for the latest run: the first step that reported an error, and its number, from 1 on."""
        if not self.n_errors:
            self.device.synchronize()
            return None
        words = np.empty(self.n_errors, np.int64)
        self.device.download(words.ctypes.data, self.status.address, words.nbytes)
        for task, places in self.errors.items():
            hit = np.flatnonzero(words[places.start : places.stop])
            if len(hit):
                return task, int(hit[0]) + 1
        return None


def _room(scratch: Scratch) -> int:
    return -(-scratch.items * scratch.dtype.itemsize // _ALIGNMENT) * _ALIGNMENT
