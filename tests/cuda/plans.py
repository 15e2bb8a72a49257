"""Plans whose CUDA kernels run, as the PTX that a driver would get, on the machine of ``tests/cuda/ptx``."""

from __future__ import annotations

import ctypes
import itertools
import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from jtorch.compile.codegen.code import Code
from jtorch.compile.codegen.cuda import CudaKernel, emit_cuda
from jtorch.compile.codegen.cuda_launch import (
    THREADS,
    Argument,
    Footprint,
    Launch,
    Phase,
    Status,
    argument_block,
    batches,
    launches,
)
from jtorch.compile.codegen.emitter import Number, Pointer
from jtorch.compile.graph.access import layout_of
from jtorch.compile.plan.plan import Place, Task, Where
from jtorch.compile.run.runner import store
from jtorch.compile.run.unjitted import Unjitted
from jtorch.compile.target import Binding, Target
from tests.cuda.ptx.machine import STEPS, launch
from tests.cuda.ptx.memory import Allocation, Memory
from tests.cuda.ptx.translate import Kernel, load

_TEXTS: dict[tuple[str, bool], str] = {}  # NVVM takes 0.15 s for one


def ptx_of(kernel: CudaKernel, table: bool = True) -> str:
    """What ``compile_ptx`` gives, remembered for the next test with the same kernel."""
    from jtorch.compile.codegen.cuda_build import compile_ptx

    key = kernel.source, table
    if key not in _TEXTS:
        _TEXTS[key] = compile_ptx(kernel, table=table)
    return _TEXTS[key]


@dataclass(frozen=True)
class _Span:
    """Memory of a variable that a step reads or writes."""

    name: str
    place: Place
    bytes: range
    is_written: bool


class OnPtxMachine(Unjitted):
    """The same duties as ``Replay``. Steps with one text that touch different memory are one launch:
    ``launched`` lists (kernel, how many steps) of the latest run.

    A launch may touch the variables that its steps read and write, and nothing else; it may change those that
    they write. Of results and scratch memory all counts as unwritten that no step has written in this run.
    """

    threads = THREADS
    table = True  # whether kernels get a table of arguments, or the arguments themselves
    steps = STEPS  # after which a launch counts as endless

    def __init__(self, code: Code, binding: Binding) -> None:
        super().__init__(code, binding)
        self.launched: list[tuple[str, int]] = []
        self.written: dict[int, np.ndarray] = {}  # address of memory that is new in a run -> a bool per byte

    def _load(self) -> dict[str, Kernel]:
        """The kernel of each text."""
        return {source: _the_only(load(self._ptx(kernel))) for source, kernel in self.code.texts().items()}

    def _ptx(self, kernel: CudaKernel) -> str:
        return ptx_of(kernel, self.table)

    def run(self, *arguments: Any) -> int:
        with self.alone:
            store(self.numbers, arguments)
            self.launched, self.written = [], {}
            status = self._run(arguments)
            self._ended += not status
        return status

    def _run(self, arguments: Sequence[Any]) -> int:
        tasks = self.plan.tasks
        kernels = [self.code.kernels.get(task) for task in tasks]
        spans = [self._spans(task, arguments) for task in tasks]
        texts = [kernel.source if kernel else f"call {k}" for k, kernel in enumerate(kernels)]
        for batch in batches(list(zip(texts, map(_footprint, spans), strict=True))):
            chosen = [kernel for kernel in (kernels[k] for k in batch) if kernel is not None]
            touched = [span for k in batch for span in spans[k]]
            if not chosen:
                self.run_one(tasks[batch[0]], arguments)
                self._mark(touched)
                continue
            self.launched.append((chosen[0].entry, len(batch)))
            failing = self._launch(chosen, self._memory(touched), arguments)
            if failing:
                step, number = failing
                self.failed = tasks[batch[step]]
                return (batch[step] << 16) | number
        return 0

    # -- memory --------------------------------------------------------------------------------------------

    def _spans(self, task: Task, arguments: Sequence[Any]) -> list[_Span]:
        found = []
        for is_written, group in ((False, task.reads), (True, task.writes)):
            for var in group:
                layout = layout_of(var, self.plan.fused.find)
                assert layout is not None
                place, size = self.plan.places[layout.owner], layout.owner.type.nbytes
                start = self._address(place, arguments)
                found.append(_Span(repr(var), place, range(start, start + size), is_written))
        return [span for span in found if span.bytes]

    def _memory(self, spans: list[_Span]) -> Memory:
        """What a launch may touch. Variables that share memory are cut where one begins or ends."""
        memory = Memory()
        for start, stop in itertools.pairwise(_edges([span.bytes for span in spans])):
            here = [s for s in spans if s.bytes.start < stop and start < s.bytes.stop]
            if here:
                name = " and ".join(dict.fromkeys(span.name for span in here))
                written = self._written(here[0])
                constant = not any(span.is_written for span in here)
                memory.add(
                    Allocation(
                        start, _bytes_at(start, stop), name, written and written(start, stop), constant
                    )
                )
        return memory

    def _written(self, span: _Span) -> Callable[[int, int], np.ndarray] | None:
        """Of memory that is new in each run: which bytes between two addresses are written."""
        if span.place.kind is Where.ARENA:
            base, size = self.arena, len(self.memory)
        elif span.place.kind is Where.RESULT:
            base, size = span.bytes.start, len(span.bytes)
        else:
            return None
        mask = self.written.setdefault(base, np.zeros(size, bool))
        return lambda start, stop: mask[start - base : stop - base]

    def _mark(self, spans: list[_Span]) -> None:
        """Note what a library call has written."""
        for span in spans:
            written = self._written(span)
            if span.is_written and written:
                written(span.bytes.start, span.bytes.stop)[:] = True

    # -- one launch ----------------------------------------------------------------------------------------

    def _launch(
        self, kernels: list[CudaKernel], memory: Memory, arguments: Sequence[Any]
    ) -> tuple[int, int] | None:
        """Run steps of one text; the first of them that failed, and the number of its error from 1 on."""
        statuses = [np.zeros(len(kernel.errors), np.int64) for kernel in kernels]

        def address_in(status: np.ndarray) -> Callable[[Any], int]:
            def address(argument: Any) -> int:
                if isinstance(argument, Pointer):
                    return self._address(self.plan.places[argument.var], arguments)
                if isinstance(argument, Status):
                    return _added(memory, status, "status", flags=True)
                scratch = np.empty(argument.items, argument.dtype)
                return _added(memory, scratch, "scratch", written=np.zeros(scratch.nbytes, bool))

            return address

        rows = [
            argument_block(kernel.arguments, address_in(status))
            for kernel, status in zip(kernels, statuses, strict=True)
        ]
        if self.table:
            self._launch_table(kernels, np.stack(rows), memory)
        else:
            self._launch_each(kernels, rows, memory)
        failing = [(k, int(np.argmax(status)) + 1) for k, status in enumerate(statuses) if status.any()]
        return failing[0] if failing else None

    def _launch_table(self, kernels: list[CudaKernel], table: np.ndarray, memory: Memory) -> None:
        """All steps in the same launches."""
        place = struct.pack("Q", _added(memory, table, "table", constant=True))
        for one in launches([kernel.work for kernel in kernels], self.threads):
            self._launch_one(kernels[0], one, [place, struct.pack("q", one.phase)], memory)

    def _launch_each(self, kernels: list[CudaKernel], rows: list[np.ndarray], memory: Memory) -> None:
        """Each step in launches of its own."""
        for kernel, row in zip(kernels, rows, strict=True):
            for one in launches([kernel.work], self.threads):
                given = [_bytes_of(a, word, one.phase) for a, word in zip(kernel.arguments, row, strict=True)]
                self._launch_one(kernel, one, given, memory)

    def _launch_one(self, kernel: CudaKernel, one: Launch, arguments: list[bytes], memory: Memory) -> None:
        found = self.functions[kernel.source]
        launch(found, (*one.grid, 1), (*one.block, 1), arguments, memory, self.steps)


def _footprint(spans: list[_Span]) -> Footprint:
    reads, writes = (tuple(s.bytes for s in spans if s.is_written is which) for which in (False, True))
    return Footprint(reads, writes)


def _edges(spans: list[range]) -> list[int]:
    """Where spans begin and end, in order; an end within another span is one for a multiple of 8."""
    ends = {span.stop - (span.stop % 8 if any(span.stop in s for s in spans) else 0) for span in spans}
    return sorted(ends | {span.start for span in spans})


def _added(memory: Memory, array: np.ndarray, name: str, **options: Any) -> int:
    """The address of an array that kernels may use."""
    memory.add(Allocation(array.ctypes.data, array.reshape(-1).view(np.uint8), name, **options))
    return array.ctypes.data


def _bytes_at(start: int, stop: int) -> np.ndarray:
    return np.frombuffer((ctypes.c_uint8 * (stop - start)).from_address(start), np.uint8)


def _bytes_of(argument: Argument, word: np.int64, phase: int) -> bytes:
    """An argument as the kernel that takes them one by one gets it."""
    if isinstance(argument, Phase):
        return struct.pack("q", phase)
    return argument.dtype.type(argument.value).tobytes() if isinstance(argument, Number) else word.tobytes()


def _the_only(kernels: dict[str, Kernel]) -> Kernel:
    (kernel,) = kernels.values()
    return kernel


def on_ptx_machine(splits: int | None = None, threads: int = THREADS, table: bool = True) -> Target:
    """CUDA kernels on the machine; ``splits`` blocks share a result of a reduction that can be split."""

    def made(code: Code, _: Any, binding: Binding) -> OnPtxMachine:
        kind = type("OnPtxMachine", (OnPtxMachine,), {"threads": threads, "table": table})
        return kind(code, binding)

    return Target("PTX machine", lambda plan: emit_cuda(plan, splits), made)
