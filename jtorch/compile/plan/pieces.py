"""Which steps are cut into pieces that several threads may run, and where: a function of sizes alone.

How many threads there are must change no bit of a result, so it has no say here. A nest is cut along one of
its loops, of which each turn stands for itself; a product along its batch, its rows or its columns, never
along what is summed. Steps that take less than ``LEAST_TIME`` stay whole: waking a thread takes 5 to 17 us.
"""

from __future__ import annotations

import math
from typing import NamedTuple

from jtorch.compile.plan.fuse import Style
from jtorch.compile.plan.loops import Compute, Gather, Load, Nest, Position, Value
from jtorch.compile.plan.order import Loop, loops_of

LEAST_TIME = 24.0
"""Microseconds of a step that is cut."""

GRAIN = 10.0
"""Microseconds of a piece, about."""

MOST = 32
"""Pieces of a step: each has an argument block, whose addresses are filled in at each call."""

_LINE = 64  # elements: where the innermost loop is cut, at least so many go together

# What things take, in nanoseconds for an element: arithmetic runs in vector registers, memory is in a cache.
# Adam's update of 16,384 elements takes 10 us, gelu and its derivative of 131,072 take 220.
_ARITHMETIC, _ROOT, _COSTLY, _GATHERED, _PER_BYTE = 0.025, 0.15, 0.7, 0.8, 0.018
_PER_FLOP = 1 / 100.0  # of products
# Each piece of a product packs the other factor for itself, which must not take long beside the product.
# ResNet18's (ms, two cores) with 32 pieces of 48 rows or columns or more 235, 16 of 128 220, 4 of 64 211.
_LEAST_ROWS, _MOST_OF_PRODUCT = 128, 16
_FEW_ROWS = 48  # of up to 4 pieces
_REGISTER_ROWS, _REGISTER_COLUMNS = 12, 32  # that fill the registers of most machines

Range = tuple[int, int]


class Piece(NamedTuple):
    """A range of a kernel's divided loop, or of "batch", "rows" or "columns" of a product."""

    axis: str
    range: Range


def divided(nest: Nest) -> Loop | None:
    """The loop whose turns are independent of each other, and outside of all others that are."""
    loops = loops_of(nest)
    if nest.style is Style.SCATTER:
        return next((loop for loop in loops if _adds_to_parts(nest, loop)), None)
    return next((loop for loop in loops if not loop.reduced), None)


def _adds_to_parts(nest: Nest, loop: Loop) -> bool:
    """Whether turn i of ``loop`` adds to part i of the result along its first axis, and to no other."""
    (scatter,) = nest.scatters
    if len(loop.axes) > 1 or not scatter.terms:
        return False
    (axis,) = loop.axes
    (_, first), *others = scatter.terms
    if not isinstance(first, Position) or first.at.offset or scatter.var.shape[0] != loop.size:
        return False
    alone = all(stride == (k == axis) for k, stride in enumerate(first.at.strides))
    return alone and not any(_moves(value, axis) for _, value in others)


def _moves(value: Value, axis: int) -> bool:
    """Whether a value of a nest differs from turn to turn along ``axis``."""
    if isinstance(value, (Load, Position)):
        return bool(value.at.strides[axis])
    return isinstance(value, Gather) or any(_moves(part, axis) for part in value.parts())


def pieces_of(nest: Nest) -> list[Range]:
    """Ranges of ``divided(nest)``, in order; one where it is not worth cutting."""
    loop = divided(nest)
    if loop is None:
        return []
    line = _LINE if loop == loops_of(nest)[-1] else 1
    return _cut(loop.size, _count(_nest_time(nest), loop.size // line), line)


def _nest_time(nest: Nest) -> float:
    """Microseconds that one thread takes, about."""
    elements = 1.0
    for n in nest.sizes:
        elements *= n
    each = 0.0
    for value in nest.values():
        if value.level < 2:  # once for a kernel or for a row
            continue
        if isinstance(value, Load):
            each += _PER_BYTE * value.dtype.itemsize
        elif isinstance(value, Gather):
            each += _GATHERED
        elif isinstance(value, Compute):
            each += _ROOT if value.is_root else _COSTLY if value.costly else _ARITHMETIC
    each += sum(_PER_BYTE * s.var.dtype.itemsize for s in nest.stores if s.level == 2)
    each += _GATHERED * len(nest.scatters)
    return elements * each / 1000


def product_pieces(batch: int, rows: int, columns: int, inner: int) -> list[Piece]:
    """Pieces of (batch, rows, inner) x (batch, inner, columns)."""
    time = 2.0 * batch * rows * columns * inner * _PER_FLOP / 1000
    if batch > 1:
        axis, cut = "batch", _cut(batch, _count(time, batch), 1)
    elif rows >= columns:
        axis, cut = "rows", _cut(rows, _product_count(time, rows), _REGISTER_ROWS)
    else:
        axis, cut = "columns", _cut(columns, _product_count(time, columns), _REGISTER_COLUMNS)
    return [Piece(axis, part) for part in cut]


def _product_count(time: float, size: int) -> int:
    return _count(time, max(size // _LEAST_ROWS, min(size // _FEW_ROWS, 4)), _MOST_OF_PRODUCT)


def _count(time: float, possible: int, most: int = MOST) -> int:
    if time < LEAST_TIME or possible < 2:
        return 1
    return min(2 ** round(math.log2(time / GRAIN)), 2 ** int(math.log2(possible)), most)


def _cut(size: int, count: int, line: int) -> list[Range]:
    """``size`` in ``count`` ranges or fewer, all but the last of one length, a multiple of ``line``."""
    length = -(-size // max(count, 1))
    length = max(-(-length // line) * line, 1)
    return [(start, min(start + length, size)) for start in range(0, size, length)] or [(0, size)]
