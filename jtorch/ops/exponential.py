"""Exponentials and logarithms, and formulas of them that would lose digits if they were put together.

Source: https://docs.pytorch.org/docs/stable/torch.html#pointwise-ops
"""

from __future__ import annotations

import math

from jtorch.core.number_ranges import check_number, require_number
from jtorch.core.op import composite, elementwise

_LN2, _LN10 = math.log(2.0), math.log(10.0)


@elementwise(text="exp_{t}({x})", costly=True, dtype="float", in_place=True, autocast={"cuda": "float32"})
def exp(xp, x):
    """e ** x"""
    return xp.exp(x)


@exp.vjp
def _(xp, g, out):
    return g * out


@elementwise(text="exp2_{t}({x})", costly=True, dtype="float", in_place=True)
def exp2(xp, x):
    """2 ** x"""
    return xp.exp2(x)


@exp2.vjp
def _(xp, g, out):
    return g * (out * _LN2)


@elementwise(text="expm1_{t}({x})", costly=True, dtype="float", in_place=True, autocast={"cuda": "float32"})
def expm1(xp, x):
    """exp(x) - 1, without loss of digits near 0."""
    return xp.expm1(x)


@expm1.vjp
def _(xp, g, out):
    return g * (out + 1.0)


@elementwise(text="log_{t}({x})", costly=True, dtype="float", in_place=True, autocast={"cuda": "float32"})
def log(xp, x):
    """The natural logarithm; -inf of 0, NaN below."""
    return xp.log(x)


@log.vjp
def _(xp, g, x):
    return g / x


@elementwise(text="log2_{t}({x})", costly=True, dtype="float", in_place=True, autocast={"cuda": "float32"})
def log2(xp, x):
    """The logarithm to base 2."""
    return xp.log2(x)


@log2.vjp
def _(xp, g, x):
    return g / (x * _LN2)


@elementwise(text="log10_{t}({x})", costly=True, dtype="float", in_place=True, autocast={"cuda": "float32"})
def log10(xp, x):
    """The logarithm to base 10."""
    return xp.log10(x)


@log10.vjp
def _(xp, g, x):
    return g / (x * _LN10)


@elementwise(
    text="log1p_{t}({x})",
    costly=True,
    dtype="float",
    grad_name="Log1PBackward0",
    in_place=True,
    autocast={"cuda": "float32"},
)
def log1p(xp, x):
    """log(1 + x), without loss of digits near 0."""
    return xp.log1p(x)


@log1p.vjp
def _(xp, g, x):
    return g / (x + 1.0)


@elementwise(text="sigmoid_{t}({x})", costly=True, dtype="float", in_place=True, fuses_small=True)
def sigmoid(xp, x):
    """1 / (1 + exp(-x))"""
    return xp.sigmoid(x)


@sigmoid.vjp
def _(xp, g, out):
    return g * (out * (1.0 - out))


@composite(dtype="float", in_place=True)
def logit(xp, x, *, eps):
    """log(x / (1 - x)), with x limited to [eps, 1 - eps] unless ``eps`` is None."""
    if eps is not None and eps >= 0:  # not of NaN, either
        high = 1.0 - eps  # which may be the lower one: then it holds for what is above it alone
        x = xp.where(xp.lt(x, eps), eps, xp.where(xp.gt(x, high), high, x))
    return xp.log(x / (1.0 - x))


@logit.vjp
def _(xp, g, x, eps):
    low, outside = (eps, 0.0) if eps is not None and eps >= 0 else (0.0, math.nan)
    beyond = xp.logical_or(xp.lt(x, low), xp.gt(x, 1.0 - low))
    return xp.where(beyond, outside, g / (x * (1.0 - x)))


@logit.face
def _(input, eps=None):
    eps = eps.item() if hasattr(eps, "item") else eps
    dtype = input.dtype.numpy
    if eps is not None and dtype.kind in "fV":
        check_number(eps, dtype)
    return (input,), {"eps": eps}


@composite(dtype="float", tensors_only=True)
def logaddexp(xp, x, y):
    """log(exp(x) + exp(y)) without overflow."""
    if x.dtype.kind == "c" or y.dtype.kind == "c":
        return _complex_logaddexp(xp, x, y)
    near = xp.where(xp.eq(x, y), _LN2, xp.log1p(xp.exp(-xp.abs(x - y))))  # of two infinities, too
    return xp.maximum(x, y) + near


def _complex_logaddexp(xp, x, y):
    """By the larger real part; equal infinities, which have no difference, are their own sum."""
    first = xp.ge(xp.real_part(x), xp.real_part(y))
    high, low = xp.where(first, x, y), xp.where(first, y, x)
    same = xp.logical_and(xp.eq(x, y), xp.logical_not(xp.isfinite(xp.real_part(x))))
    return xp.where(same, high, high + xp.log1p(xp.exp(low - high)))


@logaddexp.vjp
def _(xp, g, x, y, needs):
    return _shares(xp, g, x - y, needs)


@composite(dtype="float", tensors_only=True, ordered=True)
def logaddexp2(xp, x, y):
    """log2(2 ** x + 2 ** y) without overflow."""
    near = xp.where(xp.eq(x, y), 1.0, xp.log1p(xp.exp2(-xp.abs(x - y))) * (1.0 / _LN2))
    return xp.maximum(x, y) + near


@logaddexp2.vjp
def _(xp, g, x, y, needs):
    return _shares(xp, g, (x - y) * _LN2, needs)


def _shares(xp, g, difference, needs):
    gx = g * xp.sigmoid(difference) if needs[0] else None
    return gx, g * xp.sigmoid(-difference) if needs[1] else None


@composite(dtype="float", in_place=True)
def xlogy(xp, x, y):
    """x log(y), 0 where x is 0 unless y is NaN."""
    return _times_log(xp, x, beside(xp, y, x), xp.log)


@xlogy.vjp
def _(xp, g, x, y, needs):
    gx = gy = None
    if needs[0]:
        logged = beside(xp, y, g)
        none = xp.logical_and(xp.eq(x, 0.0), xp.le(logged, 0.0))
        gx = xp.where(none, 0.0, g * xp.log(logged))
    if needs[1]:
        gy = g * x / y
    return gx, gy


@composite(dtype="float", public=None, grad_name="SpecialXlog1PyBackward0")
def xlog1py(xp, x, y):
    """x log(1 + y), 0 where x is 0 unless y is NaN."""
    return _times_log(xp, x, beside(xp, y, x), xp.log1p)


@xlog1py.vjp
def _(xp, g, x, y, needs):
    gx = gy = None
    if needs[0]:
        logged = beside(xp, y, g)
        none = xp.logical_and(xp.eq(x, 0.0), xp.le(logged, -1.0))
        gx = xp.where(none, 0.0, g * xp.log1p(logged))
    if needs[1]:
        gy = g * x / (y + 1.0)
    return gx, gy


def beside(xp, y, x):
    """``y`` as an array of the dtype of ``x`` where it is a number, whose logarithm would be float64."""
    if hasattr(y, "dtype"):
        return y
    require_number(y)
    return xp.full(y, shape=(), dtype=getattr(x.dtype, "numpy", x.dtype))


def _times_log(xp, x, y, log):
    product = x * log(y)
    zero = xp.logical_and(xp.eq(x, 0.0), xp.eq(y, y))
    return xp.where(zero, 0.0, product)
