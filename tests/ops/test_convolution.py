"""NumPy's own routines for plain convolutions against the composite they stand in for."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest

from jtorch.core.op import BY_NAME
from jtorch.ops import xp
from jtorch.ops.xp import _convolution

# the dialect alone, without routines
DIALECT = SimpleNamespace(**{name: value for name, value in vars(xp).items() if not name.startswith("_")})
ONE = {"stride": (1, 1), "dilation": (1, 1)}
CASES = [  # images, weight, zeros before, zeros after
    ((3, 8, 40, 30), (16, 8, 3, 3), (0, 0), (0, 0)),
    ((5, 16, 33, 32), (32, 16, 3, 3), (1, 1), (1, 1)),
    ((40, 6, 12, 12), (16, 6, 5, 5), (0, 0), (0, 0)),
    ((2, 64, 16, 16), (64, 64, 3, 2), (1, 0), (2, 1)),
    ((7, 32, 18, 9), (40, 32, 1, 4), (0, 3), (0, 2)),
    ((1, 4, 200, 300), (5, 4, 3, 3), (2, 2), (2, 2)),
]
SMALL = [
    ((700, 3, 7, 6), (5, 3, 3, 2), (2, 1), (0, 3)),
    ((300, 1, 28, 28), (6, 1, 5, 5), (0, 0), (0, 0)),  # several blocks
    ((3000, 1, 5, 5), (30, 1, 5, 5), (0, 0), (0, 0)),  # one place
    ((300, 9, 7, 6), (4, 9, 3, 3), (1, 1), (1, 1)),  # too many channels for the images' gradient
]


def _arrays(images, kernel):
    rng = np.random.default_rng(0)
    return rng.standard_normal(images), rng.standard_normal(kernel), rng.standard_normal(kernel[0])


@pytest.mark.parametrize("case", CASES + SMALL, ids=str)
def test_equals_the_composite(case):
    images, kernel, low, high = case
    x, weight, bias = _arrays(images, kernel)
    at = ONE | {"low": low, "high": high}
    op = BY_NAME["convolution"]
    expected = op.body(DIALECT, x, weight, bias, **at, groups=1)
    out = _convolution.forward(x, weight, bias, 1, **at)
    np.testing.assert_allclose(out, expected, rtol=1e-9, atol=1e-9)
    g = np.random.default_rng(1).standard_normal(out.shape)
    saved = {"needs": (True, True, True), "groups": 1} | at
    gx, gw, _ = op.vjp_function(DIALECT, g, x, weight, **saved)
    found = [_convolution.for_input(g, weight, images[2:], 1, **at)]
    found += [_convolution.for_weight(g, x, kernel[2:], 1, **at)]
    for mine, gradient in zip(found, (gx, gw), strict=True):
        if case in CASES or mine is not None:  # of few channels, the composite may give a gradient
            np.testing.assert_allclose(mine, gradient, rtol=1e-9, atol=1e-8)


def test_views_are_read_right():
    x, weight, _ = _arrays((20, 16, 31, 16), (12, 16, 3, 3))
    x, weight = x.transpose(0, 3, 2, 1)[:, :, ::-1], weight[::-1]
    at = ONE | {"low": (0, 1), "high": (1, 1)}
    expected = BY_NAME["convolution"].body(DIALECT, x, weight, None, **at, groups=1)
    np.testing.assert_allclose(_convolution.forward(x, weight, None, 1, **at), expected, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize(
    ("images", "kernel", "change"),
    [
        ((2, 4, 6, 6), (4, 4, 3, 3), {}),  # small
        ((20, 16, 32, 32), (16, 16, 3, 3), {"stride": (2, 1)}),
        ((20, 16, 32, 32), (16, 16, 3, 3), {"dilation": (1, 2)}),
        ((20, 16, 900), (16, 16, 9), {"stride": (1,), "dilation": (1,), "low": (0,), "high": (0,)}),
    ],
)
def test_other_convolutions_are_left_alone(images, kernel, change):
    x, weight, _ = _arrays(images, kernel)
    at = ONE | {"low": (0, 0), "high": (0, 0)} | change
    g = BY_NAME["convolution"].body(DIALECT, x, weight, None, **at, groups=1)
    assert _convolution.forward(x, weight, None, 1, **at) is None
    assert _convolution.for_input(g, weight, images[2:], 1, **at) is None
    assert _convolution.for_weight(g, x, kernel[2:], 1, **at) is None


@pytest.mark.parametrize(("channels", "size"), [(16, 32), (8, 12)])
def test_special_values_stay_in_their_windows(channels, size):
    x, weight, _ = _arrays((64, channels, size, size), (channels, channels, 3, 3))
    x[0, 0, 0, 0] = np.nan
    at = ONE | {"low": (1, 1), "high": (1, 1)}
    out = _convolution.forward(x, weight, None, 1, **at)
    assert np.isnan(out).sum() == 4 * channels
    gx = _convolution.for_input(out, weight, (size, size), 1, **at)
    assert np.isnan(gx).sum() == 9 * channels
