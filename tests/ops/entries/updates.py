"""Samples: optimizer updates."""

from __future__ import annotations

import numpy as np

from tests.ops.sampling import Sample, entry


@entry("sgd_update")
def _(draw):
    return [
        Sample((draw.floats(3, 4), draw.floats(3, 4), 0.1, 0.01), {"decay": d})
        for d in (False, True)
    ]


@entry("momentum_update")
def _(draw):
    arrays = draw.floats(3, 4), draw.floats(3, 4), draw.floats(3, 4)
    numbers = 0.1, 0.01, 0.9, 0.2
    return [
        Sample((*arrays, *numbers), {"decay": d, "nesterov": n, "first": f})
        for d, n, f in [(False, False, True), (True, False, False), (True, True, False)]
    ]


@entry("adam_update")
def _(draw):
    arrays = draw.floats(3, 4), draw.floats(3, 4), draw.floats(3, 4), draw.floats(3, 4, low=0.01)
    rest = np.asarray(3.0), 0.1, 0.9, 0.999, 1e-8, 0.01
    return [Sample((*arrays, *rest), {"decay": d}) for d in ("", "l2", "decoupled")]
