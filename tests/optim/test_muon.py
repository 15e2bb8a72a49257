"""``Muon`` against PyTorch's, in both modes."""

from __future__ import annotations

import numpy as np
import pytest

import jtorch
from jtorch.optim.muon import orthogonalized
from tests.each import each
from tests.ops.support import HAS_TORCH, needs_torch

if HAS_TORCH:
    import torch

RNG = np.random.default_rng(1)
OPTIONS = [
    {}, {"nesterov": False}, {"adjust_lr_fn": "match_rms_adamw", "weight_decay": 0.0}, {"ns_steps": 2},
    {"momentum": 0.5, "adjust_lr_fn": "original"},
]  # fmt: skip


def _steps(L, options, weight, gradients):
    w = L.tensor(weight, requires_grad=True)
    optimizer = L.optim.Muon([w], lr=0.1, **options)
    for g in gradients:
        w.grad = L.tensor(g)
        optimizer.step()
    return w.detach().numpy(), optimizer


@needs_torch
@each("shape, options", [(shape, options) for shape in ((8, 5), (5, 8), (6, 6)) for options in OPTIONS])
def test_equals_pytorch(shape, options):
    weight, *gradients = (RNG.standard_normal(shape).astype(np.float32) for _ in range(4))
    ours, optimizer = _steps(jtorch, options, weight, gradients)
    theirs, reference = _steps(torch, options, weight, gradients)
    # a sum that lies between two bfloat16 may be rounded to either: 1/256 of a direction, times lr
    np.testing.assert_allclose(ours, theirs, atol=2e-3)
    (state,), (expected,) = (o.state_dict()["state"].values() for o in (optimizer, reference))
    np.testing.assert_allclose(
        state["momentum_buffer"].numpy(), expected["momentum_buffer"].numpy(), rtol=1e-5, atol=1e-6
    )
    assert (
        optimizer.state_dict()["param_groups"][0].keys() == reference.state_dict()["param_groups"][0].keys()
    )


def test_compiled_equals_eager():
    weight, x = (RNG.standard_normal((4, 4)).astype(np.float32) for _ in range(2))
    found = []
    for wrap in (lambda f: f, lambda f: jtorch.compile(f, fullgraph=True)):
        w = jtorch.tensor(weight, requires_grad=True)
        optimizer = jtorch.optim.Muon([w], lr=0.05)

        @wrap
        def step(x, w=w, optimizer=optimizer):
            optimizer.zero_grad()
            loss = ((x @ w) ** 2).sum()
            loss.backward()
            optimizer.step()
            return loss

        losses = [step(jtorch.tensor(x)).item() for _ in range(4)]
        assert losses[-1] < losses[0]
        found.append(w.detach().numpy())
    np.testing.assert_allclose(*found, rtol=1e-2, atol=2e-3)


def test_singular_values_come_near_1():
    matrix = jtorch.tensor(RNG.standard_normal((6, 4)).astype(np.float32))
    values = jtorch.linalg.svdvals(orthogonalized(matrix, (3.4445, -4.7750, 2.0315), 5, 1e-7))
    assert 0.6 < values.min().item() < values.max().item() < 1.3


BAD = {
    "lr": lambda L, w: L.optim.Muon([w], lr=-1.0),
    "momentum": lambda L, w: L.optim.Muon([w], momentum=-1.0),
    "weight_decay": lambda L, w: L.optim.Muon([w], weight_decay=-1.0),
    "adjust_lr_fn": lambda L, w: L.optim.Muon([w], adjust_lr_fn="x"),
    "a vector": lambda L, w: L.optim.Muon([w[0].detach().requires_grad_()]),
    "too many steps": lambda L, w: _stepped(L.optim.Muon([w], ns_steps=100), w),
}


def _stepped(optimizer, w):
    w.sum().backward()
    optimizer.step()


@needs_torch
@each("name", BAD)
def test_refuses_in_pytorchs_words(name):
    with pytest.raises(ValueError) as theirs:
        BAD[name](torch, torch.ones(2, 2, requires_grad=True))
    with pytest.raises(ValueError) as ours:
        BAD[name](jtorch, jtorch.ones(2, 2, requires_grad=True))
    assert str(ours.value) == str(theirs.value)
