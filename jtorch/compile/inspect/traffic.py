"""How many bytes a step moves: what it touches of each variable, and not all of that variable's memory. A row
of a table, a slice of a buffer or a time step of a sequence is a small part of it.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from jtorch.compile.graph.ir import Var
from jtorch.compile.graph.products import product_of
from jtorch.compile.plan.footprints import Span, of_nest, of_product
from jtorch.compile.plan.fuse import StepKind
from jtorch.compile.plan.loops import Gather, Load, Nest, Position, Value
from jtorch.compile.plan.pieces import divided
from jtorch.compile.plan.plan import Plan, Task


class _Part(NamedTuple):
    """So many ``elements`` of ``var``, somewhere within ``range``, in bytes."""

    var: Var
    elements: int
    range: Span


def bytes_of(tasks: Iterable[Task], plan: Plan) -> int:
    """The bytes that some tasks touch, each byte once. Never more than they do."""
    parts: dict[Var, list[_Part]] = {}
    for task in tasks:
        for part in _parts(task, plan):
            parts.setdefault(part.var, []).append(part)
    return sum(_bytes(var, found) for var, found in parts.items())


def _bytes(var: Var, parts: list[_Part]) -> int:
    within = max(p.range[1] for p in parts) - min(p.range[0] for p in parts)
    return min(max(within, 0), sum(p.elements for p in parts) * var.dtype.itemsize, var.type.nbytes)


def _parts(task: Task, plan: Plan) -> Iterator[_Part]:
    eqn = task.step.eqns[0]
    if task.nest is not None:
        yield from _of_nest(task.nest)
        return
    if eqn.op.scan is not None and not eqn.op.scan.takes_all_steps:  # a call knows what it touches
        return
    factors = product_of(eqn, plan.fused.find) if task.step.kind is StepKind.GEMM else None
    if factors is None:  # Python's: all of its arguments, which may be parts of memory
        for var in {v for v in (*eqn.inputs, *eqn.outputs) if isinstance(v, Var)}:
            yield _Part(var, var.type.size, (0, var.type.nbytes))
        return
    x, y, product = factors
    axes = [axis for part in (product.batch, product.rows, product.columns, product.inner) for axis in part]
    for which, touched in enumerate(of_product(product, "rows", x, y, eqn.outputs[0]), start=1):
        elements = math.prod(axis.size for axis in axes if axis[which])
        yield _Part(touched.var, elements, touched.of((0, product.sizes[1])))


def _of_nest(nest: Nest) -> Iterator[_Part]:
    cut = divided(nest)
    turns = (0, cut.size if cut is not None else 1)
    ranges: dict[Var, Span] = {}
    for touched in of_nest(nest):
        first, end = touched.of(turns)
        low, high = ranges.get(touched.var, (first, end))
        ranges[touched.var] = min(low, first), max(high, end)

    def part(var: Var, strides: Iterable[int]) -> _Part:
        elements = math.prod(n for n, stride in zip(nest.sizes, strides, strict=True) if stride)
        return _Part(var, elements, ranges.get(var, (0, var.type.nbytes)))

    for value in nest.values():
        if isinstance(value, Load):
            yield part(value.var, value.at.strides)
        elif isinstance(value, Gather):
            yield part(value.var, _strides(value, len(nest.sizes)))
    for store in nest.stores:
        yield part(store.var, store.at.strides)
    for reduction, place in zip(nest.reductions, nest.result_places(), strict=True):
        yield part(reduction.var, place.strides)
    for scatter in nest.scatters:  # filled with zeros first
        yield _Part(scatter.var, scatter.var.type.size, (0, scatter.var.type.nbytes))


def _strides(value: Value, n_axes: int) -> list[int]:
    """For each loop axis 0 where ``value`` does not move with it."""
    if isinstance(value, (Load, Position)):
        return list(value.at.strides)
    moving = [0] * n_axes
    for part in value.parts():
        moving = [a or b for a, b in zip(moving, _strides(part, n_axes), strict=True)]
    return moving
