"""Hooks on saved tensors: what they see, when they run, and that gradients are the same."""

from __future__ import annotations

import gc
import weakref

import numpy as np
import pytest

import jtorch
from jtorch.autograd import Function, gradcheck, gradgradcheck
from jtorch.autograd.graph import disable_saved_tensors_hooks, save_on_cpu, saved_tensors_hooks
from jtorch.eager.saved_hooks import DECLINED
from jtorch.eager.unusual import WATCHERS


def leaf(*values):
    return jtorch.tensor(values, dtype=jtorch.float64, requires_grad=True)


def as_arrays():
    return saved_tensors_hooks(lambda t: t.numpy().copy(), lambda a: jtorch.tensor(a, dtype=jtorch.float64))


class Product(Function):
    @staticmethod
    def forward(ctx, x, y):
        z = x * y
        ctx.save_for_backward(x, y, z, None)
        return z

    @staticmethod
    def backward(ctx, g):
        x, y, _, nothing = ctx.saved_tensors
        assert nothing is None
        return g * y, g * x


FUNCTIONS = {
    "products": lambda x, y: (x * y).exp() / y,
    "reductions": lambda x, y: jtorch.softmax(x * y, 0) * y.sum(),
    "matrices": lambda x, y: x.reshape(3, 1) @ y.reshape(1, 3),
    "joined": lambda x, y: jtorch.cat([x * x, y]) ** 2,
    "custom": lambda x, y: Product.apply(x, y) * x,
    "indexed": lambda x, y: (x[1:] * y[:-1]).prod(),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_gradients_are_the_same(name):
    def packed(x, y):
        with as_arrays():
            return FUNCTIONS[name](x, y)

    x, y = leaf(0.5, -1.2, 2.0), leaf(1.5, 0.3, -0.7)
    assert gradcheck(packed, (x, y))
    assert gradgradcheck(packed, (x, y))


def test_hooks_run_when_pytorch_runs_them():
    torch = pytest.importorskip("torch")
    logs = []
    for library in (torch, jtorch):
        log = []
        x = library.tensor([1.0, 2.0], dtype=library.float64, requires_grad=True)

        def pack(t, log=log):
            log.append(("pack", np.round(t.tolist(), 12).tolist()))
            return t

        def unpack(t, log=log):
            log.append(("unpack", np.round(t.tolist(), 12).tolist()))
            return t

        with library.autograd.graph.saved_tensors_hooks(pack, unpack):
            y = x.exp()
            z = y * y
        z.sum().backward(retain_graph=True)
        z.sum().backward()
        logs.append(log)
    assert logs[1] == logs[0]


def test_innermost_hooks_count():
    x, seen = leaf(1.0), []
    with saved_tensors_hooks(lambda t: seen.append("outer") or t, lambda t: t):
        with saved_tensors_hooks(lambda t: seen.append("inner") or t, lambda t: t):
            x.exp()
        x.exp()
    x.exp()
    assert seen == ["inner", "outer"]
    assert all(w.__name__ != "_pack_node" for w in WATCHERS)


def test_memory_is_the_hooks_business():
    x = leaf(*range(5))
    ones = saved_tensors_hooks(
        lambda t: tuple(t.shape), lambda shape: jtorch.ones(shape, dtype=jtorch.float64)
    )
    with ones:
        y = x.exp()
        z = y * y
    alive = weakref.ref(y._data)
    del y
    gc.collect()
    assert alive() is None
    z.sum().backward()  # 1 * 1 + 1 * 1 for every element, times a saved exp of 1
    assert x.grad.tolist() == [2.0] * 5


def test_second_backward_is_an_error():
    x = leaf(1.0)
    with as_arrays():
        y = x.exp()
    y.backward()
    with pytest.raises(RuntimeError, match="Trying to backward through the graph a second time"):
        y.backward()


def test_pack_must_not_write():
    x = leaf(1.0)
    expected = pytest.raises(RuntimeError, match="pack hook is modifying its input in place")
    with saved_tensors_hooks(lambda t: t.add_(1), lambda t: t), expected:
        x.exp()


def test_unpack_must_give_a_tensor():
    x = leaf(1.0)
    with saved_tensors_hooks(lambda t: t, lambda t: 3):
        y = x.exp()
    with pytest.raises(TypeError, match="unpack_hook expected to be a Tensor but got result of type"):
        y.backward()


def test_disabled():
    expected = pytest.raises(RuntimeError, match="no hooks here")
    with disable_saved_tensors_hooks("no hooks here"), expected, save_on_cpu():
        pass
    with save_on_cpu(), expected, disable_saved_tensors_hooks("no hooks here"):
        pass


def test_complex_results():
    x = jtorch.tensor([1.0 + 2.0j, 0.5 - 1.0j], dtype=jtorch.complex128, requires_grad=True)
    grads = []
    for hooks in (save_on_cpu(), None):
        if hooks is None:
            y = (x * x).exp()
        else:
            with hooks:
                y = (x * x).exp()
        (g,) = jtorch.autograd.grad(y.abs().sum(), x)
        grads.append(g.numpy())
    np.testing.assert_allclose(grads[0], grads[1])


def test_in_a_compiled_step():
    def step(x):
        with saved_tensors_hooks(lambda t: t * 2, lambda t: t / 2):
            y = (x * x).exp().sum()
        (g,) = jtorch.autograd.grad(y, x)
        return g

    x = leaf(0.3, -0.7)
    np.testing.assert_allclose(jtorch.compile(step)(x).numpy(), step(x).numpy(), rtol=1e-12)


def test_what_hooks_decline_goes_to_those_around_or_stays_watched():
    def only(shape, log):
        def pack(t):
            if tuple(t.shape) != shape:
                return DECLINED
            log.append(shape)
            return t.numpy().copy()

        return saved_tensors_hooks(pack, lambda a: jtorch.tensor(a, dtype=jtorch.float64))

    inner, outer = [], []
    x, y, z = leaf(1.0, 2.0), leaf(3.0), leaf(4.0, 5.0, 6.0)
    with only((2,), outer), only((1,), inner):
        products = x * y, z * y
    assert inner == [(1,), (1,)] and outer == [(2,)]
    sum(p.sum() for p in products).backward()
    assert (x.grad.tolist(), y.grad.tolist(), z.grad.tolist()) == ([3, 3], [18], [3, 3, 3])
    with only((1,), inner):
        kept = z * 2
        product = kept * y
    kept.add_(1.0)
    with pytest.raises(RuntimeError, match=r"DoubleTensor \[3\]\].* is at version 1; expected version 0"):
        product.sum().backward()
    with only((7,), inner):
        joined = jtorch.cat([x, z]) * jtorch.cat([x, z])
    assert "Packed" not in str(joined.grad_fn.saved)
