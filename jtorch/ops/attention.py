"""The weights of scaled dot-product attention: softmax(q @ k.T * scale + bias) as one node."""

from __future__ import annotations

import numpy as np

from jtorch.core.op import composite
from jtorch.ops.composite import softmax_gradient
from jtorch.ops.contraction import swap
from jtorch.ops.routines import direct

_INFINITY = float("inf")


def _hide_future(xp, scores):
    """-inf where the key's position lies after the query's."""
    shape = tuple(scores.shape[-2:])
    key, query = (xp.iota(shape=shape, axis=a, dtype=np.dtype(np.int64)) for a in (1, 0))
    return xp.where(xp.expand(xp.le(key, query), shape=tuple(scores.shape)), scores, -_INFINITY)


@composite(
    dtype="as_is",
    like_first=True,
    public=None,
    grad_name="AttentionWeightsBackward0",
    fuses_small=True,
    autocast="lower",
)
def attention_weights(xp, q, k, bias, *, scale, causal, safe):
    """(..., L, S) from queries (..., L, E), keys (..., S, E) and a bias that broadcasts to (..., L, S).

    Where all scores of a query are -inf its weights are NaN, or 0 if ``safe``.
    Source: Vaswani et al. 2017, https://arxiv.org/abs/1706.03762
    """
    scores = xp.matmul(q * scale, swap(xp, k))
    if bias is not None:
        scores = scores + bias
    if causal:
        scores = _hide_future(xp, scores)
    axis = (scores.ndim - 1,)
    if not scores.shape[-1]:
        return scores
    found = direct(xp, "_softmax", "forward", scores, axis, own=True)
    if found is not None:
        return found
    top = xp.max(scores, axis=axis, keepdims=True)
    if safe:
        top = xp.where(xp.eq(top, -_INFINITY), 0.0, top)
    e = xp.exp(scores - top)
    total = xp.sum(e, axis=axis, keepdims=True)
    return e / (total + xp.cast(xp.eq(total, 0.0), dtype=total.dtype) if safe else total)


@attention_weights.vjp
def _(xp, g, out, q, k, needs, scale):
    ds = softmax_gradient(xp, g, out, (out.ndim - 1,))
    scaled = ds * scale
    dq = xp.matmul(scaled, k) if needs[0] else None
    dk = xp.matmul(swap(xp, scaled), q) if needs[1] else None
    return dq, dk, ds if needs[2] else None
