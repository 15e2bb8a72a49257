"""Samples: what a recorded branch rests on."""

from __future__ import annotations

import numpy as np

from tests.ops.sampling import Draw, Sample, entry


@entry("expect")
def _(draw: Draw) -> list[Sample]:
    return [Sample((draw.ints(*s, low=1, high=5),)) for s in ((), (3,))] + [Sample((np.ones((), np.int64),))]
