"""Samples: running sums and extremes, orders, counts."""

from __future__ import annotations

import numpy as np

from tests.ops.sampling import Sample, entry


@entry("cumsum", "logcumsumexp", "cummax", "cummin")
def _(draw):
    cases = [((3, 4), 0), ((2, 3, 4), 1), ((5,), 0), ((0, 3), 0), ((1, 3), 0)]
    return [Sample((draw.apart(*s),), {"axis": a}) for s, a in cases]


@entry("cumprod")
def _(draw):
    with_zeros = draw.apart(3, 5)
    with_zeros[1, 2] = with_zeros[2, 0] = with_zeros[2, 3] = 0.0
    cases = [(draw.apart(3, 4), 0), (with_zeros, 1), (draw.apart(5), 0), (draw.apart(0, 3), 0)]
    return [Sample((x,), {"axis": a}) for x, a in cases]


@entry("std")
def _(draw):
    cases = [((3, 4), (1,), False, 1), ((2, 3, 4), (0, 2), True, 0), ((5,), (0,), False, 1.5)]
    return [Sample((draw.floats(*s),), {"axis": a, "keepdims": k, "correction": c}) for s, a, k, c in cases]


@entry("logsumexp")
def _(draw):
    cases = [((3, 4), (1,), False), ((2, 3, 4), (0, 2), True), ((5,), (0,), False), ((), (), False)]
    return [Sample((draw.floats(*s),), {"axis": a, "keepdims": k}) for s, a, k in cases]


@entry("searchsorted")
def _(draw):
    line, rows = np.sort(draw.apart(6)), np.sort(draw.apart(3, 5), 1)
    return [
        Sample((line, draw.apart(2, 3)), {"right": False}),
        Sample((rows, draw.apart(3, 2)), {"right": True}),
        Sample((line, line.copy()), {"right": True}),
    ]


@entry("histogram_counts")
def _(draw):
    edges = np.array([-0.5, -0.1, 0.0, 0.3])
    return [Sample((draw.apart(12), edges, np.ones(12))), Sample((draw.apart(7), edges, draw.apart(7)))]


@entry("mode_place")
def _(draw):
    few = draw.ints(3, 6, low=0, high=3)
    return [Sample((few,), {"axis": 1}), Sample((few.astype(np.float64),), {"axis": 0})]
