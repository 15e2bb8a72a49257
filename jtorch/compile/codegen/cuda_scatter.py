"""CUDA kernels that add into computed positions: without atomics, in one order."""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import dataclass
from math import prod

from jtorch.compile.codegen.cuda_emitter import CudaEmitter
from jtorch.compile.codegen.cuda_launch import Phase, Work
from jtorch.compile.codegen.emitter import I64
from jtorch.compile.plan.fuse import Style
from jtorch.compile.plan.loops import Position, Scatter, Value
from jtorch.compile.plan.order import Loop

OWNED = 1 << 16  # threads that a scatter is spread over, if its output has lines enough
MAX_OWNERS = 1024  # of one axis: each of them looks at every element


@dataclass(eq=False)
class ScatterEmitter(CudaEmitter):
    """Each thread owns a share of the output and adds up what falls there, in the order of the CPU's kernel.

    Output coordinates that are loop positions tell *lines* apart. Along the first computed coordinate, ``c``
    belongs to owner ``c % owners``: every owner walks over the elements of its line and takes its own.
    """

    def write(self) -> Work:
        (target,) = self.nest.scatters
        lines = self._line_loops(target)
        walked = [loop for loop in self.loops if loop not in lines]
        computed = [(k, v) for k, (_, v) in enumerate(target.terms) if not isinstance(v, Position)]
        n_lines = prod(loop.size for loop in lines)
        n_owners = _owners(target.var.shape[computed[0][0]], n_lines) if computed else 1
        self._add("phase", "phase", "i64", Phase())
        out = self.pointer(target.var, 0, written=True)
        self._clear(target, out)
        self._emit(self._outside(self.nest.values()), self.outside)
        owners = self.number(n_owners, I64, "owners", "owners")
        with self._while("k", f"{self._total(lines)} * {owners}", "cuda.grid(1)", "cuda.gridsize(1)"):
            self._place(lines)
            self._loops(walked, lambda: self._add_owned(target, out, [v for _, v in computed]))
        return Work(Style.SCATTER, n_lines * n_owners, cleared=target.var.type.size)

    def _line_loops(self, target: Scatter) -> list[Loop]:
        """The loops whose position an output coordinate is: their turns write to different lines."""
        axes = set()
        for _, value in target.terms:
            if isinstance(value, Position) and sum(map(bool, value.at.strides)) == 1:
                axes.add(next(k for k, s in enumerate(value.at.strides) if s))
        return [loop for loop in self.loops if axes.issuperset(loop.axes)]

    def _clear(self, target: Scatter, out: str) -> None:
        """Zeros, in a phase of their own: nobody may add before all is clear."""
        total = self.number(target.var.type.size, I64, "total", "total")
        with self.writer.block("if phase == 0:"):
            with self._while("k", total, "cuda.grid(1)", "cuda.gridsize(1)"):
                self.writer(f"{out}[k] = {self._typed_constant(0, target.var.dtype)}")
            self.writer("return")

    def _place(self, lines: list[Loop]) -> None:
        """Which line and which owner thread ``k`` is. Lines run fastest: a warp reads neighbours, and all of
        it takes the same branch."""
        if not lines:
            self.writer("owner = k")
            return
        total = self._total(lines)
        total = f"({total})" if len(lines) > 1 else total
        self.writer(f"owner = k // {total}")
        self.writer(f"line = k % {total}")
        self._decompose("line", lines)

    def _add_owned(self, target: Scatter, out: str, computed: list[Value]) -> None:
        scope = dict(self.outside)
        for part in computed:  # all of them: every owner sees the errors of every element
            self._name(part, scope)
        with self.writer.block(f"if {scope[computed[0]]} % owners == owner:") if computed else nullcontext():
            value = self._name(target.value, scope)
            place = self._assign(self._address_of(target.terms, scope))
            total = f"{out}[{place}] + {value}"
            is_float = target.var.dtype.kind == "f"
            self.writer(f"{out}[{place}] = {total if is_float else f'{target.var.dtype.name}({total})'}")


def _owners(lines: int, threads: int) -> int:
    """How many owners share the ``lines`` of one output axis when ``threads`` come with each."""
    return max(1, min(lines, OWNED // max(threads, 1), MAX_OWNERS))
