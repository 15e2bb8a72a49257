"""Which rows are whose, and how they travel: compared with torch.chunk, and there and back again."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from jtorch.distributed.layout import Layout, rows_of


@pytest.mark.parametrize("count", [1, 2, 3, 4, 7])
@pytest.mark.parametrize("rows", [0, 1, 2, 3, 4, 5, 8, 13])
def test_rows_are_those_of_torch_chunk(rows, count):
    torch = pytest.importorskip("torch")
    ends = np.cumsum([0, *(len(c) for c in torch.arange(rows).chunk(count))]).tolist() if rows else [0]
    expected = [ends[min(rank, len(ends) - 1)] for rank in range(count + 1)]
    found = [rows_of(rows, count, rank) for rank in range(count)]
    assert found == [*itertools.pairwise(expected)]


SHAPES = [[(6, 2)], [(5,)], [(7, 3), (1,), (2, 2, 2)], [(0, 4), (3,)], [(1, 5)], [(4, 0), (2, 1)]]


@pytest.mark.parametrize("count", [1, 2, 3, 4])
@pytest.mark.parametrize("shapes", SHAPES, ids=str)
def test_what_is_cut_up_comes_together_again(shapes, count):
    rng = np.random.default_rng(0)
    wholes = [rng.standard_normal(shape).astype(np.float32) for shape in shapes]
    layout = Layout(shapes, count)
    lines = layout.lines(wholes, np.dtype(np.float32))
    assert lines.shape == (count, layout.length)
    for rank in range(count):
        parts = layout.parts(lines[rank], rank)
        for whole, part in zip(wholes, parts, strict=True):
            begin, end = rows_of(len(whole), count, rank)
            assert np.array_equal(part, whole[begin:end]) and part.base is None
        assert np.array_equal(layout.line(parts, lines.dtype), lines[rank])
    for whole, again in zip(wholes, layout.wholes(lines), strict=True):
        assert np.array_equal(whole, again) and again.flags.c_contiguous
