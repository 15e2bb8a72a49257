"""Hooks on leaves, intermediates, nodes and accumulated gradients."""

from __future__ import annotations

import numpy as np
import pytest

import jtorch
from jtorch.eager.public import call_at_end, reached


def leaf(*values):
    return jtorch.tensor(values, dtype=jtorch.float64, requires_grad=True)


def test_leaf_hook_sees_the_whole_gradient_once():
    x = leaf(1.0)
    seen = []
    x.register_hook(lambda g: seen.append(g.item()))
    (x * 2 + x * 3).backward()
    assert seen == [5.0]


def test_hook_replaces_the_gradient():
    x = leaf(1.0)
    x.register_hook(lambda g: g * 10)
    (x * 2).backward()
    assert x.grad.item() == 20.0


def test_hook_on_an_intermediate():
    x = leaf(3.0)
    y = x * 2
    seen = []

    def double(g):
        seen.append(g.item())
        return g * 2

    handle = y.register_hook(double)
    (y * y).backward()
    assert (seen, x.grad.item()) == ([12.0], 48.0)
    handle.remove()
    x.grad = None
    y = x * 2
    (y * y).backward()
    assert x.grad.item() == 24.0


def test_what_a_hook_keeps_is_not_some_leafs_gradient():
    x = leaf(1.0, 2.0)
    kept = []
    x.register_hook(lambda g: kept.append(g))
    x.exp().sum().backward()
    x.grad.zero_()
    np.testing.assert_allclose(kept[0].numpy(), np.exp([1.0, 2.0]))


def test_handle_removes_in_a_with_block():
    x = leaf(1.0)
    with x.register_hook(lambda g: g * 0):
        (x * 2).backward()
    assert x.grad.item() == 0.0
    (x * 2).backward()
    assert x.grad.item() == 2.0


def test_node_hooks():
    x = leaf(3.0)
    y = x * x
    seen = []
    y.grad_fn.register_hook(lambda inputs, outputs: seen.append((inputs[0].item(), outputs[0].item())))
    y.grad_fn.register_prehook(lambda outputs: (outputs[0] * 2,))
    y.backward()
    assert seen == [(6.0, 2.0)]
    assert x.grad.item() == 12.0


def test_post_accumulate_hook_runs_after_grad_is_there():
    x = leaf(1.0)
    seen = []

    def step(p):
        seen.append(p.grad.item())
        p.grad = None

    x.register_post_accumulate_grad_hook(step)
    (x * 2 + x * 3).backward()
    assert (seen, x.grad) == ([5.0], None)


def test_post_accumulate_hook_may_change_the_gradient_in_place():
    x, y = leaf(1.0), leaf(1.0)

    def clear(p):
        p.grad.zero_()

    x.register_post_accumulate_grad_hook(clear)
    (x + y).backward()
    assert (x.grad.item(), y.grad.item()) == (0.0, 1.0)


def test_post_accumulate_hook_returns_nothing():
    torch = pytest.importorskip("torch")
    returned = {
        "the leaf": lambda p: p, "its gradient": lambda p: p.grad, "another": lambda p: p.detach(),
        "a number": lambda p: 3, "False": lambda p: False, "None": lambda p: None,
    }  # fmt: skip
    for name, hook in returned.items():
        ends = []
        for library in (torch, jtorch):
            x = library.ones(2, requires_grad=True)
            x.register_post_accumulate_grad_hook(hook)
            try:
                (x * 2).sum().backward()
                ends.append("none")
            except (TypeError, RuntimeError) as error:
                ends.append(f"{type(error).__name__}: {error}")
            assert x.grad.tolist() == [2.0, 2.0]
        assert ends[0] == ends[1], name


def test_hooks_need_a_gradient():
    with pytest.raises(RuntimeError, match="doesn't require gradient"):
        jtorch.ones(1).register_hook(lambda g: g)
    with pytest.raises(RuntimeError, match="non-leaf"):
        (leaf(1.0) * 2).register_post_accumulate_grad_hook(lambda p: None)


def test_retain_grad():
    x = leaf(3.0)
    y = x * 2
    y.retain_grad()
    (y * y).backward()
    assert y.grad.item() == 12.0


def test_hooks_work_with_create_graph():
    x = leaf(2.0)
    y = x * x
    y.register_hook(lambda g: g * 3)
    (g,) = jtorch.autograd.grad(y.sum(), x, create_graph=True)
    (second,) = jtorch.autograd.grad(g.sum(), x)
    assert (g.item(), second.item()) == (12.0, 6.0)


@pytest.mark.parametrize("how", ["sum", "mean", "expand"])
def test_a_retained_gradient_has_an_element_of_its_own_for_each_place(how: str) -> None:
    a = jtorch.ones(3, requires_grad=True)
    b = a * 2
    b.retain_grad()
    loss = {"sum": b.sum, "mean": lambda: b.mean() * 3, "expand": lambda: b.expand(1, 3).sum()}[how]()
    loss.backward()
    b.grad[0] = 5
    assert b.grad.tolist() == [5, 1, 1] and a.grad.tolist() == [2, 2, 2]


def test_a_retained_gradient_is_not_the_memory_of_another_gradient() -> None:
    a = jtorch.ones(2, requires_grad=True)
    b = a * 1
    c = b + 0
    b.retain_grad()
    c.retain_grad()
    c.backward(g := jtorch.tensor([1.0, 2.0]))
    b.grad.zero_()
    assert c.grad.tolist() == g.tolist() == a.grad.tolist() == [1, 2]


@pytest.mark.parametrize("as_inputs", [False, True])
def test_a_hook_may_ask_what_its_pass_leads_to_and_for_its_end(as_inputs):
    used, late, other = (jtorch.ones(2, requires_grad=True) for _ in range(3))
    seen = []

    def hook(leaf):
        seen.append([t is used or t is late for t in reached([used, other, late])])  # not the other
        call_at_end(lambda: seen.append([t.grad.tolist() for t in (used, late)]))

    used.register_post_accumulate_grad_hook(hook)
    (used * 3 + late * 2).sum().backward(inputs=[used, late] if as_inputs else None)
    assert seen == [[True, True], [[3.0, 3.0], [2.0, 2.0]]]
    assert reached([used]) == []


def _detached(L):
    """What hooks of a tensor see before and after it is taken off the tape, and of its handle."""
    seen = []
    x = L.ones(2, requires_grad=True)
    y = (x * L.tensor([[1.0], [3.0]])).unbind(0)[1] * 2
    first = x * 1
    y.register_hook(lambda g: seen.append(("first", g.tolist())))
    handle = y.register_hook(lambda g: g * 10)
    z = y.sum()
    y.detach_()
    z.backward()
    y.requires_grad_()
    (y * 5 + first).sum().backward()
    handle.remove()
    (y * 5).sum().backward()
    return seen, x.grad.tolist(), y.grad.tolist()


def test_hooks_stay_with_a_tensor_that_is_detached_in_place():
    expected = [("first", [1.0, 1.0]), ("first", [5.0, 5.0]), ("first", [5.0, 5.0])]
    assert _detached(jtorch) == (expected, [61.0, 61.0], [55.0, 55.0])
    torch = pytest.importorskip("torch")
    assert _detached(jtorch) == _detached(torch)


def test_a_hook_after_detach_in_place_is_called_last():
    x = jtorch.ones(2, requires_grad=True)
    y, seen = x * 2, []
    y.register_hook(lambda g: seen.append(1))
    y.retain_grad()
    y.detach_().requires_grad_()
    y.register_hook(lambda g: seen.append(2))
    y.sum().backward()
    assert (seen, y.grad.tolist(), x.grad) == ([1, 2], [1.0, 1.0], None)
