"""What a user sees where a result's graph has been used up inside the compiled function."""

from __future__ import annotations

import pytest

import jtorch


def test_a_graph_that_was_used_inside_says_so():
    w = jtorch.ones(2, requires_grad=True)

    @jtorch.compile
    def step(x):
        w.grad = None
        loss = (x * w).sum()
        loss.backward()
        return loss

    loss = step(jtorch.ones(2))
    assert str(loss) == "tensor(2., grad_fn=<UsedGraph>)"
    assert repr(loss.grad_fn) == "<UsedGraph: backward() has been through it, in the compiled function>"
    with pytest.raises(RuntimeError, match="a second time"):
        loss.backward()
