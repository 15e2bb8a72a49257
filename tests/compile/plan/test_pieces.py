"""Where steps are cut for threads: sizes alone decide, and every element is in one piece."""

from __future__ import annotations

import pytest

from jtorch.compile.plan.pieces import GRAIN, MOST, product_pieces


def covers(ranges, size):
    """Whether the ranges follow each other from 0 to ``size``."""
    ends = [0, *(stop for _, stop in ranges)]
    return ends[-1] == size and all(start == end for (start, _), end in zip(ranges, ends, strict=False))


@pytest.mark.parametrize(
    ("batch", "rows", "columns", "inner", "axis"),
    [
        (64, 64, 576, 288, "batch"), (1, 4096, 64, 256, "rows"), (1, 64, 4096, 256, "columns"),
        (1, 2000, 2000, 2000, "rows"), (3, 500, 500, 500, "batch"), (1, 97, 83, 9216, "rows"),
    ],
)  # fmt: skip
def test_a_large_product_is_cut(batch, rows, columns, inner, axis):
    found = product_pieces(batch, rows, columns, inner)
    ranges = [piece.range for piece in found]
    assert {piece.axis for piece in found} == {axis} and 1 < len(ranges) <= MOST
    assert covers(ranges, {"batch": batch, "rows": rows, "columns": columns}[axis])
    operations = 2 * batch * rows * columns * inner / len(ranges)
    assert operations > GRAIN * 1e5 / 2  # about GRAIN microseconds, or more


@pytest.mark.parametrize("sizes", [(1, 64, 64, 64), (1, 0, 5, 5), (0, 4, 4, 4), (8, 8, 8, 8), (1, 1, 1, 0)])
def test_a_small_product_is_not(sizes):
    (piece,) = product_pieces(*sizes)
    assert covers([piece.range], sizes[("batch", "rows", "columns").index(piece.axis)])
