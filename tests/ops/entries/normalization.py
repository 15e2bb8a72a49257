"""Samples: normalisation by the batch, by groups of channels, by the root mean square."""

from __future__ import annotations

from tests.ops.sampling import Sample, entry


@entry("rms_norm")
def _(draw):
    f = draw.floats
    return [
        Sample((f(3, 4), f(4)), {"axes": (1,), "eps": 1e-5}),
        Sample((f(2, 3, 4), None), {"axes": (1, 2), "eps": 1e-5}),
        Sample((f(0, 4), f(4)), {"axes": (1,), "eps": 1e-5}),
    ]


@entry("batch_norm")
def _(draw):
    f = draw.floats
    return [
        Sample((f(4, 3), f(3), f(3)), {"eps": 1e-5}),
        Sample((f(2, 3, 2, 4), f(3), None), {"eps": 1e-3}),
        Sample((f(3, 2, 5), None, None), {"eps": 1e-5}),
    ]


@entry("batch_norm_with")
def _(draw):
    f = draw.floats

    def spread(n):
        return draw.floats(n, low=0.5, high=2.0)

    return [
        Sample((f(4, 3), f(3), spread(3), f(3), f(3)), {"eps": 1e-5}),
        Sample((f(2, 3, 2, 2), f(3), spread(3), None, None), {"eps": 1e-3}),
    ]


@entry("group_norm")
def _(draw):
    f = draw.floats
    return [
        Sample((f(2, 4, 3), f(4), f(4)), {"groups": 2, "eps": 1e-5}),
        Sample((f(2, 3, 2, 2), None, None), {"groups": 3, "eps": 1e-5}),
        Sample((f(3, 4), f(4), None), {"groups": 1, "eps": 1e-5}),
    ]
