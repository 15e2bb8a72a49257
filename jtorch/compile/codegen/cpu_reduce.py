"""Reductions on the CPU: rows, each of which stays in the cache, and columns, side by side in memory.

Sums of floats are added up as ``core/partials.py`` says: a partial in the dtype itself, where the compiler
may use the lanes of vector registers, then the partials with twice the digits. One sum, of which ``m0``
elements make a partial:

    t0 = float64(0)
    b0, e0 = 0, min(m0, n0)
    while True:
        t1 = float32(0)
        for i0 in range(b0, e0):
            t1 = add_reassoc(t1, x0[i0])
        t0 = t0 + float64(t1)
        if e0 >= n0:
            break
        b0, e0 = e0, min(e0 + m0, n0)
    t2 = float32(t0)

Where rows are many their first partial stands apart, before an ``if e1 < n1:`` with the others: through
float64, layer_norm of 256 rows of 64 takes 8.0 us, not 6.2. (A ``range`` over the partials would divide.)
Columns have their sums and partials in stack memory, for ``TILE`` columns at a time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from jtorch.compile.codegen.emitter import I64, Emitter
from jtorch.compile.codegen.totals import Total, is_sum
from jtorch.compile.graph.access import Affine
from jtorch.compile.graph.ir import short
from jtorch.compile.plan.loops import Gather, Load, Reduce, Store, Value
from jtorch.compile.plan.order import Loop, stride_along
from jtorch.core import partials

TILE = 256  # columns, whose sums and partials take 3 KB each: most of L1 is left for what is read


@dataclass(eq=False)
class ReductionEmitter(Emitter):
    """Writes the loops of row and column kernels."""

    totals: dict[Reduce, Total] = field(default_factory=dict)
    stacks: list[str] = field(default_factory=list)  # the lines that make stack memory

    # -- partials --------------------------------------------------------------------------------------------

    @contextmanager
    def _partial_of(self, loop: Loop, length: Callable[[int], int]) -> Iterator[str]:
        """Inside: one partial of ``loop``, whose own range it yields, and after the last one no more."""
        k = self.loops.index(loop)
        n, b, e = self.sizes[k], f"b{k}", f"e{k}"
        m = self.number(length(loop.size), I64, ("partial", k), f"m{k}")
        self.writer(f"{b}, {e} = 0, min({m}, {n})")
        with self.writer.block("while True:"):
            yield f"for i{k} in range({b}, {e}):"
            with self.writer.block(f"if {e} >= {n}:"):
                self.writer("break")
            self.writer(f"{b}, {e} = {e}, min({e} + {m}, {n})")

    # -- rows ------------------------------------------------------------------------------------------------

    def _row(self) -> None:
        kept = [loop for loop in self.loops if not loop.reduced]
        scope: dict[Value, str] = {}
        self._emit(self._outside(self.nest.values()), scope)
        self._loops(kept, lambda: self._one_row(self.loops[len(kept) :], dict(scope)))

    def _one_row(self, inner: list[Loop], scope: dict[Value, str]) -> None:
        rows = [v for v in self.nest.values() if v.level == 1]
        for stage in range(max([self.nest.last_stage, *(v.stage for v in rows)]) + 1):
            self._emit((v for v in rows if v.stage == stage and not isinstance(v, Reduce)), scope)
            reductions, stores = self.nest.sinks_of(stage)
            if reductions or stores:
                self._walk_row(stage, inner, reductions, scope)
        self._stores([s for s in self.nest.stores if s.level < 2], scope)

    def _walk_row(
        self, stage: int, inner: list[Loop], reductions: list[Reduce], scope: dict[Value, str]
    ) -> None:
        """One pass over a row; ``scope`` gets the names of what it reduces to."""
        sums = [r for r in reductions if is_sum(r)] if inner else []
        for r in reductions:
            if r not in sums:
                scope[r] = self._start(r)
        if not sums:
            self._loops(inner, lambda: self._pass(stage, dict(scope)))
        elif len(inner) == 1 and len(self.loops) > 1:
            self._first_partial_apart(stage, inner[0], sums, scope)
        else:
            self._new_totals(sums)
            self._loops(inner[:-1], lambda: self._partials_of_row(stage, inner[-1], sums, scope))
            for r in sums:
                scope[r] = self._assign(self.totals[r].rounded())

    def _new_totals(self, sums: list[Reduce]) -> None:
        for r in sums:
            self.totals[r] = Total.of(r, self._new_name)
            self.totals[r].clear(self.writer)

    def _first_partial_apart(
        self, stage: int, loop: Loop, sums: list[Reduce], scope: dict[Value, str]
    ) -> None:
        """Rows are many, and mostly one partial is all: their sums then go no way through float64."""
        k = self.loops.index(loop)
        n, b, e = self.sizes[k], f"b{k}", f"e{k}"
        m = self.number(self._length(stage, loop)(loop.size), I64, ("partial", k), f"m{k}")
        scope |= {r: self._start(r) for r in sums}
        self.writer(f"{e} = min({m}, {n})")
        with self.writer.block(f"for i{k} in range({e}):"):
            self._pass(stage, dict(scope))
        with self.writer.block(f"if {e} < {n}:"):
            self._new_totals(sums)
            for r in sums:
                self.totals[r].add(scope[r], self.writer)
            with self.writer.block(f"while {e} < {n}:"):
                self.writer(f"{b}, {e} = {e}, min({e} + {m}, {n})")
                for r in sums:
                    self.writer(f"{scope[r]} = {self._identity(r)}")
                with self.writer.block(f"for i{k} in range({b}, {e}):"):
                    self._pass(stage, dict(scope))
                for r in sums:
                    self.totals[r].add(scope[r], self.writer)
            for r in sums:
                self.writer(f"{scope[r]} = {self.totals[r].rounded()}")

    def _partials_of_row(self, stage: int, loop: Loop, sums: list[Reduce], scope: dict[Value, str]) -> None:
        with self._partial_of(loop, self._length(stage, loop)) as head:
            inside = dict(scope) | {r: self._start(r) for r in sums}
            with self.writer.block(head):
                self._pass(stage, dict(inside))
            for r in sums:
                self.totals[r].add(inside[r], self.writer)

    def _length(self, stage: int, loop: Loop) -> Callable[[int], int]:
        """The rule for the partials of a pass: the compiler uses one lane where elements lie apart."""
        for value in self.nest.pass_values(stage):
            apart = isinstance(value, Load) and stride_along(value.at, loop) not in (0, 1)
            if apart or isinstance(value, Gather):
                return partials.rows
        return partials.line

    def _new_name(self) -> str:
        self.counter += 1
        return f"t{self.counter - 1}"

    # -- columns ---------------------------------------------------------------------------------------------

    def _column(self) -> None:
        """The sums of some columns on the stack; whatever else is reduced, in the memory of the result."""
        *outer, columns = [loop for loop in self.loops if not loop.reduced]
        places = dict(zip(self.nest.reductions, self.nest.result_places(), strict=True))
        outside: dict[Value, str] = {}
        self._emit(self._outside(self.nest.values()), outside)
        self._loops(outer, lambda: self._columns(columns, places, outside))
        rest = [s for s in self.nest.stores if s.level < 2]
        if rest:
            self._loops([*outer, columns], lambda: self._finish(rest, places, dict(outside)))
        self.writer.lines[:0] = self.stacks

    def _columns(self, columns: Loop, places: dict[Reduce, Affine], outside: dict[Value, str]) -> None:
        k = self.loops.index(columns)
        n, b, e = self.sizes[k], f"b{k}", f"e{k}"
        sums = [r for r in places if is_sum(r)]
        at = f"[i{k} - {b}]"
        parts = {r: self._stack(short(r.dtype)) + at for r in sums}
        self.totals = {r: Total.of(r, lambda: self._stack("f64") + at) for r in sums}
        head = f"for i{k} in range({b}, {e}):"
        self.writer(f"{b} = {self._start_of(k)}")
        with self.writer.block(f"while {b} < {n}:"):
            self.writer(f"{e} = min({b} + {TILE}, {n})")
            with self.writer.block(head):
                for r, place in places.items():
                    if r in sums:
                        self.totals[r].clear(self.writer)
                    else:
                        self.writer(f"{self._element(r.var, place)} = {self._identity(r)}")
            self._walk_rows(head, parts, places, outside)
            if sums:
                with self.writer.block(head):
                    for r in sums:
                        self.writer(f"{self._element(r.var, places[r])} = {self.totals[r].rounded()}")
            self.writer(f"{b} = {e}")

    def _walk_rows(
        self, head: str, parts: dict[Reduce, str], places: dict[Reduce, Affine], outside: dict[Value, str]
    ) -> None:
        """All rows of some columns: where there are sums, partial by partial."""
        rows = [loop for loop in self.loops if loop.reduced]

        def add() -> None:
            with self.writer.block(head):
                self._add_row(parts, places, dict(outside))

        def add_partials() -> None:
            with self._partial_of(rows[-1], partials.rows) as along:
                with self.writer.block(head):
                    for r, part in parts.items():
                        self.writer(f"{part} = {self._identity(r)}")
                with self.writer.block(along):
                    add()
                with self.writer.block(head):
                    for r, part in parts.items():
                        self.totals[r].add(part, self.writer)

        if parts:
            self._loops(rows[:-1], add_partials)
        else:
            self._loops(rows, add)

    def _add_row(
        self, parts: dict[Reduce, str], places: dict[Reduce, Affine], scope: dict[Value, str]
    ) -> None:
        stores = [s for s in self.nest.stores if s.level == 2]
        self._emit(self._needed([r.arg for r in places] + [s.value for s in stores]), scope)
        for r, at in places.items():
            place = parts.get(r) or self._element(r.var, at)
            self.writer(f"{place} = {self._combined(r, place, scope[r.arg])}")
        self._stores(stores, scope)

    def _finish(self, rest: Iterable[Store], places: dict[Reduce, Affine], scope: dict[Value, str]) -> None:
        """What is made of the results, which are in memory by now."""
        rest = list(rest)
        for r, at in places.items():
            scope[r] = self._assign(self._element(r.var, at))
        self._emit(self._needed([s.value for s in rest]), scope)
        self._stores(rest, scope)

    def _stack(self, kind: str) -> str:
        """Stack memory for one number per column of a tile."""
        name = f"a{len(self.stacks)}"
        self.stacks.append(f"    {name} = stack_{kind}({TILE})")
        return name
