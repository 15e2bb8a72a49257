"""What retain_grad() keeps: of the tensor as it is in the end, whatever was written to it meanwhile."""

from __future__ import annotations

import pytest

import jtorch
from jtorch.errors import CompileError


def written(y):
    y.retain_grad()
    y.mul_(3)
    return y, y.sum()


def written_through_a_view(y):
    y.retain_grad()
    y[:2].mul_(3)
    return y, y.sum()


def written_often(y):
    y.retain_grad()
    y[:2].mul_(3)
    y.add_(1)
    y[3] = 0.0
    return y, (y * y).sum()


def emptied(y):
    y.retain_grad()
    y.zero_()
    return y, y.sum()


def copied_to(y):
    y.retain_grad()
    y.copy_(y * 2)
    return y, y.sum()


def used_before(y):
    y.retain_grad()
    z = y * 1
    y.mul_(3)
    return y, z.sum() + y.sum()


def a_view_that_is_written(y):
    v = y[:2]
    v.retain_grad()
    v.mul_(3)
    return v, y.sum()


def a_view_that_is_used(y):
    v = y[:2]
    v.retain_grad()
    v.mul_(3)
    return v, y.sum() + v.sum()


def a_view_whose_base_is_written(y):
    v = y[:2]
    v.retain_grad()
    y.mul_(3)
    return v, v.sum()


def a_view_whose_sister_is_written(y):
    v, w = y[:2], y[1:]
    v.retain_grad()
    w.mul_(3)
    return v, (v.sum() * 5)


def a_view_of_the_whole(y):
    v = y.view(2, 2)
    v.retain_grad()
    v.mul_(3)
    v.mul_(2)
    return v, v.sum()


def with_a_hook_that_comes_later(y):
    y.retain_grad()
    y.mul_(3)
    y.register_hook(lambda g: g * 10)
    return y, y.sum()


RIGHT = {  # what is kept, and what the leaf gets: PyTorch's
    written: ([1.0] * 4, [6.0] * 4),
    written_through_a_view: ([1.0] * 4, [6.0, 6.0, 2.0, 2.0]),
    written_often: ([14.0, 14.0, 6.0, 0.0], [84.0, 84.0, 12.0, 0.0]),
    emptied: ([1.0] * 4, [0.0] * 4),
    copied_to: ([1.0] * 4, [4.0] * 4),
    used_before: ([1.0] * 4, [8.0] * 4),
    a_view_that_is_written: (None, [6.0, 6.0, 2.0, 2.0]),
    a_view_that_is_used: ([1.0] * 2, [12.0, 12.0, 2.0, 2.0]),
    a_view_whose_base_is_written: ([1.0] * 2, [6.0, 6.0, 0.0, 0.0]),
    a_view_whose_sister_is_written: ([5.0] * 2, [10.0, 30.0, 0.0, 0.0]),
    a_view_of_the_whole: ([[1.0] * 2] * 2, [12.0] * 4),
    with_a_hook_that_comes_later: ([10.0] * 4, [60.0] * 4),
}


def check(program, x, kept, loss):
    def told(grad):
        return None if grad is None else grad.tolist()

    if loss is not None:
        assert kept.retains_grad and kept.requires_grad, program.__name__
        loss.backward()
    right, of_leaf = RIGHT[program]
    assert (told(kept.grad), told(x.grad)) == (right, of_leaf), program.__name__


def test_values_of_eager_mode():
    for program in RIGHT:
        x = jtorch.ones(4).requires_grad_()
        check(program, x, *program(x * 2))


def test_values_of_pytorch():
    torch = pytest.importorskip("torch")
    for program in RIGHT:
        x = torch.ones(4).requires_grad_()
        check(program, x, *program(x * 2))


@pytest.mark.slow
def test_compiled_with_backward_inside():
    for program in RIGHT:

        @jtorch.compile
        def step(x, program=program):
            kept, loss = program(x * 2)
            loss.backward()
            return kept.grad

        for _ in range(3):
            x = jtorch.ones(4).requires_grad_()
            grad = step(x)
            right, of_leaf = RIGHT[program]
            assert (None if grad is None else grad.tolist()) == right, program.__name__
            assert x.grad.tolist() == of_leaf, program.__name__


def test_compiled_with_backward_outside_it_is_refused():
    for program in (written, written_through_a_view):
        step = jtorch.compile(lambda x, program=program: program(x * 2))
        with pytest.raises(CompileError, match=r"test_retained.*retain_grad\(\) inside"):
            step(jtorch.ones(4).requires_grad_())


def test_a_tensor_in_another_shape():
    x = jtorch.ones(2, 3).requires_grad_()
    y = x * 2
    y.retain_grad()
    y.t_()
    (y * jtorch.arange(6.0).reshape(3, 2)).sum().backward()
    assert y.grad.tolist() == jtorch.arange(6.0).reshape(3, 2).tolist()
