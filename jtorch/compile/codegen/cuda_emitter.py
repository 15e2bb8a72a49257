"""What CUDA kernels of every style share: thread loops, guarded stores, shared memory, error words."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field

import numpy as np

from jtorch.compile.codegen.cuda_launch import THREADS, Status, Work
from jtorch.compile.codegen.emitter import Emitter
from jtorch.compile.plan.loops import Store, Value
from jtorch.compile.plan.order import Loop


@dataclass(eq=False)
class CudaEmitter(Emitter):
    """Writes the text of one thread. ``splits`` is the number of blocks that share a result, if given."""

    splits: int | None = None
    guard: str = ""  # the condition under which a thread stores what it computed
    outside: dict[Value, str] = field(default_factory=dict)  # what needs no loop, by name
    shared: dict[str, str] = field(default_factory=dict)  # name of a shared array -> its dtype

    @abstractmethod
    def write(self) -> Work:
        """Write the body; say how much work there is."""

    def module(self, entry: str) -> str:
        """The kernel's module, after ``write``."""
        if self.errors:
            self._add("status", "status", "i64*", Status(len(self.errors)))
        shared = [f"    {n} = cuda.shared.array({THREADS}, {t})" for n, t in self.shared.items()]
        return self._module(entry, [*shared, *self.writer.lines], ["from numba import cuda"])

    def _number_of_bool(self, text: str) -> str:
        """numba-cuda has no ``max`` of bools: it would compile Numba's for the device at hand."""
        return f"int64({text})"

    def _fail(self, number: int) -> None:
        """Every thread writes the same 1 into the word of its error: no order shows."""
        with self.writer.block(f"if {self.guard}:") if self.guard else nullcontext():
            self.writer(f"status[{number - 1}] = 1")

    def _total(self, loops: list[Loop]) -> str:
        """How many positions ``loops`` have, as text."""
        return " * ".join(self.sizes[self.loops.index(loop)] for loop in loops) or "1"

    @contextmanager
    def _while(self, name: str, total: str, first: str, step: str, who: str = "") -> Iterator[None]:
        """``name`` from ``first`` in steps of ``step`` below ``total``. (``range`` would divide to count its
        turns.) ``who`` does that at all, as "live and " says."""
        self.writer(f"{name} = {first}")
        with self.writer.block(f"while {who}{name} < {total}:"):
            yield
            self.writer(f"{name} += {step}")

    @contextmanager
    def _strided(self, loops: list[Loop], first: str, step: str, who: str = "") -> Iterator[None]:
        """The positions of ``loops``, flattened, that this thread visits."""
        name = f"i{self.loops.index(loops[0])}" if len(loops) == 1 else "j"
        with self._while(name, self._total(loops), first, step, who):
            if len(loops) > 1:
                self._decompose(name, loops)
            yield

    def _decompose(self, name: str, loops: list[Loop]) -> None:
        """The loops' own positions from one flat position."""
        numbers = [self.loops.index(loop) for loop in loops]
        rest = name
        for k, n in reversed(list(enumerate(numbers))[1:]):
            above = f"{name}_{n}" if k > 1 else f"i{numbers[0]}"
            self.writer(f"i{n} = {rest} % {self.sizes[n]}")
            self.writer(f"{above} = {rest} // {self.sizes[n]}")
            rest = above
        if len(numbers) == 1:
            self.writer(f"i{numbers[0]} = {name}")

    def _stores(self, stores: Iterable[Store], scope: dict[Value, str], guard: str = "") -> None:
        lines = [(s, self._name(s.value, scope)) for s in stores]
        condition = guard or self.guard
        with self.writer.block(f"if {condition}:") if condition and lines else nullcontext():
            for s, name in lines:
                self.writer(f"{self._element(s.var, s.at, written=True)} = {name}")

    def _shared(self, dtype: np.dtype, letter: str) -> str:
        """The shared array ``letter`` of a dtype; bools are bytes."""
        name = f"{letter}_{dtype.name}"
        self.shared[name] = "uint8" if dtype.kind == "b" else dtype.name
        return name
