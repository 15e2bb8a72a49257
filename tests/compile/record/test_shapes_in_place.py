"""``t_()`` and its like change the shape of a very tensor: also of one that the function made over the memory
of its argument. Of a tensor from outside they are refused, with the line."""

from __future__ import annotations

import pytest

import jtorch
from jtorch.core.errors import CompileError


def transposed(x):
    y = x.detach()
    y.t_()
    z = y * 2
    y.mul_(3.0)
    return z, y + 0


def renamed_and_written(x):
    y = x.detach()
    y.unsqueeze_(0)
    y.squeeze_(0)
    y.swapaxes_(0, 1)
    y[0] = 7.0
    return y * 1, x * 1


def other_memory(x):
    y = x.detach()
    y.data = jtorch.zeros(3)
    y.add_(1.0)
    return y * 1, x * 1


def returned(x):
    y = x.detach()
    y.transpose_(0, 1)
    return y, y.sum()


def test_a_tensor_over_the_memory_of_an_argument():
    for function in (transposed, renamed_and_written, other_memory, returned):
        compiled = jtorch.compile(function, mode="interpret")
        for _ in range(2):
            outcomes = []
            for run in (function, compiled):
                x = jtorch.arange(6.0).reshape(2, 3)
                outcomes.append(([t.tolist() for t in run(x)], x.tolist(), x.shape))
            assert outcomes[0] == outcomes[1], function.__name__


def test_a_tensor_from_outside_is_refused_and_stays_as_it_was():
    captured, parameter = jtorch.ones(2, 3), jtorch.nn.Parameter(jtorch.ones(2, 3))

    def of_a_leaf(x):
        y = x.detach().requires_grad_()
        with jtorch.no_grad():
            y.t_()
        return y * 1

    def of_a_parameter(x):
        with jtorch.no_grad():
            parameter.t_()
        return parameter * x

    for function in (
        lambda x: x.t_() * 1,
        lambda x: x.unsqueeze_(0) * 1,
        lambda x: captured.transpose_(0, 1) * 1,
        of_a_leaf,
        of_a_parameter,
    ):
        x = jtorch.ones(2, 3)
        with pytest.raises(CompileError, match=r"test_shapes_in_place.py:\d+"):
            jtorch.compile(function)(x)
        assert x.shape == captured.shape == parameter.shape == (2, 3)


def test_a_tensor_that_begins_inside_gets_another_shape_alone():
    captured = jtorch.arange(6.0).reshape(2, 3)

    @jtorch.compile
    def f(x):
        turned = captured.detach().swapdims_(0, 1)
        return turned * x, turned

    for k in range(1, 4):
        scaled, turned = f(jtorch.ones(2) * k)
        assert captured.shape == (2, 3) and turned.shape == (3, 2)
        assert scaled.tolist() == [[0.0, 3.0 * k], [1.0 * k, 4.0 * k], [2.0 * k, 5.0 * k]]
        turned[0, 0] += 1.0
        assert captured[0, 0].item() == 1.0
        turned[0, 0] -= 1.0
