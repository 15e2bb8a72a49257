"""A plan made executable: addresses, argument blocks, the instruction table, and the call.

The table is a list of rows (kernel address, argument block address); equal kernels one after the other
are one row with a repeat count, and so are the pieces of a step that threads share, and the tiles of several
steps (``plan/tiles.py``). Everything of fixed address is filled in once; what changes from call to call
(arguments, results, runtime scalars) is patched by the executor itself. Where a step has no kernel (a library
call), the table ends and another one begins after a call to the host.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from jtorch.compile.codegen.code import Code
from jtorch.compile.codegen.emitter import Edge, Number, Pointer
from jtorch.compile.graph.access import Layout
from jtorch.compile.graph.ir import Eqn, Var
from jtorch.compile.plan.fuse import StepKind
from jtorch.compile.plan.plan import Place, Plan, Run, Task, Where
from jtorch.compile.run import arena
from jtorch.compile.run.fit import Fit
from jtorch.compile.run.host import array_at
from jtorch.compile.run.host_calls import Address, Background, HostCall, Progress, Wait, layouts_of
from jtorch.compile.run.runner import Runner, store
from jtorch.compile.run.scans import HEAD, Loop, Turns, codes_of, scans_of, turns_of
from jtorch.compile.target import Binding, address_of
from jtorch.core.failure import Failure, FailureKind
from jtorch.core.pieces import Piece
from jtorch.native import cache, workers
from jtorch.native.contraction import FAILURES
from jtorch.native.executor import (
    ROW_WORDS,
    SCAN_WORDS,
    Executor,
    Patch,
    Row,
    layout_is_known,
    scan_kernel,
    walk_kernel,
)

_BETWEEN_LOOKS = 200  # microseconds of kernels between two looks at what is under way


class Addresses:
    """The address of every place. Fixed ones are numbers; the others are filled in by patches."""

    def __init__(self, plan: Plan, binding: Binding) -> None:
        self.plan = plan
        self.fixed = binding.fixed
        self.dynamic = binding.dynamic  # place -> which argument of the executor it comes with
        allocate = binding.scratch or arena.allocate
        self.memory: np.ndarray
        try:
            self.memory, self.arena = allocate(max(plan.arena_bytes, 64))
        except MemoryError as error:
            raise MemoryError(f"{error}{arena.largest_of(plan)}") from None

    def of(self, place: Place) -> int | None:
        """The fixed address, None where an argument of the call brings it."""
        if place.kind is Where.ARENA:
            return self.arena + place.at
        return self.fixed.get(place)


class Blocks:
    """Argument blocks, side by side, and what each call patches in them."""

    def __init__(self, size: int, patches: Sequence[Patch]) -> None:
        self.words = np.zeros(size, np.int64)
        self.patches = list(patches)
        self.used = 0
        self._begin = self.words.__array_interface__["data"][0]

    def take(self, count: int) -> int:
        """So many more words: the index of the first."""
        self.used += count
        return self.used - count

    def address(self, index: int) -> int:
        return self._begin + index * 8


class Replay(Runner):
    """One plan, ready to run. ``run(*arguments)`` returns a status; see ``failure``."""

    def __init__(self, code: Code, binding: Binding, turns: Callable[[Loop], Turns]) -> None:
        super().__init__()
        self.code, self.plan = code, code.plan
        # runtime scalars: argument -> the word in memory that kernels read it from
        self.words = binding.numbers
        self.numbers = [Patch(argument=k, destination=a, offset=0) for k, a in self.words.items()]
        self.addresses = Addresses(self.plan, binding)
        self.n_arguments, self.release_gil = binding.n_arguments, binding.release_gil
        self.kernel_address, self.compiled = kernel_addresses(code)
        self.fixed_words: dict[Place, list[tuple[np.ndarray, int, int]]] = {}
        self.scans = scans_of(self.plan)
        self.turns = turns_of(self.scans.values(), turns)
        self.inner = codes_of(self.turns)
        self.fit = Fit(code, {t: self.turns[x].time(x.sizes) * x.steps for t, x in self.scans.items()})
        self.is_cut = self.fit.is_cut
        self.segments: list[Any] = []
        self._make_segments()
        self.compiled += sum(each.compiled for each in {*self.turns.values()})
        self.background = [s for s in self.segments if isinstance(s, Background)]
        self.run: Callable[..., int] = self._entry()

    # -- building ------------------------------------------------------------------------------------------

    def _make_segments(self) -> None:
        pending: list[Task] = []
        begun: list[Background] = []  # that nobody has waited for
        for task in self.plan.tasks:
            waits = [c for c in begun if task.visible or not task.reads.isdisjoint(c.task.writes)]
            if waits or task.step.kind is StepKind.HOST:
                self._close(pending)
                pending = []
            self.segments += map(Wait, waits)
            begun = [c for c in begun if c not in waits]
            if task.in_background:
                begun.append(Background(*self._told(task), self.array))
                self.segments.append(begun[-1])
            elif task.step.kind is StepKind.HOST:
                self.segments.append(HostCall(*self._told(task)))
            else:
                pending.append(task)
                if begun and sum(map(self.fit.time, pending)) > _BETWEEN_LOOKS:
                    self._close(pending)
                    pending = []
                    self.segments.append(Progress(begun))
        self._close(pending)
        self.segments += map(Wait, begun)

    def _told(self, task: Task) -> tuple[Task, Eqn, list[Layout], Address]:
        """What a library call is told."""
        (eqn,) = task.step.eqns
        return task, eqn, layouts_of(eqn, self.plan.fused.find), self.address

    def _close(self, tasks: list[Task]) -> None:
        if tasks:
            self.segments.append(self._native(tasks))

    def _native(self, tasks: list[Task]) -> Native:
        groups = list(self.fit.groups(tasks))
        blocks = Blocks(sum(map(self._size, groups)), self.numbers)
        rows: list[Row] = []
        owners: list[Task] = []
        for group in groups:
            if isinstance(group, Run):
                rows.append(self._row_of_run(group, blocks))
                owners.append(group.tasks[0])
                continue
            if group in self.scans:
                rows.append(self._row_of_scan(self.scans[group], blocks))
                owners.append(group)
                continue
            row = self._row(group, self.fit.pieces(group), blocks)
            # a status names the row, so a task that can fail has one of its own; so has one that is cut
            again = rows and rows[-1].goes_on_with(row) and not group.can_fail
            if again and self.fit.n_words(owners[-1]) == self.fit.n_words(group):
                rows[-1] = rows[-1]._replace(repeat=rows[-1].repeat + 1)
            else:
                rows.append(row)
                owners.append(group)
        table = np.array(rows, np.int64)
        memory = [blocks.words, *self.fit.all_shared(tasks), *self.turns.values()]
        return Native(table, owners, blocks.patches, memory, self.n_arguments, self.release_gil)

    def _size(self, group: Task | Run) -> int:
        """The words of its argument blocks."""
        if isinstance(group, Run):
            return group.tiles * (1 + sum(ROW_WORDS + self.fit.n_words(task) for task in group.tasks))
        if group in self.scans:
            return self.scans[group].n_words * (len(self._edges(self.scans[group])) - 1)
        return self.fit.n_words(group) * len(self.fit.pieces(group))

    def _row(self, task: Task, pieces: Sequence[Piece], blocks: Blocks, first: bool = True) -> Row:
        """That of some pieces of a task, the ``first`` ones or others."""
        size, begin = self.fit.n_words(task), blocks.used
        for k, piece in enumerate(pieces):
            kernel = self._fill(task, piece, blocks, first and k == 0)
        pool = workers.pool() if len(pieces) > 1 else 0
        return Row(kernel, blocks.address(begin), len(pieces), size * 8, pool)

    def _row_of_run(self, run: Run, blocks: Blocks) -> Row:
        """The pieces of a run are tiles, each with a table of all its steps."""
        size = 1 + ROW_WORDS * len(run.tasks)
        begin = blocks.take(size * run.tiles)
        for tile in range(run.tiles):
            at = begin + size * tile
            rows = [self._row(task, [pieces[tile]], blocks, tile == 0) for task, pieces in run.pieces.items()]
            blocks.words[at : at + size] = [len(rows), *itertools.chain.from_iterable(rows)]
        return Row(walk_kernel(), blocks.address(begin), run.tiles, size * 8, workers.pool())

    def _edges(self, loop: Loop) -> list[int]:
        return self.turns[loop].edges(loop.sizes, loop.steps)

    def _row_of_scan(self, loop: Loop, blocks: Blocks) -> Row:
        """A loop, or as many as there are tiles of its rows."""
        begin, edges, turns = blocks.used, self._edges(loop), self.turns[loop]
        tiles = len(edges) - 1
        for tile, (low, high) in enumerate(itertools.pairwise(edges)):
            at = blocks.take(loop.n_words)
            record = turns.record(loop.of_rows(low, high, loop.sizes), tile, tiles == 1).record
            blocks.words[at : at + HEAD] = address_of(record), loop.steps, len(loop.arguments), 0, loop.ends
            if loop.skipped is not None:
                self._point(*loop.skipped, blocks.words, at + 3, blocks)
            for k, argument in enumerate(loop.arguments):
                word = at + HEAD + SCAN_WORDS * k
                blocks.words[word + 3 : word + SCAN_WORDS] = argument.stride, argument.mask, argument.late
                for n, place in enumerate((argument.first, argument.later), start=word + 1):
                    if place is None:
                        continue
                    var, nbytes = place
                    self._point(var, nbytes + low * argument.row, blocks.words, n, blocks)
        pool = workers.pool() if tiles > 1 else 0
        return Row(scan_kernel(), blocks.address(begin), tiles, 8 * loop.n_words, pool)

    def _fill(self, task: Task, piece: Piece, blocks: Blocks, first: bool) -> int:
        """Write the argument block of a piece of a task; returns the address of its kernel."""
        kernel = self.code.kernels.get(task)
        if kernel is None:
            return self._fill_product(task, piece, blocks, first)
        at = blocks.take(len(kernel.arguments))
        for k, argument in enumerate(kernel.arguments, start=at):
            if isinstance(argument, Pointer):
                nbytes = argument.offset * argument.var.dtype.itemsize
                self._point(argument.var, nbytes, blocks.words, k, blocks)
            elif isinstance(argument, Edge):
                blocks.words[k] = piece.range[argument.last]
            else:
                blocks.words[k] = word_of(argument)
        return self.kernel_address[kernel.source]

    def _point(self, var: Var, nbytes: int, words: np.ndarray, k: int, blocks: Blocks) -> None:
        place = self.plan.places[var]
        address = self.addresses.of(place)
        if address is None:
            argument = self.addresses.dynamic[place]
            destination = words.__array_interface__["data"][0] + k * 8
            blocks.patches.append(Patch(argument=argument, destination=destination, offset=nbytes))
        else:
            words[k] = address + nbytes
            self.fixed_words.setdefault(place, []).append((words, k, nbytes))

    def _fill_product(self, task: Task, piece: Piece, blocks: Blocks, first: bool) -> int:
        (x, y, _), call = self.fit.product(task)
        out = task.step.eqns[0].outputs[0]
        owners = ((x.owner, x.offset), (y.owner, y.offset), (out, 0))
        told = call.words(piece)
        at = blocks.take(len(told))
        blocks.words[at : at + len(told)] = told
        words, begin = blocks.words, at + 1
        shared = self.fit.shared(task)
        if shared is not None:
            words, begin = shared, 0
            blocks.words[at] = shared.__array_interface__["data"][0]
            if not first:
                return call.kernel
        for k, ((var, offset), nbytes) in enumerate(zip(owners, call.begins(piece), strict=True)):
            self._point(var, offset * var.dtype.itemsize + nbytes, words, begin + k, blocks)
        return call.kernel

    def _entry(self) -> Callable[..., int]:
        """One native segment is called directly; several in turn, with the host calls between."""
        if len(self.segments) == 1 and isinstance(self.segments[0], Native):
            self.failed: HostCall | Native = self.segments[0]
            self.is_atomic = layout_is_known()
            return self.segments[0].executor.run
        return self._run_segments

    def _run_segments(self, *arguments: Any) -> int:
        with self.alone:  # between segments other Python threads run, but the arena is this call's
            store(self.words, arguments)  # the first segment may be a library call
            for segment in self.background:
                segment.end()  # of a run that was broken off: it writes the memory of this one
            for segment in self.segments:
                status = segment.run(*arguments)
                if status:
                    self.failed = segment
                    return status
            self._ended += 1
        return 0

    @property
    def ended(self) -> int:
        return self.segments[-1].ended if self.segments else self._ended

    def times_at(self, sizes: tuple[int, ...]) -> list[float]:
        """Microseconds that each step takes on one thread, about."""
        return list(map(self.fit.time, self.plan.tasks))

    def flops_at(self, sizes: tuple[int, ...]) -> int:
        """Floating-point operations of all products."""
        products = [task for task in self.plan.tasks if task.step.kind is StepKind.GEMM]
        return sum(self.fit.product(task)[0].product.flops for task in products)

    def flops_of(self, scan: Task) -> int:
        """Those of the products of a loop over time."""
        loop = self.scans[scan]
        return loop.steps * self.turns[loop].flops(loop.sizes)

    def apart(self, sizes: tuple[int, ...], is_alone: bool) -> Executor:
        """What runs all as one table: the only one that there is."""
        (segment,) = self.segments
        return segment.executor

    def is_shared(self, *tasks: Task) -> bool:
        if tasks[0] in self.scans:
            return self.is_cut and len(self._edges(self.scans[tasks[0]])) > 2
        return self.fit.is_shared(*tasks)

    def call_of(self, *tasks: Task) -> Callable[..., int]:
        """What runs one task alone, or all of a run, and gives its status."""
        host = tasks[0].step.kind is StepKind.HOST
        segment: HostCall | Native = HostCall(*self._told(tasks[0])) if host else self._native(list(tasks))
        self.failed = segment
        return segment.run

    def run_one(self, task: Task, arguments: Sequence[Any] = ()) -> int:
        """Run one task alone; its status. To find the one that is wrong."""
        return self.call_of(task)(*arguments)

    # -- changing and asking ---------------------------------------------------------------------------------

    def move(self, place: Place, address: int) -> None:
        """Give a fixed place a new address in every argument block."""
        self.addresses.fixed[place] = address
        for block, k, nbytes in self.fixed_words.get(place, ()):
            block[k] = address + nbytes

    def address(self, var: Var, arguments: Sequence[Any]) -> int:
        """Where a variable lies in this call, for a host call."""
        place = self.plan.places[var]
        address = self.addresses.of(place)
        if address is None:
            address = arguments[self.addresses.dynamic[place]].__array_interface__["data"][0]
        return address

    def array(self, var: Var, arguments: Sequence[Any]) -> np.ndarray:
        """The memory of a variable in this call, which lives as long as the array."""
        place = self.plan.places[var]
        if place.kind is Where.ARENA:
            begin = self.address(var, arguments) - self.addresses.memory.__array_interface__["data"][0]
            raw = self.addresses.memory.view(np.uint8)[begin : begin + var.type.nbytes]
            return raw.view(var.dtype).reshape(var.shape)
        if place in self.addresses.dynamic:
            return arguments[self.addresses.dynamic[place]]
        return array_at(self.address(var, arguments), var)

    def failure(self, status: int) -> Failure:
        """What went wrong."""
        row, code = Executor.decode(status)
        return failure_of(self.code, self.failed.owners[row], code)


def kernel_addresses(code: Code) -> tuple[dict[str, int], int]:
    """Where the kernel of each text lies, and how many of them had to be compiled."""
    before = cache.counters.compiled
    kernels = code.texts()
    built = cache.get_or_build_many([(k.source, k.entry) for k in kernels.values()])
    found = {source: b.address for source, b in zip(kernels, built, strict=True)}
    return found, cache.counters.compiled - before


def failure_of(code: Code, task: Task, status: int) -> Failure:
    """What ``status`` of a task means."""
    errors = code.kernels[task].errors if task in code.kernels else ()
    if 0 < status <= len(errors):
        return errors[status - 1]
    unknown = Failure(FailureKind.VALUE, f"kernel failed with status {status}")
    return replace(FAILURES.get(status, unknown), source=task.step.eqns[0].source)


class Native:
    """One instruction table."""

    def __init__(
        self, table: np.ndarray, owners: list[Task], patches: list[Patch], blocks: list[Any], n: int,
        release_gil: bool,
    ) -> None:  # fmt: skip
        self.owners = owners
        self.blocks = blocks
        self.table = table
        self.executor = Executor(
            table, patches=patches, keepalive=blocks, argument_count=n, release_gil=release_gil
        )
        self.run = self.executor.run

    @property
    def ended(self) -> int:
        return self.executor.ended


def word_of(number: Number) -> int:
    """The 8 bytes of an argument: float64 bits for floats, the integer itself for integers."""
    if number.dtype.kind == "f":
        return int(np.array(number.value, np.float64).view(np.int64))
    value = int(number.value)
    return value - 2**64 if value >= 2**63 else value
