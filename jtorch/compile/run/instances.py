"""A plan over symbols, made executable for some sizes at a time.

For sizes never seen before the guards are tested, the expressions of the plan's ``Template`` worked out, and
words and table put together; nothing is recorded, planned or written anew. An instance is what a plan of its
sizes alone would be, word for word, but for where scratch memory lies. The latest ones are kept; all share
one arena, and where a larger one is needed, they are made again as they are asked for.
"""

from __future__ import annotations

import math
import weakref
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from jtorch.compile.codegen.code import Code
from jtorch.compile.plan.plan import Place, Where
from jtorch.compile.plan.scratch import ALIGNMENT
from jtorch.compile.plan.slots import slots_of
from jtorch.compile.run import arena
from jtorch.compile.run.asked import Asked
from jtorch.compile.run.choice import Choices
from jtorch.compile.run.layout import Layout, Way
from jtorch.compile.run.layouts import Layouts
from jtorch.compile.run.parts import Parts
from jtorch.compile.run.replay import failure_of, kernel_addresses
from jtorch.compile.run.runner import Runner, keep
from jtorch.compile.run.scans import Loop, Turns, codes_of, turns_of
from jtorch.compile.run.segments import CallsAtSizes, Segments
from jtorch.compile.run.steps_at_sizes import StepsAtSizes, Tiling
from jtorch.compile.run.template import HostBlock, ScanBlock, Template
from jtorch.compile.target import Binding
from jtorch.core import pieces
from jtorch.core.environment import Environment
from jtorch.core.failure import Failure
from jtorch.native import workers
from jtorch.native.executor import Executor, Patch, layout_is_known

MOST = 64
"""Instances of a plan that are kept."""

_LONG = 20.0  # microseconds from which on other threads of Python may run meanwhile: taking turns costs some


class Instance:
    """What runs calls of some sizes, of memory that has this layout. ``used``: a call has run it since it was
    looked at as one to drop."""

    __slots__ = ("__weakref__", "executor", "layout", "memory", "run", "used")

    def __init__(self, executor: Executor | Segments, layout: Layout, memory: np.ndarray, ends: Ends) -> None:
        self.executor, self.layout, self.memory = executor, layout, memory
        self.run, self.used = executor.run, True
        ends.add(self)


class Ends:
    """How many runs of all instances ended: of those that are gone, and of those alive, which a call may be
    in though another one has dropped it. Both are one object, so that none is ever in neither, or in both;
    one thread at a time adds an instance."""

    LOOKED_AT = MOST + 16  # from so many on it is asked which of them are gone

    def __init__(self) -> None:
        self._counted: tuple[int, tuple[tuple[weakref.ref[Instance], Executor | Segments], ...]] = 0, ()

    def add(self, made: Instance) -> None:
        gone, known = self._counted
        self._counted = gone, (*known, (weakref.ref(made), made.executor))
        if len(known) >= self.LOOKED_AT:
            self.look()

    def look(self) -> None:
        """Keep nothing of those that are gone but how many runs ended."""
        gone, known = self._counted
        alive = [(reference, executor) for reference, executor in known if reference() is not None]
        left = {id(executor) for _, executor in alive}
        gone += sum(executor.ended for _, executor in known if id(executor) not in left)
        self._counted = gone, tuple(alive)

    @property
    def alive(self) -> list[Instance]:
        return [made for reference, _ in self._counted[1] if (made := reference()) is not None]

    @property
    def total(self) -> int:
        gone, known = self._counted
        return gone + sum(executor.ended for _, executor in known)


class Instances(Runner):
    """The runner of a plan over symbols. ``found`` has the instances by their sizes, a number or a tuple of
    them; ``instantiate(*sizes)`` makes one."""

    def __init__(
        self,
        code: Code,
        binding: Binding,
        env: Environment,
        turns: Callable[[Loop], Turns],
        names: Sequence[str],
    ) -> None:
        super().__init__()
        self.code, self.plan, self.binding, self.names = code, code.plan, binding, names
        self.template = Template(code, binding)
        self.addresses, self.compiled = kernel_addresses(code)
        self.scans = [block for block in self.template.blocks if isinstance(block, ScanBlock)]
        self.turns = turns_of([block.loop for block in self.scans], turns)
        self.inner = codes_of(self.turns)  # which there are by now
        self.compiled += sum(each.compiled for each in {*self.turns.values()})
        has_order = self.plan.schedule is not None
        self.tiled = StepsAtSizes(self.template, env, names) if has_order else None
        tests = [test for test in (*env.limits, *env.tests) if env.is_about(test, names)]
        self.functions = self.template.functions(names, tests, env.functions)
        hosts = [block for block in self.template.blocks if isinstance(block, HostBlock)]
        self.calls = CallsAtSizes(hosts, self.plan.fused.find, self.names, env.functions)
        self.is_atomic = layout_is_known() and not hosts
        self._collect()
        self.found: dict[Any, Instance] = {}
        self.ends = Ends()
        self.failed: Instance | None = None  # that of the latest call that failed
        self._reserved = 0
        self.memory: np.ndarray | None = None
        self._reserve(ALIGNMENT)

    def _collect(self) -> None:
        """The template's columns as arrays, to be worked out all at once."""
        words, binding = self.template.words, self.binding
        self.constants = np.array(words.constants, np.int64)
        self.int_at, self.int_of = _columns(words.ints, 2)
        self.float_at, self.float_of = _columns(words.floats, 2)
        self.slot_at, of, self.slot_expr, self.slot_bytes = _columns(words.slots, 4)
        self.slots = _Slots(of, self.template.slots)
        self.slots_by_runs: dict[tuple, _Slots] = {}
        self.fixed: dict[Place, list[int]] = {}
        for place, k, _, nbytes in words.fixed:
            self.fixed.setdefault(place, []).append(k)
            self.constants[k] = binding.fixed[place] + nbytes
        moving = [(k, expr) for _, k, expr, _ in words.fixed if expr >= 0]
        self.moving_at, self.moving_of = _columns(moving, 2)
        each, elements, _, _ = _columns(self.template.times, 4, float)
        self.times = each, elements.astype(np.intp)
        self.flops = np.array(self.template.flops, np.intp)
        self.numbers = [Patch(argument, address) for argument, address in binding.numbers.items()]
        self.kernels = {t: self.addresses[kernel.source] for t, kernel in self.code.kernels.items()}
        self.choices = Choices(self.template, self.tiled, self.turns)
        self.turns_of = np.array([turns for _, _, turns, _ in self.template.times], np.intp)
        self.layouts = Layouts(Parts(self.template, self.kernels), self.numbers, binding.n_arguments)

    # -- sizes never seen before ---------------------------------------------------------------------------

    def instantiate(self, *sizes: int) -> Instance | None:
        """What runs calls of these sizes; None where a guard does not hold."""
        return self._made(sizes, True)

    def apart(self, sizes: tuple[int, ...], is_alone: bool) -> Executor:
        """What runs all for these sizes as one table, in memory of its own; other threads have a share where
        it ``is_alone``."""
        with self.alone:
            self.found.clear()
            self._reserved = 0
            made = self._made(sizes, is_alone)
        assert made is not None and isinstance(made.executor, Executor)
        return made.executor

    def times_at(self, sizes: tuple[int, ...]) -> list[float]:
        """Microseconds that each step takes on one thread, about."""
        return self._times(np.array(self.functions.numbers(*sizes)[0], np.int64))

    def flops_at(self, sizes: tuple[int, ...]) -> int:
        """Floating-point operations of all products."""
        return int(np.array(self.functions.numbers(*sizes)[0], np.int64)[self.flops].sum())

    def _made(self, sizes: tuple[int, ...], is_shared: bool) -> Instance | None:
        """The same; other threads have a share where it ``is_shared``."""
        with self.alone:
            try:
                if not self.functions.holds(*sizes):
                    return None
                ints, floats = self.functions.numbers(*sizes)
                values = np.array(ints, np.int64)
            except (ArithmeticError, ValueError):  # an integer that no int64 holds is one
                return None
            times = self._times(values)
            time = math.fsum(times)
            is_cut = is_shared and pieces.is_cut([time]) and bool(workers.pool())
            releases = self.binding.release_gil and time >= _LONG
            made = self._instance(sizes, values, floats, times, is_cut, releases)
            keep(self.found, sizes if len(sizes) > 1 else sizes[0], made, MOST)
        return made

    def _instance(
        self, sizes: tuple, values: np.ndarray, floats: list[float], times: list[float], is_cut: bool,
        releases: bool,
    ) -> Instance:  # fmt: skip
        functions, turns = self.functions, values[self.turns_of].tolist()
        asked = Asked(values, times, turns, functions.parts(*sizes), functions.usual(*sizes), is_cut)
        steps, tiling, given, kept = self.choices.at(sizes, asked)
        layout = self.layouts.of(Way(steps, workers.pool(), releases))
        memory, words = layout.begun(self.constants)
        self._work_out(words, values, floats)
        self._lay_out(words, values, self._slots_of(tiling) if tiling.runs else self.slots)
        layout.finish(memory, values, given)
        keep = [*kept, self.memory]
        if not layout.calls:
            return Instance(Executor.of_record(memory, keep), layout, memory, self.ends)
        return Instance(self._segments(sizes, layout, memory, keep), layout, memory, self.ends)

    def _work_out(self, words: np.ndarray, values: np.ndarray, floats: list[float]) -> None:
        """Write to ``words``, which are the constants, those of these values of the expressions, the last of
        which is 0: it stands for none. Where scratch memory lies is found later."""
        words[self.int_at] = values[self.int_of]
        if len(self.moving_at):
            words[self.moving_at] += values[self.moving_of]
        if floats:
            words[self.float_at] = np.array(floats).view(np.int64)[self.float_of]

    def _lay_out(self, words: np.ndarray, values: np.ndarray, slots: _Slots) -> None:
        """Write the addresses of scratch memory."""
        if not len(slots.starts):
            return
        largest = np.maximum.reduceat(values[slots.sizes], slots.starts)
        room = np.maximum(largest + (ALIGNMENT - 1), ALIGNMENT) & -ALIGNMENT
        begins = room.cumsum() - room
        self._reserve(int(begins[-1] + room[-1]))
        words[self.slot_at] = self.base + begins[slots.of] + values[self.slot_expr] + self.slot_bytes

    def times_of(self, values: np.ndarray) -> np.ndarray:
        """Microseconds that each loop takes on one thread, about."""
        each, elements = self.times
        return each * values[elements]

    def _times(self, values: np.ndarray) -> list[float]:
        products = map(pieces.product_time, values[self.flops].tolist())
        scans = (self.turns[b.loop].time(b.sizes_of(values)) * int(values[b.steps]) for b in self.scans)
        return [*self.times_of(values).tolist(), *products, *scans]

    def _slots_of(self, tiling: Tiling) -> _Slots:
        """Where scratch memory lies if these are the runs, whatever the sizes."""
        plan, known, key = self.plan, self.slots_by_runs, tiling.lifetimes
        assert plan.schedule is not None
        if key not in known:
            while len(known) >= MOST:
                del known[next(iter(known))]
            elsewhere = {var for var, place in plan.places.items() if place.kind is not Where.ARENA}
            at, sizes = slots_of(tiling.order, elsewhere, plan.parts, plan.schedule.over, tiling.runs)
            of = np.array([at[var].slot for var in self.template.words.in_slots], np.intp)
            known[key] = _Slots(of, self.template.numbers_of(sizes))
        return known[key]

    def _segments(self, sizes: tuple, layout: Layout, memory: np.ndarray, keep: Sequence[Any]) -> Segments:
        """The tables between library calls, and these."""
        table, patches = layout.tables(memory)

        def executor(table: np.ndarray, is_first: bool) -> Executor:
            brought: Any = patches if is_first else patches[:0]
            return Executor(table, brought, [memory, *keep], argument_count=self.binding.n_arguments)

        made = {call.task: call for call in self.calls.made(sizes, layout.words(memory))}
        calls = [(begin, made[task]) for begin, task in layout.calls]
        return Segments(table, calls, self.binding.numbers, executor)

    def _reserve(self, nbytes: int) -> None:
        """Have an arena of so many bytes: a larger one is no memory of the instances that there are. Where it
        cannot be had, there is none until the next one is asked for."""
        if nbytes <= self._reserved:
            return
        self.found.clear()
        self.ends.look()  # which hold the memory that there was
        before, self._reserved, self.memory = self._reserved, 0, None
        memory, self.base = arena.grown(nbytes, before)
        self.memory, self._reserved = memory, len(memory)

    # -- being asked ---------------------------------------------------------------------------------------

    def at(self, *sizes: int) -> AtSizes | None:
        """A runner for calls of these sizes; None where a guard does not hold."""
        made = self.found.get(sizes if len(sizes) > 1 else sizes[0]) or self.instantiate(*sizes)
        if made is None:
            return None
        made.used = True
        return AtSizes(self, made)

    def run(self, *arguments: Any) -> int:
        raise NotImplementedError  # an instance does

    @property
    def ended(self) -> int:
        return self.ends.total

    def move(self, place: Place, address: int) -> None:
        """Give a fixed place a new address in every argument block."""
        with self.alone:  # none is being made
            change = address - self.binding.fixed[place]
            self.binding.fixed[place] = address
            alive = self.ends.alive  # a call may be about to run one that was dropped
            for k in self.fixed.get(place, ()):
                self.constants[k] += change
                for made in alive:
                    made.memory[made.layout.places_of(k)] += change

    def failure(self, status: int) -> Failure:
        """What went wrong."""
        row, code = Executor.decode(status)
        assert self.failed is not None
        return failure_of(self.code, self.failed.layout.owners[row], code)


class _Slots:
    """``of`` which slot each word is that holds an address in one, and by which expressions its size goes."""

    def __init__(self, of: np.ndarray, sizes: Sequence[Sequence[int]]) -> None:
        self.of, self.sizes = of, np.array([n for slot in sizes for n in slot], np.intp)
        self.starts = np.cumsum([0, *map(len, sizes)])[:-1]


class AtSizes:
    """An instance as a runner."""

    def __init__(self, instances: Instances, made: Instance) -> None:
        self.instances, self.made = instances, made
        self.alone, self.run = instances.alone, made.run

    def failure(self, status: int) -> Failure:
        """What went wrong."""
        self.instances.failed = self.made
        return self.instances.failure(status)


def _columns(rows: Sequence[tuple], n: int, dtype: Any = np.intp) -> list[np.ndarray]:
    return list(np.array(rows, dtype).reshape(-1, n).T.copy())
