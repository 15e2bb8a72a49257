"""Samples: convolution and pooling over one, two and three spatial axes."""

from __future__ import annotations

from tests.ops.sampling import Sample, entry


def _conv(rank, stride=1, low=0, high=0, dilation=1, groups=1):
    def spread(value):
        return value if isinstance(value, tuple) else (value,) * rank

    facts = {"stride": stride, "low": low, "high": high, "dilation": dilation}
    return {name: spread(value) for name, value in facts.items()} | {"groups": groups}


@entry("convolution")
def _(draw):
    f = draw.floats
    return [
        Sample((f(2, 2, 5, 6), f(3, 2, 3, 2), f(3)), _conv(2)),
        Sample((f(2, 2, 5, 6), f(3, 2, 3, 3), None), _conv(2, stride=(2, 1), low=(1, 0), high=(1, 2))),
        Sample((f(1, 4, 5, 5), f(6, 2, 2, 2), f(6)), _conv(2, dilation=(2, 1), groups=2)),
        Sample((f(2, 3, 3, 3), f(4, 3, 1, 1), f(4)), _conv(2)),
        Sample((f(2, 3, 3, 3), f(8, 3, 3, 3), f(8)), _conv(2)),
        Sample((f(2, 3, 6), f(2, 3, 3), f(2)), _conv(1, stride=2, low=1, high=1)),
        Sample((f(1, 2, 3, 4, 3), f(2, 2, 2, 2, 2), f(2)), _conv(3, low=1)),
    ]


@entry("convolution_input")
def _(draw):
    f = draw.floats
    return [
        Sample((f(2, 3, 3, 2), f(3, 2, 3, 2), f(2)), _conv(2) | {"sizes": (5, 3)}),
        Sample((f(1, 2, 3, 3), f(2, 3, 3, 3), None), _conv(2, stride=2, low=1, high=1) | {"sizes": (6, 5)}),
        Sample((f(1, 4, 2, 2), f(4, 2, 2, 2), f(4)), _conv(2, dilation=2, groups=2) | {"sizes": (4, 4)}),
        Sample((f(2, 2, 4), f(2, 2, 3), f(2)), _conv(1, stride=2) | {"sizes": (9,)}),
    ]


def _pool(kernel, stride, places, padding=None):
    return {"kernel": kernel, "stride": stride, "padding": padding or (0,) * len(kernel), "places": places}


@entry("max_pool")
def _(draw):
    a = draw.apart
    return [
        Sample((a(2, 2, 4, 6),), _pool((2, 2), (2, 2), (2, 3)) | {"dilation": (1, 1)}),
        Sample((a(2, 1, 5, 5),), _pool((3, 2), (2, 1), (3, 6), (1, 1)) | {"dilation": (1, 1)}),
        Sample((a(1, 1, 6, 6),), _pool((2, 2), (1, 1), (4, 5)) | {"dilation": (2, 1)}),
        Sample((a(1, 2, 5),), _pool((2,), (2,), (3,)) | {"dilation": (1,)}),  # beyond the border
        Sample((a(1, 1, 4, 2, 4),), _pool((2, 2, 2), (2, 2, 2), (2, 1, 2)) | {"dilation": (1, 1, 1)}),
    ]


@entry("avg_pool")
def _(draw):
    a = draw.apart
    plain = {"count_borders": True, "divisor": 0}
    bordered = _pool((3, 2), (2, 1), (3, 6), (1, 1))
    return [
        Sample((a(2, 2, 4, 6),), _pool((2, 2), (2, 2), (2, 3)) | plain),
        Sample((a(2, 1, 5, 5),), bordered | plain),
        Sample((a(2, 1, 5, 5),), bordered | plain | {"count_borders": False}),
        Sample((a(1, 1, 5, 6),), _pool((5, 5), (1, 1), (1, 2)) | plain | {"divisor": 3}),
        Sample((a(1, 2, 5),), _pool((2,), (2,), (3,)) | plain),
        Sample((a(1, 1, 3, 3, 4),), _pool((2, 3, 2), (1, 1, 2), (2, 1, 2)) | plain),
    ]
