"""Samples: complex numbers."""

from __future__ import annotations

import numpy as np

from tests.ops.sampling import Draw, Sample, entry


@entry("real_part", "imag_part", "phase")
def _(draw: Draw) -> list[Sample]:
    shapes = ((3, 4), (), (0, 2))
    return [Sample((np.asarray(draw.apart(*s) + 1j * draw.apart(*s, shift=0.4)),)) for s in shapes]


@entry("make_complex")
def _(draw: Draw) -> list[Sample]:
    return [Sample((draw.apart(*s), draw.apart(*s))) for s in ((3, 4), (), (0, 2))]
