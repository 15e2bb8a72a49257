"""Which memory a part of a step reads and writes: some turns of a loop, or some rows of a product.

A footprint is a range of bytes of a variable, which may hold bytes that are not touched, and never lacks one.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from jtorch.compile.graph.access import Affine, Layout
from jtorch.compile.graph.ir import Var
from jtorch.compile.graph.products import Factors
from jtorch.compile.plan.fuse import Style
from jtorch.compile.plan.loops import Arithmetic, Constant, Gather, Load, Nest, Position, Value
from jtorch.compile.plan.order import Loop, loops_of, stride_along
from jtorch.compile.plan.pieces import divided
from jtorch.core.pieces import Piece, Range
from jtorch.core.products import Axis

Span = tuple[int, int]
"""The least and the largest value of a number that moves."""


class Touched(NamedTuple):
    """``range`` are bytes of ``var``: the first one, and the one after the last."""

    var: Var
    range: Range
    written: bool


def of_nest(nest: Nest, turns: Range) -> Iterator[Touched]:
    """What the kernel of a nest touches in some turns of the loop that is divided."""
    spans = _spans(nest, turns)
    for value in nest.values():
        if isinstance(value, Load):
            yield _touched(value.var, _of_affine(value.at, spans), False)
        elif isinstance(value, Gather):
            yield _touched(value.var, _of_gather(value, spans), False)
    for store in nest.stores:
        yield _touched(store.var, _of_affine(store.at, spans), True)
    if nest.style is Style.COLUMN:
        for reduction, place in zip(nest.reductions, nest.result_places(), strict=True):
            yield _touched(reduction.var, _of_affine(place, spans), True)
    for scatter in nest.scatters:
        yield Touched(scatter.var, (0, scatter.var.type.nbytes), True)


def of_product(factors: Factors, out: Var, piece: Piece) -> Iterator[Touched]:
    """What a product of matrices touches for a piece of its batch, its rows or its columns."""
    x, y, product = factors
    parts = {"batch": product.batch, "rows": product.rows, "columns": product.columns, "inner": product.inner}
    ranges = {name: (0, math.prod(axis.size for axis in axes)) for name, axes in parts.items()}
    ranges[piece.axis] = piece.range
    for which, (layout, written) in enumerate(((x, False), (y, False), (Layout(out, 0, ()), True)), start=1):
        low = high = layout.offset
        for name, axes in parts.items():
            first, last = _of_axes(axes, which, ranges[name])
            low, high = low + first, high + last
        yield _touched(layout.owner, (low, high), written)


def _touched(var: Var, elements: Span, written: bool) -> Touched:
    low, high = elements
    item = var.dtype.itemsize
    return Touched(var, (max(low * item, 0), min((high + 1) * item, var.type.nbytes)), written)


# -- loops -------------------------------------------------------------------------------------------------


def _spans(nest: Nest, turns: Range) -> dict[Loop, Span]:
    cut = divided(nest)
    return {loop: (turns[0], turns[1] - 1) if loop == cut else (0, loop.size - 1) for loop in loops_of(nest)}


def _of_affine(at: Affine, spans: dict[Loop, Span]) -> Span:
    low = high = at.offset
    for loop, span in spans.items():
        first, last = _scaled(span, stride_along(at, loop))
        low, high = low + first, high + last
    return low, high


def _of_gather(value: Gather, spans: dict[Loop, Span]) -> Span:
    """A coordinate that is not known may be any of its axis: others are an error, or are not read."""
    low = high = value.offset
    for (stride, coordinate), size in zip(value.terms, value.sizes, strict=True):
        first, last = _of_value(coordinate, spans) or (0, size - 1)
        first, last = _scaled((min(max(first, 0), size - 1), max(min(last, size - 1), 0)), stride)
        low, high = low + first, high + last
    return low, high


def _of_value(value: Value, spans: dict[Loop, Span]) -> Span | None:
    if isinstance(value, Position):
        return _of_affine(value.at, spans)
    if isinstance(value, Constant):
        return int(value.literal.value), int(value.literal.value)
    if isinstance(value, Arithmetic) and value.sign in ("+", "-"):
        left, right = (_of_value(side, spans) for side in (value.left, value.right))
        if left is not None and right is not None:
            first, last = right if value.sign == "+" else (-right[1], -right[0])
            return left[0] + first, left[1] + last
    return None


def _scaled(span: Span, stride: int) -> Span:
    first, last = span[0] * stride, span[1] * stride
    return min(first, last), max(first, last)


# -- products ----------------------------------------------------------------------------------------------


def _of_axes(axes: Sequence[Axis], which: int, positions: Range) -> Span:
    """How far some positions of a list of axes, counted along all of them, are from their beginning."""
    first, last = positions[0], positions[1] - 1
    low = high = 0
    for k, axis in enumerate(axes):
        inside = math.prod(a.size for a in axes[k + 1 :])
        begin, end = first // inside, last // inside
        if begin == end:
            first, last = first - begin * inside, last - end * inside
        else:  # of those further inside all may be met
            first, last = 0, inside - 1
        least, largest = _scaled((begin, end), axis[which])
        low, high = low + least, high + largest
    return low, high
