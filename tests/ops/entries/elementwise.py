"""Samples: elementwise."""

from __future__ import annotations

import numpy as np

from tests.ops.sampling import Sample, entry


@entry("log", "sqrt", "rsqrt", "log1p")
def _(draw):
    return [Sample((draw.floats(*s, low=0.3, high=3.0),)) for s in ((3, 4), (), (0, 2), (5,))]


@entry("div", "floor_divide", "remainder")
def _(draw):
    divisors = [((3, 4), (3, 4)), ((), ()), ((2, 1, 4), (3, 1)), ((0, 2), (2,))]
    found = [Sample((draw.apart(*a), draw.floats(*b, low=0.6, high=1.9))) for a, b in divisors]
    return [*found, Sample((draw.apart(3), 1.5))]


@entry("pow")
def _(draw):
    base = lambda *s: draw.floats(*s, low=0.4, high=2.0)  # noqa: E731
    return [
        Sample((base(3, 4), draw.floats(3, 4))),
        Sample((base(3, 1), draw.floats(4))),
        Sample((draw.apart(5), 2.0)),
        Sample((draw.apart(5), 3.0)),
        Sample((base(5), 0.5)),
        Sample((base(4), -1.0)),
    ]


@entry("add", "sub", "mul", "maximum", "minimum")
def _(draw):
    shapes = [((3, 4), (3, 4)), ((), ()), ((2, 3, 4), (3, 1)), ((1, 4), (3, 1)), ((0, 3), (3,))]
    found = [Sample((draw.apart(*a), draw.apart(*b, shift=0.013))) for a, b in shapes]
    return [*found, Sample((draw.apart(5), 0.51))]


@entry("eq", "ne", "lt", "le", "gt", "ge", "logical_and", "logical_or")
def _(draw):
    few = lambda *s: draw.ints(*s, low=0, high=3).astype(np.float64)  # noqa: E731
    return [
        Sample((few(3, 4), few(3, 4))), Sample((few(), few())), Sample((few(2, 1, 4), few(3, 1))),
        Sample((few(0, 2), few(2))),
    ]  # fmt: skip


@entry("clamp_min", "clamp_max")
def _(draw):
    return [
        Sample((draw.apart(3, 4), 0.11)),
        Sample((draw.apart(3, 4), draw.apart(3, 4, shift=0.013))),
        Sample((draw.apart(0, 4), 0.0)),
    ]


@entry("where")
def _(draw):
    return [
        Sample((draw.bools(3, 4), draw.apart(3, 4), draw.apart(3, 4))),
        Sample((draw.bools(3, 1), draw.apart(4), draw.apart(2, 1, 1))),
        Sample((np.asarray(True), draw.apart(), draw.apart())),
        Sample((draw.bools(0, 2), draw.apart(0, 2), draw.apart(0, 2))),
    ]


@entry("erf", "exp", "expm1", "sin", "cos", "tanh", "sigmoid", "silu", "logsigmoid")
def _(draw):
    return [Sample((draw.floats(*s, low=-3.0, high=3.0),)) for s in ((3, 4), (), (0, 2), (5,))]


@entry("cast")
def _(draw):
    x = draw.apart(3, 4)
    return [
        Sample((x,), {"dtype": np.dtype(np.float64)}),
        Sample((draw.ints(5, low=-3, high=4),), {"dtype": np.dtype(np.float64)}),
        Sample((x,), {"dtype": np.dtype(np.int64)}),
        Sample((draw.ints(4, low=0, high=2),), {"dtype": np.dtype(np.bool_)}),
    ]


@entry("full")
def _(draw):
    return [
        Sample((1.5,), {"shape": (2, 3), "dtype": np.dtype(np.float64)}),
        Sample((3,), {"shape": (), "dtype": np.dtype(np.int64)}),
        Sample((0.0,), {"shape": (0, 2), "dtype": np.dtype(np.float64)}),
    ]


@entry("iota")
def _(draw):
    return [
        Sample((), {"shape": (5,), "axis": 0, "dtype": np.dtype(np.int64)}),
        Sample((), {"shape": (2, 3, 4), "axis": 1, "dtype": np.dtype(np.float64)}),
    ]


@entry("leaky_relu", "elu")
def _(draw):
    return [
        Sample((draw.apart(3, 4), 0.3)),
        Sample((draw.apart(), 0.01)),
        Sample((draw.apart(0, 2), 1.0)),
    ]


@entry("softplus")
def _(draw):
    return [Sample((draw.apart(3, 4), 1.0, 20.0)), Sample((draw.apart(6), 2.5, 1.0))]


@entry("hardtanh")
def _(draw):
    return [Sample((draw.apart(8, 9), -1.0, 1.0)), Sample((draw.apart(5), 0.0, 6.0))]


@entry("gelu")
def _(draw):
    return [Sample((draw.floats(3, 4),), {"tanh": t}) for t in (False, True)]
