"""Samples: products and convolutions."""

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


@entry("mm")
def _(draw):
    return [
        Sample((draw.floats(*a), draw.floats(*b))) for a, b in [((2, 3), (3, 4)), ((0, 3), (3, 2))]
    ]


@entry("bmm")
def _(draw):
    return [
        Sample((draw.floats(5, 2, 3), draw.floats(5, 3, 2))),
        Sample((draw.floats(0, 2, 3), draw.floats(0, 3, 1))),
    ]


@entry("addmm")
def _(draw):
    arrays = draw.floats(4), draw.floats(2, 3), draw.floats(3, 4)
    return [
        Sample(arrays, {"beta": 1, "alpha": 1}),
        Sample((draw.floats(2, 4), *arrays[1:]), {"beta": 0.5, "alpha": 2.0}),
    ]


@entry("linear")
def _(draw):
    return [
        Sample((draw.floats(2, 3), draw.floats(4, 3), draw.floats(4))),
        Sample((draw.floats(2, 5, 3), draw.floats(4, 3), draw.floats(4))),
        Sample((draw.floats(3), draw.floats(4, 3), draw.floats(4))),
        Sample((draw.floats(2, 3), draw.floats(4, 3), None)),
        Sample((draw.floats(0, 3), draw.floats(4, 3), draw.floats(4))),
    ]


def _conv(stride=(1, 1), low=(0, 0), high=(0, 0), dilation=(1, 1), groups=1):
    return {"stride": stride, "low": low, "high": high, "dilation": dilation, "groups": groups}


@entry("conv2d")
def _(draw):
    f = draw.floats
    return [
        Sample((f(2, 2, 5, 6), f(3, 2, 3, 2), f(3)), _conv()),
        Sample((f(2, 2, 5, 6), f(3, 2, 3, 3), None), _conv(stride=(2, 1), low=(1, 0), high=(1, 2))),
        Sample((f(1, 4, 5, 5), f(6, 2, 2, 2), f(6)), _conv(dilation=(2, 1), groups=2)),
        Sample((f(2, 3, 3, 3), f(4, 3, 1, 1), f(4)), _conv()),
        Sample((f(2, 3, 3, 3), f(8, 3, 3, 3), f(8)), _conv()),
    ]


def _pool(kernel, stride, padding=(0, 0)):
    return {"kernel": kernel, "stride": stride, "padding": padding}


@entry("max_pool2d")
def _(draw):
    return [
        Sample((draw.apart(2, 2, 4, 6),), _pool((2, 2), (2, 2)) | {"dilation": (1, 1)}),
        Sample((draw.apart(2, 1, 5, 5),), _pool((3, 2), (2, 1), (1, 1)) | {"dilation": (1, 1)}),
        Sample((draw.apart(1, 1, 6, 6),), _pool((2, 2), (1, 1)) | {"dilation": (2, 1)}),
    ]


@entry("avg_pool2d")
def _(draw):
    plain = {"count_borders": True, "divisor": 0}
    return [
        Sample((draw.apart(2, 2, 4, 6),), _pool((2, 2), (2, 2)) | plain),
        Sample((draw.apart(2, 1, 5, 5),), _pool((3, 2), (2, 1), (1, 1)) | plain),
        Sample(
            (draw.apart(2, 1, 5, 5),),
            _pool((3, 2), (2, 1), (1, 1)) | plain | {"count_borders": False},
        ),
        Sample((draw.apart(1, 1, 5, 6),), _pool((5, 5), (1, 1)) | plain | {"divisor": 3}),
    ]
