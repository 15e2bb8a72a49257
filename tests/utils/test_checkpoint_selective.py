"""Checkpointing that keeps what some ops gave: gradients, what runs again, errors."""

from __future__ import annotations

import functools
import importlib

import numpy as np
import pytest

import jtorch
from jtorch.utils.checkpoint import (
    CheckpointPolicy,
    SelectiveCheckpointContext,
    checkpoint,
    create_selective_checkpoint_contexts,
)
from tests.each import each

RNG = np.random.default_rng(0)
X, Y = (RNG.standard_normal((4, 4)) for _ in range(2))


def _function(L):
    def run(x, y):
        return L.sigmoid(L.matmul(L.matmul(x, y), y)) * y.softmax(-1)

    return run


def _keeping(L, what):
    module = importlib.import_module(f"{L.__name__}.utils.checkpoint")
    return functools.partial(module.create_selective_checkpoint_contexts, what), module.checkpoint


def _gradients(L, function, what):
    contexts, run = _keeping(L, what)
    x, y = (L.tensor(a, requires_grad=True) for a in (X, Y))
    out = run(function, x, y, use_reentrant=False, context_fn=contexts)
    out.sum().backward()
    return [t.detach().numpy() for t in (out, x.grad, y.grad)]


def _plain(L, function):
    x, y = (L.tensor(a, requires_grad=True) for a in (X, Y))
    out = function(x, y)
    out.sum().backward()
    return [t.detach().numpy() for t in (out, x.grad, y.grad)]


CHOICES = {
    "products": lambda L: [L.ops.aten.mm.default],
    "all": lambda L: lambda ctx, op, *args, **kwargs: True,
    "none": lambda L: lambda ctx, op, *args, **kwargs: False,
    "every other": lambda L: _every_other(),
}


def _every_other():
    asked = []

    def policy(ctx, op, *args, **kwargs):
        asked.append(op)
        return CheckpointPolicy.PREFER_SAVE if len(asked) % 2 else CheckpointPolicy.MUST_RECOMPUTE

    return policy


@each("name", list(CHOICES))
def test_gradients_are_those_without(name):
    for have, want in zip(
        _gradients(jtorch, _function(jtorch), CHOICES[name](jtorch)),
        _plain(jtorch, _function(jtorch)),
        strict=True,
    ):
        np.testing.assert_array_equal(have, want)


@each("name", list(CHOICES)[:3])
def test_gradients_are_pytorchs(name):
    torch = pytest.importorskip("torch")
    ours, theirs = (_gradients(L, _function(L), CHOICES[name](L)) for L in (jtorch, torch))
    for have, want in zip(ours, theirs, strict=True):
        np.testing.assert_allclose(have, want, rtol=1e-12)


def _runs(what):
    """The ops of the second run, by how often their functions were called."""
    from jtorch.eager.profiling import Watch

    called = []

    def noting(op, function):
        return lambda *values, **statics: (called.append(op.name), function(*values, **statics))[1]

    watch = Watch(noting, lambda node, xp, g, compute: compute(node, xp, g))
    contexts, _ = _keeping(jtorch, what)
    x, y = (jtorch.tensor(a, requires_grad=True) for a in (X, Y))
    watch.start()
    try:
        out = checkpoint(_function(jtorch), x, y, use_reentrant=False, context_fn=contexts)
        first = list(called)
        called.clear()
        out.sum().backward()
    finally:
        watch.stop()
    return first, called


def test_kept_results_are_not_computed_again():
    first, again = _runs([jtorch.ops.aten.mm.default])
    assert first.count("mm") == 2
    assert again.count("mm") == 0
    assert "softmax" in again
    _, again = _runs([])
    assert again.count("mm") == 2


def test_what_policies_are_told():
    told = []

    def policy(ctx, op, *args, **kwargs):
        told.append(
            (str(op), ctx.is_recompute, tuple(ctx.op_output.shape), [tuple(a.shape) for a in args[:1]])
        )
        return CheckpointPolicy.PREFER_RECOMPUTE

    _gradients(jtorch, _function(jtorch), policy)
    assert told[0] == ("aten.mm.default", False, (4, 4), [(4, 4)])
    assert len(told) == len([t for t in told if not t[1]])  # asked in the first run alone
    layer, names = jtorch.nn.Sequential(jtorch.nn.Linear(4, 4), jtorch.nn.LayerNorm(4)), []
    contexts, _ = _keeping(jtorch, lambda ctx, op, *_, **__: names.append(op.overloadpacket.__name__))
    checkpoint(layer, jtorch.ones(2, 4), use_reentrant=False, context_fn=contexts).sum().backward()
    assert names == ["addmm", "native_layer_norm"]


def test_dropout_and_changes_in_place():
    def function(x, y):
        z = jtorch.nn.functional.dropout(x @ y, 0.5)
        z.mul_(y)
        return (z @ y).exp_()

    for choice in CHOICES.values():
        found = []
        for use in (True, False):
            jtorch.manual_seed(3)
            found.append(_gradients(jtorch, function, choice(jtorch)) if use else _plain(jtorch, function))
        for have, want in zip(*found, strict=True):
            np.testing.assert_array_equal(have, want)


def test_backward_twice_is_refused():
    contexts, _ = _keeping(jtorch, [jtorch.ops.aten.mm.default])
    x, y = (jtorch.tensor(a, requires_grad=True) for a in (X, Y))
    out = checkpoint(_function(jtorch), x, y, use_reentrant=False, context_fn=contexts).sum()
    out.backward(retain_graph=True)
    with pytest.raises(RuntimeError, match="Trying to backward an extra time"):
        out.backward()


def test_other_ops_in_the_second_run_are_refused():
    runs = []

    def function(x, y):
        runs.append(1)
        return (x @ y).exp() if len(runs) == 1 else (x.exp() @ y).exp()

    contexts, _ = _keeping(jtorch, [jtorch.ops.aten.mm.default])
    x, y = (jtorch.tensor(a, requires_grad=True) for a in (X, Y))
    out = checkpoint(function, x, y, use_reentrant=False, context_fn=contexts, early_stop=False)
    with pytest.raises(RuntimeError, match=r"exp invocation index 1 encountered during backward"):
        out.sum().backward()
    assert jtorch.ones(2).exp().tolist() == pytest.approx([2.718281828] * 2)  # nothing looks on any more


@pytest.mark.parametrize("library", ["jtorch", "torch"])
def test_what_is_no_choice(library):
    L = pytest.importorskip(library)
    make = importlib.import_module(f"{library}.utils.checkpoint").create_selective_checkpoint_contexts
    with pytest.raises(ValueError, match=r"Please update the OpOverloadPacket to a specific OpOverload"):
        make([L.ops.aten.mm])
    with pytest.raises(ValueError, match=r"Expected op in `op_list` to be an OpOverload but got: mm of type"):
        make(["mm"])
    with pytest.raises(TypeError, match="policy_fn_or_list must be either a function or a list of ops"):
        make(3)


def test_compiled_functions_with_it_run_eagerly():
    contexts = functools.partial(create_selective_checkpoint_contexts, [jtorch.ops.aten.mm.default])

    @jtorch.compile(fullgraph=False)
    def step(x, y):
        checkpoint(_function(jtorch), x, y, use_reentrant=False, context_fn=contexts).sum().backward()

    x, y = (jtorch.tensor(a, requires_grad=True) for a in (X, Y))
    with pytest.warns(jtorch.errors.EagerWarning, match="watched from inside a compiled function"):
        step(x, y)
    np.testing.assert_array_equal(x.grad.numpy(), _plain(jtorch, _function(jtorch))[1])


def test_names():
    assert [p.name for p in CheckpointPolicy] == [
        "MUST_SAVE", "PREFER_SAVE", "MUST_RECOMPUTE", "PREFER_RECOMPUTE", "MUST_CPU_OFFLOAD",
        "PREFER_CPU_OFFLOAD",
    ]  # fmt: skip
    context = SelectiveCheckpointContext(is_recompute=False)
    assert (context.is_recompute, context.op_output) == (False, None)
    with pytest.raises(NotImplementedError, match="a part of other ops"):
        jtorch.compat.aten.named("lstm_layer")(1)
