"""What ``tiles.py`` asks of each task of a plan whose sizes are numbers."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

import numpy as np

from jtorch.compile.graph.access import Find
from jtorch.compile.graph.ir import Var
from jtorch.compile.graph.products import product_of
from jtorch.compile.plan import footprints
from jtorch.compile.plan.footprints import Footprint
from jtorch.compile.plan.fuse import StepKind, Style
from jtorch.compile.plan.pieces import divided, nest_time
from jtorch.compile.plan.plan import Task
from jtorch.compile.plan.tiles import Block, Cut, Memory, Step, block_of
from jtorch.core.dtypes import HALVES
from jtorch.core.pieces import product_time
from jtorch.core.products import Product


def steps_of(order: Sequence[Task], find: Find, memory: Memory) -> list[Step]:
    """The tasks, and what is known of each."""
    return [_step(task, find, memory) for task in order]


def _step(task: Task, find: Find, memory: Memory) -> Step:
    if task.step.kind in (StepKind.HOST, StepKind.SCAN):
        return Step(task, math.inf)
    if task.nest is not None:
        return Step(task, nest_time(task.nest), functools.partial(_cut_of_nest, task, memory))
    factors = product_of(task.step.eqns[0], find)
    assert factors is not None  # see graph/finalise.py
    x, y, product = factors
    out = task.step.eqns[0].outputs[0]

    def touched(axis: str) -> Iterable[Footprint]:
        return map(memory.whole, footprints.of_product(product, axis, x, y, out))

    return step_of_product(task, product_time(product.flops), axis_of(product, x.owner.dtype), touched)


def _cut_of_nest(task: Task, memory: Memory) -> Cut | None:
    loop = divided(task.nest) if task.nest is not None and may_be_cut(task) else None
    if task.nest is None or loop is None:
        return None
    return cut_into("", loop.size, map(memory.whole, footprints.of_nest(task.nest)))


class ProductAxis(NamedTuple):
    """What a product is cut along, into so many turns at most; ``rows`` are those of all matrices."""

    name: str
    turns: int
    rows: int


def axis_of(product: Product, dtype: np.dtype) -> ProductAxis | None:
    """None where its kernel may cut it along others. Each part of a product of 16-bit factors converts all
    columns: too much for the few rows it then has, where there are fewer than products are summed, as in the
    gradient of a weight."""
    if product.rows_overlap or product.columns_overlap:
        return None
    batch, rows, _, inner = product.sizes
    if dtype in HALVES and batch == 1 and rows < inner:
        return None
    return ProductAxis("batch", batch, batch * rows) if batch > 1 else ProductAxis("rows", rows, rows)


def step_of_product(
    task: Task, time: float, axis: ProductAxis | None, touched: Callable[[str], Iterable[Footprint]]
) -> Step:
    """A task without a kernel of its own; ``touched`` gives what the product touches, cut along an axis."""
    if axis is None or not may_be_cut(task):
        return Step(task, time)
    return Step(task, time, lambda: cut_into(axis.name, axis.turns, touched(axis.name)), axis.rows)


def may_be_cut(task: Task) -> bool:
    """Whether parts of it may run at once."""
    return not (task.visible or task.can_fail or (task.nest is not None and task.nest.style is Style.SCATTER))


def cut_into(axis: str, turns: int, touched: Iterable[Footprint]) -> Cut | None:
    """What runs so many turns; None where there are none."""
    if not turns:
        return None
    together = 1
    blocks: dict[Var, list[Block]] = {}
    for footprint in touched:
        together = max(together, footprint.together)
        blocks.setdefault(footprint.var, []).append(block_of(footprint, turns))
    return Cut(axis, turns, together, blocks)
