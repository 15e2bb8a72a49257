"""CUDA kernels that reduce: rows and columns, softmax and its kin, sums of everything.

A *team* of threads shares one result. Each lane accumulates every ``lanes``-th element, sums of floats in
partials (``core/partials.py``); a tree over the team, in shared memory, combines the lanes. Where few results
would leave most of the device idle, several blocks (*splits*) share each result: one phase leaves their parts
in scratch memory and the next one begins by combining them. So the order of a sum follows from the launch
alone.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from math import prod

import numpy as np

from jtorch.compile.codegen.cuda_emitter import CudaEmitter
from jtorch.compile.codegen.cuda_launch import Phase, Scratch, Work, splits_for
from jtorch.compile.codegen.emitter import I64
from jtorch.compile.codegen.totals import Total, is_sum
from jtorch.compile.graph.ir import short
from jtorch.compile.plan.fuse import Style
from jtorch.compile.plan.loops import Load, Reduce, Store, Value
from jtorch.core import partials


@dataclass(frozen=True)
class _Team:
    """The names by which the text speaks of threads."""

    lane: str
    lanes: str
    side: str  # this team's place in its block
    sides: str  # teams in a block
    thread: str  # a thread's place in the shared arrays
    hop: str  # what to multiply by from a lane to the next, there


_ROW = _Team(
    "cuda.threadIdx.x", "cuda.blockDim.x", "cuda.threadIdx.y", "cuda.blockDim.y", "side * lanes + lane", ""
)
_COLUMN = _Team(
    "cuda.threadIdx.y", "cuda.blockDim.y", "cuda.threadIdx.x", "cuda.blockDim.x", "lane * sides + side",
    " * sides",
)  # fmt: skip


@dataclass(frozen=True)
class _Part:
    """A partial result as text: where its value is, and for argmax and argmin where its position is."""

    reduce: Reduce
    places: tuple[str, ...]

    @property
    def dtypes(self) -> tuple[np.dtype, ...]:
        r = self.reduce
        return (r.dtype,) if r.index is None else (r.arg.dtype, I64)

    def at(self, index: str, arrays: tuple[str, ...]) -> _Part:
        """The same reduction's part at ``index`` of ``arrays``."""
        return _Part(self.reduce, tuple(f"{a}[{index}]" for a in arrays))


@dataclass(eq=False)
class ReductionEmitter(CudaEmitter):
    """Writes row and column kernels. In a launch that is split, phase ``k`` walks over the elements for the
    ``k``-th time and combines what the phases before it left; phase 0 is a launch that is not."""

    split: bool = False

    def write(self) -> Work:
        nest = self.nest
        self.team = _COLUMN if nest.style == Style.COLUMN else _ROW
        self.kept = [loop for loop in self.loops if not loop.reduced]
        self.inner = [loop for loop in self.loops if loop.reduced]
        n_kept, n_inner = (prod(loop.size for loop in group) for group in (self.kept, self.inner))
        self.n_parts = n_kept * self._choose_splits(n_kept, n_inner)
        self._place_team()
        self.guard = "live"
        self._emit(self._outside(nest.values()), self.outside)
        passes = self._stages(dict(self.outside))
        return Work(nest.style, n_kept, n_inner, self.n_parts // max(n_kept, 1) or 1, passes)

    def _stages(self, scope: dict[Value, str]) -> tuple[bool, ...]:
        """All passes; tells of each phase of a split launch whether it walks over the elements."""
        nest = self.nest
        rows = [v for v in nest.values() if v.level == 1 and not isinstance(v, Reduce)]
        last = max([nest.last_stage, *(v.stage for v in rows), *(r.arg.stage for r in nest.reductions)])
        passes: list[bool] = []
        for stage in range(last + 1):
            self._emit((v for v in rows if v.stage == stage), scope)
            if any(nest.sinks_of(stage)):
                passes.append(True)
                leaves_parts = self._stage(stage, len(passes), scope)
        self._finish(scope)
        return (*passes, False) if leaves_parts else tuple(passes)

    # -- threads and blocks ----------------------------------------------------------------------------------

    def _choose_splits(self, n_kept: int, n_inner: int) -> int:
        """Make the kernel splittable where results are few by structure: one in all, or one per column."""
        nest = self.nest
        self.split = (nest.style == Style.COLUMN or not self.kept) and not self._overwrites_rows()
        if not self.split:
            return 1
        splits = self.splits or splits_for(nest.style, n_kept, n_inner)
        self._add("phase", "phase", "i64", Phase())
        self.number(splits, I64, "splits", "splits")
        return splits

    def _overwrites_rows(self) -> bool:
        """Whether what a block reads once per row lies where results are stored."""
        stored = {self.same(s.var) for s in self.nest.stores if s.level < 2}
        loads = [v for v in self.nest.values() if isinstance(v, Load) and v.level < 2]
        return any(self.same(v.var) in stored for v in loads)

    def _place_team(self) -> None:
        """Who this thread is: its lane in a team, and the kept position the team works at."""
        write = self.writer
        for name in ("lane", "lanes", "side", "sides"):
            write(f"{name} = int64({getattr(self.team, name)})")
        write(f"thread = {self.team.thread}")
        write(f"kept = {self._total(self.kept)}")
        write("tile = int64(cuda.blockIdx.x)")
        if self.split:
            write("tiles = (kept + sides - 1) // sides")
            with write.block("if tile >= tiles * splits:"):
                write("return")
            write("split = tile // tiles")
            write("tile = tile % tiles")
        else:
            with write.block("if tile * sides >= kept:"):
                write("return")
        write("k = tile * sides + side")
        write("live = k < kept")
        write("k = min(k, kept - 1)  # idle teams of the last block repeat its last result and store nothing")
        self._decompose("k", self.kept)

    # -- one pass --------------------------------------------------------------------------------------------

    def _stage(self, stage: int, phase: int, scope: dict[Value, str]) -> bool:
        """A pass over the elements; then the team's results, and those of all blocks, combined. Returns
        whether there is anything to combine."""
        parts = [self._started(r, scope) for r in self.nest.sinks_of(stage)[0]]
        if not self.split:
            self._walk(stage, scope)
            self._combine_team(parts)
            return bool(parts)
        with self.writer.block(f"if phase == 0 or phase == {phase}:"):
            self._walk(stage, scope)
        if parts:
            scratch = [self._scratch(p) for p in parts]
            with self.writer.block("else:"), self._while("part", "splits", "lane", "lanes"):
                for p, arrays in zip(parts, scratch, strict=True):
                    self._merge(p, p.at("part * kept + k", arrays))
            self._combine_team(parts)
            with self.writer.block(f"if phase == {phase}:"):
                self._leave(parts, scratch)
        return bool(parts)

    def _started(self, r: Reduce, scope: dict[Value, str]) -> _Part:
        name = scope[r] = self._start(r)
        return _Part(r, (name,) if r.index is None else (name.removesuffix("_at"), name))

    def _walk(self, stage: int, scope: dict[Value, str]) -> None:
        first, step = ("split * lanes + lane", "splits * lanes") if self.split else ("lane", "lanes")
        reductions, stores = self.nest.sinks_of(stage)
        sums = [r for r in reductions if is_sum(r)]
        who = "live and " if stores else ""  # an idle team would read what its neighbour writes over
        if not sums:
            with self._strided(self.inner, first, step, who):
                self._pass(stage, dict(scope))
            return
        names = {r: iter((f"{scope[r]}_sum", f"{scope[r]}_rest")) for r in sums}
        totals = {r: Total.of(r, names[r].__next__) for r in sums}
        for total in totals.values():
            total.clear(self.writer)
        with self._partials(first, step, who):
            for r in sums:
                self.writer(f"{scope[r]} = {self._identity(r)}")
            with self._turns(step):
                self._pass(stage, dict(scope))
            for r, total in totals.items():
                total.add(scope[r], self.writer)
        for r, total in totals.items():
            self.writer(f"{scope[r]} = {total.rounded()}")

    @contextmanager
    def _partials(self, first: str, step: str, who: str) -> Iterator[None]:
        """Partials of what a lane visits, one after the other: each up to ``stop``."""
        total = self._total(self.inner)
        terms = self.number(partials.ROWS, I64, "partial", "terms")  # each waits for the one before
        self.writer(f"j = {first}")
        with self.writer.block(f"while {who}j < {total}:"):
            self.writer(f"stop = min(j + {terms} * {step}, {total})")
            yield

    @contextmanager
    def _turns(self, step: str) -> Iterator[None]:
        """The positions of a partial."""
        with self.writer.block("while j < stop:"):
            self._decompose("j", self.inner)
            yield
            self.writer(f"j += {step}")

    def _scratch(self, part: _Part) -> tuple[str, ...]:
        """Arguments for what the blocks leave of one reduction."""
        names = []
        for dtype in part.dtypes:
            name = f"w{sum(1 for n in self.types if n[0] == 'w')}"
            self._add((part, name), name, f"{short(dtype)}*", Scratch(dtype, self.n_parts))
            names.append(name)
        return tuple(names)

    def _leave(self, parts: list[_Part], scratch: list[tuple[str, ...]]) -> None:
        with self.writer.block("if lane == 0 and live:"):
            for p, arrays in zip(parts, scratch, strict=True):
                for target, place in zip(p.at("split * kept + k", arrays).places, p.places, strict=True):
                    self.writer(f"{target} = {place}")
        self.writer("return")

    # -- combining -------------------------------------------------------------------------------------------

    def _combine_team(self, parts: list[_Part]) -> None:
        """A tree over the team's lanes in shared memory; afterwards every lane has the result."""
        if not parts:
            return
        used: dict[np.dtype, int] = {}
        arrays = [tuple(self._next_shared(d, used) for d in p.dtypes) for p in parts]
        write, hop = self.writer, self.team.hop
        self._copy([p.at("thread", a) for p, a in zip(parts, arrays, strict=True)], parts)
        write("cuda.syncthreads()")
        write("width = lanes >> 1")
        with write.block("while width > 0:"):
            with write.block("if lane < width:"):
                write(f"other = thread + width{hop}")
                for p, a in zip(parts, arrays, strict=True):
                    self._merge(p.at("thread", a), p.at("other", a))
            write("cuda.syncthreads()")
            write("width >>= 1")
        self._copy(parts, [p.at(f"thread - lane{hop}", a) for p, a in zip(parts, arrays, strict=True)])
        write("cuda.syncthreads()")

    def _next_shared(self, dtype: np.dtype, used: dict[np.dtype, int]) -> str:
        number = used[dtype] = used.get(dtype, -1) + 1
        return self._shared(dtype, f"s{number}")

    def _copy(self, targets: list[_Part], sources: list[_Part]) -> None:
        for target, source in zip(targets, sources, strict=True):
            for place, value, dtype in zip(target.places, source.places, source.dtypes, strict=True):
                self.writer(f"{place} = {self._read(value, dtype) if '[' in value else value}")

    def _merge(self, mine: _Part, other: _Part) -> None:
        """Combine ``other`` into ``mine``."""
        r = mine.reduce
        if r.index is None:
            (a,), (b,) = mine.places, other.places
            b = f"({self._read(b, r.dtype)})" if r.dtype.kind == "b" else b
            self.writer(f"{a} = {self._combined(r, a, b)}")
            return
        (best, place), (value, at) = mine.places, other.places
        better = f"{value} {'>' if r.op.combine == 'argmax' else '<'} {best}"
        tie = f"{value} == {best}"
        if r.arg.dtype.kind == "f":  # NaN beats all others, and of several the first counts
            better += f" or ({value} != {value} and {best} == {best})"
            tie = f"({tie} or ({value} != {value} and {best} != {best}))"
        with self.writer.block(f"if {better} or ({tie} and {at} < {place}):"):
            self.writer(f"{best} = {value}")
            self.writer(f"{place} = {at}")

    def _finish(self, scope: dict[Value, str]) -> None:
        """What is stored once per result, by the first lane of its team."""
        stores = [s for s in self.nest.stores if s.level < 2]
        if self.nest.style == Style.COLUMN:  # whose results always are in memory, without a Store
            results = zip(self.nest.reductions, self.nest.result_places(), strict=True)
            stores = [Store(r.var, at, r, 1) for r, at in results] + stores
        if self._overwrites_rows():
            self.writer("cuda.syncthreads()  # everyone has read what is overwritten now")
        guard = "lane == 0 and live"
        self._stores(stores, scope, f"{guard} and split == 0" if self.split else guard)
