"""What goes by tiles in a plan over symbols, for some sizes at a time.

``plan/tiles.py`` decides, as it does where sizes are numbers, and asks the same of each task as there (see
``plan/steps.py``). Most sizes go one of a few ways through it, which are followed.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from jtorch.compile.graph.products import product_of
from jtorch.compile.plan import footprints, tiles
from jtorch.compile.plan.footprints import Footprint
from jtorch.compile.plan.fuse import StepKind
from jtorch.compile.plan.pieces import divided
from jtorch.compile.plan.plan import Plan, Run, Task
from jtorch.compile.plan.steps import axis_of, cut_into, may_be_cut, step_of_product
from jtorch.compile.plan.tiles import Cut, Grown, Memory, Step, grown, runs_grown
from jtorch.compile.run.expressions import Expressions
from jtorch.compile.run.products import known_rows_of, rows_of
from jtorch.compile.run.template import LoopBlock, ProductBlock, Template
from jtorch.core.environment import Environment
from jtorch.core.followed import Ways
from jtorch.core.pieces import product_time
from jtorch.core.products import Product


class _Loop(NamedTuple):
    """The number of the expression for its turns, and footprints of such numbers."""

    turns: int
    touched: list[Footprint]


class Tiling(NamedTuple):
    """The tasks in order, and the runs among them."""

    order: tuple[Task, ...]
    runs: tuple[Run, ...]

    @property
    def lifetimes(self) -> tuple:
        """What says which values are needed at once."""
        return self.order, *((run.tasks, run.local) for run in self.runs)


class StepsAtSizes:
    """Of the tasks of the plan of ``template``."""

    MOST = 256  # beginnings of runs, and what follows there, of which the ways are kept

    def __init__(self, template: Template, env: Environment, names: Sequence[str]) -> None:
        plan = template.plan
        assert plan.schedule is not None
        self.tasks, self.after, self.numbers = plan.tasks, plan.schedule.after, Expressions()
        self.products = {
            b.task: (b.shape, [self.numbers.of(n) for n in b.moving])
            for b in template.blocks
            if isinstance(b, ProductBlock)
        }
        self.timed = [b.task for b in template.blocks if isinstance(b, LoopBlock)]
        self.all = [*self.timed, *self.products]
        self._find_loops(plan)
        # Those that are the same at all sizes are no numbers that are followed.
        self._constants = [int(text) if text.lstrip("-").isdigit() else None for text in self.numbers.texts]
        moving = Expressions()
        moving.texts = {t: k for t, k in self.numbers.texts.items() if self._constants[k] is None}
        self.asked, self.n_asked = moving.function(names, env.functions), len(moving.texts)
        self._begun: dict[tuple[int, tuple[Task, ...]], Ways] = {}  # where, and tasks in another order there

    def tiling(self, sizes: Sequence[int], times: Sequence[float], products: Sequence[tuple]) -> Tiling:
        """What goes by tiles at these sizes. ``times`` are microseconds of loops and then of products, which
        these are the moving numbers of."""
        given: list[Any] = []  # most often nobody asks

        def grow(tasks: Sequence[Task], first: int, still: int) -> tuple[Grown, list[int]]:
            if not given:
                given.extend((*self.asked(*sizes), *times[: len(self.timed)]))
            return self._grown(given, tasks, first, still)

        return self._tiling(times, products, known_rows_of, grow)

    def followed(self, asked: Sequence[Any], times: Sequence[Any], products: Sequence[tuple]) -> Tiling:
        """The same of numbers that may be followed; ``asked`` are those of ``self.asked``."""
        given = [*asked, *times[: len(self.timed)]]

        def grow(tasks: Sequence[Task], first: int, _: int) -> tuple[Grown, list[int]]:
            return self._grow(tuple(tasks[first:]), given)

        return self._tiling(times, products, rows_of, grow)

    def _tiling(
        self, times: Sequence[Any], products: Sequence[tuple], rows_of: Callable[..., int],
        grow: Callable[[Sequence[Task], int, int], tuple[Grown, list[int]]],
    ) -> Tiling:  # fmt: skip
        long = dict(zip(self.all, times, strict=False))  # behind them are loops over time
        rows = {
            task: rows_of(shape, moving)
            for (task, (shape, _)), moving in zip(self.products.items(), products, strict=True)
            if long[task] <= tiles.LONGEST
        }
        order, runs = runs_grown(list(self.tasks), long, rows, grow)
        return Tiling(tuple(order), tuple(runs))

    def _grown(
        self, given: Sequence[Any], tasks: Sequence[Task], first: int, still: int
    ) -> tuple[Grown, list[int]]:
        while still > first and tasks[still - 1] is self.tasks[still - 1]:
            still -= 1  # or one order would have several keys
        key = first, tuple(tasks[first:still])
        ways = self._begun.get(key)
        if ways is None:
            while len(self._begun) >= self.MOST:
                del self._begun[next(iter(self._begun))]
            grow = functools.partial(self._grow, tuple(tasks[first:]))
            ways = self._begun[key] = Ways(grow)
        return ways(given)

    def _grow(self, tasks: tuple[Task, ...], given: Sequence[Any]) -> tuple[Grown, list[int]]:
        left = iter(given)
        numbers = [next(left) if n is None else n for n in self._constants]
        times = dict(zip(self.timed, left, strict=True))
        return grown((self._step(task, numbers, times) for task in tasks), self.after)

    def _find_loops(self, plan: Plan) -> None:
        assert plan.schedule is not None
        memory = Memory(plan.parts, plan.schedule.over)
        self.loops: dict[Task, _Loop] = {}
        self.factors: dict[Task, list[Footprint]] = {}  # where each factor and the result begin
        for task in plan.tasks:
            if task.step.kind in (StepKind.HOST, StepKind.SCAN):
                continue
            if task.nest is None:
                found = product_of(task.step.eqns[0], plan.fused.find)
                assert found is not None  # see graph/finalise.py
                x, y, _ = found
                begins = footprints.begins_of(x, y, task.step.eqns[0].outputs[0])
                self.factors[task] = [self._as_numbers(memory.whole(begin)) for begin in begins]
                continue
            loop = divided(task.nest) if may_be_cut(task) else None
            if loop is not None:
                touched = [self._as_numbers(memory.whole(f)) for f in footprints.of_nest(task.nest)]
                self.loops[task] = _Loop(self.numbers.of(loop.size), touched)

    def _as_numbers(self, footprint: Footprint) -> Footprint:
        of = self.numbers.of
        _, first, step, extent, _, _, nbytes = footprint
        return footprint._replace(first=of(first), step=of(step), extent=of(extent), nbytes=of(nbytes))

    def _step(self, task: Task, numbers: Sequence[int], times: Mapping[Task, float]) -> Step:
        """A task, for what ``numbers`` are at these sizes; ``times`` are those of loops."""
        if task.step.kind in (StepKind.HOST, StepKind.SCAN):
            return Step(task, math.inf)
        if task not in self.products:
            return Step(task, times[task], functools.partial(_cut_of, self.loops.get(task), numbers))
        shape, where = self.products[task]
        product = shape.product(numbers[k] for k in where)
        touched = functools.partial(_of_product, product, self.factors[task], numbers)
        return step_of_product(task, product_time(product.flops), axis_of(product, shape.dtype), touched)


def _of_product(
    product: Product, begins: list[Footprint], numbers: Sequence[int], axis: str
) -> Iterator[Footprint]:
    for begin, moving in zip(begins, footprints.moves_of(product, axis), strict=True):
        item = begin.var.dtype.itemsize
        low, high, step, together = moving
        yield Footprint(
            begin.var, numbers[begin.first] + low * item, step * item, (high + 1 - low) * item,
            begin.written, together, numbers[begin.nbytes],
        )  # fmt: skip


def _cut_of(loop: _Loop | None, numbers: Sequence[Any]) -> Cut | None:
    if loop is None:
        return None
    found = (
        Footprint(
            f.var, numbers[f.first], numbers[f.step], numbers[f.extent], f.written, 1, numbers[f.nbytes]
        )
        for f in loop.touched
    )
    return cut_into("", numbers[loop.turns], found)
