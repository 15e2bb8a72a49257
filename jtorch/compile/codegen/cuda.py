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

Every result has one order of summation, decided by the launch alone: no atomics. A scatter adds up in the order of
the CPU's. The text runs under numba-cuda's simulator as it is.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from math import prod
from typing import Any

import numpy as np

from jtorch.compile.codegen.cuda_launch import (
    THREADS,
    Argument,
    Launch,
    Phase,
    Scratch,
    Status,
    Work,
    launches,
    splits_for,
)
from jtorch.compile.codegen.order import Loop, loops_of
from jtorch.compile.codegen.source import Number, Same, _comment, _Emitter, imports, kernel_name
from jtorch.compile.codegen.writer import Writer
from jtorch.compile.ir import Var
from jtorch.compile.loops import Compute, Gather, Load, Nest, Position, Reduce, Scatter, Store, Value

_I64 = np.dtype(np.int64)
OWNED = 1 << 16  # threads that a scatter is spread over, if its output has lines enough


@dataclass(frozen=True, eq=False)
class CudaKernel:
    """The text of a kernel, its arguments, and the work that its launches are made for."""

    entry: str
    source: str
    arguments: tuple[Argument, ...]
    errors: tuple[str, ...]
    work: Work

    @property
    def launches(self) -> tuple[Launch, ...]:
        return launches([self.work])

    def __repr__(self) -> str:
        return f"<CUDA kernel {self.entry}>"


def write_cuda_kernel(nest: Nest, same: Same, splits: int | None = None) -> CudaKernel:
    """The CUDA kernel of a nest.

    ``same`` tells which variables share memory: a result may lie where an argument was if each element is
    read only where it is written, in the last pass. ``splits`` is how many blocks share one result of a
    reduction (by default what ``splits_for`` says).
    """
    return _CudaEmitter(nest, same, splits=splits).cuda_kernel()


@dataclass(eq=False)
class _Team:
    """The names by which a reduction's text speaks of threads. A team shares one result."""

    lane: str
    lanes: str
    hop: str  # between neighbours of a team, in shared memory
    side: str  # this team's place in its block
    sides: str  # teams in a block


_ROW = _Team("cuda.threadIdx.x", "cuda.blockDim.x", "1", "cuda.threadIdx.y", "cuda.blockDim.y")
_COLUMN = _Team("cuda.threadIdx.y", "cuda.blockDim.y", "sides", "cuda.threadIdx.x", "cuda.blockDim.x")


@dataclass(eq=False)
class _CudaEmitter(_Emitter):
    splits: int | None = None
    shared: dict[str, str] = field(default_factory=dict)  # name of a shared array -> its dtype

    # -- the whole kernel ----------------------------------------------------------------------------------

    def cuda_kernel(self) -> CudaKernel:
        self.loops = loops_of(self.nest)
        self.sizes = [self.number(loop.size, _I64, ("size", k), f"n{k}") for k, loop in enumerate(self.loops)]
        self.writer = Writer()
        self.outside: dict[Value, str] = {}
        write = {"map": self._map, "row": self._reduction, "column": self._reduction, "scatter": self._scatter}
        work = write[self.nest.style]()
        if self.errors:
            self._add("status", "status", "i64*", Status(len(self.errors)))
        entry = kernel_name(self.nest)
        shared = [f"    {n} = cuda.shared.array({THREADS}, {t})" for n, t in self.shared.items()]
        head = [f"def {entry}({', '.join(self.types)}):", *_comment(self.nest)]
        lines = [*head, *shared, *self.writer.lines]
        used = imports("\n".join(lines))
        kinds = ", ".join(repr(t) for t in self.types.values())
        arguments = f"ARGUMENTS = ({kinds}{',' * (len(self.types) == 1)})"
        source = "\n".join(["from numba import cuda", *used, "", arguments, "", "", *lines]) + "\n"
        return CudaKernel(entry, source, tuple(self.fillers.values()), tuple(self.errors), work)

    def _map(self) -> Work:
        self._once_per_block()
        with self._strided(self.loops, "cuda.grid(1)", "cuda.gridsize(1)"):
            self._stores(self.nest.stores, dict(self.outside))
        return Work("map", prod(loop.size for loop in self.loops))

    def _once_per_block(self) -> None:
        """Values that all elements share. Where they are costly (Adam's powers of beta), one thread computes
        them for its block: in every thread they took longer than the update."""
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

    # -- reductions ------------------------------------------------------------------------------------------

    def _reduction(self) -> Work:
        nest = self.nest
        kept = [loop for loop in self.loops if not loop.reduced]
        inner = [loop for loop in self.loops if loop.reduced]
        stages = nest.last_stage + 1 if nest.style == "row" else 1
        walks = [s for s in range(stages) if any(nest.sinks_of(s))]
        n_kept, n_inner = (prod(loop.size for loop in group) for group in (kept, inner))
        splits = self._choose_splits(kept, walks, n_kept, n_inner)
        self._place_team(kept)
        self._emit(self._outside(nest.values()), self.outside)
        scope = dict(self.outside)
        rows = [v for v in nest.values() if v.level == 1 and not isinstance(v, Reduce)]
        passes: list[bool] = []
        for stage in range(max([nest.last_stage, *(v.stage for v in rows)]) + 1):
            self._emit((v for v in rows if v.stage == stage), scope)
            if stage in walks:
                self._stage(stage, len(passes) + 1, inner, scope)
                passes.append(True)
        self._finish(scope)
        if nest.sinks_of(walks[-1])[0]:
            passes.append(False)
        return Work(nest.style, n_kept, n_inner, splits, tuple(passes))

    def _choose_splits(self, kept: list[Loop], walks: list[int], n_kept: int, n_inner: int) -> int:
        """Make the kernel splittable where results are few by structure: one in all, or one per column."""
        self.split = (self.nest.style == "column" or not kept) and not self._overwrites_rows()
        if not self.split:
            return 1
        splits = self.splits or splits_for(self.nest.style, n_kept, n_inner)
        self._add("phase", "phase", "i64", Phase())
        self.number(splits, _I64, "splits", "splits")
        return splits

    def _overwrites_rows(self) -> bool:
        """Whether what a block reads once per row lies where another block stores its results."""
        stored = {self.same(s.var) for s in self.nest.stores if s.level < 2}
        return any(isinstance(v, Load) and v.level < 2 and self.same(v.var) in stored for v in self.nest.values())

    def _place_team(self, kept: list[Loop]) -> None:
        """Who this thread is: its lane in a team, and the kept position the team works at."""
        self.team = _COLUMN if self.nest.style == "column" else _ROW
        write = self.writer
        for name in ("lane", "lanes", "side", "sides"):
            write(f"{name} = int64({getattr(self.team, name)})")
        step = "" if self.team.hop == "1" else f" * {self.team.hop}"
        write(f"thread = lane{step} + side" if step else "thread = lane + side * lanes")
        total = " * ".join(self.sizes[self.loops.index(loop)] for loop in kept) or "1"
        write(f"kept = {total}")
        block = "int64(cuda.blockIdx.x)"
        if self.split:
            write("tiles = (kept + sides - 1) // sides")
            with write.block(f"if kept == 0 or {block} >= tiles * splits:"):
                write("return")
            write(f"split = {block} // tiles")
            write(f"k = {block} % tiles * sides + side")
        else:
            with write.block(f"if {block} * sides >= kept:"):
                write("return")
            write(f"k = {block} * sides + side")
        write("live = k < kept")
        write("k = min(k, kept - 1)  # idle teams of the last block repeat its last result and store nothing")
        self._decompose("k", kept)

    def _stage(self, stage: int, phase: int, inner: list[Loop], scope: dict[Value, str]) -> None:
        """One pass over the elements, then the team's (and, when split, all blocks') results combined."""
        reductions, _ = self.nest.sinks_of(stage)
        for r in reductions:
            scope[r] = self._start(r)
        first, step = ("split * lanes + lane", "splits * lanes") if self.split else ("lane", "lanes")
        if not self.split:
            self._walk(stage, inner, first, step, scope)
            self._combine(reductions, scope)
            return
        with self.writer.block(f"if phase == 0 or phase == {phase}:"):
            self._walk(stage, inner, first, step, scope)
        if not reductions:
            return
        partial = {r: self._partials(r) for r in reductions}
        with self.writer.block("else:"):
            self.writer("part = lane")
            with self.writer.block("while part < splits:"):
                for r in reductions:
                    self._merge(r, scope[r], [f"{p}[part * kept + k]" for p in partial[r]])
                self.writer("part += lanes")
        self._combine(reductions, scope)
        with self.writer.block(f"if phase == {phase}:"):
            with self.writer.block("if lane == 0 and live:"):
                for r in reductions:
                    for target, name in zip(partial[r], _accumulators(r, scope[r]), strict=True):
                        self.writer(f"{target}[split * kept + k] = {name}")
            self.writer("return")

    def _walk(self, stage: int, inner: list[Loop], first: str, step: str, scope: dict[Value, str]) -> None:
        with self._strided(inner, first, step):
            self._pass(stage, dict(scope))

    def _partials(self, r: Reduce) -> list[str]:
        """The scratch memory of a reduction: one array, or two where it remembers a position."""
        found = []
        for dtype in _accumulator_dtypes(r):
            name = f"w{sum(1 for n in self.types if n[0] == 'w')}"
            kind = "bool" if dtype.kind == "b" else f"{dtype.kind}{8 * dtype.itemsize}"
            splits = self.fillers["splits"]
            assert isinstance(splits, Number)
            self._add(("scratch", r, dtype, name), name, f"{kind}*", Scratch(dtype, self._n_kept() * int(splits.value)))
            found.append(name)
        return found

    def _n_kept(self) -> int:
        return prod(loop.size for loop in self.loops if not loop.reduced)

    def _combine(self, reductions: list[Reduce], scope: dict[Value, str]) -> None:
        """A tree over the team, in shared memory: one order, whatever the threads' timing."""
        if not reductions:
            return
        used: dict[str, int] = {}
        slots: dict[Reduce, list[str]] = {r: [] for r in reductions}
        for r in reductions:
            for dtype, name in zip(_accumulator_dtypes(r), _accumulators(r, scope[r]), strict=True):
                letter = f"s{used.get(dtype.name, 0)}"
                used[dtype.name] = used.get(dtype.name, 0) + 1
                slots[r].append(self._shared(dtype, letter))
                self.writer(f"{slots[r][-1]}[thread] = {name}")
        hop = "" if self.team.hop == "1" else f" * {self.team.hop}"
        self.writer("cuda.syncthreads()")
        self.writer("width = lanes >> 1")
        with self.writer.block("while width > 0:"):
            with self.writer.block("if lane < width:"):
                self.writer(f"other = thread + width{hop}")
                for r in reductions:
                    self._merge(r, f"{slots[r][-1]}[thread]", [f"{s}[other]" for s in slots[r]], slots[r])
            self.writer("cuda.syncthreads()")
            self.writer("width >>= 1")
        for r in reductions:
            for slot, name, dtype in zip(
                slots[r], _accumulators(r, scope[r]), _accumulator_dtypes(r), strict=True
            ):
                self.writer(f"{name} = {self._read(f'{slot}[thread - lane{hop}]', dtype)}")
        self.writer("cuda.syncthreads()")

    def _merge(self, r: Reduce, name: str, others: list[str], slots: list[str] | None = None) -> None:
        """Combine one more partial result into the accumulator ``name``, or into shared ``slots``."""
        if r.index is None:
            value = f"({self._read(others[0], r.dtype)})" if r.dtype.kind == "b" else others[0]
            self.writer(f"{name} = {self._combined(r, name, value)}")
            return
        mine = [f"{s}[thread]" for s in slots] if slots else _accumulators(r, name)
        (best, place), (value, at) = mine, others
        better = ">" if r.op.combine == "argmax" else "<"
        tie = f"{value} == {best}"
        test = f"{value} {better} {best}"
        if r.arg.dtype.kind == "f":  # NaN beats all others, and the first one counts
            test += f" or ({value} != {value} and {best} == {best})"
            tie = f"({tie} or ({value} != {value} and {best} != {best}))"
        with self.writer.block(f"if {test} or ({tie} and {at} < {place}):"):
            self.writer(f"{best} = {value}")
            self.writer(f"{place} = {at}")

    def _finish(self, scope: dict[Value, str]) -> None:
        """What is stored once per result, by the first lane of its team."""
        stores = [s for s in self.nest.stores if s.level < 2]
        if self.nest.style == "column":
            places = self.nest.result_places()
            pairs = zip(self.nest.reductions, places, strict=True)
            stores = [Store(r.var, at, r, 1) for r, at in pairs] + stores
        if self._overwrites_rows():
            self.writer("cuda.syncthreads()  # everyone has read what is overwritten now")
        chosen = "lane == 0 and live and split == 0" if self.split else "lane == 0 and live"
        self._stores(stores, scope, chosen)

    def _pass(self, stage: int, scope: dict[Value, str]) -> None:
        if self.nest.style == "column":
            wanted = [r.arg for r in self.nest.reductions]
            wanted += [s.value for s in self.nest.stores if s.level == 2]
            for value in wanted:
                self._name(value, scope)
            for r in self.nest.reductions:
                self._accumulate(r, scope)
            self._stores([s for s in self.nest.stores if s.level == 2], scope)
        else:
            super()._pass(stage, scope)

    # -- scatter ----------------------------------------------------------------------------------------------

    def _scatter(self) -> Work:
        """Each thread owns a share of the output and adds up what falls there, in order.

        Output coordinates that are loop positions tell lines apart. Along the first computed one, line
        ``c`` belongs to owner ``c % owners``: every owner looks at every element and takes its own.
        """
        (target,) = self.nest.scatters
        lines = self._line_loops(target)
        walked = [loop for loop in self.loops if loop not in lines]
        computed = [(k, v) for k, (_, v) in enumerate(target.terms) if not isinstance(v, Position)]
        n_lines = prod(loop.size for loop in lines)
        n_owners = _owners(target.var.shape[computed[0][0]], n_lines) if computed else 1
        self._add("phase", "phase", "i64", Phase())
        out = self.pointer(target.var, 0, written=True)
        total = self.number(target.var.type.size, _I64, "total", "total")
        with self.writer.block("if phase == 0:"):
            with self._strided([], "cuda.grid(1)", "cuda.gridsize(1)", total):
                self.writer(f"{out}[k] = {self._typed_constant(0, target.var.dtype)}")
            self.writer("return")
        owners = self.number(n_owners, _I64, "owners", "owners")
        self._emit(self._outside(self.nest.values()), self.outside)
        count = " * ".join([*(self.sizes[self.loops.index(loop)] for loop in lines), owners])
        with self._strided([], "cuda.grid(1)", "cuda.gridsize(1)", count):
            self.writer(f"owner = k % {owners}" if not lines else f"line = k // {owners}")
            if lines:
                self.writer(f"owner = k % {owners}")
                self._decompose("line", lines)
            self._loops(walked, 0, lambda: self._add_owned(target, out, computed))
        return Work("scatter", n_lines * n_owners, cleared=target.var.type.size)

    def _line_loops(self, target: Scatter) -> list[Loop]:
        """The loops whose position an output coordinate is: their turns write to different lines."""
        axes = set()
        for _, value in target.terms:
            if isinstance(value, Position) and sum(map(bool, value.at.strides)) == 1:
                axes.add(next(k for k, s in enumerate(value.at.strides) if s))
        return [loop for loop in self.loops if axes.issuperset(loop.axes)]

    def _add_owned(self, target: Scatter, out: str, computed: list[tuple[int, Value]]) -> None:
        scope = dict(self.outside)

        def add() -> None:
            self._name(target.value, scope)
            place = self._assign(self._address_of(target.terms, scope))
            total = f"{out}[{place}] + {scope[target.value]}"
            if target.var.dtype.kind != "f":
                total = f"{target.var.dtype.name}({total})"
            self.writer(f"{out}[{place}] = {total}")

        if not computed:
            add()
            return
        for _, value in computed:  # all of them: every owner sees the errors of every element
            self._name(value, scope)
        with self.writer.block(f"if {scope[computed[0][1]]} % owners == owner:"):
            add()

    # -- loops and stores -------------------------------------------------------------------------------------

    @contextmanager
    def _strided(self, loops: list[Loop], first: str, step: str, total: str = "") -> Iterator[None]:
        """A loop over the flattened positions of ``loops`` that this thread visits."""
        numbers = [self.loops.index(loop) for loop in loops]
        name = f"i{numbers[0]}" if len(numbers) == 1 else "k" if total else "j"
        total = total or " * ".join(self.sizes[n] for n in numbers) or "1"
        self.writer(f"{name} = {first}")
        with self.writer.block(f"while {name} < {total}:"):
            if len(numbers) > 1:
                self._decompose(name, loops)
            yield
            self.writer(f"{name} += {step}")

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

    def _stores(self, stores: Iterable[Store], scope: dict[Value, str], chosen: str = "") -> None:
        stores = list(stores)
        if not stores:
            return
        names = [self._name(s.value, scope) for s in stores]
        condition = chosen or ("live" if self.nest.style in ("row", "column") else "")
        if not condition:
            self._write_all(stores, names)
            return
        with self.writer.block(f"if {condition}:"):
            self._write_all(stores, names)

    def _write_all(self, stores: list[Store], names: list[str]) -> None:
        for s, name in zip(stores, names, strict=True):
            self.writer(f"{self._element(s.var, s.at, written=True)} = {name}")

    def _shared(self, dtype: np.dtype, letter: str) -> str:
        """The shared array ``letter`` of a dtype; bools are bytes."""
        name = f"{letter}_{dtype.name}"
        self.shared[name] = "uint8" if dtype.kind == "b" else dtype.name
        return name

    # -- statuses -----------------------------------------------------------------------------------------------

    def _fail(self, sentence: str) -> None:
        """Every thread writes the same 1 into the word of its error: no order shows."""
        self.writer(f"status[{self._status(sentence) - 1}] = 1")

    def _checked(self, check, names):  # TEMP
        import re
        test, sentence = check
        culprit = re.findall(r"{(\w+)}", test)[0]
        safe = self._assign(names[culprit])
        with self.writer.block(f"if {test.format(**{culprit: safe})}:"):
            self._fail(sentence)
            self.writer(f"{safe} = {safe} + 1")
        return names | {culprit: safe}

    def _gather(self, value, scope):  # TEMP
        pointer = self.pointer(value.var, value.offset)
        read = self._read(f"{pointer}[{self._address_of(value.terms, scope)}]", value.dtype)
        if value.bound is None:
            return read
        place = self._assign(f"int64({read})")
        bound = self.number(value.bound, _I64, (value, "bound"))
        with self.writer.block(f"if {place} < 0 or {place} >= {bound}:"):
            self._fail(value.error)
            self.writer(f"{place} = 0")
        return place


def _accumulators(r: Reduce, name: str) -> list[str]:
    return [name] if r.index is None else [name.removesuffix("_at"), name]


def _accumulator_dtypes(r: Reduce) -> list[np.dtype]:
    return [r.dtype] if r.index is None else [r.arg.dtype, _I64]


def _owners(lines: int, threads: int) -> int:
    """How many owners share the ``lines`` of one output axis when ``threads`` come with each."""
    return max(1, min(lines, OWNED // max(threads, 1), 1024))


def _used_deeper(nest: Nest, values: list[Value]) -> list[Value]:
    """Those of ``values`` that stores, or values computed per element, use themselves."""
    inner = set(values)
    users = [v for v in nest.values() if v not in inner]
    wanted = {p for v in users for p in v.parts()} | {s.value for s in nest.stores}
    return [v for v in values if v in wanted]
