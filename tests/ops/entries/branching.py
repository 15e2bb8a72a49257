"""Samples: what a recorded branch rests on."""

from __future__ import annotations

import numpy as np

from tests.ops.sampling import Draw, Sample, entry


@entry("expect")
def _(draw: Draw) -> list[Sample]:
    return [Sample((draw.ints(*s, low=1, high=5),)) for s in ((), (3,))] + [Sample((np.ones((), np.int64),))]


@entry("places_of_mask")
def _(draw: Draw) -> list[Sample]:
    """Its count is that of the mask, or a plan stops: see tests/compile/record/test_counted_masks.py."""
    masks = [np.array(m, bool) for m in ([1, 0, 1, 1], [0, 0], [1], [])]
    return [Sample((m,), {"which": 0, "count": int(m.sum())}) for m in masks]


@entry("repeated_places")
def _(draw: Draw) -> list[Sample]:
    vectors = [np.array(v, np.int64) for v in ([1, 0, 3], [0, 0], [1], [])]
    return [Sample((v,), {"which": 0, "count": int(v.sum())}) for v in vectors]
