"""Module hooks: order, what they may change, and gradients as PyTorch's hooks see them."""

from __future__ import annotations

import numpy as np
import pytest

import jtorch
from jtorch import nn
from tests.ops.support import HAS_TORCH, needs_torch

if HAS_TORCH:
    import torch


def test_forward_hooks_run_in_order_and_may_replace():
    seen = []
    layer = nn.ReLU()
    layer.register_forward_pre_hook(lambda m, args: seen.append("pre") or (args[0] + 1,))
    layer.register_forward_hook(lambda m, args, out: seen.append(("post", args[0].item())) or out * 10)
    layer.register_forward_hook(lambda m, args, out: seen.append("first"), prepend=True)
    assert layer(jtorch.tensor(2.0)).item() == 30.0
    assert seen == ["pre", "first", ("post", 3.0)]


def test_a_pre_hook_may_return_one_value():
    layer = nn.ReLU()
    layer.register_forward_pre_hook(lambda m, args: -args[0])
    assert layer(jtorch.tensor(-2.0)).item() == 2.0


def test_hooks_with_keyword_arguments():
    class Scale(nn.Module):
        def forward(self, x, by=1.0):
            return x * by

    layer = Scale()
    layer.register_forward_pre_hook(lambda m, a, k: (a, {"by": k["by"] + 1}), with_kwargs=True)
    layer.register_forward_hook(lambda m, a, k, out: out + k["by"], with_kwargs=True)
    assert layer(jtorch.tensor(2.0), by=2.0).item() == 9.0
    layer.register_forward_pre_hook(lambda m, a, k: 3, with_kwargs=True)
    with pytest.raises(RuntimeError, match="must return None or a tuple of"):
        layer(jtorch.tensor(2.0), by=2.0)


def test_a_handle_removes_its_hook():
    layer = nn.ReLU()
    with layer.register_forward_hook(lambda m, a, out: out + 1):
        assert layer(jtorch.tensor(1.0)).item() == 2.0
    assert layer(jtorch.tensor(1.0)).item() == 1.0


def seen_gradients(lib, input_needs_grad):
    """(grad_input, grad_output) that hooks saw, and the gradients after them."""
    net = lib.nn.Sequential(lib.nn.Linear(3, 2), lib.nn.Tanh())
    with lib.no_grad():
        net[0].weight.copy_(lib.tensor([[0.1, -0.2, 0.3], [0.4, 0.5, -0.6]]))
        net[0].bias.copy_(lib.tensor([0.1, -0.1]))
    seen = []
    net[0].register_full_backward_hook(lambda m, gi, go: seen.append((gi, go)))
    net[1].register_full_backward_pre_hook(lambda m, go: (go[0] * 2,))
    x = lib.tensor([[1.0, 2.0, 3.0]], requires_grad=input_needs_grad)
    out = net(x)
    (out * out).sum().backward()
    flat = [None if t is None else t.detach().numpy() for pair in seen for part in pair for t in part]
    return len(seen), [*flat, net[0].weight.grad.numpy()], x.grad


@pytest.mark.filterwarnings("ignore:Full backward hook is firing:UserWarning")  # PyTorch's
@pytest.mark.parametrize("input_needs_grad", [True, False])
def test_full_backward_hooks_equal_pytorch(torch, input_needs_grad):
    count, ours, gx = seen_gradients(jtorch, input_needs_grad)
    expected_count, theirs, expected_gx = seen_gradients(torch, input_needs_grad)
    assert count == expected_count == 1
    for a, b in zip(ours, theirs, strict=True):
        assert (a is None) == (b is None)
        if a is not None:
            np.testing.assert_allclose(a, b, rtol=1e-5)
    if input_needs_grad:
        np.testing.assert_allclose(gx.numpy(), expected_gx.numpy(), rtol=1e-5)


def test_a_backward_hook_replaces_the_input_gradient():
    layer = nn.Tanh()
    layer.register_full_backward_hook(lambda m, gi, go: (gi[0] * 0 + 5.0,))
    x = jtorch.zeros(2, requires_grad=True)
    layer(x).sum().backward()
    assert x.grad.tolist() == [5.0, 5.0]


def test_backward_hooks_of_several_inputs_and_outputs():
    class Both(nn.Module):
        def forward(self, x, y, n):
            return x * y, x + n

    seen = []
    layer = Both()
    layer.register_full_backward_hook(lambda m, gi, go: seen.append((gi, go)))
    x, y = jtorch.tensor(2.0, requires_grad=True), jtorch.tensor(3.0, requires_grad=True)
    a, b = layer(x, y, 1)
    (a + 10 * b).backward()
    (grad_input, grad_output) = seen[0]
    assert [g if g is None else g.item() for g in grad_input] == [13.0, 2.0, None]
    assert [g.item() for g in grad_output] == [1.0, 10.0]
    assert (x.grad.item(), y.grad.item()) == (13.0, 2.0)
    assert a.grad_fn.name() == "BackwardHookFunctionBackward"


def test_a_backward_hook_must_return_as_many():
    layer = nn.Tanh()
    layer.register_full_backward_hook(lambda m, gi, go: (gi[0], gi[0]))
    x = jtorch.zeros(2, requires_grad=True)
    with pytest.raises(RuntimeError, match="invalid number of grad_input, got 2, but expected 1"):
        layer(x).sum().backward()


def test_hooks_under_no_grad_and_create_graph():
    layer = nn.Tanh()
    seen = []
    layer.register_full_backward_hook(lambda m, gi, go: seen.append(1))
    with jtorch.no_grad():
        layer(jtorch.zeros(1, requires_grad=True))
    assert not seen
    x = jtorch.tensor([0.3], requires_grad=True)
    (g,) = jtorch.autograd.grad(layer(x).sum(), x, create_graph=True)
    (second,) = jtorch.autograd.grad(g.sum(), x)
    t = np.tanh(0.3)
    assert second.item() == pytest.approx(-2 * t * (1 - t * t), rel=1e-5)
    assert seen


# -- backward hooks of the older kind ------------------------------------------------------------------

OLDER = {
    "linear": (lambda L: L.nn.Linear(3, 4), [(2, 3)], True),
    "linear without bias": (lambda L: L.nn.Linear(3, 4, bias=False), [(2, 3)], True),
    "linear of data": (lambda L: L.nn.Linear(3, 4), [(2, 3)], False),
    "linear of data without bias": (lambda L: L.nn.Linear(3, 4, bias=False), [(2, 3)], False),
    "relu": (lambda L: L.nn.ReLU(), [(2, 3)], True),
    "convolution": (lambda L: L.nn.Conv2d(3, 4, 2), [(2, 3, 5, 5)], True),
    "convolution without bias": (lambda L: L.nn.Conv2d(3, 4, 2, bias=False), [(2, 3, 5, 5)], True),
    "sequential": (lambda L: L.nn.Sequential(L.nn.Linear(3, 4), L.nn.ReLU()), [(2, 3)], True),
    "loss": (lambda L: L.nn.MSELoss(), [(2, 3), (2, 3)], True),
}


@needs_torch
@pytest.mark.filterwarnings("ignore:Using a non-full backward hook:FutureWarning")
@pytest.mark.parametrize("name", OLDER)
def test_older_backward_hooks_see_the_last_op_as_in_pytorch(name):
    make, shapes, requires_grad = OLDER[name]

    def seen(L):
        found = []
        module = make(L)
        for p in module.parameters():
            p.data.fill_(0.5)
        module.register_backward_hook(lambda m, inputs, outputs: found.extend((m is module, inputs, outputs)))
        xs = [L.arange(1.0, 1 + np.prod(s)).reshape(s) * (k + 1) for k, s in enumerate(shapes)]
        (module(*(x.requires_grad_(requires_grad) for x in xs)) ** 2).sum().backward()
        same, *gradients = found
        assert same
        return [[None if g is None else g.numpy() for g in part] for part in gradients]

    for ours, theirs in zip(seen(jtorch), seen(torch), strict=True):
        assert [g is None for g in ours] == [g is None for g in theirs]
        for a, b in zip(ours, theirs, strict=True):
            if a is not None:
                np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-4)


def test_older_backward_hooks_may_give_other_gradients():
    for bias in (True, False):
        layer, x = nn.Linear(2, 1, bias=bias), jtorch.ones(3, 2, requires_grad=True)
        layer.register_backward_hook(lambda m, inputs, outputs: tuple(10 * g for g in inputs))
        layer(x).sum().backward()
        assert layer.weight.grad.tolist() == [[30, 30]]
        assert jtorch.equal(x.grad, 10 * layer.weight.detach().expand(3, 2))
        assert not bias or layer.bias.grad.tolist() == [30]


@pytest.mark.parametrize("older_first", [True, False])
def test_one_module_takes_one_kind_of_backward_hooks(older_first):
    layer = nn.Linear(2, 1)
    first, second = layer.register_backward_hook, layer.register_full_backward_hook
    if not older_first:
        first, second = second, first
    handle = first(lambda *arguments: None)
    for _ in range(2):
        with pytest.raises(RuntimeError, match="Cannot use both regular backward hooks and full"):
            second(lambda *arguments: None)
        handle.remove()  # as PyTorch, which remembers the kind
    layer.register_full_backward_pre_hook(lambda *arguments: None)


def test_a_hook_may_return_none_for_all_gradients_where_no_input_waits_for_one():
    module = nn.Linear(2, 2)
    handle = module.register_full_backward_hook(lambda module, grad_input, grad_output: grad_input)
    module(jtorch.ones(1, 2)).sum().backward()
    assert module.weight.grad.tolist() == [[1, 1], [1, 1]]
    handle.remove()
    module.register_full_backward_hook(lambda module, grad_input, grad_output: (jtorch.ones(1, 2),))
    with pytest.raises(RuntimeError, match="should always return None or None for all gradients"):
        module(jtorch.ones(1, 2)).sum().backward()
