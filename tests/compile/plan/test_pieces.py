"""Where steps are cut for threads: sizes alone decide, and every element is in one piece."""

from __future__ import annotations

import pytest

import jtorch
from jtorch.compile.graph.finalise import finalise
from jtorch.compile.plan.pieces import pieces_of
from jtorch.core.pieces import GRAIN, MOST, product_pieces
from tests.compile.chain import optimised, planned, trace


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


def test_more_threads_than_a_few_get_finer_pieces():
    counts = [len(product_pieces(1, 128, 512, 784, threads)) for threads in (1, 2, 4, 8, 16, 64)]
    assert counts == [4, 4, 4, 8, 16, 16]  # of 32 columns or more, which fill the registers
    assert len(product_pieces(1, 64, 64, 64, 64)) == 1


@pytest.mark.parametrize("sizes", [(1, 64, 64, 64), (1, 0, 5, 5), (0, 4, 4, 4), (8, 8, 8, 8), (1, 1, 1, 0)])
def test_a_small_product_is_not(sizes):
    (piece,) = product_pieces(*sizes)
    assert covers([piece.range], sizes[("batch", "rows", "columns").index(piece.axis)])


def test_what_is_computed_once_does_not_count_for_each_element():
    """Adam's update: its corrections are powers and roots of numbers. 16,384 elements take 10 us."""

    def update(p, m, v, g, step):
        m, v = m * 0.9 + g * 0.1, v * 0.999 + g * g * 0.001
        rate = 0.001 / (1 - jtorch.pow(0.9, step))
        return p - rate * m / (v.sqrt() / (1 - jtorch.pow(0.999, step)).sqrt() + 1e-8), m, v

    def pieces(*shape):
        leaves = [*(jtorch.ones(*shape) for _ in range(4)), jtorch.tensor(3.0)]
        with jtorch.no_grad():
            plan = planned(finalise(optimised(trace(update, leaves).graph)))
        (nest,) = [t.nest for t in plan.tasks if t.nest is not None and t.nest.sizes == shape]
        return len(pieces_of(nest))

    assert pieces(128, 128) == 1
    assert pieces(1024, 512) > 4
