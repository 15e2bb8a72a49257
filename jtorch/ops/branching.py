"""What a recorded branch rests on, and numbers of elements: how many a mask names, or there are repeated."""

from __future__ import annotations

import numpy as np

from jtorch.core.failure import Failure, FailureKind
from jtorch.core.op import elementwise, opaque

_OTHER_BRANCH = Failure(FailureKind.BRANCH, "a branch goes another way than it was recorded")


@elementwise(
    text="{x}",
    check=("{x} == 0", _OTHER_BRANCH),
    dtype=lambda dtypes, statics: np.dtype(np.int64),
    public=None,
    differentiable=False,
)
def expect(xp, x):
    """``x`` (int64), which must not be 0: a plan whose ``if`` would go the other way stops there."""
    return xp.expect(x)


_counted = opaque(
    shape=lambda given, which, count: (count,),
    dtype=lambda dtypes, statics: np.dtype(np.int64),
    public=None,
    differentiable=False,
)


@_counted
def places_of_mask(xp, mask, *, which, count):
    """Where ``mask``, of one axis, holds; a plan for which that are not ``count`` places stops there, and is
    told how many they are, as number ``which`` of those that it rests on."""
    return xp.places_of_mask(mask, which, count)


@_counted
def repeated_places(xp, repeats, *, which, count):
    """The places of a vector, each as often as its element says; ``count`` of them, or as above."""
    return xp.repeated_places(repeats, which, count)
