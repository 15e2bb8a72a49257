"""``torch.cond`` and ``torch.while_loop`` against PyTorch, and in compiled functions."""

from __future__ import annotations

import numpy as np
import pytest

import jtorch
from tests.each import each


def _branch(x):
    return jtorch.cond(x.sum() > 0, lambda x, y: x + y, lambda x, y: x - y, (x, x * 2))


def _halved(x):
    return jtorch.while_loop(
        lambda x, k: x.abs().max() > 1, lambda x, k: (x / 2, k + 1), (x, jtorch.tensor(0))
    )


def test_the_branch_that_holds_runs():
    for sign in (1.0, -1.0):
        x = jtorch.tensor([sign, sign], requires_grad=True)
        out = _branch(x)
        out.sum().backward()
        assert out.tolist() == ([3.0, 3.0] if sign > 0 else [1.0, 1.0])
        assert x.grad.tolist() == ([3.0, 3.0] if sign > 0 else [-1.0, -1.0])
    assert jtorch.cond(True, lambda: jtorch.ones(1), lambda: jtorch.zeros(1)).item() == 1


def test_steps_go_on_while_the_condition_holds():
    x, steps = _halved(jtorch.tensor([5.0, -3.0]))
    assert (x.tolist(), steps.item()) == ([0.625, -0.375], 3)
    assert _halved(jtorch.tensor([0.5]))[1].item() == 0


def test_compiled_equals_eager():
    branch, halved = jtorch.compile(_branch), jtorch.compile(_halved)
    for value in (2.0, -6.0, 0.5):
        x = jtorch.tensor([value, value])
        np.testing.assert_array_equal(branch(x).numpy(), _branch(x).numpy())
        for ours, expected in zip(halved(x), _halved(x), strict=True):
            np.testing.assert_array_equal(ours.numpy(), expected.numpy())


BAD = {
    "branches to be callable": lambda: jtorch.cond(True, 1, 2),
    "pred to be bool": lambda: jtorch.cond(jtorch.ones(2), abs, abs, (1,)),
    "operands to be a tuple": lambda: jtorch.cond(True, abs, abs, 1),
    "cond_fn to be callable": lambda: jtorch.while_loop(1, abs, (1,)),
    "body_fn to be callable": lambda: jtorch.while_loop(abs, 1, (1,)),
    "carried_inputs to be a tuple": lambda: jtorch.while_loop(abs, abs, 1),
}


@each("words", BAD)
def test_refuses(words):
    with pytest.raises(RuntimeError, match=words):
        BAD[words]()
