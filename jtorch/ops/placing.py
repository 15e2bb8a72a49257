"""Reading and writing along one axis at places that a tensor names: gather, scatter and their kin.

``index`` has one place per element (or, for the ``index_`` family, one per position of the axis). The places
along the other axes are counted, so all of it is ``index``, ``index_put`` and ``index_add`` of the dialect.

Source: https://docs.pytorch.org/docs/stable/generated/torch.Tensor.scatter_reduce_.html
"""

from __future__ import annotations

import numpy as np

from jtorch.core.op import composite, opaque
from jtorch.ops.routines import direct

_INT = np.dtype(np.int64)


def extreme_of(dtype, reduce):
    """What every other element replaces under "amax" or "amin"."""
    largest = reduce == "amin"
    if dtype.kind == "b":
        return largest
    if dtype.kind in "iu":
        info = np.iinfo(dtype)
        return info.max if largest else info.min
    return float("inf" if largest else "-inf")


def _places(xp, index, axis):
    shape = tuple(index.shape)
    return [index if k == axis else xp.iota(shape=shape, axis=k, dtype=_INT) for k in range(len(shape))]


def _read(xp, x, index, axis):
    found = direct(xp, "_places", "along", x, index, axis)
    if found is not None:
        return found
    places = _places(xp, index, axis)
    return xp.index(x, *places, axes=tuple(range(len(places))))


def _added(xp, g, index, axis, shape):
    places = _places(xp, index, axis)
    return xp.index_add(g, *places, axes=tuple(range(len(places))), shape=tuple(shape))


def _written(xp, x, value, index, axis):
    places = _places(xp, index, axis)
    return xp.index_put(x, value, *places, axes=tuple(range(len(places))))


def _cleared(xp, x, index, axis):
    """``x`` with zeros where ``index`` writes."""
    return _written(xp, x, xp.full(0, shape=tuple(index.shape), dtype=_dtype(x)), index, axis)


def _dtype(x):
    return getattr(x.dtype, "numpy", x.dtype)


@composite(dtype="as_is", public=None, fuses=False, axes=("axis",))
def gather(xp, x, index, *, axis):
    return _read(xp, x, index, axis)


@gather.vjp
def _(xp, g, x_shape, index, axis):
    return _added(xp, g, index, axis, x_shape), None


@composite(
    n_outputs=2,
    dtype="as_is",
    public=None,
    grad_name="TopkBackward0",
    fuses=False,
    axes=("axis",),
    ordered=True,
)
def top(xp, x, *, axis, k, largest):
    """(the ``k`` largest or smallest elements along ``axis``, in order; their places)"""
    found = direct(xp, "_lines", "top", x, axis, k, largest)
    if found is not None:
        return found
    places = xp.top_order(x, axis=axis, k=k, largest=largest)
    return _read(xp, x, places, axis), places


@top.vjp
def _(xp, g, x_shape, out1, axis):
    return _added(xp, g[0], out1, axis, x_shape)


@composite(dtype="as_is", public=None, fuses=False, axes=("axis",))
def scatter(xp, x, index, src, *, axis):
    return _written(xp, x, src, index, axis)


@scatter.vjp
def _(xp, g, index, axis, needs):
    gx = _cleared(xp, g, index, axis) if needs[0] else None
    return gx, None, _read(xp, g, index, axis) if needs[2] else None


@composite(
    dtype="as_is", like_first=True, public=None, fuses=False, axes=("axis",), autocast={"cuda": "promote"}
)
def scatter_add(xp, x, index, src, *, axis):
    return x + _added(xp, src, index, axis, x.shape)


@scatter_add.vjp
def _(xp, g, index, axis, needs):
    return g, None, _read(xp, g, index, axis) if needs[2] else None


# -- reductions at places -----------------------------------------------------------------------------------


@opaque(
    shape=lambda x, value, *indices, axes, reduce, include_self: x,
    dtype=lambda dtypes, statics: dtypes[0],
    public=None,
    may_raise=True,
    grad_name="ScatterReduceBackward0",
)
def index_combine(xp, x, value, *indices, axes, reduce, include_self):
    """``x`` with every element of ``value`` multiplied in ("prod"), or kept where it is larger ("amax") or
    smaller ("amin").

    Without ``include_self`` ``x`` has the number there that changes nothing: it takes no share of a gradient.
    """
    return xp.index_combine(x, value, *indices, axes=axes, reduce=reduce, include_self=include_self)


@index_combine.vjp
def _(xp, g, x, value, indices, out, axes, reduce, include_self):
    if reduce == "prod":
        return _product_gradients(xp, g, x, value, indices, axes)
    # Equal shares where several elements tie; 0 / 0 where a NaN won, which equals nothing.
    own = xp.cast(xp.eq(x, out), dtype=_dtype(g))
    if not include_self:
        hole = xp.full(0, shape=tuple(value.shape), dtype=_dtype(g))
        own = xp.index_put(own, hole, *indices, axes=axes)
    hit = xp.cast(xp.eq(value, xp.index(out, *indices, axes=axes)), dtype=_dtype(g))
    share = g / (own + xp.index_add(hit, *indices, axes=axes, shape=tuple(x.shape)))
    return own * share, hit * xp.index(share, *indices, axes=axes)


def _product_gradients(xp, g, x, value, indices, axes):
    """A factor's gradient is the product of the others: exact where factors are 0, too.

    Where two or more of ``value`` at one place are 0 the gradient is 0 (NaN beside what isn't finite: that of
    all factors), but its own derivative is not: the root makes that infinite instead of wrong.
    """
    dtype, shape, facts = _dtype(g), tuple(x.shape), {"axes": axes, "reduce": "prod", "include_self": True}
    one_x = xp.full(1, shape=shape, dtype=dtype)
    one = xp.full(1, shape=tuple(value.shape), dtype=dtype)
    gx = g * xp.index_combine(one_x, value, *indices, **facts)
    zero = xp.eq(value, 0)
    zeros = xp.index_add(xp.cast(zero, dtype=dtype), *indices, axes=axes, shape=shape)
    alone = xp.eq(xp.index(zeros, *indices, axes=axes), 1)
    kept = xp.where(zero, one, value)
    every = xp.index(xp.index_combine(x, value, *indices, **facts), *indices, axes=axes)
    but_one = xp.index(xp.index_combine(x, kept, *indices, **facts), *indices, axes=axes)
    root = xp.sqrt(xp.where(alone, one, xp.where(zero, value, one)))
    at_zero = xp.where(alone, but_one, every + root)
    others = xp.where(zero, at_zero, every / kept)
    return gx, xp.index(g, *indices, axes=axes) * others


def _counts(xp, index, axis, shape, dtype, include_self):
    """How many elements meet at each place; at least one."""
    ones = xp.full(1, shape=tuple(index.shape), dtype=dtype)
    count = _added(xp, ones, index, axis, shape)
    one = xp.full(1, shape=tuple(shape), dtype=dtype)
    return count + one if include_self else xp.maximum(count, one)


@composite(dtype="as_is", like_first=True, public=None, fuses=False, axes=("axis",))
def scatter_reduce(xp, x, index, src, *, axis, mean, include_self):
    """Sums (or means) of the elements that ``index`` sends to one place; ``index_combine`` has the others."""
    start = x if include_self else _cleared(xp, x, index, axis)
    total = start + _added(xp, src, index, axis, x.shape)
    if not mean:
        return total
    count = _counts(xp, index, axis, x.shape, _dtype(x), include_self)
    return total / count if _dtype(x).kind in "fV" else xp.floor_divide(total, count)


@scatter_reduce.vjp
def _(xp, g, index, axis, mean, include_self):
    if mean:
        g = g / _counts(xp, index, axis, g.shape, _dtype(g), include_self)
    return (g if include_self else _cleared(xp, g, index, axis)), None, _read(xp, g, index, axis)


# -- one place per position of an axis ----------------------------------------------------------------------


@composite(dtype="as_is", public=None, fuses=False)
def index_select(xp, x, index, *, axis):
    return xp.index(x, index, axes=(axis,))


@index_select.vjp
def _(xp, g, x_shape, index, axis):
    return xp.index_add(g, index, axes=(axis,), shape=tuple(x_shape)), None


@composite(dtype="as_is", like_first=True, public=None, grad_name="IndexAddBackward0", fuses=False)
def index_accumulate(xp, x, index, source, *, axis, alpha):
    added = xp.index_add(source, index, axes=(axis,), shape=tuple(x.shape))
    return x + (added if alpha == 1 else added * alpha)


@index_accumulate.vjp
def _(xp, g, index, axis, alpha, needs):
    if not needs[2]:
        return g, None, None
    gsource = xp.index(g, index, axes=(axis,))
    return g, None, gsource if alpha == 1 else gsource * alpha


@composite(dtype="as_is", public=None, fuses=False)
def index_copy(xp, x, index, source, *, axis):
    return xp.index_put(x, source, index, axes=(axis,))


@index_copy.vjp
def _(xp, g, index, source_shape, axis, needs):
    hole = xp.full(0.0, shape=tuple(source_shape), dtype=_dtype(g))
    gx = xp.index_put(g, hole, index, axes=(axis,)) if needs[0] else None
    return gx, None, xp.index(g, index, axes=(axis,)) if needs[2] else None


@composite(dtype="index", public=None, differentiable=False, fuses=False)
def one_hot(xp, index, *, classes):
    """int64 zeros with a 1 at each class, along a new last axis. Raises IndexError for a class below 0, or
    from ``classes`` on."""
    found = direct(xp, "_places", "one_hot", index, classes)
    if found is not None:
        return found
    # reading a table at the classes checks them
    none = xp.index(xp.full(0, shape=(classes,), dtype=_INT), index, axes=(0,))
    column, line = (*index.shape, 1), (*(1,) * len(index.shape), classes)
    here = xp.eq(xp.reshape(index, shape=column), xp.iota(shape=line, axis=len(line) - 1, dtype=_INT))
    return xp.cast(here, dtype=_INT) + xp.reshape(none, shape=column)


@opaque(
    shape=lambda x, y: x, dtype=lambda dtypes, statics: np.dtype(np.bool_), public=None, differentiable=False
)
def isin(xp, x, y):
    """Whether each element of ``x`` is among those of ``y``."""
    return xp.isin(x, y)
