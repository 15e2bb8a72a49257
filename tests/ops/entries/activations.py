"""Samples: activations beyond the oldest ones."""

from __future__ import annotations

from tests.ops.sampling import Sample, entry


@entry("hardshrink", "softshrink", "celu")
def _(draw):
    return [Sample((draw.apart(9, 4), 0.5)), Sample((draw.apart(), 0.7)), Sample((draw.apart(0, 2), 1.0))]


@entry("threshold")
def _(draw):
    return [Sample((draw.apart(3, 4), 0.1, 20.0)), Sample((draw.apart(5), -0.2, 0.0))]


@entry("prelu_kernel")
def _(draw):
    return [Sample((draw.apart(2, 3, 4), draw.floats(1, 3, 1))), Sample((draw.apart(5), draw.floats(1)))]


@entry("glu")
def _(draw):
    cases = [((3, 4), 1), ((4, 3), 0), ((2, 6, 3), 1), ((0, 4), 1)]
    return [Sample((draw.floats(*shape),), {"axis": axis}) for shape, axis in cases]


@entry("rrelu_with")
def _(draw):
    return [Sample((draw.apart(3, 4), 7, 3, 0.1, 0.4)), Sample((draw.apart(5), 7, 4, 0.2, 0.2))]
