"""Reading and writing at integer positions.

``index`` reads ``x`` at integer arrays that replace adjacent axes; its adjoint ``index_add`` lives in
``scatter``. Every form of ``x[...]`` is slices (a view) followed by at most one ``index``.
"""

from __future__ import annotations

from jtorch.core import index as ix
from jtorch.core.op import composite, opaque, view

OUT_OF_RANGE = "index out of range in self"


def _index_shape(x, *indices, axes):
    return x[: axes[0]] + tuple(indices[0]) + x[axes[-1] + 1 :]


def _index_map(coordinates, shapes, axes):
    first, many = axes[0], len(axes)
    ndim = len(shapes[1])
    at = tuple(coordinates[first : first + ndim])
    places = tuple(ix.Loaded(1 + k, at, shapes[0][axes[k]], OUT_OF_RANGE) for k in range(many))
    return ix.Read(0, (*coordinates[:first], *places, *coordinates[first + ndim :]))


@view(
    shape=_index_shape,
    index_map=_index_map,
    dtype=lambda dtypes, statics: dtypes[0],
    aliases=False,
    public=None,
)
def index(xp, x, *indices, axes):
    return xp.index(x, *indices, axes=axes)


@index.vjp
def _(xp, g, x_shape, indices, axes):
    return (xp.index_add(g, *indices, axes=axes, shape=x_shape),)


def _positions(shapes, axes):
    return tuple((2 + k, shapes[0][axis]) for k, axis in enumerate(axes))


@opaque(
    shape=lambda x, value, *indices, axes: x,
    dtype=lambda dtypes, statics: dtypes[0],
    public=None,
    positions=_positions,
    autocast={"cuda": "promote"},
)
def index_put(xp, x, value, *indices, axes):
    """``x`` with ``value`` at ``indices``; where positions repeat, one of the values stays."""
    return xp.index_put(x, value, *indices, axes=axes)


@index_put.vjp
def _(xp, g, value_shape, indices, axes):
    hole = xp.full(0.0, shape=value_shape, dtype=g.dtype)
    return xp.index_put(g, hole, *indices, axes=axes), xp.index(g, *indices, axes=axes)


@composite(
    dtype=lambda dtypes, statics: dtypes[0],
    public=None,
    grad_name="IndexPutBackward0",
)
def mask_put(xp, x, value, mask):
    """``x`` with ``value`` where ``mask`` holds, all of one shape: a write that needs no positions."""
    return xp.where(mask, value, x)


@mask_put.vjp
def _(xp, g, mask):
    return xp.where(mask, 0.0, g), xp.where(mask, g, 0.0), None


@opaque(
    shape=lambda x, axis, descending: x, dtype="index", public=None, differentiable=False, axes=("axis",),
    ordered=True,
)  # fmt: skip
def sort_order(xp, x, *, axis, descending):
    """The positions along ``axis`` in ascending (or ``descending``) order of the elements, equal ones in
    theirs; NaN is the largest."""
    return xp.sort_order(x, axis=axis, descending=descending)


def _some_along(x, axis, k, **_):
    return (*x[:axis], k, *x[axis + 1 :])


@opaque(shape=_some_along, dtype="index", public=None, differentiable=False, axes=("axis",), ordered=True)
def top_order(xp, x, *, axis, k, largest):
    """The first ``k`` of ``sort_order``."""
    return xp.top_order(x, axis=axis, k=k, largest=largest)


@opaque(
    shape=lambda x, axis, of_numbers: _some_along(x, axis, 1),
    dtype="index",
    public=None,
    differentiable=False,
    axes=("axis",),
    ordered=True,
)
def median_place(xp, x, *, axis, of_numbers):
    """The position along ``axis`` of the element in the middle, the lower of two; of the first NaN, if there
    is one, or of all that are ``of_numbers``."""
    return xp.median_place(x, axis=axis, of_numbers=of_numbers)
