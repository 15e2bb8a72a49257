"""Which memory a step touches with each turn of the loop that is divided, or with each matrix, row or column
of a product.

A footprint is a range of bytes of a variable, which may hold bytes that are not touched, and never lacks one;
it moves by so many bytes from turn to turn. Sizes may be symbols.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from jtorch.compile.graph.access import Affine, Layout
from jtorch.compile.graph.ir import Var
from jtorch.compile.plan.fuse import Style
from jtorch.compile.plan.loops import Arithmetic, Constant, Gather, Load, Nest, Position, Value
from jtorch.compile.plan.order import Loop, loops_of, stride_along
from jtorch.compile.plan.pieces import divided
from jtorch.core.dim import least, most
from jtorch.core.pieces import Range
from jtorch.core.products import Axis, Product
from jtorch.core.sizes import integer

Span = tuple[int, int]
"""The least and the largest value of a number that moves."""


class Footprint(NamedTuple):
    """Turn k touches ``extent`` bytes at most of ``var``, which has ``nbytes``, from
    ``first + k // together * step`` on."""

    var: Var
    first: int
    step: int
    extent: int
    written: bool
    together: int
    nbytes: int

    def of(self, turns: Range) -> Range:
        """The bytes of some turns: the first one, and the one after the last. What is beyond the variable is
        not touched: a padding is not read."""
        ends = [self.first + turn // self.together * self.step for turn in (turns[0], turns[1] - 1)]
        return max(min(ends), 0), min(max(ends) + self.extent, self.nbytes)


class Moving(NamedTuple):
    """Where turn 0 is, from ``low`` to ``high``, and how far it is to the next one."""

    low: int
    high: int
    step: int
    together: int = 1


def of_nest(nest: Nest) -> Iterator[Footprint]:
    """What the kernel of a nest touches with each turn of the loop that is divided; all of it with each turn
    where none is."""
    cut = divided(nest)
    inside = {loop: (0, loop.size - 1) for loop in loops_of(nest) if loop != cut}
    for value in nest.values():
        if isinstance(value, Load):
            yield moved(value.var, _of_affine(value.at, cut, inside), False)
        elif isinstance(value, Gather):
            yield moved(value.var, _of_gather(value, cut, inside), False)
    for store in nest.stores:
        yield moved(store.var, _of_affine(store.at, cut, inside), True)
    if nest.style is Style.COLUMN:
        for reduction, place in zip(nest.reductions, nest.result_places(), strict=True):
            yield moved(reduction.var, _of_affine(place, cut, inside), True)
    for scatter in nest.scatters:
        nbytes = scatter.var.type.nbytes
        yield Footprint(scatter.var, 0, 0, nbytes, True, 1, nbytes)


def of_product(product: Product, axis: str, x: Layout, y: Layout, out: Var) -> Iterator[Footprint]:
    """What a product of matrices touches with each of its "batch", its "rows" or its "columns"."""
    for begin, moving in zip(begins_of(x, y, out), moves_of(product, axis), strict=True):
        own = moved(begin.var, moving, begin.written)
        yield own._replace(first=own.first + begin.first)


def begins_of(x: Layout, y: Layout, out: Var) -> Iterator[Footprint]:
    """Where the factors and the result of a product begin."""
    for layout, written in ((x, False), (y, False), (Layout(out, 0, ()), True)):
        yield moved(layout.owner, Moving(layout.offset, layout.offset, 0), written)


def moved(var: Var, moving: Moving, written: bool) -> Footprint:
    """What moves so, in elements of ``var``."""
    item = var.dtype.itemsize
    low, high, step, together = moving
    return Footprint(
        var, low * item, step * item, (high + 1 - low) * item, written, together, var.type.nbytes
    )


# -- loops -------------------------------------------------------------------------------------------------


def _of_affine(at: Affine, cut: Loop | None, inside: dict[Loop, Span]) -> Moving:
    low = high = at.offset
    for loop, span in inside.items():
        first, last = _scaled(span, stride_along(at, loop))
        low, high = low + first, high + last
    return Moving(low, high, 0 if cut is None else stride_along(at, cut))


def _of_gather(value: Gather, cut: Loop | None, inside: dict[Loop, Span]) -> Moving:
    """What is beyond an axis is an error, or is not read: a coordinate that is not known may be any of its
    axis, and one that does not move from turn to turn is within it."""
    low = high = value.offset
    step = 0
    for (stride, coordinate), size in zip(value.terms, value.sizes, strict=True):
        moving = _of_value(coordinate, cut, inside) or Moving(0, size - 1, 0)
        if moving.step == 0:
            moving = Moving(most(moving.low, 0), least(moving.high, size - 1), 0)
        first, last = _scaled((moving.low, moving.high), stride)
        low, high, step = low + first, high + last, step + moving.step * stride
    return Moving(low, high, step)


def _of_value(value: Value, cut: Loop | None, inside: dict[Loop, Span]) -> Moving | None:
    if isinstance(value, Position):
        return _of_affine(value.at, cut, inside)
    if isinstance(value, Constant):
        number = integer(value.literal.value)
        return Moving(number, number, 0)
    if isinstance(value, Arithmetic) and value.sign in ("+", "-"):
        left, right = (_of_value(side, cut, inside) for side in (value.left, value.right))
        if left is not None and right is not None:
            if value.sign == "-":
                right = Moving(-right.high, -right.low, -right.step)
            return Moving(left.low + right.low, left.high + right.high, left.step + right.step)
    return None


def _scaled(span: Span, stride: int) -> Span:
    first, last = span[0] * stride, span[1] * stride
    return least(first, last), most(first, last)


# -- products ----------------------------------------------------------------------------------------------


def moves_of(product: Product, axis: str) -> Iterator[Moving]:
    """Of its factors and its result, in elements from where each begins."""
    parts = {"batch": product.batch, "rows": product.rows, "columns": product.columns, "inner": product.inner}
    cut = parts.pop(axis)
    others = [a for axes in parts.values() for a in axes]
    for which in (1, 2, 3):
        step, within = _step(cut, which)
        low = high = 0
        for a in (*within, *others):
            reach = (a.size - 1) * a[which]
            low, high = low + min(reach, 0), high + max(reach, 0)
        yield Moving(low, high, step, math.prod(a.size for a in within))


def _step(axes: Sequence[Axis], which: int) -> tuple[int, Sequence[Axis]]:
    """How far it is from one position along all of ``axes`` to the next. Where that is not always as far, of
    the first of them, and the others, whose positions go together then."""
    if not axes:
        return 0, ()
    if all(a[which] == b[which] * b.size for a, b in itertools.pairwise(axes)):
        return axes[-1][which], ()
    return axes[0][which], axes[1:]
