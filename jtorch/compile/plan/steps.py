"""What ``tiles.py`` asks of each task of a plan whose sizes are numbers."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterable, Sequence

from jtorch.compile.graph.access import Find
from jtorch.compile.graph.products import product_of
from jtorch.compile.plan import footprints
from jtorch.compile.plan.footprints import Footprint
from jtorch.compile.plan.fuse import StepKind, Style
from jtorch.compile.plan.pieces import divided, nest_time
from jtorch.compile.plan.plan import Task
from jtorch.compile.plan.tiles import Cut, Memory, Step, block_of
from jtorch.core.pieces import product_time
from jtorch.core.products import Product


def steps_of(order: Sequence[Task], find: Find, memory: Memory) -> list[Step]:
    """The tasks, and what is known of each."""
    return [_step(task, find, memory) for task in order]


def _step(task: Task, find: Find, memory: Memory) -> Step:
    if task.step.kind is StepKind.HOST:
        return Step(task, math.inf)
    if task.nest is not None:
        return Step(task, nest_time(task.nest), functools.partial(_cut_of_nest, task, memory))
    factors = product_of(task.step.eqns[0], find)
    assert factors is not None  # see graph/finalise.py
    x, y, product = factors
    out = task.step.eqns[0].outputs[0]

    def touched(axis: str) -> Iterable[Footprint]:
        return map(memory.whole, footprints.of_product(product, axis, x, y, out))

    return step_of_product(task, product, touched)


def _cut_of_nest(task: Task, memory: Memory) -> Cut | None:
    loop = divided(task.nest) if task.nest is not None and may_be_cut(task) else None
    if task.nest is None or loop is None:
        return None
    return cut_into("", loop.size, map(memory.whole, footprints.of_nest(task.nest)))


def step_of_product(task: Task, product: Product, touched: Callable[[str], Iterable[Footprint]]) -> Step:
    """A task without a kernel of its own; ``touched`` gives what the product touches, cut along an axis."""
    batch, rows, _, _ = product.sizes

    def cut() -> Cut | None:
        if product.rows_overlap or product.exchanged().rows_overlap:  # its kernel may cut it along others
            return None
        axis, turns = ("batch", batch) if batch > 1 else ("rows", rows)
        return cut_into(axis, turns, touched(axis))

    time = product_time(product.flops)
    return Step(task, time, cut, batch * rows) if may_be_cut(task) else Step(task, time)


def may_be_cut(task: Task) -> bool:
    """Whether parts of it may run at once."""
    return not (task.visible or task.can_fail or (task.nest is not None and task.nest.style is Style.SCATTER))


def cut_into(axis: str, turns: int, touched: Iterable[Footprint]) -> Cut | None:
    """What runs so many turns; None where there are none."""
    if not turns:
        return None
    known = list(touched)
    blocks = [block_of(footprint, turns, footprint.var.type.nbytes) for footprint in known]
    return Cut(axis, turns, max(footprint.together for footprint in known), blocks)
