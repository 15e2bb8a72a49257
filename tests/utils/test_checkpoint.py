"""Checkpointed gradients equal plain ones, memory is freed, random numbers come again, errors are named."""

from __future__ import annotations

import gc
import weakref

import numpy as np
import pytest

import jtorch
from jtorch import nn
from jtorch.utils.checkpoint import (
    CheckpointError,
    checkpoint,
    checkpoint_sequential,
    set_checkpoint_early_stop,
)


@pytest.fixture(scope="module")
def model():
    jtorch.manual_seed(0)
    layers = nn.Linear(4, 8), nn.Tanh(), nn.Dropout(0.5), nn.Linear(8, 4), nn.Sigmoid()
    return nn.Sequential(*layers).double()


def gradients(model, run):
    """The gradients of input and parameters after ``run``, from one seed."""
    jtorch.manual_seed(1)
    model.zero_grad()
    x = jtorch.randn(3, 4, dtype=jtorch.float64, requires_grad=True)
    (run(x) * jtorch.rand(3, 4, dtype=jtorch.float64)).sum().backward()
    return [x.grad.numpy(), *(p.grad.numpy() for p in model.parameters())]


def nested(model):
    def outer(x):
        return checkpoint(model[3:], checkpoint(model[:3], x, use_reentrant=False), use_reentrant=False)

    return lambda x: checkpoint(outer, x, use_reentrant=False)


WAYS = {
    "whole": lambda m: lambda x: checkpoint(m, x, use_reentrant=False),
    "reentrant": lambda m: lambda x: checkpoint(m, x, use_reentrant=True),
    "pieces": lambda m: lambda x: checkpoint_sequential(m, 3, x, use_reentrant=False),
    "reentrant pieces": lambda m: lambda x: checkpoint_sequential(m, 2, x, use_reentrant=True),
    "nested": nested,
    "to the end": lambda m: lambda x: checkpoint(m, x, use_reentrant=False, early_stop=False),
    "keywords": lambda m: lambda x: checkpoint(lambda *, given: m(given), given=x, use_reentrant=False),
}


@pytest.mark.parametrize("way", WAYS)
def test_same_gradients(model, way):
    for have, want in zip(gradients(model, WAYS[way](model)), gradients(model, model), strict=True):
        np.testing.assert_array_equal(have, want)


def test_later_random_numbers_are_the_same(model):
    jtorch.manual_seed(2)
    y = checkpoint(model, jtorch.ones(2, 4, dtype=jtorch.float64), use_reentrant=False)
    y.sum().backward()
    after = jtorch.rand(3).tolist()
    jtorch.manual_seed(2)
    model(jtorch.ones(2, 4, dtype=jtorch.float64))
    assert jtorch.rand(3).tolist() == after


def test_without_preserved_state_new_numbers_are_drawn():
    x = jtorch.ones(1000, requires_grad=True)
    y = checkpoint(
        lambda x: x * nn.functional.dropout(x * 1, 0.5), x, use_reentrant=False, preserve_rng_state=False
    )
    y.sum().backward()
    assert not np.array_equal(x.grad.numpy() > 1, y.detach().numpy() > 0)


@pytest.mark.parametrize("reentrant", [False, True])
def test_intermediate_results_are_freed(reentrant):
    alive = []

    def block(x):
        y = x.exp()
        alive.append(weakref.ref(y._data))
        return y * y

    x = jtorch.ones(4, requires_grad=True)
    z = checkpoint(block, x, use_reentrant=reentrant)
    gc.collect()
    assert alive[0]() is None
    z.sum().backward()
    assert len(alive) == 2
    np.testing.assert_allclose(x.grad.numpy(), 2 * np.exp(2) * np.ones(4), rtol=1e-6)
    gc.collect()
    assert alive[1]() is None


def test_nested_checkpoints_keep_no_inner_inputs():
    alive = []

    def inner(x):
        return x.exp() * x

    def outer(x):
        y = x * 2
        alive.append(weakref.ref(y._data))
        return checkpoint(inner, y, use_reentrant=False)

    x = jtorch.ones(4, requires_grad=True)
    z = checkpoint(outer, x, use_reentrant=False)
    gc.collect()
    assert alive[0]() is None
    z.sum().backward()
    np.testing.assert_allclose(x.grad.numpy(), 2 * (np.exp(2) * 3) * np.ones(4), rtol=1e-6)


def test_retained_graphs_run_again():
    x, runs = jtorch.tensor([0.5, 1.0], requires_grad=True), []
    y = checkpoint(lambda x: runs.append(0) or x.exp().sin(), x, use_reentrant=False).sum()
    y.backward(retain_graph=True)
    first = x.grad.clone()
    y.backward()
    np.testing.assert_allclose(x.grad.numpy(), 2 * first.numpy())
    assert len(runs) == 3


def test_second_derivatives():
    x = jtorch.tensor([0.5, 1.0], dtype=jtorch.float64, requires_grad=True)

    def run(x):
        return checkpoint(lambda x: x.exp().sin(), x, use_reentrant=False)

    assert jtorch.autograd.gradgradcheck(run, x)


def test_other_shapes_the_second_time():
    sizes = iter([1, 3])
    x = jtorch.ones(1, requires_grad=True)
    y = checkpoint(lambda x: x.expand(next(sizes)).exp().sum(), x, use_reentrant=False)
    with pytest.raises(CheckpointError, match="have different metadata than during the forward pass"):
        y.backward()


def test_fewer_tensors_the_second_time():
    counts = iter([3, 1])

    def block(x):
        for _ in range(next(counts)):
            x = x.sin()
        return x

    y = checkpoint(block, jtorch.ones(1, requires_grad=True), use_reentrant=False)
    with pytest.raises(
        CheckpointError, match=r"Number of tensors saved during forward: 3\nNumber .* recomputation: 1"
    ):
        y.backward()


def test_more_tensors_the_second_time():
    counts = iter([1, 2])

    def block(x):
        for _ in range(next(counts)):
            x = x.sin()
        return x

    with set_checkpoint_early_stop(False):
        y = checkpoint(block, jtorch.ones(1, requires_grad=True), use_reentrant=False)
    with pytest.raises(CheckpointError, match="trying to save more tensors during recomputation"):
        y.backward()


def test_changed_argument_is_noticed():
    x = jtorch.ones(2)
    w = jtorch.ones(2, requires_grad=True)
    y = checkpoint(lambda x: (x * w).exp(), x, use_reentrant=False)
    x.add_(1)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        y.sum().backward()


def test_contexts_of_both_runs():
    log = []

    class Noted:
        def __init__(self, name):
            self.name = name

        def __enter__(self):
            log.append(self.name)

        def __exit__(self, *exception):
            pass

    x = jtorch.ones(1, requires_grad=True)
    y = checkpoint(lambda x: x.exp(), x, use_reentrant=False, context_fn=lambda: (Noted("one"), Noted("two")))
    y.backward()
    assert log == ["one", "two"]


def test_under_no_grad_it_only_calls():
    with jtorch.no_grad():
        y = checkpoint(lambda x: x.exp(), jtorch.ones(1, requires_grad=True), use_reentrant=False)
    assert not y.requires_grad


def test_errors_and_warnings():
    x = jtorch.ones(2, requires_grad=True)
    with pytest.warns(UserWarning, match="the use_reentrant parameter should be passed explicitly"):
        checkpoint(lambda x: x * 2, x)
    with pytest.raises(ValueError, match="Unexpected keyword arguments: scale"):
        checkpoint(lambda x, scale: x, x, use_reentrant=True, scale=2)
    with pytest.raises(ValueError, match="`context_fn` or `debug` is only supported"):
        checkpoint(lambda x: x, x, use_reentrant=True, debug=True)
    with pytest.raises(ValueError, match="determinism_check should be one of"):
        checkpoint(lambda x: x, x, use_reentrant=False, determinism_check="some")
    with pytest.raises(NotImplementedError, match="debug"):
        checkpoint(lambda x: x, x, use_reentrant=False, debug=True)
    with pytest.warns(UserWarning, match="None of the inputs have requires_grad=True"):
        checkpoint(lambda x: x * 2, jtorch.ones(2), use_reentrant=True)
    with pytest.raises(RuntimeError, match=r"incompatible with \.grad\(\)"):
        jtorch.autograd.grad(checkpoint(lambda x: x * 2, x, use_reentrant=True).sum(), x)


def test_in_a_compiled_step(model):
    def step(x):
        y = checkpoint(model, x, use_reentrant=False).sum()
        (g,) = jtorch.autograd.grad(y, x)
        return g

    x = jtorch.randn(3, 4, dtype=jtorch.float64, requires_grad=True)
    jtorch.manual_seed(7)
    want = [step(x).numpy() for _ in range(3)]
    compiled = jtorch.compile(step)
    jtorch.manual_seed(7)
    for w in want:
        np.testing.assert_allclose(compiled(x).numpy(), w, rtol=1e-12)
