"""Samples: attention weights, with and without bias, and where all keys of a query are hidden."""

from __future__ import annotations

import numpy as np

from tests.ops.sampling import Sample, entry


@entry("attention_weights")
def _(draw):
    plain = {"scale": 0.7, "causal": False, "safe": True}
    hidden = np.zeros((3, 4))
    hidden[1] = -np.inf
    f = draw.floats
    return [
        Sample((f(3, 2), f(4, 2), None), plain),
        Sample((f(2, 3, 2), f(2, 4, 2), f(3, 4)), plain | {"safe": False}),
        Sample((f(2, 2, 3, 2), f(2, 2, 3, 2), None), plain | {"causal": True}),
        Sample((f(2, 2, 3, 2), f(2, 2, 4, 2), f(2, 1, 3, 4)), plain),
        Sample((f(3, 2), f(4, 2), None), plain | {"causal": True, "safe": False}),
        Sample((f(0, 2), f(4, 2), None), plain),
    ]
