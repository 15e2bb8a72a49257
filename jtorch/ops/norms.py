"""Norms of vectors: a composite with a gradient that is finite where the norm is 0.

Source: https://docs.pytorch.org/docs/stable/generated/torch.linalg.vector_norm.html
"""

from __future__ import annotations

import math

from jtorch.core.number_ranges import rounded_number
from jtorch.core.op import composite
from jtorch.ops.linear_algebra import dtype_of
from jtorch.ops.reduction import restore


@composite(dtype="floating", public=None, grad_name="LinalgVectorNormBackward0", autocast={"cuda": "float32"})
def vector_norm(xp, x, *, order, axis, keepdims):
    facts = {"axis": axis, "keepdims": keepdims}
    if order == 0:
        return xp.sum(xp.cast(xp.ne(x, 0), dtype=dtype_of(x)), **facts)
    if order == 2:
        return xp.sqrt(xp.sum(x * x, **facts))
    size = xp.abs(x)
    if order == 1:
        return xp.sum(size, **facts)
    if math.isinf(order):
        return xp.max(size, **facts) if order > 0 else xp.min(size, **facts)
    # the order is a number of the dtype: where it is infinite there, its root is a power of 0, as in PyTorch
    root = 0.0 if math.isinf(rounded_number(order, dtype_of(x))) else 1.0 / order
    return xp.pow(xp.sum(xp.pow(size, order), **facts), root)


@vector_norm.vjp
def _(xp, g, x, out, order, axis, keepdims):
    shape = tuple(x.shape)
    if order == 0:
        return xp.full(0.0, shape=shape, dtype=dtype_of(x))  # also where x is infinite or NaN
    if order == 1:
        return xp.sign(x) * restore(xp, g, shape, axis, keepdims)
    if math.isinf(order):  # equal shares where several elements tie
        tie = xp.cast(xp.eq(xp.abs(x), restore(xp, out, shape, axis, keepdims)), dtype=dtype_of(x))
        count = xp.sum(tie, axis=axis, keepdims=keepdims)
        return xp.sign(x) * tie * restore(xp, g / count, shape, axis, keepdims)
    zero = xp.eq(out, 0.0)
    safe = xp.where(zero, 1.0, out)
    if order == 2:
        return x * restore(xp, xp.where(zero, 0.0, g / safe), shape, axis, keepdims)
    scale = restore(xp, xp.where(zero, 0.0, g * xp.pow(safe, 1.0 - order)), shape, axis, keepdims)
    if order > 2:
        return x * xp.pow(xp.abs(x), order - 2.0) * scale
    at_zero = xp.eq(x, 0.0)  # there the slope is taken as 0, where the formula has 0 to a negative power
    size = xp.where(at_zero, 1.0, xp.abs(x))
    return xp.where(at_zero, 0.0, xp.sign(x) * xp.pow(size, order - 1.0) * scale)
