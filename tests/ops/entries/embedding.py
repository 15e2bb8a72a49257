"""Samples: rows of a table."""

from __future__ import annotations

import numpy as np

from tests.ops.sampling import Sample, entry


@entry("embedding")
def _(draw):
    plain = {"padding": None, "by_frequency": False}
    # padding and frequency change the gradient on purpose: tests/nn compares these with PyTorch
    once = np.array([[1, 2], [0, 4]])
    return [
        Sample((draw.apart(5, 3), draw.ints(4, low=0, high=5)), plain),
        Sample((draw.apart(5, 3), draw.ints(2, 2, low=0, high=5)), plain),
        Sample((draw.apart(5, 3), once), {"padding": 3, "by_frequency": True}),
        Sample((draw.apart(5, 3), np.zeros((0, 2), np.int64)), plain),
    ]
