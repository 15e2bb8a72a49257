"""Gradients of reductions: of those that pick elements a NaN stays with these; of spreads without degrees of
freedom."""

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


SPREADS = {
    "var": lambda L, x, c: L.var(x, 0, correction=c),
    "std": lambda L, x, c: x.std(0, correction=c),
    "both": lambda L, x, c: L.var_mean(x, -1, correction=c)[0],
    "of all": lambda L, x, c: x.std(correction=c),
}


@pytest.mark.filterwarnings(r"ignore:.*degrees of freedom is <= 0:UserWarning")
@pytest.mark.parametrize("wrap", [lambda f: f, jtorch.compile], ids=["eager", "compiled"])
@pytest.mark.parametrize("name", SPREADS)
def test_fewer_than_no_degrees_of_freedom(name, wrap):
    torch = pytest.importorskip("torch")

    def gradient(module, values, c, wrap):
        x = module.tensor(values, requires_grad=True)
        wrap(lambda x: SPREADS[name](module, x, c))(x).sum().backward()
        return np.array(x.grad.tolist())

    for values in ([1.0, 2.0], [2.0, 2.0], [[1.0, 2.0], [3.0, 5.0]]):
        for c in (2, 2.5, 3):
            expected = gradient(torch, values, c, lambda f: f)
            np.testing.assert_allclose(gradient(jtorch, values, c, wrap), expected, 1e-6)


@pytest.mark.parametrize("wrap", [lambda f: f, jtorch.compile], ids=["eager", "compiled"])
@pytest.mark.parametrize("p", [0.5, 2, math.inf])
def test_renorm_leaves_the_gradient_of_rows_that_are_not_too_long(p, wrap):
    torch = pytest.importorskip("torch")

    def gradient(module, wrap):
        x = module.tensor([[math.nan, 1.0], [3.0, 4.0], [0.0, 0.0], [0.1, 0.2]], requires_grad=True)
        wrap(lambda x: module.renorm(x, p, 0, 1.0))(x).sum().backward()
        return np.array(x.grad.tolist())

    np.testing.assert_allclose(gradient(jtorch, wrap), gradient(torch, lambda f: f), 1e-5, 1e-6)


@pytest.mark.parametrize("compiled", [False, True], ids=["eager", "compiled"])
def test_a_count_of_elements_has_no_gradient_by_infinite_ones(compiled):
    def count(x):
        return jtorch.linalg.vector_norm(x, 0)

    x = jtorch.tensor([np.inf, np.nan, 0.0, 2.0], requires_grad=True)
    found = (jtorch.compile(count, fullgraph=True) if compiled else count)(x)
    found.backward()
    assert found.item() == 3.0 and x.grad.tolist() == [0.0] * 4
