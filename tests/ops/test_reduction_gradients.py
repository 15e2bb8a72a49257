"""Gradients of reductions that pick elements: a NaN that arrives is of those alone, as in PyTorch."""

from __future__ import annotations

import math

import numpy as np
import pytest

import jtorch

PICKS = {
    "max": lambda x: x.max(), "min": lambda x: x.min(), "median": lambda x: x.median(),
    "nanmedian": lambda x: x.nanmedian(), "max along": lambda x: x.max(0)[0], "sort": lambda x: x.sort(0)[0],
    "kthvalue": lambda x: x.kthvalue(1, 0)[0], "topk": lambda x: x.topk(1, 0)[0],
    "amax": lambda x: x.amax(0),
}  # fmt: skip


@pytest.mark.parametrize("g", [math.nan, math.inf, 2.0])
@pytest.mark.parametrize("wrap", [lambda f: f, jtorch.compile], ids=["eager", "compiled"])
@pytest.mark.parametrize("name", PICKS)
def test_it_stays_with_what_was_picked(name, wrap, g):
    torch = pytest.importorskip("torch")
    values = [[1.0, 5.0, -2.0], [0.25, 5.0, 3.0]]

    def gradient(module, f):
        x = module.tensor(values, requires_grad=True)
        y = f(x)
        y.backward(module.full(tuple(y.shape), g))
        return np.array(x.grad.tolist())

    expected = gradient(torch, PICKS[name])
    assert np.array_equal(gradient(jtorch, wrap(PICKS[name])), expected, equal_nan=True)
