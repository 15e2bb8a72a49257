"""Reductions: axes disappear under an associative combination. ``axis`` is a tuple of ints >= 0."""

from __future__ import annotations

import math

import numpy as np

from jtorch.op import composite, reduction
from jtorch.ops import axes as ax


def restore(xp, g, shape, axis, keepdims):
    """A gradient over the kept axes, spread over the reduced ones again."""
    if not keepdims and len(axis) != len(shape):
        g = xp.reshape(g, shape=tuple(1 if k in axis else n for k, n in enumerate(shape)))
    return xp.expand(g, shape=shape)


def _axis_face(input, dim=None, keepdim=False):
    return (input,), {"axis": ax.many(dim, input.ndim), "keepdims": keepdim}


def _sum_dtype(dtypes, statics):
    return np.dtype(np.int64) if dtypes[0].kind in "bui" else dtypes[0]


@reduction(combine="add", identity=0)
def sum(xp, x, *, axis, keepdims):
    return xp.sum(x, axis=axis, keepdims=keepdims)


@sum.vjp
def _(xp, g, x_shape, axis, keepdims):
    return restore(xp, g, x_shape, axis, keepdims)


@sum.face
def _(input, dim=None, keepdim=False, *, dtype=None):
    if dtype is not None or not input.is_floating_point():
        input = ax.widened(input, dtype)
    return (input,), {"axis": ax.many(dim, input.ndim), "keepdims": keepdim}


@reduction(combine="mul", identity=1)
def prod(xp, x, *, axis, keepdims):
    return xp.prod(x, axis=axis, keepdims=keepdims)


@prod.vjp
def _(xp, g, x, axis, keepdims):
    # exact where an element is 0 too: the product of the others, one masked product per position
    if len(axis) != 1:
        raise NotImplementedError("the gradient of prod over several axes: reshape them into one first")
    (a,) = axis
    n = x.shape[a]
    cube = x.shape[:a] + (n,) + x.shape[a:]
    spread = xp.expand(xp.reshape(x, shape=x.shape[:a] + (1,) + x.shape[a:]), shape=cube)
    index = np.dtype(np.int64)
    same = xp.eq(xp.iota(shape=cube, axis=a, dtype=index), xp.iota(shape=cube, axis=a + 1, dtype=index))
    others = xp.prod(xp.where(same, 1.0, spread), axis=(a + 1,), keepdims=False)
    return restore(xp, g, x.shape, axis, keepdims) * others


@prod.face
def _(input, dim=None, keepdim=False, *, dtype=None):
    if dim is None and input.ndim > 1:
        input = input.flatten()
    return _axis_face(ax.widened(input, dtype), dim, keepdim)


@reduction(
    combine="maximum", identity="lowest", public="amax", methods=("amax",), grad_name="AmaxBackward0"
)
def max(xp, x, *, axis, keepdims):
    return xp.max(x, axis=axis, keepdims=keepdims)


@reduction(
    combine="minimum", identity="highest", public="amin", methods=("amin",), grad_name="AminBackward0"
)
def min(xp, x, *, axis, keepdims):
    return xp.min(x, axis=axis, keepdims=keepdims)


def _extreme_face(name):
    def face(input, dim=(), keepdim=False):
        dim = None if dim == () else dim
        return _axis_face(ax.not_empty(input, name, dim), dim, keepdim)

    return face


max.face(_extreme_face("amax"))
min.face(_extreme_face("amin"))


for _extreme in (max, min):

    @_extreme.vjp
    def _(xp, g, x, out, axis, keepdims):
        # equal shares where several elements tie, as in PyTorch's amax
        tie = xp.cast(xp.eq(x, restore(xp, out, x.shape, axis, keepdims)), dtype=g.dtype)
        count = xp.sum(tie, axis=axis, keepdims=keepdims)
        return tie * restore(xp, g / count, x.shape, axis, keepdims)


def _extreme_along(xp, x, extreme, arg, axis, keepdims):
    return extreme(x, axis=axis, keepdims=keepdims), arg(x, axis=axis, keepdims=keepdims)


@composite(n_outputs=2, grad_name="MaxBackward0", public=None)
def max_along(xp, x, *, axis, keepdims):
    return _extreme_along(xp, x, xp.max, xp.argmax, axis, keepdims)


@composite(n_outputs=2, grad_name="MinBackward0", public=None)
def min_along(xp, x, *, axis, keepdims):
    return _extreme_along(xp, x, xp.min, xp.argmin, axis, keepdims)


for _extreme in (max_along, min_along):

    @_extreme.vjp
    def _(xp, g, x_shape, out1, axis, keepdims):
        place = xp.iota(shape=x_shape, axis=axis[0], dtype=out1.dtype)
        chosen = xp.eq(place, restore(xp, out1, x_shape, axis, keepdims))
        return xp.where(chosen, restore(xp, g[0], x_shape, axis, keepdims), 0.0)


@reduction(combine="argmax", dtype="index", differentiable=False)
def argmax(xp, x, *, axis, keepdims):
    return xp.argmax(x, axis=axis, keepdims=keepdims)


@reduction(combine="argmin", dtype="index", differentiable=False)
def argmin(xp, x, *, axis, keepdims):
    return xp.argmin(x, axis=axis, keepdims=keepdims)


def _position_face(name):
    def face(input, dim=None, keepdim=False):
        return _axis_face(ax.not_empty(input, name, dim), dim, keepdim)

    return face


argmax.face(_position_face("argmax"))
argmin.face(_position_face("argmin"))


@reduction(combine="logical_or", identity=False, dtype="logical", differentiable=False)
def any(xp, x, *, axis, keepdims):
    return xp.any(x, axis=axis, keepdims=keepdims)


@reduction(combine="logical_and", identity=True, dtype="logical", differentiable=False)
def all(xp, x, *, axis, keepdims):
    return xp.all(x, axis=axis, keepdims=keepdims)


any.face(_axis_face)
all.face(_axis_face)


@composite(dtype="floating")
def mean(xp, x, *, axis, keepdims):
    return xp.sum(x, axis=axis, keepdims=keepdims) * (1.0 / _count(x.shape, axis))


@mean.vjp
def _(xp, g, x_shape, axis, keepdims):
    return restore(xp, g * (1.0 / _count(x_shape, axis)), x_shape, axis, keepdims)


@mean.face
def _(input, dim=None, keepdim=False, *, dtype=None):
    return _axis_face(input if dtype is None else input.to(dtype), dim, keepdim)


def _count(shape, axis):
    n = math.prod(shape[a] for a in axis)
    return n if n else math.nan


@composite(dtype="floating")
def var(xp, x, *, axis, keepdims, correction):
    centred = x - xp.sum(x, axis=axis, keepdims=True) * (1.0 / _count(x.shape, axis))
    total = xp.sum(centred * centred, axis=axis, keepdims=keepdims)
    return total * _over(_count(x.shape, axis) - correction)


@var.vjp
def _(xp, g, x, axis, keepdims, correction):
    n = _count(x.shape, axis)
    centred = x - xp.sum(x, axis=axis, keepdims=True) * (1.0 / n)
    return restore(xp, g * (2.0 * _over(n - correction)), x.shape, axis, keepdims) * centred


@var.face
def _(input, dim=None, *, correction=1, keepdim=False, unbiased=None):
    arrays, statics = _axis_face(input, dim, keepdim)
    return arrays, statics | {"correction": correction if unbiased is None else int(unbiased)}


def _over(degrees):
    return 1.0 / degrees if degrees > 0 else math.nan
