"""Reductions into computed positions: each input element is added where ``scatter`` says.

``scatter(coordinates, shapes, **statics)`` gives the output position of the element of the first input at
``coordinates``. The output starts as zeros.
"""

from __future__ import annotations

from jtorch.core import index as ix
from jtorch.core.op import reduction
from jtorch.ops.indexing import OUT_OF_RANGE


def _index_add_target(coordinates, shapes, axes, shape):
    first, ndim = axes[0], len(shapes[1])
    at = tuple(coordinates[first : first + ndim])
    places = tuple(ix.Loaded(1 + k, at, shape[axes[k]], OUT_OF_RANGE) for k in range(len(axes)))
    return (*coordinates[:first], *places, *coordinates[first + ndim :])


@reduction(
    combine="add",
    identity=0,
    scatter=_index_add_target,
    shape=lambda g, *indices, axes, shape: shape,
    dtype=lambda dtypes, statics: dtypes[0],
    public=None,
)
def index_add(xp, g, *indices, axes, shape):
    return xp.index_add(g, *indices, axes=axes, shape=shape)


@index_add.vjp
def _(xp, g, indices, axes):
    return (xp.index(g, *indices, axes=axes),)


def _fold_target(coordinates, shapes, shape, kernel, stride, dilation):
    w = len(kernel)
    lead = coordinates[: len(coordinates) - 2 * w]
    outer, inner = coordinates[-2 * w : -w], coordinates[-w:]
    moved = (o * s + i * d for o, s, i, d in zip(outer, stride, inner, dilation, strict=True))
    return (*lead, *moved)


@reduction(
    combine="add",
    identity=0,
    scatter=_fold_target,
    shape=lambda g, shape, **_: shape,
    dtype=lambda dtypes, statics: dtypes[0],
    public=None,
)
def fold(xp, g, *, shape, kernel, stride, dilation):
    """Overlapping windows added up where they came from: the adjoint of ``windows``."""
    return xp.fold(g, shape=shape, kernel=kernel, stride=stride, dilation=dilation)


@fold.vjp
def _(xp, g, kernel, stride, dilation):
    return xp.windows(g, kernel=kernel, stride=stride, dilation=dilation)
