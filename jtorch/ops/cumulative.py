"""Running sums, products and extremes along one axis, and what gradients of products need of them.

``axis`` is an int >= 0. The gradient of a product is exact where elements are 0, too, and can be
differentiated again: it divides by nothing.
"""

from __future__ import annotations

import math

import numpy as np

from jtorch.core.op import opaque

_INT = np.dtype(np.int64)


def _same(x, axis):
    return x


def reversed_cumsum(xp, g, axis):
    """Sums from each position to the end of ``axis``."""
    return xp.flip(xp.cumsum(xp.flip(g, axes=(axis,)), axis=axis), axes=(axis,))


@opaque(shape=_same, dtype="sum", public=None, axes=("axis",), autocast={"cuda": "float32"})
def cumsum(xp, x, *, axis):
    return xp.cumsum(x, axis=axis)


@cumsum.vjp
def _(xp, g, axis):
    return reversed_cumsum(xp, g, axis)


@opaque(shape=_same, dtype="sum", public=None, axes=("axis",), autocast={"cuda": "float32"})
def cumprod(xp, x, *, axis):
    return xp.cumprod(x, axis=axis)


@cumprod.vjp
def _(xp, g, x, axis):
    """The product of all before, times the sum over what follows of g times the product in between."""
    return exclusive_products(xp, x, axis) * _discounted_sums(xp, shifted(xp, x, axis, -1, 0.0), g, axis)


def shifted(xp, x, axis, by, fill):
    """``x`` moved ``by`` positions towards the end of ``axis`` (or the start), with ``fill`` behind it."""
    shape, n = tuple(x.shape), x.shape[axis]
    by = max(-n, min(n, by))
    gap = xp.full(fill, shape=_resized(shape, axis, abs(by)), dtype=x.dtype)
    start = _resized((0,) * len(shape), axis, max(-by, 0))
    stop = _resized(shape, axis, min(n, n - by))
    kept = xp.slice(x, start=start, stop=stop, step=(1,) * len(shape))
    return xp.cat(gap, kept, axis=axis) if by > 0 else xp.cat(kept, gap, axis=axis)


def _resized(shape, axis, n):
    return (*shape[:axis], n, *shape[axis + 1 :])


def exclusive_products(xp, x, axis, reverse=False):
    """The product of the elements before each position of ``axis`` (after it, if ``reverse``).

    Positions double their reach at each step (Hillis and Steele, "Data parallel algorithms", 1986).
    """
    sign = -1 if reverse else 1
    x, reach = shifted(xp, x, axis, sign, 1.0), 1
    while reach < x.shape[axis]:
        x = x * shifted(xp, x, axis, sign * reach, 1.0)
        reach *= 2
    return x


def _discounted_sums(xp, factor, total, axis):
    """s with s[i] = total[i] + factor[i] s[i+1], by the same doubling. The last factor is 0."""
    reach = 1
    while reach < total.shape[axis]:
        total = total + factor * shifted(xp, total, axis, -reach, 0.0)
        factor = factor * shifted(xp, factor, axis, -reach, 0.0)
        reach *= 2
    return total


@opaque(shape=_same, dtype="float", public=None, axes=("axis",))
def logcumsumexp(xp, x, *, axis):
    """log(cumsum(exp(x))) without overflow."""
    return xp.logcumsumexp(x, axis=axis)


@logcumsumexp.vjp
def _(xp, g, x, out, axis):
    # sum over k >= i of g[k] exp(x[i] - out[k]); in steps no exponent is above 0, as ``out`` never falls
    after = shifted(xp, out, axis, -1, math.inf)
    total = _discounted_sums(xp, _exp_difference(xp, out, after), g, axis)
    return _exp_difference(xp, x, out) * total


def _exp_difference(xp, x, y):
    """exp(x - y), 1 where both are the same infinity."""
    same = xp.eq(x, y)
    return xp.where(same, 1.0, xp.exp(xp.where(same, 0.0, x) - xp.where(same, 0.0, y)))


def _extreme(name):
    def declare(body):
        return opaque(
            n_outputs=2, shape=lambda x, axis: (x, x), dtype=lambda dtypes, statics: (dtypes[0], _INT),
            public=None, grad_name=f"{name}Backward0", axes=("axis",), ordered=True,
        )(body)  # fmt: skip

    return declare


@_extreme("Cummax")
def cummax(xp, x, *, axis):
    return xp.cummax(x, axis=axis)


@_extreme("Cummin")
def cummin(xp, x, *, axis):
    return xp.cummin(x, axis=axis)


for _op in (cummax, cummin):

    @_op.vjp
    def _(xp, g, x_shape, out1, axis):
        shape = tuple(x_shape)
        lines = [xp.iota(shape=shape, axis=k, dtype=_INT) for k in range(len(shape))]
        lines[axis] = out1
        return xp.index_add(g[0], *lines, axes=tuple(range(len(shape))), shape=shape)
