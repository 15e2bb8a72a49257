"""The engine's loops in machine code go the way that those in Python go."""

from __future__ import annotations

import gc
import random
import sys

import numpy as np
import pytest

import jtorch
from jtorch.autograd import Function
from jtorch.core.op import BY_NAME, TABLE
from jtorch.eager import engine, passes, shortcuts
from jtorch.eager.binding import APPLY
from jtorch.eager.node import GRADIENTS, node_class
from tests.machine_code import needs_machine_code

pytestmark = needs_machine_code


class Doubled(Function):
    @staticmethod
    def forward(ctx, x):
        return x * 2

    @staticmethod
    def backward(ctx, g):
        return g * 2


BINARY = [
    lambda a, b: a * b, lambda a, b: a + b, lambda a, b: a - b, lambda a, b: a @ b.t().to(a.dtype),
    lambda a, b: jtorch.maximum(a, b), lambda a, b: jtorch.cat([a, b])[:3], lambda a, b: a * b[0],
    lambda a, b: a + b.sum(), lambda a, b: a.double() * b, lambda a, b: a * b.detach(),
    lambda a, b: jtorch.where(a > 0, a, b.to(a.dtype)),
]  # fmt: skip
UNARY = [
    lambda a: a.tanh(), lambda a: a.exp().clamp(max=9), lambda a: a.t(), lambda a: a.reshape(9).reshape(3, 3),
    lambda a: a.max(0).values + a, lambda a: jtorch.var_mean(a)[0] * a,
    lambda a: a.float(), lambda a: a.softmax(1), Doubled.apply, lambda a: a[[0, 2, 1]],
    lambda a: a.mean() + a, lambda a: a.sort(0)[0], lambda a: a.cumsum(1), lambda a: a * 0.5, lambda a: 2 - a,
]  # fmt: skip


def _program(seed, hooks):
    """Gradients, and what hooks saw, of a random graph."""
    rng, seen = random.Random(seed), []
    data = np.random.default_rng(seed)
    leaves = [jtorch.tensor(data.uniform(-1, 1, (3, 3)), requires_grad=rng.random() < 0.8) for _ in range(3)]
    leaves[0].requires_grad_()
    values = list(leaves)
    for _ in range(rng.randrange(4, 16)):
        if rng.random() < 0.5:
            made = rng.choice(UNARY)(rng.choice(values))
        else:
            made = rng.choice(BINARY)(rng.choice(values), rng.choice(values))
        if hooks and made.requires_grad and rng.random() < 0.3:
            made.register_hook(lambda g: seen.append(g.tolist()))
        values.append(made)
    total = sum((v.double() * (k + 1)).sum() for k, v in enumerate(values) if v.shape == (3, 3))
    total = total + leaves[0].sum()
    total.backward(retain_graph=True)
    total.backward()
    return [None if v.grad is None else v.grad.numpy().tobytes() for v in leaves], seen


@pytest.mark.parametrize("hooks", [False, True])
@pytest.mark.parametrize("seed", range(150))
def test_random_graphs(seed, hooks, monkeypatch):
    native = _program(seed, hooks)
    monkeypatch.setattr(engine, "_loops", lambda: (passes.count_edges, passes.propagate))
    assert native == _program(seed, hooks)


def _counted(monkeypatch):
    """How often each loop gives something to Python."""
    count, propagate = shortcuts.engine_loops()
    visits = []

    def noting(*arguments):
        slot = propagate(*arguments)
        visits.append(slot)
        return slot

    monkeypatch.setattr(engine, "_loops", lambda: (count, noting))
    return visits


def test_plain_nodes_take_the_way_in_machine_code(monkeypatch):
    visits = _counted(monkeypatch)
    x = jtorch.ones(3, requires_grad=True)
    (x * x).tanh().exp().reshape(3, 1).sum().backward()
    assert [v if v is None else v[passes.TARGET] for v in visits] == [x]
    del visits[:]
    y = x.tanh()
    y.register_hook(lambda g: g * 2)
    y.sum().backward()
    assert [v[passes.TARGET] for v in visits] == [y.grad_fn, x]


def test_it_knows_the_gradients_of_all_ops():
    for op in TABLE:
        if op.vjp_function is not None:
            known = GRADIENTS.get(node_class(op))
            assert (known is None) == op.variadic
            assert known is None or known[1] == node_class(op).frees
    assert Doubled.apply(jtorch.ones(1, requires_grad=True))._node.__class__ not in GRADIENTS


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt])
def test_what_a_gradient_raises_comes_through_and_loses_nothing(error, monkeypatch):
    def failing(*_):
        raise error("asked")

    cls = node_class(BY_NAME["tanh"])
    monkeypatch.setitem(GRADIENTS, cls, (failing, True))
    x = jtorch.ones(3, requires_grad=True)
    y = (x * 2).tanh()
    before = sys.getrefcount(y._node)
    raised = False
    try:
        y.sum().backward()
    except error:
        raised = True
    gc.collect()
    assert raised and x.grad is None
    after = sys.getrefcount(y._node)
    assert after == before
    monkeypatch.undo()
    y.sum().backward()
    assert x.grad is not None


def test_steps_leave_nothing_behind():
    x, w = (jtorch.rand(4, 3, requires_grad=True) for _ in range(2))

    def step():
        y = x
        for _ in range(10):
            y = (y * w + x[0]).tanh() + w.sum()
        y.sum().backward()
        x.grad = w.grad = None

    for _ in range(50):
        step()
    gc.collect()
    blocks = sys.getallocatedblocks()
    for _ in range(500):
        step()
    gc.collect()
    assert sys.getallocatedblocks() - blocks < 200


def test_saved_values_are_freed_and_versions_checked():
    x = jtorch.ones(3, requires_grad=True)
    y = x * 1
    z = y * y
    node = z._node
    y.add_(1)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        z.sum().backward()
    z = (x * 1).exp()
    node = z._node
    z.sum().backward(retain_graph=True)
    assert node.saved is not None
    z.sum().backward()
    assert node.saved is None and node.versions == ()
    with pytest.raises(RuntimeError, match="second time"):
        z.sum().backward()


def test_a_gradient_of_another_shape_or_dtype_is_fitted():
    a = jtorch.ones(3, requires_grad=True)
    b = jtorch.ones(2, 3, dtype=jtorch.float64, requires_grad=True)
    (APPLY["mul"](a, b)).sum().backward()
    assert (a.grad.shape, a.grad.dtype) == ((3,), jtorch.float32)
    assert (b.grad.shape, b.grad.dtype) == ((2, 3), jtorch.float64)
    s = jtorch.ones((), requires_grad=True)
    (s * s + s * a[0]).backward()
    assert s.grad.shape == () and s.grad.item() == 3.0
