"""Samples: products."""

from __future__ import annotations

from tests.ops.sampling import Sample, entry


@entry("matmul")
def _(draw):
    shapes = [
        ((2, 3), (3, 4)),
        ((5, 2, 3), (5, 3, 2)),
        ((5, 2, 3), (3, 4)),
        ((2, 3), (5, 3, 4)),
        ((0, 3), (3, 2)),
    ]
    return [Sample((draw.floats(*a), draw.floats(*b))) for a, b in shapes]


@entry("dot_general")
def _(draw):
    cases = [
        ((2, 3), (3, 4), ((), ()), ((1,), (0,)), (0, 1)),
        ((2, 3), (3, 4), ((), ()), ((1,), (0,)), (1, 0)),
        ((5, 2, 3), (5, 3, 2), ((0,), (0,)), ((2,), (1,)), (1, 2, 0)),
        ((3, 2, 4, 5), (4, 2, 3), ((1,), (1,)), ((2, 0), (0, 2)), (0, 1)),
        ((3, 2, 4, 5), (6, 2, 3), ((1,), (1,)), ((0,), (2,)), (3, 2, 0, 1)),
        ((2, 3), (4,), ((), ()), ((), ()), (2, 0, 1)),
        ((2, 3), (2, 3), ((), ()), ((1, 0), (1, 0)), ()),
        ((2, 0), (0, 3), ((), ()), ((1,), (0,)), (0, 1)),
        ((6, 1, 3), (6, 2), ((0,), (0,)), ((), ()), (0, 1, 2, 3)),
        ((4, 5, 6, 2), (5, 3, 6, 7), ((1,), (0,)), ((2,), (2,)), (2, 4, 0, 1, 3)),
    ]
    return [
        Sample((draw.floats(*a), draw.floats(*b)), {"batch": batch, "inner": inner, "order": order})
        for a, b, batch, inner, order in cases
    ]


@entry("mm")
def _(draw):
    return [Sample((draw.floats(*a), draw.floats(*b))) for a, b in [((2, 3), (3, 4)), ((0, 3), (3, 2))]]


@entry("bmm")
def _(draw):
    return [
        Sample((draw.floats(5, 2, 3), draw.floats(5, 3, 2))),
        Sample((draw.floats(0, 2, 3), draw.floats(0, 3, 1))),
    ]


@entry("dot")
def _(draw):
    return [Sample((draw.floats(n), draw.floats(n))) for n in (5, 1, 0)]


@entry("addmm")
def _(draw):
    arrays = draw.floats(4), draw.floats(2, 3), draw.floats(3, 4)
    return [
        Sample(arrays, {"beta": 1, "alpha": 1}),
        Sample((draw.floats(2, 4), *arrays[1:]), {"beta": 0.5, "alpha": 2.0}),
    ]


@entry("weighted")
def _(draw):
    arrays = draw.floats(2, 3), draw.floats(2, 3)
    return [Sample(arrays, {"beta": beta, "alpha": alpha}) for beta, alpha in ((0, 2.0), (0.5, 0), (0, 0))]


@entry("linear")
def _(draw):
    return [
        Sample((draw.floats(2, 3), draw.floats(4, 3), draw.floats(4))),
        Sample((draw.floats(2, 5, 3), draw.floats(4, 3), draw.floats(4))),
        Sample((draw.floats(3), draw.floats(4, 3), draw.floats(4))),
        Sample((draw.floats(2, 3), draw.floats(4, 3), None)),
        Sample((draw.floats(0, 3), draw.floats(4, 3), draw.floats(4))),
    ]
