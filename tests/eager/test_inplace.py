"""In-place ops: they work, they alias, they bump versions, and autograd follows or refuses."""

from __future__ import annotations

import numpy as np
import pytest

import jtorch
from tests.ops.support import needs_torch

METHODS = {
    "add_": (lambda t, L: t.add_(2)),
    "sub_": (lambda t, L: t.sub_(L.ones(3))),
    "mul_": (lambda t, L: t.mul_(3)),
    "div_": (lambda t, L: t.div_(2)),
    "exp_": (lambda t, L: t.exp_()),
    "log_": (lambda t, L: t.log_()),
    "sqrt_": (lambda t, L: t.sqrt_()),
    "tanh_": (lambda t, L: t.tanh_()),
    "sigmoid_": (lambda t, L: t.sigmoid_()),
    "relu_": (lambda t, L: t.relu_()),
    "neg_": (lambda t, L: t.neg_()),
    "pow_": (lambda t, L: t.pow_(2)),
    "zero_": (lambda t, L: t.zero_()),
    "fill_": (lambda t, L: t.fill_(7)),
    "abs_": (lambda t, L: t.abs_()),
    "copy_": (lambda t, L: t.copy_(L.ones(1))),
    "rsqrt_": (lambda t, L: t.rsqrt_()),
}


@pytest.mark.parametrize("name", METHODS)
def test_writes_into_the_same_memory_and_bumps_the_version(name):
    t = jtorch.tensor([0.5, 1.0, 2.0])
    view, address = t[1:], t.data_ptr()
    assert METHODS[name](t, jtorch) is t
    assert (t.data_ptr(), t._version, view._version) == (address, 1, 1)
    np.testing.assert_array_equal(view.numpy(), t.numpy()[1:])


@needs_torch
@pytest.mark.parametrize("name", METHODS)
def test_values_and_gradients_equal_pytorchs(name):
    import torch

    grads = []
    for L in (jtorch, torch):
        x = L.tensor([0.5, 1.0, 2.0], dtype=L.float64, requires_grad=True)
        y = x * 2
        METHODS[name](y, L)
        (y * y).sum().backward()
        grads.append((y.detach().numpy(), x.grad.numpy()))
    np.testing.assert_allclose(grads[0][0], grads[1][0], rtol=1e-6)
    np.testing.assert_allclose(grads[0][1], grads[1][1], rtol=1e-5)


def test_operators():
    t = jtorch.tensor([1.0, 2.0])
    same = t
    t += 1
    t *= 2
    t -= jtorch.ones(2)
    t /= 3
    assert t is same
    np.testing.assert_allclose(t.numpy(), [1.0, 5 / 3])


def test_numpy_memory_is_shared():
    array = np.zeros(3, np.float32)
    t = jtorch.from_numpy(array)
    t.add_(1)
    assert array.tolist() == [1, 1, 1]
    array[0] = 9
    assert t[0].item() == 9
    assert np.shares_memory(t.numpy(), array)


def test_leaf_that_requires_grad_is_refused():
    x = jtorch.ones(2, requires_grad=True)
    with pytest.raises(RuntimeError, match="a leaf Variable that requires grad is being used in an in-place"):
        x += 1
    with jtorch.no_grad():
        x += 1
    assert x.tolist() == [2, 2]
    assert x.is_leaf


def test_result_must_fit():
    with pytest.raises(
        RuntimeError, match=r"output with shape \[2\] doesn't match the broadcast shape \[3, 2\]"
    ):
        jtorch.ones(2).add_(jtorch.ones(3, 1))
    with pytest.raises(RuntimeError, match="result type Float can't be cast to the desired output type Long"):
        jtorch.ones(2, dtype=jtorch.int64).add_(0.5)
    assert jtorch.ones(2).add_(1).dtype is jtorch.float32


def test_a_copy_of_the_target_is_read_before_it_is_written():
    u = jtorch.arange(4).float()
    u.copy_(u.flip(0))
    assert u.tolist() == [3, 2, 1, 0]


def test_operand_that_is_the_target_is_an_error_as_in_pytorch():
    x = jtorch.tensor([1.0, 2.0], requires_grad=True)
    y = x * 3
    y.mul_(y)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        y.sum().backward()


def test_overwriting_keeps_the_tape():
    x, source = jtorch.ones(2, requires_grad=True), jtorch.ones(2, requires_grad=True)
    y = x * 2
    y.copy_(source * 3)
    y.sum().backward()
    assert (x.grad.tolist(), source.grad.tolist()) == ([0, 0], [3, 3])
    fresh = jtorch.zeros(2)
    fresh.copy_(source * 3)
    assert fresh.requires_grad
