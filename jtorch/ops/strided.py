"""Diagonals as views, and views of a vector that name their own strides (``as_strided``)."""

from __future__ import annotations

import numpy as np

from jtorch.core import index as ix
from jtorch.core.op import reduction, view
from jtorch.ops import axes as ax

_INT = np.dtype(np.int64)


def _outer(values, axis1, axis2):
    return tuple(v for k, v in enumerate(values) if k not in (axis1, axis2))


def diagonal_length(n, m, offset):
    """How many elements the ``offset``-th diagonal of an (n, m) matrix has."""
    return max(0, min(n, m - offset) if offset >= 0 else min(n + offset, m))


def _diagonal_shape(x, offset, axis1, axis2):
    return (*_outer(x, axis1, axis2), diagonal_length(x[axis1], x[axis2], offset))


def _diagonal_affine(shape, strides, offset, axis1, axis2):
    empty = not diagonal_length(shape[axis1], shape[axis2], offset)
    begin = 0 if empty else max(0, -offset) * strides[axis1] + max(0, offset) * strides[axis2]
    return begin, (*_outer(strides, axis1, axis2), strides[axis1] + strides[axis2])


@view(
    shape=_diagonal_shape,
    affine=_diagonal_affine,
    put=lambda xp, base, value, **where: xp.diagonal_put(base, value, **where),
)
def diagonal(xp, x, *, offset, axis1, axis2):
    return xp.diagonal(x, offset=offset, axis1=axis1, axis2=axis2)


@diagonal.vjp
def _(xp, g, x_shape, offset, axis1, axis2):
    zeros = xp.full(0.0, shape=tuple(x_shape), dtype=g.dtype)
    return xp.diagonal_put(zeros, g, offset=offset, axis1=axis1, axis2=axis2)


@diagonal.face
def _(input, offset=0, dim1=0, dim2=1):
    """The ``offset``-th diagonal of the dims ``dim1`` and ``dim2``, as the last dim of a view."""
    axis1, axis2 = ax.one(dim1, input.ndim), ax.one(dim2, input.ndim)
    if axis1 == axis2:
        raise RuntimeError(f"diagonal dimensions cannot be identical {dim1}, {dim2}")
    ax.integer("diagonal", "offset", offset)
    return (input,), {"offset": offset, "axis1": axis1, "axis2": axis2}


def _diagonal_put_map(coordinates, shapes, offset, axis1, axis2):
    row, column = coordinates[axis1], coordinates[axis2]
    place = row if offset >= 0 else column
    written = ix.Read(1, (*_outer(coordinates, axis1, axis2), place))
    return ix.Select((column - row).equals(offset), written, ix.Read(0, tuple(coordinates)))


@view(
    shape=lambda x, value, **_: x,
    index_map=_diagonal_put_map,
    aliases=False,
    public=None,
    grad_name="DiagonalScatterBackward0",
)
def diagonal_put(xp, x, value, *, offset, axis1, axis2):
    """``x`` with ``value`` on one of its diagonals."""
    return xp.diagonal_put(x, value, offset=offset, axis1=axis1, axis2=axis2)


@diagonal_put.vjp
def _(xp, g, value_shape, offset, axis1, axis2):
    where = {"offset": offset, "axis1": axis1, "axis2": axis2}
    hole = xp.full(0.0, shape=tuple(value_shape), dtype=g.dtype)
    return xp.diagonal_put(g, hole, **where), xp.diagonal(g, **where)


def _strided_put(xp, base, value, size, steps, start):
    places = xp.full(start, shape=size, dtype=_INT)
    for axis, step in enumerate(steps):
        places = places + step * xp.iota(shape=size, axis=axis, dtype=_INT)
    return xp.index_put(base, value, places, axes=(0,))


def _strided_affine(shape, strides, size, steps, start):
    return start * strides[0], tuple(s * strides[0] for s in steps)


@view(
    shape=lambda x, size, steps, start: size,
    affine=_strided_affine,
    put=_strided_put,
    public=None,
    grad_name="AsStridedBackward0",
)
def strided(xp, x, *, size, steps, start):
    """``out[i, j] = x[start + i steps[0] + j steps[1]]`` of a vector ``x``."""
    return xp.strided(x, size=size, steps=steps, start=start)


@strided.vjp
def _(xp, g, x_shape, steps, start):
    return xp.strided_add(g, n=x_shape[0], steps=steps, start=start)


def _strided_target(coordinates, shapes, n, steps, start):
    place = ix.wrap(start)
    for c, step in zip(coordinates, steps, strict=True):
        place = place + c * step
    return (place,)


@reduction(
    combine="add",
    identity=0,
    scatter=_strided_target,
    shape=lambda g, n, steps, start: (n,),
    dtype=lambda dtypes, statics: dtypes[0],
    public=None,
)
def strided_add(xp, g, *, n, steps, start):
    """A vector of ``n`` zeros with ``g`` added where ``strided`` read from: its adjoint."""
    return xp.strided_add(g, n=n, steps=steps, start=start)


@strided_add.vjp
def _(xp, g, g_shape, steps, start):
    return xp.strided(g, size=tuple(g_shape), steps=steps, start=start)
