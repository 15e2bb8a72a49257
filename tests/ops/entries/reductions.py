"""Samples: reductions."""

from __future__ import annotations

import numpy as np

from tests.ops.sampling import Sample, default_reductions, entry


@entry("sum", "any", "all", "mean")
def _(draw):
    extra = [((), (), False), ((0, 3), (0,), False), ((3, 0), (0,), True), ((3, 2), (), False)]
    more = [Sample((draw.apart(*s),), {"axis": a, "keepdims": k}) for s, a, k in extra]
    return default_reductions(draw) + more


@entry("picked")
def _(draw):
    one = np.zeros((3, 4), bool)
    one[1, 2] = True
    return [Sample((draw.apart(3, 4), one), {})]


@entry("prod")
def _(draw):
    with_zero = draw.apart(3, 4)
    with_zero[1, 2] = 0.0
    return [
        Sample((draw.apart(3, 4),), {"axis": (0,), "keepdims": False}),
        Sample((with_zero,), {"axis": (1,), "keepdims": True}),
        Sample((draw.apart(5),), {"axis": (0,), "keepdims": False}),
    ]


@entry("argmax", "argmin", "max_along", "min_along", "max_all", "min_all")
def _(draw):
    cases = [
        ((3, 4), (0,), False),
        ((3, 4), (1,), True),
        ((2, 3, 4), (1,), False),
        ((5,), (0,), False),
    ]
    return [Sample((draw.apart(*s),), {"axis": a, "keepdims": k}) for s, a, k in cases]


@entry("var")
def _(draw):
    return [
        Sample((draw.floats(*s),), {"axis": a, "keepdims": k, "correction": c})
        for s, a, k, c in [
            ((3, 4), (1,), False, 1),
            ((2, 3, 4), (0, 2), True, 0),
            ((5,), (0,), False, 1),
        ]
    ]
