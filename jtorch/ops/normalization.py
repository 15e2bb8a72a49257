"""Normalisation over the last axes."""

from __future__ import annotations

import math

from jtorch.op import composite


def _normalized(xp, x, axes, eps):
    """(x minus its mean over its standard deviation, 1 over the standard deviation)"""
    over = 1.0 / math.prod(x.shape[a] for a in axes)
    centred = x - xp.sum(x, axis=axes, keepdims=True) * over
    variance = xp.sum(centred * centred, axis=axes, keepdims=True) * over
    scale = xp.rsqrt(variance + eps)
    return centred * scale, scale


@composite(grad_name="NativeLayerNormBackward0", dtype="floating", methods=())
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
        over = 1.0 / math.prod(x.shape[a] for a in axes)
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
    return (input, weight, bias), {"axes": tuple(range(first, input.ndim)), "eps": eps}
