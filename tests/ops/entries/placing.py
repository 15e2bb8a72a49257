"""Samples: gather, scatter and their kin; diagonals and strided views."""

from __future__ import annotations

import numpy as np

from tests.ops.sampling import Sample, entry

_ROWS = np.array([[0, 2, 1, 0], [2, 2, 0, 1]])


@entry("gather")
def _(draw):
    return [
        Sample((draw.apart(3, 4), _ROWS), {"axis": 0}),
        Sample((draw.apart(2, 4, 2), draw.ints(2, 3, 1, low=0, high=4)), {"axis": 1}),
        Sample((draw.apart(5), np.zeros((0,), np.int64)), {"axis": 0}),
    ]


@entry("scatter")
def _(draw):
    places = np.array([[0, 2, 1, 0], [2, 1, 0, 1]])  # none twice: which of two values stays is not defined
    return [
        Sample((draw.apart(3, 4), places, draw.apart(2, 4, shift=9)), {"axis": 0}),
        Sample((draw.apart(5), np.array([4, 1]), draw.apart(2, shift=9)), {"axis": 0}),
    ]


@entry("scatter_add")
def _(draw):
    return [
        Sample((draw.apart(3, 4), _ROWS, draw.apart(2, 4)), {"axis": 0}),
        Sample((draw.apart(5), np.array([4, 1, 4]), draw.apart(3)), {"axis": 0}),
    ]


@entry("scatter_reduce")
def _(draw):
    return [
        Sample(
            (draw.apart(3, 4), _ROWS, draw.apart(2, 4)),
            {"axis": 0, "mean": mean, "include_self": include_self},
        )
        for mean in (False, True)
        for include_self in (False, True)
    ]


@entry("index_combine")
def _(draw):
    places = np.array([0, 2, 2, 4])
    x, value = draw.apart(5, 3), draw.apart(4, 3, shift=0.01)
    facts = {"axes": (0,), "include_self": True}
    found = [Sample((x, value, places), {"reduce": r} | facts) for r in ("prod", "amax", "amin")]
    lowest = np.where(np.isin(np.arange(5), places)[:, None], -9.0, x)
    holes = np.array([[0.0, 1.3, 0.0], [0.7, 0.0, 0.4]])
    return [
        *found,
        Sample((lowest, value, places), {"axes": (0,), "reduce": "amax", "include_self": False}),
        Sample((np.array([1.5, 0.0, 0.3]), holes[0], np.array([0, 0, 1])), {"reduce": "prod"} | facts),
        Sample((np.array([1.5, 0.0, 0.3]), holes[1], np.array([0, 2, 1])), {"reduce": "prod"} | facts),
    ]


@entry("index_select")
def _(draw):
    return [
        Sample((draw.apart(5, 3), np.array([0, 4, 4])), {"axis": 0}),
        Sample((draw.apart(2, 3, 2), np.array([2, 0])), {"axis": 1}),
    ]


@entry("index_accumulate")
def _(draw):
    return [
        Sample((draw.apart(5, 3), np.array([0, 4, 4]), draw.apart(3, 3)), {"axis": 0, "alpha": 1}),
        Sample((draw.apart(2, 3), np.array([2, 0]), draw.apart(2, 2)), {"axis": 1, "alpha": -0.5}),
    ]


@entry("index_copy")
def _(draw):
    return [
        Sample((draw.apart(5, 3), np.array([0, 4]), draw.apart(2, 3)), {"axis": 0}),
        Sample((draw.apart(2, 3), np.array([2, 0]), draw.apart(2, 2)), {"axis": 1}),
    ]


@entry("isin")
def _(draw):
    return [
        Sample((draw.ints(3, 4, low=0, high=5), np.array([1, 3]))),
        Sample((draw.apart(4), np.zeros((0,)))),
    ]


_DIAGONALS = [
    ((3, 4), 0, 0, 1), ((3, 4), 1, 0, 1), ((4, 3), -2, 0, 1), ((2, 3, 4), 1, 2, 0), ((3, 3), 5, 0, 1),
]  # fmt: skip


@entry("diagonal")
def _(draw):
    return [
        Sample((draw.apart(*shape),), {"offset": k, "axis1": a, "axis2": b}) for shape, k, a, b in _DIAGONALS
    ]


@entry("diagonal_put")
def _(draw):
    found = []
    for shape, k, a, b in _DIAGONALS:
        count = np.zeros(shape).diagonal(k, a, b).shape
        found.append(
            Sample((draw.apart(*shape), draw.apart(*count, shift=9)), {"offset": k, "axis1": a, "axis2": b})
        )
    return found


_STRIDED = [((2, 3), (3, 1), 1), ((3, 2), (1, 2), 0), ((4,), (2,), 1), ((), (), 3), ((2, 2), (0, 1), 0)]


@entry("strided")
def _(draw):
    return [Sample((draw.apart(8),), {"size": n, "steps": s, "start": k}) for n, s, k in _STRIDED]


@entry("strided_add")
def _(draw):
    return [Sample((draw.apart(*n),), {"n": 8, "steps": s, "start": k}) for n, s, k in _STRIDED]
