"""Normalisation: to mean 0 and variance 1 over the last axes, groups of channels, or the batch.

Each is one node on the tape. Statistics are computed again in the gradient where keeping them would need
gradients of their own.
"""

from __future__ import annotations

import math

from jtorch.core import dtypes as dt
from jtorch.core.op import composite


def _normalized(xp, x, axes, eps):
    """(x minus its mean over its standard deviation, 1 over the standard deviation)"""
    over = 1.0 / max(math.prod(x.shape[a] for a in axes), 1)
    centred = x - xp.sum(x, axis=axes, keepdims=True) * over
    variance = xp.sum(centred * centred, axis=axes, keepdims=True) * over
    scale = xp.rsqrt(variance + eps)
    return centred * scale, scale


@composite(
    grad_name="NativeLayerNormBackward0",
    dtype="floating",
    like_first=True,
    methods=(),
    fuses_small=True,
    autocast={"cuda": "float32"},
)
def layer_norm(xp, x, weight, bias, *, axes, eps):
    """Source: Ba, Kiros and Hinton 2016, https://arxiv.org/abs/1607.06450"""
    out, _ = _normalized(xp, x, axes, eps)
    if weight is not None:
        out = out * weight
    return out if bias is None else out + bias


@layer_norm.vjp
def _(xp, g, x, weight, needs, axes, eps):
    # mean and scale are computed again: kept, they would each want a gradient of their own
    normalized, scale = _normalized(xp, x, axes, eps)
    gx = None
    if needs[0]:
        over = 1.0 / max(math.prod(x.shape[a] for a in axes), 1)
        h = g if weight is None else g * weight
        mean = xp.sum(h, axis=axes, keepdims=True) * over
        along = xp.sum(h * normalized, axis=axes, keepdims=True) * over
        gx = (h - mean - normalized * along) * scale
    return gx, g * normalized if needs[1] else None, g  # the engine sums over the rows


@layer_norm.face
def _(input, normalized_shape, weight=None, bias=None, eps=1e-5):
    """Normalise the last axes, of ``normalized_shape``, to mean 0 and variance 1, then scale and shift.

    Source: https://docs.pytorch.org/docs/stable/generated/torch.nn.functional.layer_norm.html
    """
    shape = (normalized_shape,) if isinstance(normalized_shape, int) else tuple(normalized_shape)
    for name, t in (("weight", weight), ("bias", bias)):
        if t is not None and tuple(t.shape) != shape:
            raise RuntimeError(
                f"Expected {name} to be of same shape as normalized_shape, but got {name} of shape "
                f"{list(t.shape)} and normalized_shape = {list(shape)}"
            )
    first = input.ndim - len(shape)
    if first < 0 or tuple(input.shape[first:]) != shape or not shape:
        stars = ", ".join(["*", *map(str, shape)])
        raise RuntimeError(
            f"Given normalized_shape={list(shape)}, expected input with shape [{stars}], but got input of "
            f"size{list(input.shape)}"
        )
    return (input, weight, bias), {"axes": tuple(range(first, input.ndim)), "eps": dt.plain(eps)}


@composite(
    grad_name="FusedRmsNormBackward0",
    dtype="floating",
    like_first=True,
    narrow=False,
    public=None,
    fuses_small=True,
    autocast={"cuda": "float32"},
)
def rms_norm(xp, x, weight, *, axes, eps):
    """Source: Zhang and Sennrich 2019, https://arxiv.org/abs/1910.07467"""
    out = x * _inverse_rms(xp, x, axes, eps)
    return out if weight is None else out * weight


def _inverse_rms(xp, x, axes, eps):
    over = 1.0 / max(math.prod(x.shape[a] for a in axes), 1)
    return xp.rsqrt(xp.sum(x * x, axis=axes, keepdims=True) * over + eps)


@rms_norm.vjp
def _(xp, g, x, weight, needs, axes, eps):
    scale = _inverse_rms(xp, x, axes, eps)
    normalized = x * scale
    gx = None
    if needs[0]:
        over = 1.0 / max(math.prod(x.shape[a] for a in axes), 1)
        h = g if weight is None else g * weight
        along = xp.sum(h * normalized, axis=axes, keepdims=True) * over
        gx = (h - normalized * along) * scale
    return gx, g * normalized if needs[1] else None  # the engine sums over the rows


# -- channels: axis 1 of (N, C, ...) ----------------------------------------------------------------------


def _others(x):
    """The axes that a channel's statistics run over."""
    return (0, *range(2, len(x.shape)))


def _per_channel(xp, values, x):
    """``values`` (C,) so that they broadcast along the channels of ``x``."""
    return xp.reshape(values, shape=(x.shape[1], *(1,) * (len(x.shape) - 2)))


def _affine(xp, x, weight, bias):
    if weight is not None:
        x = x * _per_channel(xp, weight, x)
    return x if bias is None else x + _per_channel(xp, bias, x)


def _channel_sums(xp, g, centred):
    """(sum of g, sum of g * centred) per channel"""
    axes = _others(g)
    return xp.sum(g, axis=axes, keepdims=False), xp.sum(g * centred, axis=axes, keepdims=False)


@composite(
    n_outputs=3,
    grad_name="NativeBatchNormBackward0",
    dtype="floating",
    like_first=True,
    public=None,
    fuses_small=True,
)
def batch_norm(xp, x, weight, bias, *, eps):
    """(x with each channel normalised, then scaled and shifted; the channels' means; their variances)

    Source: Ioffe and Szegedy 2015, https://arxiv.org/abs/1502.03167
    """
    axes = _others(x)
    n = max(math.prod(x.shape[a] for a in axes), 1.0)
    mean = xp.sum(x, axis=axes, keepdims=False) / n
    centred = x - _per_channel(xp, mean, x)
    if bias is None and len(x.shape) > 2:  # taking off more from so many would cost another pass
        variance = xp.sum(centred * centred, axis=axes, keepdims=False) / n
        scale = xp.rsqrt(variance + eps)
        return _affine(xp, centred, scale if weight is None else scale * weight, None), mean, variance
    total, squares = _channel_sums(xp, centred, centred)
    # what rounding did to the mean: beside a deviation of 1, half a unit in the last place of 1000 is 3e-5
    apart = total / n
    variance = squares / n - apart * apart
    scale = xp.rsqrt(variance + eps)
    slope = scale if weight is None else scale * weight
    offset = -apart * slope if bias is None else bias - apart * slope
    return _affine(xp, centred, slope, offset), mean + apart, variance


@batch_norm.vjp
def _(xp, g, x, weight, needs, out1, out2, eps):
    g, of_mean, of_variance = g
    over = 1.0 / max(math.prod(x.shape[a] for a in _others(x)), 1)
    centred = x - _per_channel(xp, out1, x)
    scale = xp.rsqrt(out2 + eps)
    total, along = _channel_sums(xp, g, centred)
    gx = None
    if needs[0]:  # a line per channel: a g + b (x - mean) + c
        a = scale if weight is None else scale * weight
        b = (2.0 * of_variance - a * scale * scale * along) * over
        c = (of_mean - a * total) * over
        gx = _affine(xp, g, a, None) + _affine(xp, centred, b, c)
    return gx, along * scale if needs[1] else None, total if needs[2] else None


@composite(
    grad_name="NativeBatchNormBackward0", dtype="floating", like_first=True, public=None, fuses_small=True
)
def batch_norm_with(xp, x, mean, variance, weight, bias, *, eps):
    """``batch_norm`` with given statistics (C,): what a trained model computes."""
    scale = xp.rsqrt(variance + eps)
    centred = x - _per_channel(xp, mean, x)
    return _affine(xp, centred, scale if weight is None else scale * weight, bias)


@batch_norm_with.vjp
def _(xp, g, x, mean, variance, weight, needs, eps):
    scale = xp.rsqrt(variance + eps)
    a = scale if weight is None else scale * weight
    total, along = None, None
    if any(needs[1:]):
        total, along = _channel_sums(xp, g, x - _per_channel(xp, mean, x))
    return (
        _affine(xp, g, a, None) if needs[0] else None,
        -(a * total) if needs[1] else None,
        along * a * scale * scale * -0.5 if needs[2] else None,
        along * scale if needs[3] else None,
        total if needs[4] else None,
    )


def _grouped(xp, x, groups):
    """(N, C, ...) as (N, groups, everything else)"""
    n, c = x.shape[:2]
    return xp.reshape(x, shape=(n, groups, c // groups * math.prod(x.shape[2:])))


@composite(
    grad_name="NativeGroupNormBackward0",
    dtype="floating",
    like_first=True,
    public=None,
    fuses_small=True,
    autocast={"cuda": "float32"},
)
def group_norm(xp, x, weight, bias, *, groups, eps):
    """Source: Wu and He 2018, https://arxiv.org/abs/1803.08494"""
    out, _ = _normalized(xp, _grouped(xp, x, groups), (2,), eps)
    return _affine(xp, xp.reshape(out, shape=tuple(x.shape)), weight, bias)


@group_norm.vjp
def _(xp, g, x, weight, needs, groups, eps):
    normalized, scale = _normalized(xp, _grouped(xp, x, groups), (2,), eps)
    gx = gw = gb = None
    if needs[0]:
        over = 1.0 / max(normalized.shape[2], 1)
        h = _grouped(xp, _affine(xp, g, weight, None), groups)
        mean = xp.sum(h, axis=(2,), keepdims=True) * over
        along = xp.sum(h * normalized, axis=(2,), keepdims=True) * over
        gx = xp.reshape((h - mean - normalized * along) * scale, shape=tuple(x.shape))
    if needs[1] or needs[2]:
        gb, gw = _channel_sums(xp, g, xp.reshape(normalized, shape=tuple(x.shape)))
    return gx, gw if needs[1] else None, gb if needs[2] else None
