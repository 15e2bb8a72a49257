"""From a loop nest to the source of a CPU kernel: readable Python that Numba compiles.

    ARGUMENTS = ("i64", "i64", "f32*", "f32*", "f32*")

    def row_max_sub_exp(n0, n1, x0, y0, y1):
        for i0 in range(n0):
            a0 = float32(-inf)
            for i1 in range(n1):
                t0 = x0[i0 * n1 + i1]
                ...

The same text runs unjitted over flat NumPy arrays.
"""

from __future__ import annotations

from dataclasses import dataclass

from jtorch.compile.codegen.emitter import I64, Emitter, Failure, Number, Pointer, Same, kernel_name
from jtorch.compile.loops import Nest, Reduce, Scatter, Value

__all__ = ["Kernel", "Number", "Pointer", "write_kernel"]


@dataclass(frozen=True, eq=False)
class Kernel:
    """The text of a kernel and what to put into its argument block, word by word."""

    entry: str
    source: str
    arguments: tuple[Pointer | Number, ...]
    errors: tuple[Failure, ...] = ()  # what status 1, 2... mean

    def __repr__(self) -> str:
        return f"<kernel {self.entry}>"


def write_kernel(nest: Nest, same: Same) -> Kernel:
    """The CPU kernel of a nest. ``same`` tells which variables share memory (in-place updates)."""
    return _CpuEmitter(nest, same).kernel()


class _CpuEmitter(Emitter):
    """One thread runs all loops. A status is the kernel's result; of several errors the last one stays."""

    def kernel(self) -> Kernel:
        write = {"map": self._map, "row": self._row, "column": self._column, "scatter": self._scatter}
        write[self.nest.style]()
        body = self.writer.lines
        if self.errors:
            body = ["    status = 0", *body, "    return status"]
        entry = kernel_name(self.nest)
        arguments, errors = tuple(self.fillers.values()), tuple(self.errors.values())
        return Kernel(entry, self._module(entry, body), arguments, errors)

    def _fail(self, number: int) -> None:
        self.writer(f"status = {number}")

    def _map(self) -> None:
        scope: dict[Value, str] = {}
        self._emit(self._outside(self.nest.values()), scope)
        self._loops(self.loops, lambda: self._stores(self.nest.stores, dict(scope)))

    def _row(self) -> None:
        kept = [loop for loop in self.loops if not loop.reduced]
        scope: dict[Value, str] = {}
        self._emit(self._outside(self.nest.values()), scope)
        self._loops(kept, lambda: self._one_row(len(kept), dict(scope)))

    def _one_row(self, n_kept: int, scope: dict[Value, str]) -> None:
        rows = [v for v in self.nest.values() if v.level == 1]
        for stage in range(max([self.nest.last_stage, *(v.stage for v in rows)]) + 1):
            self._emit((v for v in rows if v.stage == stage and not isinstance(v, Reduce)), scope)
            reductions, stores = self.nest.sinks_of(stage)
            for r in reductions:
                scope[r] = self._start(r)
            if reductions or stores:
                inner = self.loops[n_kept:]
                self._loops(inner, lambda s=stage: self._pass(s, dict(scope)))  # type: ignore[misc]
        self._stores([s for s in self.nest.stores if s.level < 2], scope)

    def _column(self) -> None:
        kept = [loop for loop in self.loops if not loop.reduced]
        places = dict(zip(self.nest.reductions, self.nest.result_places(), strict=True))

        def start() -> None:
            for r in self.nest.reductions:
                self.writer(f"{self._element(r.var, places[r])} = {self._identity(r)}")

        def add() -> None:
            scope = dict(outside)
            wanted = [r.arg for r in self.nest.reductions]
            wanted += [s.value for s in self.nest.stores if s.level == 2]
            self._emit(self._needed(wanted), scope)
            for r in self.nest.reductions:
                place = self._element(r.var, places[r])
                self.writer(f"{place} = {self._combined(r, place, scope[r.arg])}")
            self._stores([s for s in self.nest.stores if s.level == 2], scope)

        def finish() -> None:
            scope = dict(outside)
            for r in self.nest.reductions:
                scope[r] = self._assign(self._element(r.var, places[r]))
            self._emit(self._needed([s.value for s in rest]), scope)
            self._stores(rest, scope)

        rest = [s for s in self.nest.stores if s.level < 2]
        outside: dict[Value, str] = {}
        self._loops(kept, start)
        self._emit(self._outside(self.nest.values()), outside)
        self._loops(self.loops, add)
        if rest:
            self._loops(kept, finish)

    def _scatter(self) -> None:
        (target,) = self.nest.scatters
        total = self.number(target.var.type.size, I64, "total", "total")
        out = self.pointer(target.var, 0, written=True)
        with self.writer.block(f"for i in range({total}):"):
            self.writer(f"{out}[i] = {self._typed_constant(0, target.var.dtype)}")
        self._loops(self.loops, lambda: self._add_at(target, out))

    def _add_at(self, target: Scatter, out: str) -> None:
        scope: dict[Value, str] = {}
        self._emit(self._needed([target.value, *(v for _, v in target.terms)]), scope)
        place = self._address_of(target.terms, scope)
        self.writer(f"{out}[{place}] = {out}[{place}] + {scope[target.value]}")
