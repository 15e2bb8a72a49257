"""A leaf that is frozen between forward and backward gets no gradient, as in PyTorch."""

from __future__ import annotations

import pytest

import jtorch


@pytest.fixture(params=["eager", "compiled"])
def wrap(request):
    return jtorch.compile if request.param == "compiled" else lambda f: f


def test_outside():
    w, v = jtorch.ones(2, requires_grad=True), jtorch.ones(2, requires_grad=True)
    y = (w * 2 + v * 3).sum()
    w.requires_grad_(False)
    y.backward()
    assert w.grad is None and v.grad.tolist() == [3.0, 3.0]


def test_inside_a_function(wrap):
    w, v = jtorch.ones(2, requires_grad=True), jtorch.ones(2, requires_grad=True)

    @wrap
    def f(x):
        w.requires_grad_(True)
        y = (w * x + v * 3).sum()
        w.requires_grad_(False)
        y.backward()
        return y

    for k in range(3):
        f(jtorch.ones(2))
        assert w.grad is None and v.grad.tolist() == [3.0 * (k + 1)] * 2


def test_of_a_compiled_network_that_is_frozen_outside(wrap):
    layer = jtorch.nn.Linear(2, 2)
    network = wrap(lambda x: layer(x))
    for frozen in (False, True, False):
        layer.weight.grad = layer.bias.grad = None
        y = network(jtorch.ones(1, 2)).sum()
        layer.weight.requires_grad_(not frozen)
        y.backward()
        assert (layer.weight.grad is None) is frozen
        assert layer.bias.grad.tolist() == [1.0, 1.0]
        layer.weight.requires_grad_(True)


def test_an_argument_inside_a_function(wrap):
    @wrap
    def f(w, v):
        y = (w * 2 + v * 3).sum()
        w.requires_grad_(False)
        y.backward()
        return y

    for _ in range(3):
        w, v = jtorch.ones(2, requires_grad=True), jtorch.ones(2, requires_grad=True)
        f(w, v)
        assert w.grad is None and not w.requires_grad and v.grad.tolist() == [3.0, 3.0]
