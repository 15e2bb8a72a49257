"""Reductions: axes disappear under an associative combination. ``axis`` is a tuple of ints >= 0."""

from __future__ import annotations

import math
import warnings

from jtorch.core import dtypes as dt
from jtorch.core.op import composite, reduction
from jtorch.core.sizes import real
from jtorch.ops import axes as ax
from jtorch.ops.complex import is_complex
from jtorch.ops.cumulative import exclusive_products
from jtorch.ops.routines import direct, runs_at_once


def restore(xp, g, shape, axis, keepdims):
    """A gradient over the kept axes, spread over the reduced ones again."""
    if not keepdims and len(axis) != len(shape):
        g = xp.reshape(g, shape=tuple(1 if k in axis else n for k, n in enumerate(shape)))
    return xp.expand(g, shape=shape)


def _axis_face(input, dim=None, keepdim=False):
    return (input,), {"axis": ax.many(dim, input.ndim), "keepdims": ax.flag(keepdim)}


@reduction(combine="add", identity=0, dtype="sum", fuses_wide=True, autocast={"cuda": "float32"})
def sum(xp, x, *, axis, keepdims):
    """The sum of all elements or along ``dim``; int64 for integers."""
    return xp.sum(x, axis=axis, keepdims=keepdims)


@sum.vjp
def _(xp, g, x_shape, axis, keepdims):
    return restore(xp, g, x_shape, axis, keepdims)


@sum.lean_face(
    usual=("dim is None and dtype is None and keepdim is False", "input, ALL_AXES[input._data.ndim], keepdim")
)
def _(input, dim=None, keepdim=False, *, dtype=None):
    if dtype is not None:
        input = input.to(dtype)
    return input, ax.many(dim, input.ndim), ax.flag(keepdim)


@reduction(combine="mul", identity=1, dtype="sum", autocast="float32")
def prod(xp, x, *, axis, keepdims):
    """The product of all elements or along ``dim``; int64 for integers."""
    return xp.prod(x, axis=axis, keepdims=keepdims)


@prod.vjp
def _(xp, g, x, axis, keepdims):
    # exact where elements are 0, too: the product of all before times that of all after
    spread = restore(xp, g, x.shape, axis, keepdims)
    if not axis:
        return spread
    kept = tuple(k for k in range(x.ndim) if k not in axis)
    order = (*kept, *axis)
    line = xp.permute(x, axes=order)
    shape, n = tuple(line.shape), len(kept)
    line = xp.reshape(line, shape=(*shape[:n], math.prod(shape[n:])))
    before = exclusive_products(xp, line, n)
    others = xp.reshape(before * exclusive_products(xp, line, n, reverse=True), shape=shape)
    return spread * xp.permute(others, axes=tuple(order.index(k) for k in range(len(order))))


@prod.face
def _(input, dim=None, keepdim=False, *, dtype=None):
    if dim is None and input.ndim > 1:
        input = input.flatten()
    return _axis_face(input if dtype is None else input.to(dtype), dim, keepdim)


@reduction(
    combine="maximum",
    identity="lowest",
    public="amax",
    methods=("amax",),
    grad_name="AmaxBackward0",
    ordered=True,
    fuses_small=True,
)
def max(xp, x, *, axis, keepdims):
    """The largest element along ``dim``; equal ones share the gradient."""
    return xp.max(x, axis=axis, keepdims=keepdims)


@reduction(
    combine="minimum",
    identity="highest",
    public="amin",
    methods=("amin",),
    grad_name="AminBackward0",
    ordered=True,
    fuses_small=True,
)
def min(xp, x, *, axis, keepdims):
    """The smallest element along ``dim``; equal ones share the gradient."""
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


@composite(renames="max", grad_name="MaxBackward1", public=None, ordered=True, fuses=False)
def max_all(xp, x, *, axis, keepdims):
    return xp.max(x, axis=axis, keepdims=keepdims)


@composite(renames="min", grad_name="MinBackward1", public=None, ordered=True, fuses=False)
def min_all(xp, x, *, axis, keepdims):
    return xp.min(x, axis=axis, keepdims=keepdims)


for _extreme in (max_all, min_all):

    @_extreme.vjp
    def _(xp, g, x, out, axis, keepdims):
        # as above, but NaN is a tie with NaN: only there is an element NaN that is not the result; and a
        # gradient that is NaN is none of the other elements
        tie = xp.cast(xp.eq(x, restore(xp, out, x.shape, axis, keepdims)), dtype=g.dtype)
        tie = xp.where(xp.ne(x, x), 1.0, tie)
        count = xp.sum(tie, axis=axis, keepdims=keepdims)
        return xp.where(xp.ne(tie, 0.0), restore(xp, g / count, x.shape, axis, keepdims), 0.0)


def _extreme_along(xp, x, extreme, arg, axis, keepdims):
    return extreme(x, axis=axis, keepdims=keepdims), arg(x, axis=axis, keepdims=keepdims)


@composite(n_outputs=2, grad_name="MaxBackward0", public=None, ordered=True, fuses_small=True)
def max_along(xp, x, *, axis, keepdims):
    return _extreme_along(xp, x, xp.max, xp.argmax, axis, keepdims)


@composite(n_outputs=2, grad_name="MinBackward0", public=None, ordered=True, fuses_small=True)
def min_along(xp, x, *, axis, keepdims):
    return _extreme_along(xp, x, xp.min, xp.argmin, axis, keepdims)


for _extreme in (max_along, min_along):

    @_extreme.vjp
    def _(xp, g, x_shape, out1, axis, keepdims):
        if not axis:  # of a tensor without dims
            return g[0]
        place = xp.iota(shape=x_shape, axis=axis[0], dtype=out1.dtype)
        chosen = xp.eq(place, restore(xp, out1, x_shape, axis, keepdims))
        return xp.where(chosen, restore(xp, g[0], x_shape, axis, keepdims), 0.0)


@reduction(combine="argmax", dtype="index", ordered=True, differentiable=False, layout="rows")
def argmax(xp, x, *, axis, keepdims):
    """The position of the largest element, of all or along ``dim``."""
    return xp.argmax(x, axis=axis, keepdims=keepdims)


@reduction(combine="argmin", dtype="index", ordered=True, differentiable=False, layout="rows")
def argmin(xp, x, *, axis, keepdims):
    """The position of the smallest element, of all or along ``dim``."""
    return xp.argmin(x, axis=axis, keepdims=keepdims)


def _position_face(name):
    def face(input, dim=None, keepdim=False):
        if input.dtype.numpy.kind == "b":
            raise RuntimeError(f"{name}(): does not support bool input")
        if dim is None and input.numel() == 0:
            raise IndexError(f"{name}(): Expected reduction dim to be specified for input.numel() == 0.")
        return _axis_face(ax.not_empty(input, name, dim), dim, keepdim)

    return face


argmax.face(_position_face("argmax"))
argmin.face(_position_face("argmin"))


@reduction(combine="logical_or", identity=False, dtype="logical", differentiable=False, public=None)
def any(xp, x, *, axis, keepdims):
    return xp.any(x, axis=axis, keepdims=keepdims)


@reduction(combine="logical_and", identity=True, dtype="logical", differentiable=False, public=None)
def all(xp, x, *, axis, keepdims):
    return xp.all(x, axis=axis, keepdims=keepdims)


@composite(dtype="floating", fuses_wide=True)  # as the sum: the two are one number, but for the division
def mean(xp, x, *, axis, keepdims):
    """The mean of all elements or along ``dim``."""
    return xp.sum(x, axis=axis, keepdims=keepdims) / _count(x.shape, axis)


@mean.vjp
def _(xp, g, x_shape, axis, keepdims):
    return restore(xp, g * (1.0 / _count(x_shape, axis)), x_shape, axis, keepdims)


@mean.face
def _(input, dim=None, keepdim=False, *, dtype=None):
    return _axis_face(input if dtype is None else input.to(dtype), dim, keepdim)


def _count(shape, axis):
    n = math.prod(shape[a] for a in axis)
    return real(n) if n else math.nan


def _variance(xp, x, axis, keepdims, correction):
    n = _count(x.shape, axis)
    degrees = 0.0 if n < correction else n - correction  # of none: infinite, or NaN where nothing varies
    if len(axis) == x.ndim and not is_complex(x):
        found = direct(xp, "_variance", "variance", x, degrees)
        if found is not None:
            return xp.reshape(found, shape=(1,) * x.ndim if keepdims else ())
    centred = x - xp.sum(x, axis=axis, keepdims=True) / n
    squares = xp.real_part(centred * xp.conj(centred)) if is_complex(x) else centred * centred
    squares = xp.sum(squares, axis=axis, keepdims=keepdims)
    return squares / degrees if degrees else squares * math.inf


def _variance_vjp(xp, g, x, axis, keepdims, correction):
    n = _count(x.shape, axis)
    centred = x - xp.sum(x, axis=axis, keepdims=True) / n
    return restore(xp, g * (2.0 * _over(n - correction)), x.shape, axis, keepdims) * centred


def _over(degrees):
    """1 / degrees of freedom, also of fewer than none, as in PyTorch; NaN of no elements."""
    return 1.0 / degrees if degrees else math.inf


@composite(dtype="floating", fuses_small=True)
def var(xp, x, *, axis, keepdims, correction):
    """The mean squared distance from the mean, of n - ``correction`` degrees of freedom."""
    return _variance(xp, x, axis, keepdims, correction)


@var.vjp
def _(xp, g, x, axis, keepdims, correction):
    return _variance_vjp(xp, g, x, axis, keepdims, correction)


@composite(dtype="floating", fuses_small=True)
def std(xp, x, *, axis, keepdims, correction):
    """The square root of ``var``; also where that is too large, or too small, for its dtype."""
    if not math.prod(x.shape[a] for a in axis):
        return xp.sqrt(_variance(xp, x, axis, keepdims, correction))
    if runs_at_once(xp):
        variance = _variance(xp, x, axis, keepdims, correction)
        if direct(xp, "_variance", "is_ordinary", variance):
            return xp.sqrt(variance)
    scale = _power_of_two(xp, x, axis)
    root = xp.sqrt(_variance(xp, x * scale, axis, keepdims, correction))
    return root / (scale if keepdims else xp.squeeze(scale, axes=axis))


def _power_of_two(xp, x, axis):
    """What brings elements so far from their mean that squares overflow, or vanish, near 1; 1 for all others,
    whose bits stay as they are."""
    high, low, change = (
        (2.0**60, 2.0**-50, 2.0**100) if x.dtype.itemsize < 8 else (2.0**500, 2.0**-500, 2.0**800)
    )
    top = xp.max(xp.abs(x), axis=axis, keepdims=True)
    one = xp.maximum(xp.minimum(top, 1.0), 1.0)  # which lies in memory as ``top`` does; NaN where that is
    return xp.where(xp.gt(top, high), 1.0 / change, xp.where(xp.lt(top, low), change, one))


@std.vjp
def _(xp, g, x, out, axis, keepdims, correction):
    still = xp.eq(out, 0.0)  # where nothing varies the gradient is 0, as in PyTorch
    half = xp.where(still, 0.0, g / (xp.where(still, 1.0, out) * 2.0))
    return _variance_vjp(xp, half, x, axis, keepdims, correction)


def _spread_face(name):
    def face(input, dim=None, unbiased=None, keepdim=False, *, correction=None):
        if dim.__class__ is bool:  # an early signature: var(input, unbiased)
            dim, unbiased = None, dim
        if unbiased is not None and correction is not None:
            raise TypeError(f"{name}() takes either unbiased or correction, not both")
        if correction is None:
            correction = 1 if unbiased is None else int(unbiased)
        if not (input.is_floating_point() or input.is_complex()):
            raise RuntimeError("std and var only support floating point and complex dtypes")
        arrays, statics = _axis_face(input, dim, keepdim)
        n = math.prod(input.shape[a] for a in statics["axis"])
        _warn_without_degrees(name, input, n, correction)
        if dim is None and n < correction:
            correction = n  # without dims PyTorch's gradient is infinite then
        statics["correction"] = dt.plain(correction)
        return arrays, statics

    return face


def _warn_without_degrees(name, input, n, correction):
    if n <= correction and input.numel():
        warnings.warn(
            f"{name}(): degrees of freedom is <= 0. Correction should be strictly less than the reduction "
            "factor (input numel divided by output numel).",
            UserWarning,
            stacklevel=4,
        )


var.face(_spread_face("var"))
std.face(_spread_face("std"))


@composite(dtype=lambda dtypes, statics: dtypes[0], like_first=True, public=None, grad_name="MedianBackward0")
def picked(xp, x, mask):
    """The one value of all elements of ``x`` where ``mask`` holds; its gradient is shared among them."""
    return xp.max(xp.where(mask, x, -math.inf), axis=tuple(range(x.ndim)), keepdims=False)


@picked.vjp
def _(xp, g, mask):
    share = xp.cast(mask, dtype=getattr(g.dtype, "numpy", g.dtype))
    each = g / xp.sum(share, axis=tuple(range(share.ndim)), keepdims=False)
    return xp.where(mask, xp.expand(each, shape=share.shape), 0.0), None


@composite(
    dtype="float", public=None, grad_name="LogsumexpBackward0", fuses_small=True, autocast={"cuda": "float32"}
)
def logsumexp(xp, x, *, axis, keepdims):
    """log(sum(exp(x))) without overflow; -inf where all elements are, and of nothing."""
    if not math.prod(x.shape[a] for a in axis):
        return xp.log(xp.sum(x, axis=axis, keepdims=keepdims))
    top = xp.max(xp.real_part(x) if x.dtype.kind == "c" else x, axis=axis, keepdims=True)
    top = xp.where(xp.isfinite(top), top, 0.0)
    total = xp.log(xp.sum(xp.exp(x - top), axis=axis, keepdims=True)) + top
    return total if keepdims else xp.reshape(total, shape=_kept(x.shape, axis))


def _kept(shape, axis):
    return tuple(n for k, n in enumerate(shape) if k not in axis)


@logsumexp.vjp
def _(xp, g, x, out, axis, keepdims):
    weights = xp.exp(x - restore(xp, out, x.shape, axis, keepdims))
    return restore(xp, g, x.shape, axis, keepdims) * weights
