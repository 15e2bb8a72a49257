"""From a loop nest to the source of a CUDA kernel: readable Python that numba-cuda compiles.

    ARGUMENTS = ("i64", "f32*", "f32*")

    def map_exp(n0, x0, y0):
        i0 = cuda.grid(1)
        while i0 < n0:
            t0 = x0[i0]
            t1 = exp_f32(t0)
            y0[i0] = t1
            i0 += cuda.gridsize(1)

Values, addresses and arguments are those of the CPU kernel; loops and reductions are not. Steps with the same
text and other arguments, such as Adam's update of every parameter, are one launch: ``blockIdx.y`` picks a row
of a table of arguments (``cuda_build``), and no text speaks of it.

Every sum has one order, which follows from the launch: there are no atomics. A scatter adds up in the
order of the CPU's kernel.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

from jtorch.compile.codegen.code import Code, Same, written
from jtorch.compile.codegen.cuda_emitter import CudaEmitter
from jtorch.compile.codegen.cuda_launch import Argument, Launch, Work, launches
from jtorch.compile.codegen.cuda_reduce import ReductionEmitter
from jtorch.compile.codegen.cuda_scatter import ScatterEmitter
from jtorch.compile.plan.fuse import Style
from jtorch.compile.plan.loops import Compute, Nest, Value
from jtorch.compile.plan.plan import Plan
from jtorch.core.failure import Failure


@dataclass(frozen=True, eq=False)
class CudaKernel:
    """The text of a kernel, its arguments, and the work that its launches are made for."""

    entry: str
    source: str
    arguments: tuple[Argument, ...]
    errors: tuple[Failure, ...]  # what each word of the status means
    work: Work

    @property
    def launches(self) -> tuple[Launch, ...]:
        return launches([self.work])

    def __repr__(self) -> str:
        return f"<CUDA kernel {self.entry}>"


def emit_cuda(plan: Plan, splits: int | None = None) -> Code:
    """The CUDA kernels of a plan; ``splits`` as in ``write_cuda_kernel``."""
    return written(plan, lambda nest, same: write_cuda_kernel(nest, same, splits))


def write_cuda_kernel(nest: Nest, same: Same, splits: int | None = None) -> CudaKernel:
    """The CUDA kernel of a nest.

    ``same`` tells which variables share memory: a result may lie where an argument was if each element is
    read only where it is written, in the last pass. ``splits`` is how many blocks share one result of a
    reduction (by default what ``splits_for`` says).
    """
    emitter = _EMITTERS[nest.style](nest, same, splits=splits)
    work = emitter.write()
    entry = nest.name
    source = emitter.module(entry)
    return CudaKernel(entry, source, tuple(emitter.fillers.values()), tuple(emitter.errors.values()), work)


@dataclass(eq=False)
class _MapEmitter(CudaEmitter):
    """One thread per element."""

    def write(self) -> Work:
        self._once_per_block()
        with self._strided(self.loops, "cuda.grid(1)", "cuda.gridsize(1)"):
            self._stores(self.nest.stores, dict(self.outside))
        return Work(Style.MAP, prod(loop.size for loop in self.loops))

    def _once_per_block(self) -> None:
        """Values that all elements share. Where they are costly (Adam's powers of beta take some 400 float64
        instructions) one thread computes them for its block."""
        values = self._outside(self.nest.values())
        if not any(isinstance(v, Compute) and v.costly for v in values):
            self._emit(values, self.outside)
            return
        wanted = _used_deeper(self.nest, values)
        kinds: dict[str, list[Value]] = {}
        with self.writer.block("if cuda.threadIdx.x == 0:"):
            scope: dict[Value, str] = {}
            self._emit(values, scope)
            for value in wanted:
                row = kinds.setdefault(self._shared(value.dtype, "u"), [])
                self.writer(f"{self._shared(value.dtype, 'u')}[{len(row)}] = {scope[value]}")
                row.append(value)
        self.writer("cuda.syncthreads()")
        for name, row in kinds.items():
            for k, value in enumerate(row):
                self.outside[value] = self._assign(self._read(f"{name}[{k}]", value.dtype))


def _used_deeper(nest: Nest, values: list[Value]) -> list[Value]:
    """Those of ``values`` that stores, or values computed per element, use themselves."""
    inner = set(values)
    users = [v for v in nest.values() if v not in inner]
    wanted = {p for v in users for p in v.parts()} | {s.value for s in nest.stores}
    return [v for v in values if v in wanted]


_EMITTERS: dict[Style, type[CudaEmitter]] = {
    Style.MAP: _MapEmitter, Style.ROW: ReductionEmitter, Style.COLUMN: ReductionEmitter,
    Style.SCATTER: ScatterEmitter,
}  # fmt: skip
