"""Views of a gradient that a compiled function returns or keeps show the memory of that gradient."""

from __future__ import annotations

import pytest

import jtorch
from jtorch.errors import CompileError

VIEWS = [
    lambda g: g.view(-1),
    lambda g: g[:1],
    lambda g: g.detach(),
    lambda g: g.data,
    lambda g: g.unsqueeze(0),
    lambda g: (g[1:], g, g.sum())[0],
]


def test_a_view_of_a_gradient_is_no_copy():
    for view in VIEWS:
        weight = jtorch.ones(2).requires_grad_()

        @jtorch.compile
        def step(x, view=view, weight=weight):
            weight.grad = None
            (weight * x).sum().backward()
            return view(weight.grad)

        for k in range(1, 4):
            shown = step(jtorch.ones(2) * k)
            shown.add_(1)
            assert view(weight.grad).tolist() == shown.tolist() and shown.max().item() == k + 1
            weight.grad.mul_(3)
            assert shown.max().item() == 3 * (k + 1)


def test_of_an_argument_and_of_a_gradient_that_is_only_read():
    @jtorch.compile
    def of_argument(x):
        (x * x).sum().backward()
        return x.grad[0], [x.grad.detach()]

    for _ in range(3):
        x = jtorch.ones(2).requires_grad_()
        first, (whole,) = of_argument(x)
        first.add_(5)
        assert x.grad.tolist() == whole.tolist() == [7.0, 2.0]

    weight = jtorch.ones(2).requires_grad_()
    weight.grad = jtorch.zeros(2)
    read = jtorch.compile(lambda x: weight.grad.view(-1))
    for k in range(1, 4):
        read(jtorch.ones(1)).add_(1)
        assert weight.grad.tolist() == [float(k)] * 2


def test_one_that_is_kept_and_used_while_the_gradient_changes_is_refused():
    weight, kept = jtorch.tensor([1.0, 2.0]).requires_grad_(), {"before": None}

    @jtorch.compile
    def step(x):
        if weight.grad is not None:
            weight.grad.zero_()
        (weight * x).sum().backward()
        product = (weight.grad * kept["before"]).sum() if kept["before"] is not None else jtorch.zeros(())
        kept["before"] = weight.grad.detach()
        return product

    step(jtorch.tensor([1.0, 3.0]))
    assert kept["before"].tolist() == [1.0, 3.0]
    with pytest.raises(CompileError, match=r"test_views_of_gradients.*memory it uses under another name"):
        step(jtorch.tensor([2.0, 3.0]))
