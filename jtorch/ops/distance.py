"""The cosine of the angle between vectors, with a gradient that stays finite where a vector is zero."""

from __future__ import annotations

from jtorch.core.op import composite


@composite(dtype="floating", public=None, grad_name="SumBackward1", fuses_small=True)
def cosine(xp, x, y, *, axis, eps):
    """The sum of x y over both lengths, each at least ``eps``."""
    u, v = _scaled(xp, x, axis, eps)[0], _scaled(xp, y, axis, eps)[0]
    return xp.sum(u * v, axis=axis, keepdims=False)


def _scaled(xp, x, axis, eps):
    """(x over its limited length, that length, x over its own length: 0 where that is 0)"""
    length = xp.sqrt(xp.sum(x * x, axis=axis, keepdims=True))
    limited = xp.clamp_min(length, eps)
    return x / limited, limited, x / xp.where(xp.eq(length, 0.0), 1.0, length)


@cosine.vjp
def _(xp, g, x, y, axis, eps, needs):
    g = xp.unsqueeze(g, axes=axis)
    u, u_length, u_direction = _scaled(xp, x, axis, eps)
    v, v_length, v_direction = _scaled(xp, y, axis, eps)
    along = xp.sum(u * v, axis=axis, keepdims=True)
    # as in PyTorch, the limit on the length holds for its value, not for its gradient
    gx = g * (v - along * u_direction) / u_length if needs[0] else None
    gy = g * (u - along * v_direction) / v_length if needs[1] else None
    return gx, gy
