"""Where work is cut into pieces that several threads may run: a function of sizes alone.

How many threads there are must change no bit of a result, so it has no say here but in products whose bits do
not depend on where they are cut. What takes less than ``LEAST_TIME`` stays whole: waking a thread takes 5 to
17 us.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from jtorch.core.followed import one_step

LEAST_TIME = 24.0
"""Microseconds of work that is cut."""

LEAST_TOTAL = 80.0
"""Microseconds of a plan whose loops are cut; products are cut in any. What other cores wrote comes back to
the caller's, in which the program goes on: Adam's update of 65,536 elements takes 31 us on two cores and 34
on one, and the eager step around it 595 and 500.
"""

GRAIN = 10.0
"""Microseconds of a piece, about."""

MOST = 32
"""Pieces of a step: each has an argument block, whose addresses are filled in at each call."""

_PER_FLOP = 1 / 100.0  # nanoseconds, of products
# Each piece of a product packs the other factor for itself, which must not take long beside the product.
# ResNet18's (ms, two cores) with 32 pieces of 48 rows or columns or more 235, 16 of 128 220, 4 of 64 211.
_LEAST_ROWS, _MOST_OF_PRODUCT = 128, 16
_FEW_ROWS = 48  # of up to 4 pieces
# And for many threads. An MLP's step (784-512-512-10, 16 cores of a Xeon, ms) with 4 pieces 2.6, with 16 of
# 32 columns 1.6; on one thread 4.0 and 4.6.
_FEWEST_ROWS = 24
_REGISTER_ROWS, _REGISTER_COLUMNS = 12, 32  # that fill the registers of most machines

Range = tuple[int, int]


class Piece(NamedTuple):
    """A range of a kernel's divided loop, or of "batch", "rows" or "columns" of a product."""

    axis: str
    range: Range


def is_cut(times: Iterable[float]) -> bool:
    """Whether steps that take so many microseconds each are worth waking other threads for."""
    return total([*times]) >= LEAST_TOTAL


def total(times: Sequence[float]) -> float:
    """Their sum, whatever the order."""
    return one_step(_sum, *times)


def _sum(*times: float) -> float:
    return math.fsum(times)


def product_time(flops: int) -> float:
    """Microseconds that one thread takes, about."""
    return flops * _PER_FLOP / 1000


def product_pieces(batch: int, rows: int, columns: int, inner: int, threads: int = 1) -> list[Piece]:
    """Pieces of (batch, rows, inner) x (batch, inner, columns). More than a few ``threads`` get
    finer ones: only where an element is computed alike in any piece, and the number stays in a process.
    """
    time = product_time(2 * batch * rows * columns * inner)
    if batch > 1:
        axis, ranges = "batch", cut(batch, count(time, batch), 1)
    elif rows >= columns:
        axis, ranges = "rows", cut(rows, _product_count(time, rows, threads), _REGISTER_ROWS)
    else:
        number = _product_count(time, columns, threads)
        axis, ranges = "columns", cut(columns, number, _REGISTER_COLUMNS)
    return [Piece(axis, part) for part in ranges]


def _product_count(time: float, size: int, threads: int) -> int:
    return int(one_step(_number_for_product, time, size, threads))


def _number_for_product(time: float, size: int, threads: int) -> int:
    possible = max(size // _LEAST_ROWS, min(size // _FEW_ROWS, 4), min(size // _FEWEST_ROWS, threads))
    return _number(time, possible, max(_MOST_OF_PRODUCT, min(threads, MOST)))


def count(time: float, possible: int, most: int = MOST) -> int:
    """Pieces of what takes ``time`` us and can be cut into ``possible`` ones at most."""
    return int(one_step(_number, time, possible, most))


def _number(time: float, possible: int, most: int) -> int:
    if time < LEAST_TIME or possible < 2:
        return 1
    return min(2 ** round(math.log2(time / GRAIN)), 2 ** int(math.log2(possible)), most)


def cut(size: int, number: int, line: int) -> list[Range]:
    """``size`` in ``number`` ranges or fewer, all but the last of one length, a multiple of ``line``."""
    length = -(-size // max(number, 1))
    length = max(-(-length // line) * line, 1)
    begins = [k * length for k in range(int(-(-size // length)))]
    return [*itertools.pairwise(begins), (begins[-1], size)] if begins else [(0, size)]
