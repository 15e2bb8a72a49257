"""What ``plan/tiles.py`` asks of each task of a plan over symbols, worked out for some sizes at a time: what
``plan/steps.py`` finds where sizes are numbers."""

from __future__ import annotations

import functools
import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from jtorch.compile.graph.products import product_of
from jtorch.compile.plan import footprints
from jtorch.compile.plan.footprints import Footprint
from jtorch.compile.plan.fuse import StepKind
from jtorch.compile.plan.pieces import divided
from jtorch.compile.plan.plan import Plan, Task
from jtorch.compile.plan.steps import cut_into, may_be_cut, step_of_product
from jtorch.compile.plan.tiles import Cut, Memory, Step
from jtorch.compile.run.expressions import Expressions
from jtorch.compile.run.products import KnownProduct


class _Loop(NamedTuple):
    """The number of the expression for its turns, and footprints of such numbers."""

    turns: int
    touched: list[Footprint]


class StepsAtSizes:
    """Of the tasks of ``plan``. ``numbers`` are what is asked for each call's sizes."""

    def __init__(self, plan: Plan) -> None:
        assert plan.schedule is not None
        self.tasks, self.numbers = plan.tasks, Expressions()
        memory = Memory(plan.parts, plan.schedule.over)
        self.loops: dict[Task, _Loop] = {}
        self.factors: dict[Task, list[Footprint]] = {}  # where each factor and the result begin
        for task in plan.tasks:
            if task.step.kind is StepKind.HOST:
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

    def steps(
        self, numbers: Sequence[int], times: Mapping[Task, float], products: Mapping[Task, KnownProduct]
    ) -> list[Step]:
        """The tasks, for what ``numbers`` are at these sizes; ``times`` are those of loops."""
        made = []
        for task in self.tasks:
            if task.step.kind is StepKind.HOST:
                made.append(Step(task, math.inf))
            elif task in products:
                known = products[task]
                touched = functools.partial(self._of_product, known, self.factors[task], numbers)
                made.append(step_of_product(task, known.time, known.axis, touched))
            else:
                found = functools.partial(_cut_of, self.loops.get(task), numbers)
                made.append(Step(task, times[task], found))
        return made

    @staticmethod
    def _of_product(
        known: KnownProduct, begins: list[Footprint], numbers: Sequence[int], axis: str
    ) -> Iterator[Footprint]:
        for begin, moving in zip(begins, known.moves(axis), strict=True):
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
