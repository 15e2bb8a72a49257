"""Float arguments as exponents and probabilities: what the next value gives, with gradients."""

from __future__ import annotations

import math

import pytest

import jtorch

F = jtorch.nn.functional
VALUES = (2.0, 0.5, 1.0, 3.0, 0.25, 1.5, 0.0, -0.5, -1.0, 2.0)


def focal(x, a):
    target = jtorch.tensor([0, 2, 1])
    entropy = F.cross_entropy(x.outer(x), target, reduction="none")
    return ((1 - (-entropy).exp()) ** a * entropy).mean()


POWERS = {
    "x ** a": lambda x, a: x**a,
    "(x * a) ** a": lambda x, a: (x * (a + 2)) ** a,
    "pow": jtorch.pow,
    "pow_": lambda x, a: (x * 1).pow_(a),
    "float_power": lambda x, a: jtorch.float_power(x, a),
    "a ** x": lambda x, a: (a + 2) ** x,
    "lp_pool1d": lambda x, a: F.lp_pool1d(x[None, None], a * a + 1, 2),
    "focal loss": focal,
}


@pytest.mark.parametrize("name", POWERS)
def test_gradients_of_powers(name):
    def f(start, a):
        x = start.clone().requires_grad_()
        y = POWERS[name](x, a)
        y.sum().backward()
        return y.detach(), x.grad

    compiled = jtorch.compile(f)
    start = jtorch.tensor([1.0, 2.0, 4.0])
    for a in VALUES:
        for found, expected in zip(compiled(start, a), f(start, a), strict=True):
            assert jtorch.allclose(found, expected, equal_nan=True)


def test_an_exponent_that_changes_is_not_recorded_anew():
    def f(start, a):
        x = start.clone().requires_grad_()
        (x**a).sum().backward()
        return x.grad

    compiled = jtorch.compile(f)
    compiled(jtorch.ones(3), 2.5)
    with jtorch.testing.assert_no_retrace(compiled):
        for a in (0.7, -1.25, 3.5):
            assert jtorch.allclose(compiled(jtorch.ones(3) * 2, a), f(jtorch.ones(3) * 2, a))


def test_an_exponent_from_item():
    def f(start, t):
        x = start.clone().requires_grad_()
        (x ** t.item()).sum().backward()
        return x.grad

    compiled = jtorch.compile(f)
    for value in (2.0, 0.5, 3.0):
        t = jtorch.tensor(value)
        assert jtorch.allclose(compiled(jtorch.ones(3) * 2, t), f(jtorch.ones(3) * 2, t))


@pytest.mark.parametrize("dropout", [F.dropout, F.dropout1d, F.alpha_dropout])
def test_probabilities_up_to_one(dropout):
    compiled = jtorch.compile(lambda x, p: dropout(x, p))
    for p in (0.5, 1.0, 0.0, 0.3, 1.0):
        x = jtorch.ones(4, 3)
        jtorch.manual_seed(3)
        expected = dropout(x, p)
        jtorch.manual_seed(3)
        assert repr(compiled(x, p)) == repr(expected)
    assert dropout(jtorch.ones(2, 3), 1).tolist() == dropout(jtorch.ones(2, 3), 1.0).tolist()
    assert not math.isnan(dropout(jtorch.ones(2, 3), 1).sum().item())
