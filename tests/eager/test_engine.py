"""The backward engine: what gradients come out, what errors say, what is freed and what is shared."""

from __future__ import annotations

import gc
import weakref

import numpy as np
import pytest

import jtorch
from jtorch.autograd import grad
from tests.each import each
from tests.ops.support import HAS_TORCH, needs_torch

if HAS_TORCH:
    import torch


def leaf(*values, dtype=jtorch.float64):
    return jtorch.tensor(values, dtype=dtype, requires_grad=True)


# -- PyTorch's sentences ---------------------------------------------------------------------------


def test_second_backward_says_what_pytorch_says():
    x = leaf(1.0, 2.0)
    y = (x * x).sum()
    y.backward()
    with pytest.raises(RuntimeError) as caught:
        y.backward()
    assert str(caught.value) == (
        "Trying to backward through the graph a second time (or directly access saved tensors after they "
        "have already been freed). Saved intermediate values of the graph are freed when you call "
        ".backward() or autograd.grad(). Specify retain_graph=True if you need to backward through the "
        "graph a second time or if you need to access saved tensors after calling backward."
    )


def test_backward_of_many_elements_says_what_pytorch_says():
    with pytest.raises(RuntimeError, match=r"^grad can be implicitly created only for scalar outputs$"):
        (leaf(1.0, 2.0) * 2).backward()


def test_backward_without_requires_grad():
    message = r"^element 0 of tensors does not require grad and does not have a grad_fn$"
    with pytest.raises(RuntimeError, match=message):
        jtorch.ones(1).backward()


@needs_torch
def test_all_errors_equal_pytorchs():
    import torch

    programs = [
        lambda L, x: (x * x).backward(),
        lambda L, x: L.ones(()).backward(),
        lambda L, x: [y := (x * x).sum(), y.backward(), y.backward()],
        lambda L, x: x.exp().backward(L.ones(3)),
        lambda L, x: L.autograd.grad((x * 2).sum(), L.ones(2, requires_grad=True)),
        lambda L, x: L.autograd.grad(x.sum(), L.ones(2)),
        lambda L, x: x.sum().backward(inputs=[]),
        lambda L, x: x.add_(1),
        lambda L, x: x[0].add_(1),
        lambda L, x: [y := x.exp(), z := y.sum(), y.zero_(), z.backward()],
        lambda L, x: [w := L.ones(2), z := (x * w).sum(), w.add_(1), z.backward()],
        lambda L, x: (x * 2).requires_grad_(False),
        lambda L, x: L.ones(2).register_hook(lambda g: g),
        lambda L, x: x.numpy(),
        lambda L, x: x.item(),
        lambda L, x: bool(x),
        lambda L, x: L.ones(2, 3) @ L.ones(2, 3),
        lambda L, x: x + L.ones(3),
        lambda L, x: x.view(3),
        lambda L, x: x.reshape(2, 2),
        lambda L, x: x[5],
        lambda L, x: x[0, 0],
        lambda L, x: L.stack([x, L.ones(3)]),
        lambda L, x: L.cat([L.ones(2, 2), L.ones(3, 3)]),
        lambda L, x: x.sum(2),
        lambda L, x: L.ones(2, dtype=L.int64).requires_grad_(),
        lambda L, x: setattr(x, "grad", L.ones(3)),
        lambda L, x: x.expand(3),
        lambda L, x: L.ones(2, 3).t().view(6),
        lambda L, x: L.ones(2, 2).permute(0),
    ]
    for k, program in enumerate(programs):
        messages = []
        for library in (jtorch, torch):
            with pytest.raises((RuntimeError, IndexError, TypeError)) as caught:
                program(library, library.ones(2, requires_grad=True))
            messages.append(str(caught.value).splitlines()[0])
        ours, theirs = (m.replace("jtorch", "torch") for m in messages)
        assert ours == theirs, f"program {k}"


# -- what comes out --------------------------------------------------------------------------------


def test_gradients_accumulate_in_the_memory_of_the_first():
    x = leaf(1.0, 2.0)
    (x * 3).sum().backward()
    first = x.grad
    (x * 3).sum().backward()
    assert x.grad is first
    np.testing.assert_array_equal(first.numpy(), [6.0, 6.0])


def test_two_leaves_never_share_a_gradient():
    x, y = leaf(1.0), leaf(2.0)
    (x + y).sum().backward()
    assert not np.shares_memory(x.grad.numpy(), y.grad.numpy())


def test_given_gradient_is_not_taken_over():
    x = leaf(1.0, 2.0)
    given = jtorch.ones(2, dtype=jtorch.float64)
    x.clone().backward(given)
    assert not np.shares_memory(x.grad.numpy(), given.numpy())
    y = leaf(1.0, 2.0)
    y.backward(given)
    assert not np.shares_memory(y.grad.numpy(), given.numpy())


def test_sums_in_place_never_touch_what_another_branch_reads():
    # x's gradient is summed from three branches that all got the same array
    x, y = leaf(1.0, 2.0), leaf(3.0, 4.0)
    s = x + y
    (s + s * 2 + (s + x)).sum().backward()
    np.testing.assert_array_equal(x.grad.numpy(), [5.0, 5.0])
    np.testing.assert_array_equal(y.grad.numpy(), [4.0, 4.0])


def test_diamonds():
    x = leaf(2.0)
    y = x * x
    z = y * y + y
    (z * z).backward(jtorch.ones(1, dtype=jtorch.float64))
    # z = x^4 + x^2; d(z^2)/dx = 2 z (4 x^3 + 2 x)
    np.testing.assert_allclose(x.grad.numpy(), [2 * 20 * (32 + 4)])


def test_backward_of_a_leaf_and_of_several_roots():
    x = leaf(1.0)
    x.backward()
    assert x.grad.item() == 1.0
    y = x * 3
    jtorch.autograd.backward([y, y * 2], [jtorch.ones(1).double(), jtorch.ones(1).double()])
    assert x.grad.item() == 10.0


def test_broadcasting_is_undone():
    x, y = leaf(1.0, 2.0), jtorch.ones(3, 1, dtype=jtorch.float64, requires_grad=True)
    (x * y).sum().backward()
    assert (x.grad.tolist(), y.grad.tolist()) == ([3.0, 3.0], [[3.0], [3.0], [3.0]])


def test_dtypes_are_undone():
    x = leaf(1.0, dtype=jtorch.float32)
    (x * leaf(2.0)).sum().backward()
    assert x.grad.dtype is jtorch.float32


def test_gradient_of_zero_elements():
    x = jtorch.zeros(0, 3, requires_grad=True)
    x.exp().sum().backward()
    assert tuple(x.grad.shape) == (0, 3)


@pytest.mark.slow
def test_chain_of_100000_ops():
    x = leaf(1.0)
    y = x
    for _ in range(100_000):
        y = y + 1.0
    y.backward()
    assert x.grad.item() == 1.0


def test_tie_between_two_sums_over_a_shared_leaf():
    w = leaf(1.0, 2.0)
    total = w.sum()
    for _ in range(50):
        total = total + (w * w).sum()
    total.backward()
    np.testing.assert_allclose(w.grad.numpy(), 1 + 100 * np.array([1.0, 2.0]))


# -- autograd.grad ---------------------------------------------------------------------------------


def test_grad_touches_no_leaf():
    x, y = leaf(3.0), leaf(4.0)
    (gx,) = grad((x * y).sum(), x)
    assert (gx.item(), x.grad, y.grad) == (4.0, None, None)


def test_grad_runs_only_what_leads_to_the_inputs():
    x, y = leaf(3.0), leaf(4.0)
    calls = []
    side = y * 2
    side.grad_fn.register_prehook(lambda g: calls.append("side"))
    (gx,) = grad((x * side).sum(), x, retain_graph=True)
    assert (gx.item(), calls) == (8.0, [])
    middle = x * 5
    below = []
    middle.grad_fn.register_prehook(lambda g: below.append("middle"))
    (gm,) = grad((middle * side).sum(), middle)
    assert (gm.item(), below) == (8.0, ["middle"])  # reached, and not passed through


def test_grad_of_an_intermediate_and_its_leaf():
    x = leaf(3.0)
    y = x * x
    gx, gy = grad((y * y).sum(), [x, y])
    assert (gx.item(), gy.item()) == (108.0, 18.0)


def test_grad_of_unused_inputs():
    x, y = leaf(1.0), leaf(1.0)
    with pytest.raises(RuntimeError, match="appears to not have been used in the graph"):
        grad((x * 2).sum(), y)
    assert grad((x * 2).sum(), y, allow_unused=True) == (None,)
    (zero,) = grad((x * 2).sum(), y, allow_unused=True, materialize_grads=True)
    assert zero.tolist() == [0.0]


def test_higher_derivatives():
    x = leaf(2.0)
    y = x**4
    for expected in (32.0, 48.0, 48.0, 24.0):
        (y,) = grad(y.sum(), x, create_graph=True)
        assert y.item() == pytest.approx(expected)


def test_backward_with_create_graph_gives_a_gradient_with_a_tape():
    x = leaf(2.0)
    (x**3).sum().backward(create_graph=True)
    assert x.grad.requires_grad
    (second,) = grad(x.grad.sum(), x)
    assert second.item() == pytest.approx(12.0)


def test_backward_into_inputs_only():
    x, y = leaf(1.0), leaf(2.0)
    (x * y).sum().backward(inputs=[x])
    assert (x.grad.item(), y.grad) == (2.0, None)


def test_retain_graph():
    x = leaf(2.0)
    y = (x * x).sum()
    y.backward(retain_graph=True)
    y.backward()
    assert x.grad.item() == 8.0


# -- memory ----------------------------------------------------------------------------------------


def test_a_graph_nobody_holds_is_freed_at_once():
    gc.collect()
    gc.disable()
    try:
        x = leaf(1.0)
        y = (x * x).exp()
        node = weakref.ref(y.grad_fn)
        y.sum().backward()
        del y
        assert node() is None
    finally:
        gc.enable()


def test_what_was_saved_is_freed_by_backward():
    x = leaf(1.0)
    y = x * 2
    z = y * y
    array = weakref.ref(y.detach().numpy())
    del y
    assert array() is not None
    z.backward()
    assert array() is None


def _training_steps(count):
    w = jtorch.ones(8, 8, requires_grad=True)
    for _ in range(count):
        y = (w.t() @ w)[1:3].reshape(-1).tanh().sum()
        y.backward()
        with jtorch.no_grad():
            w -= 0.01 * w.grad
        w.grad = None
    return w


def _live_objects():
    gc.collect()
    return len(gc.get_objects())


def test_200_steps_leave_nothing_behind():
    _training_steps(100)
    before = _live_objects()
    w = _training_steps(200)
    assert _live_objects() - before < 100
    assert len(w._cell) < 100


@pytest.mark.soak
def test_10000_steps_leave_nothing_behind():
    _training_steps(100)
    before = _live_objects()
    _training_steps(10_000)
    assert _live_objects() - before < 100


# -- the tape as users see it ----------------------------------------------------------------------


def test_next_functions():
    x, y = leaf(1.0), jtorch.ones(1, dtype=jtorch.float64)
    z = (x * y).exp()
    assert z.grad_fn.name() == "ExpBackward0"
    ((mul, index),) = z.grad_fn.next_functions
    assert (mul.name(), index) == ("MulBackward0", 0)
    (first, second) = mul.next_functions
    assert first[0].name() == "AccumulateGrad"
    assert first[0].variable is x
    assert second == (None, 0)
    assert x.grad_fn is None
    assert x.is_leaf


@pytest.mark.parametrize("sum_or_product", [lambda y: 2 * y, lambda y: 2 + y, lambda y: y * 2])
def test_a_number_comes_second_from_either_side(sum_or_product):
    y = leaf(1.0).sin()
    assert sum_or_product(y).grad_fn.next_functions == ((y.grad_fn, 0), (None, 0))


def test_modes():
    x = leaf(1.0)
    with jtorch.no_grad():
        assert not (x * 2).requires_grad
        with jtorch.enable_grad():
            assert (x * 2).requires_grad
    with jtorch.set_grad_enabled(False):
        assert not (x * 2).requires_grad
    with jtorch.inference_mode():
        assert not (x * 2).requires_grad

    @jtorch.no_grad()
    def f(t):
        return t * 2

    assert not f(x).requires_grad
    assert (x * 2).requires_grad


def test_gradients_that_are_switched_on_in_inference_mode():
    for library in (pytest.importorskip("torch"), jtorch):
        w = library.ones(2, requires_grad=True)
        made = library.enable_grad()(lambda w=w: w * 2)
        with library.inference_mode():
            with library.enable_grad():
                assert library.is_grad_enabled() and library.is_inference_mode_enabled()
                y = w * 2
                assert not y.requires_grad and y.grad_fn is None
                assert not (library.ones(2, requires_grad=True) * 2).requires_grad
                w.mul_(2)  # a leaf, which nobody records
                with library.inference_mode(False):
                    assert (w * 2).requires_grad
            with library.set_grad_enabled(True):
                assert not library.cat([w, w]).requires_grad
            assert not made().requires_grad and not library.is_grad_enabled()
            with library.no_grad(), library.enable_grad():
                assert not (w * 2).requires_grad
        assert library.is_grad_enabled() and (w * 2).requires_grad


def test_detach_shares_memory_and_version():
    x = leaf(1.0, 2.0)
    d = x.detach()
    assert np.shares_memory(d.numpy(), x.detach().numpy())
    d.zero_()
    assert x._version == 1


def _with_another_shape(L, name, *args):
    """The gradient of a leaf that changes its shape between the forward and the backward pass."""
    w = L.ones(2, 3, requires_grad=True)
    y, z = w * 2, w * L.arange(6.0).reshape(2, 3)
    with L.no_grad():
        getattr(w, name)(*args)
    (y.sum() + z.sum() + (w * 3).sum()).backward()
    return tuple(w.shape), tuple(w.grad.shape), w.grad.flatten().tolist()


@each("name, args", [("unsqueeze_", (0,)), ("squeeze_", ())])
def test_a_leaf_may_get_another_dim_before_backward(name, args):
    shape = (1, 2, 3) if name == "unsqueeze_" else (2, 3)
    assert _with_another_shape(jtorch, name, *args) == (shape, shape, [5.0, 6.0, 7.0, 8.0, 9.0, 10.0])
    if HAS_TORCH:
        assert _with_another_shape(jtorch, name, *args) == _with_another_shape(torch, name, *args)


def test_a_leaf_that_was_turned_has_no_gradient_of_its_old_shape():
    with pytest.raises(RuntimeError, match=r"a gradient of shape \(2, 3\) for a tensor of shape \(3, 2\)"):
        _with_another_shape(jtorch, "t_")


def test_a_gradient_of_the_old_shape_is_added_to():
    w = jtorch.ones(3, requires_grad=True)
    (w * 2).sum().backward()
    y = w * 3
    with jtorch.no_grad():
        w.unsqueeze_(0)
    y.sum().backward()
    assert w.grad.tolist() == [[5.0] * 3]
