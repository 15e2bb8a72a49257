"""Convolutions and their gradients against their definition, element by element of the window."""

from __future__ import annotations

import itertools
from types import SimpleNamespace

import numpy as np
import pytest

from jtorch.core.op import BY_NAME
from jtorch.ops import xp

# the dialect alone, without routines that compute something another way
DIALECT = SimpleNamespace(**{name: value for name, value in vars(xp).items() if not name.startswith("_")})
OP = BY_NAME["convolution"]
CASES = {  # images, weight, what is not as usual
    "valid": ((3, 8, 40, 30), (16, 8, 3, 3), {}),
    "same": ((5, 16, 33, 32), (32, 16, 3, 3), {"low": (1, 1), "high": (1, 1)}),
    "lenet": ((40, 6, 12, 12), (16, 6, 5, 5), {}),
    "one channel": ((30, 1, 28, 28), (6, 1, 5, 5), {}),
    "borders that differ": ((2, 64, 16, 16), (64, 64, 3, 2), {"low": (1, 0), "high": (2, 1)}),
    "wide": ((7, 32, 18, 9), (40, 32, 1, 4), {"low": (0, 3), "high": (0, 2)}),
    "large images": ((1, 4, 100, 150), (5, 4, 3, 3), {"low": (2, 2), "high": (2, 2)}),
    "one place": ((300, 1, 5, 5), (30, 1, 5, 5), {}),
    "pointwise": ((4, 24, 9, 9), (48, 24, 1, 1), {}),
    "steps": ((6, 8, 21, 20), (12, 8, 3, 3), {"stride": (2, 3), "low": (1, 1)}),
    "apart": ((6, 8, 21, 20), (12, 8, 3, 3), {"dilation": (2, 1), "low": (1, 0), "high": (1, 0)}),
    "groups": ((6, 8, 15, 15), (12, 2, 3, 3), {"groups": 4, "low": (1, 1)}),
    "depthwise": ((6, 8, 15, 15), (8, 1, 3, 3), {"groups": 8, "stride": (2, 2), "low": (1, 1)}),
    "sequences": ((20, 16, 90), (16, 16, 9), {}),
    "volumes": ((2, 3, 8, 7, 6), (4, 3, 2, 3, 2), {"low": (1, 0, 1), "high": (0, 1, 0)}),
    "small": ((2, 4, 6, 6), (4, 4, 3, 3), {}),
}


def _geometry(kernel, change):
    r = len(kernel) - 2
    usual = {"stride": (1,) * r, "low": (0,) * r, "dilation": (1,) * r, "groups": 1}
    at = usual | change
    return {"high": at["low"]} | at


def _arrays(images, kernel):
    rng = np.random.default_rng(0)
    return rng.standard_normal(images), rng.standard_normal(kernel), rng.standard_normal(kernel[0])


def _taps(x, kernel, at):
    """For each position in the window, the part of padded ``x`` that all places see there."""
    widths = [(0, 0), (0, 0), *zip(at["low"], at["high"], strict=True)]
    whole = np.pad(x, widths)
    places = [
        (n - d * (k - 1) - 1) // s + 1
        for n, k, s, d in zip(whole.shape[2:], kernel[2:], at["stride"], at["dilation"], strict=True)
    ]
    for tap in itertools.product(*map(range, kernel[2:])):
        start = [i * d for i, d in zip(tap, at["dilation"], strict=True)]
        cut = [slice(b, b + (p - 1) * s + 1, s) for b, p, s in zip(start, places, at["stride"], strict=True)]
        yield tap, (slice(None), slice(None), *cut), whole


def _defined(x, weight, bias, at):
    """(N, O, *places) by its definition."""
    groups, total = at["groups"], 0.0
    for tap, cut, whole in _taps(x, weight.shape, at):
        seen, matrix = whole[cut], weight[(..., *tap)]
        seen = seen.reshape(len(x), groups, -1, *seen.shape[2:])
        matrix = matrix.reshape(groups, -1, matrix.shape[1])
        total = total + np.einsum("goc,ngc...->ngo...", matrix, seen)
    out = total.reshape(len(x), len(weight), *total.shape[3:])
    return out + bias.reshape(-1, *[1] * (x.ndim - 2))


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("namespace", [xp, DIALECT], ids=["routines", "dialect"])
def test_equals_its_definition(name, namespace):
    images, kernel, change = CASES[name]
    (x, weight, bias), at = _arrays(images, kernel), _geometry(kernel, change)
    out = OP.body(namespace, x, weight, bias, **at)
    np.testing.assert_allclose(out, _defined(x, weight, bias, at), rtol=1e-9, atol=1e-9)
    g = np.random.default_rng(1).standard_normal(out.shape)
    gx, gw, gb = OP.vjp_function(namespace, g, x, weight, needs=(True, True, True), **at)
    # <g, conv(dx, w)> = <gx, dx> and <g, conv(x, dw)> = <gw, dw>: convolution is linear in each
    none = np.zeros_like(bias)
    for k, (array, gradient) in enumerate(((x, gx), (weight, gw))):
        for seed in range(3):
            change = np.random.default_rng(seed).standard_normal(array.shape)
            changed = _defined(change, weight, none, at) if k == 0 else _defined(x, change, none, at)
            np.testing.assert_allclose((g * changed).sum(), (gradient * change).sum(), rtol=1e-8, atol=1e-6)
    np.testing.assert_allclose(gb, g.sum(axis=(0, *range(2, g.ndim))), rtol=1e-9, atol=1e-9)
    assert gx.shape == x.shape and gw.shape == weight.shape


def test_views_are_read_right():
    x, weight, bias = _arrays((20, 16, 31, 16), (12, 16, 3, 3))
    x, weight = x.transpose(0, 3, 2, 1)[:, :, ::-1], weight[::-1]
    at = _geometry(weight.shape, {"low": (0, 1), "high": (1, 1)})
    np.testing.assert_allclose(
        OP.body(xp, x, weight, bias, **at), _defined(x, weight, bias, at), rtol=1e-9, atol=1e-9
    )


@pytest.mark.parametrize(("channels", "size"), [(16, 32), (8, 12)])
def test_special_values_stay_in_their_windows(channels, size):
    x, weight, bias = _arrays((64, channels, size, size), (channels, channels, 3, 3))
    x[0, 0, 0, 0] = np.nan
    at = _geometry(weight.shape, {"low": (1, 1), "high": (1, 1)})
    out = OP.body(xp, x, weight, bias, **at)
    assert np.isnan(out).sum() == 4 * channels
    gx, _, _ = OP.vjp_function(xp, out, x, weight, needs=(True, False, False), **at)
    assert np.isnan(gx).sum() == 9 * channels
