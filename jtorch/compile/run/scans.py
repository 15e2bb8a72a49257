"""A loop over time as one row of a table: its turn is planned once, for any number of rows, and that plan's
record is run step by step, with addresses that move on.

What a step carries to the next one is where the step before has written its output: nothing is copied. Where
the rows of a batch have nothing to do with each other, threads go through all steps with some rows each, as
through the runs of ``plan/tiles.py``.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from jtorch.compile.codegen.code import Code
from jtorch.compile.graph.access import Find, layout_of
from jtorch.compile.graph.at_sizes import at_sizes, numbers_in
from jtorch.compile.graph.ir import Graph, Type, Var
from jtorch.compile.pipeline import Program, compile_graph
from jtorch.compile.plan.fuse import StepKind
from jtorch.compile.plan.plan import Destination, Place, Plan, Task, Use, Where
from jtorch.compile.plan.tiles import LONGEST, most_tiles
from jtorch.compile.record.trace import Tracer
from jtorch.compile.target import Binding, Target
from jtorch.compile.timings import Timings
from jtorch.core import pieces
from jtorch.core.dim import Dim, symbol, symbols_in, value_of
from jtorch.core.environment import LEAST, Environment, Exact
from jtorch.core.op import Scan
from jtorch.core.sizes import shape_of
from jtorch.native.executor import SCAN_WORDS, Executor

HEAD = 5
"""Words of a block before those of its arguments: see ``scan_kernel``."""

_KEPT = 256  # records of a turn
ALL, TWO = -1, 1  # masks: each step has memory of its own, or every second one the same


class Argument(NamedTuple):
    """An input or an output of a turn: where it lies at the first step, as bytes of a variable's memory (None
    where that is no other place than later), and from the second step on, see ``scan_kernel``. ``row``: the
    bytes from one row of the batch to the next; 0 where all rows see all of it."""

    first: tuple[Var, Any] | None
    later: tuple[Var, Any]
    stride: Any
    mask: int
    late: int
    row: Any


class Loop:
    """What the scan of a task does, whose sizes may be symbols: ``steps`` times a turn, of so many rows, or
    of what symbols a graph has (``sizes``). Nobody reads outputs that are ``unread``."""

    def __init__(self, task: Task, find: Find, unread: Container[Var]) -> None:
        (self.eqn,) = task.step.eqns
        scan = self.eqn.op.scan
        assert scan is not None
        self.scan: Scan = scan
        facts = self.eqn.statics
        self.reverse, self.constants = facts["reverse"], facts["constants"]
        self.find = find
        inputs = [_var(atom) for atom in self.eqn.inputs]
        self.carries, self.fixed, self.moving = self.scan.parted(inputs, self.constants)
        self.has_rows = self.scan.graph is None
        if self.has_rows:
            self.steps, rows = self.moving[0].shape[:2]
            self.sizes: tuple[Any, ...] = (rows,)
            self._check_rows()
        else:
            self.steps, self.sizes = facts["steps"], symbols_in(numbers_in(self.scan.graph))
        self.wanted = [
            k
            for k, out in enumerate(self.eqn.outputs)
            if k in self.scan.carried or k in self.scan.checked or out not in unread
        ]
        self.arguments = list(self._arguments(unread))
        self.skipped = self._at(self.fixed[0]) if self.scan.skips else None
        """Where the number of steps lies that are left out."""
        self.ends = len(inputs) + len(self.carries) + 1 if self.scan.ends else 0
        """The number, from 1 on, of the argument that is below 0 where no other step follows."""

    def _check_rows(self) -> None:
        sizes = [n for var in self.carries for n in var.shape[1:]]
        sizes += [n for var in self.fixed for n in var.shape] + [n for x in self.moving for n in x.shape[2:]]
        if any(type(n) is Dim for n in sizes):
            raise Exact(f"{self.eqn.op.name} has other sizes than those of steps and rows that move")

    def of_rows(self, low: int, high: int, sizes: tuple[int, ...]) -> tuple[int, ...]:
        """The sizes of a turn of some rows alone, where all have these."""
        return (high - low,) if self.has_rows else sizes

    @property
    def form(self) -> tuple:
        """What its turn's plan is made from."""
        kinds = [(var.dtype, var.shape[1:]) for var in (*self.carries, *self.fixed)]
        kinds += [(var.dtype, var.shape[2:]) for var in self.moving]
        fixed = tuple(var.shape for var in self.fixed)
        return self.eqn.op, self.eqn.statics["options"], fixed, tuple(kinds), tuple(self.wanted)

    @property
    def n_words(self) -> int:
        """Those of its block."""
        return HEAD + SCAN_WORDS * len(self.arguments)

    def _arguments(self, unread: Container[Var]) -> Iterator[Argument]:
        """Those of a turn: its inputs, then its outputs."""
        outputs = self.eqn.outputs
        for var, k in zip(self.carries, self.scan.carried, strict=True):
            if not self.has_rows:
                yield self._latest(outputs[k], self.steps)._replace(first=self._at(var))
                continue
            mask = TWO if outputs[k] in unread else ALL
            yield self._moving(outputs[k], 0, mask)._replace(first=self._at(var), late=1)
        for var in self.fixed:
            yield Argument(self._at(var), self._at(var), 0, ALL, 0, 0)
        for var in self.moving:
            owner, offset = self._at(var)
            yield self._moving(var, offset, ALL, owner)
        for k in self.wanted:
            if not self.has_rows and k in self.scan.carried:
                yield self._latest(outputs[k], self.steps - 1)
                continue
            if self.scan.ends and k == len(self.carries):
                yield Argument(None, (outputs[k], 0), 0, ALL, 0, 0)
                continue
            yield self._moving(outputs[k], 0, TWO if outputs[k] in unread else ALL)

    def _latest(self, var: Var, late: Any) -> Argument:
        """One of two places of which the last step has the first, seen so many steps later."""
        at = var, 0
        nbytes = math.prod(var.shape[1:]) * var.dtype.itemsize
        return Argument(None, at, nbytes, TWO, late, 0)

    def _moving(self, var: Var, offset: Any, mask: int, owner: Var | None = None) -> Argument:
        """What lies step by step from so many bytes of ``owner`` on, or else of ``var``."""
        step = math.prod(var.shape[1:]) * var.dtype.itemsize
        row = math.prod(var.shape[2:]) * var.dtype.itemsize if self.has_rows else 0
        begin = offset + (self.steps - 1) * step if self.reverse else offset
        at = var if owner is None else owner, begin
        first = at if self.has_rows else None  # of a loop that skips steps the first one is any
        return Argument(first, at, -step if self.reverse else step, mask, 0, row)

    def _at(self, var: Var) -> tuple[Var, Any]:
        layout = layout_of(var, self.find)
        assert layout is not None  # see graph/finalise.py
        return layout.owner, layout.offset * var.dtype.itemsize


def scans_of(plan: Plan) -> dict[Task, Loop]:
    """The tasks of a plan that are loops."""
    tasks = [task for task in plan.tasks if task.step.kind is StepKind.SCAN]
    read = {var for task in plan.tasks for var in task.reads} | set(plan.fused.graph.outputs)
    read |= plan.parts.keys()  # in whose place the whole is read
    unread = {var for task in tasks for var in task.writes} - read
    return {task: Loop(task, plan.fused.find, unread) for task in tasks}


def turns_of(loops: Iterable[Loop], make: Callable[[Loop], Turns]) -> dict[Loop, Turns]:
    """The plans of the turns of some loops that never run at once; those of one form share one."""
    known: dict[tuple, Turns] = {}
    found = {}
    for loop in loops:
        if loop.form not in known:
            known[loop.form] = make(loop)
        found[loop] = known[loop.form]
    return found


def codes_of(turns: Mapping[Loop, Turns]) -> list[Code]:
    """The code of each, once."""
    return [each.code for each in dict.fromkeys(turns.values())]


class Turns:
    """The plans of a turn of ``loop``, or of one that is like it. ``cpu`` is the target of numbers,
    ``of_sizes`` gives that of symbols."""

    def __init__(self, loop: Loop, cpu: Target, of_sizes: Any) -> None:
        self.loop, self.cpu, self.of_sizes = loop, cpu, of_sizes
        self._known: dict[int, Any] = {}  # runners: for any number of rows, and for fewer ones
        self._records: dict[tuple[tuple[int, ...], int, bool], Executor] = {}
        self.times = functools.lru_cache(maxsize=64)(self._times)
        self.compiled = 0
        if not loop.has_rows:  # of which some guards are the whole plan's
            self._known[LEAST] = self._of_graph()

    def _times(self, sizes: tuple[int, ...]) -> tuple[float, float]:
        times = self._runner(sizes).times_at(sizes)
        return math.fsum(times), max(times, default=0.0)

    def time(self, sizes: tuple[int, ...]) -> float:
        """Microseconds of a turn of these sizes on one thread, about."""
        return self.times(sizes)[0]

    def flops(self, sizes: tuple[int, ...]) -> int:
        """Floating-point operations of the products of a turn."""
        return self._runner(sizes).flops_at(sizes)

    @property
    def code(self) -> Code:
        """That of the plan for the sizes at hand, which is made if need be."""
        return self._runner(tuple(map(value_of, self.loop.sizes))).code

    def edges(self, sizes: tuple[int, ...], steps: int) -> list[int]:
        """Where tiles of the rows begin and end. How many there are follows from sizes alone: see
        ``core/pieces.py``."""
        if not self.loop.has_rows:
            return [0, 1]
        (rows,) = sizes
        time, longest = self.times(sizes)
        if longest > LONGEST or not pieces.is_cut([time * steps]) or rows < 2:
            return [0, rows]
        tiles = most_tiles(rows, time * steps)
        return [k * rows // tiles for k in range(tiles + 1)]

    def record(self, sizes: tuple[int, ...], tile: int, is_alone: bool) -> Executor:
        """What runs a turn of these sizes, with memory that no other ``tile`` has; where it ``is_alone``
        threads share what can be shared of it."""
        key = sizes, tile, is_alone
        if key not in self._records:
            while len(self._records) >= _KEPT:
                del self._records[next(iter(self._records))]
            self._records[key] = self._runner(sizes).apart(sizes, is_alone)
        return self._records[key]

    def _runner(self, sizes: tuple[int, ...]) -> Any:
        key = sizes[0] if self.loop.has_rows and sizes[0] < LEAST else LEAST
        if key not in self._known:
            self._known[key] = self._compiled(sizes[0])
        return self._known[key]

    def _of_graph(self) -> Any:
        """The plan of a user's turn, whose symbols are those of the plan that it is part of."""
        sizes = self.loop.sizes
        target = self.of_sizes(sizes[0].env, [n.text for n in sizes]) if sizes else self.cpu
        return self._runner_of(turn_of(self.loop), target)

    def _compiled(self, rows: int) -> Any:
        """The plan of a turn of any number of rows, or of these alone where they are few."""
        if rows < LEAST:
            return self._runner_of(turn_of(self.loop, rows), self.cpu)
        env = Environment()
        graph = turn_of(self.loop, symbol(env, "rows", rows))
        env.planning = True
        runner = self._runner_of(graph, self.of_sizes(env))
        env.close()
        return runner

    def _runner_of(self, graph: Graph, target: Target) -> Any:
        runner = compiled_turn(graph, target).runner
        self.compiled += runner.compiled
        return runner


def turn_of(loop: Loop, rows: Any = None) -> Graph:
    """The graph of a turn, of so many ``rows`` where the loop has rows: a number or a symbol."""
    if loop.has_rows:
        return _turn_of_rows(loop, rows)
    whole = loop.scan.graph
    graph = whole.replace(outputs=tuple(whole.outputs[k] for k in loop.wanted))
    if loop.sizes:
        return graph
    space: dict[str, Any] = next((n.env.functions for n in numbers_in(graph)), {})
    return at_sizes(graph, space)  # symbols that are known to be numbers are these


def _turn_of_rows(loop: Loop, rows: Any) -> Graph:
    tracer = Tracer(loop.eqn.op.name)
    tracer.has_symbols = type(rows) is not int
    carries = [_variable(var, (rows, *var.shape[1:])) for var in loop.carries]
    fixed = [_variable(var, var.shape) for var in loop.fixed]
    moving = [_variable(var, (rows, *var.shape[2:])) for var in loop.moving]
    parts = [list(map(tracer.fresh, part)) for part in (carries, fixed, moving)]
    found = loop.scan.turn(tracer.xp, *parts, *loop.eqn.statics["options"])
    outputs = tuple(tracer.read(tracer.lift(found[k])) for k in loop.wanted)
    tracer.open = False
    return Graph(tracer.name, (*carries, *fixed, *moving), tuple(tracer.eqns), outputs)


def compiled_turn(graph: Graph, target: Target) -> Program:
    """``graph`` compiled for a target, as what takes its inputs and its outputs as arguments."""
    binding = Binding()
    destinations = [Destination(Use.RESULT, k) for k in range(len(graph.outputs))]
    binding.bring(*(Place(Where.INPUT, k) for k in range(len(graph.inputs))))
    binding.bring(*(destination.place for destination in destinations))
    return compile_graph(graph, destinations, target, binding, Timings())


def _variable(like: Var, shape: Sequence[Any]) -> Var:
    return Var(Type(like.dtype, shape_of(shape)))


def _var(atom: Any) -> Var:
    assert isinstance(atom, Var)  # see graph/finalise.py
    return atom
