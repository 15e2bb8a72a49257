"""Places in sorted sequences, and counts between edges: library calls."""

from __future__ import annotations

from jtorch.core.op import opaque


@opaque(
    shape=lambda sequence, values, right: values, dtype="index", public=None, differentiable=False
)  # fmt: skip
def searchsorted(xp, sequence, values, *, right):
    """Where ``values`` go into ``sequence``, sorted along its last axis; before equal ones, or after them."""
    return xp.searchsorted(sequence, values, right=right)


@opaque(
    shape=lambda x, edges, weight: (edges[0] - 1,),
    dtype=lambda dtypes, statics: dtypes[2],
    public=None,
    differentiable=False,
)
def histogram_counts(xp, x, edges, weight):
    """The sum of the weights of the elements between neighbouring ``edges``."""
    return xp.histogram_counts(x, edges, weight)


@opaque(
    shape=lambda x, axis: (*x[:axis], 1, *x[axis + 1 :]),
    dtype="index",
    public=None,
    differentiable=False,
    axes=("axis",),
)
def mode_place(xp, x, *, axis):
    """Where the most frequent element along ``axis`` is: its last position."""
    return xp.mode_place(x, axis=axis)
