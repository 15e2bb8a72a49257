"""``gradient`` against PyTorch and NumPy."""

from __future__ import annotations

import numpy as np
import pytest

import jtorch
from jtorch.autograd import gradcheck, gradgradcheck
from tests.each import each
from tests.ops.oracle import compare
from tests.ops.support import HAS_TORCH, needs_torch

if HAS_TORCH:
    import torch

RNG = np.random.default_rng(0)
X = RNG.standard_normal((5, 6))
ROWS, COLUMNS = np.sort(RNG.standard_normal(5)), np.sort(RNG.standard_normal(6))
CALLS = {
    "plain": (lambda L, x, **k: L.gradient(x, **k), [X]),
    "distances": (lambda L, x, **k: L.gradient(x, spacing=(2, 0.5), **k), [X]),
    "no distance": (lambda L, x, **k: L.gradient(x, spacing=None, dim=0, **k), [X]),
    "a distance": (lambda L, x, **k: L.gradient(x, spacing=0.3, dim=1, **k), [X]),
    "dims": (lambda L, x, **k: L.gradient(x, dim=(1, -2), spacing=[1.0, 2.0], **k), [X]),
    "places": (lambda L, x, a, b, **k: L.gradient(x, spacing=(a, b), **k), [X, ROWS, COLUMNS]),
    "places of a dim": (lambda L, x, a, **k: L.gradient(x, spacing=(a,), dim=-1, **k), [X, COLUMNS]),
    "three places": (
        lambda L, x, a, **k: L.gradient(x, spacing=(a,), dim=1, **k), [X[:, :3].copy(), COLUMNS[:3].copy()]
    ),
    "ints": (lambda L, x, **k: L.gradient(x, **k), [(X * 9).astype(np.int64)]),
    "no dims": (lambda L, x, **k: L.gradient(x, dim=(), **k), [X]),
    "tensor": (lambda L, x, **k: L.gradient(x, spacing=L.tensor(2.0), **k), [X]),
}  # fmt: skip


@needs_torch
@each("name", CALLS)
def test_equals_pytorch(name):
    call, arrays = CALLS[name]
    for edge_order in (1, 2):
        compare(
            lambda L, *x, e=edge_order: call(L, *x, edge_order=e),
            jtorch,
            torch,
            arrays,
            rtol=1e-9,
            atol=1e-10,
        )


@needs_torch
def test_two_places_have_one_slope():
    compare(lambda L, x: L.gradient(x), jtorch, torch, [X[:2, :2].copy()])
    compare(
        lambda L, x, a: L.gradient(x, spacing=(a,), dim=0), jtorch, torch, [X[:2].copy(), ROWS[:2].copy()]
    )


def test_equals_numpy():
    for edge_order in (1, 2):
        ours = jtorch.gradient(
            jtorch.tensor(X), spacing=(jtorch.tensor(ROWS), jtorch.tensor(COLUMNS)), edge_order=edge_order
        )
        for a, b in zip(ours, np.gradient(X, ROWS, COLUMNS, edge_order=edge_order), strict=True):
            np.testing.assert_allclose(a.numpy(), b, rtol=1e-10)


@pytest.mark.slow
def test_is_differentiable_twice_and_compiles():
    x, a = jtorch.tensor(X, requires_grad=True), jtorch.tensor(COLUMNS, requires_grad=True)

    def slopes(x, a):
        return jtorch.gradient(x, spacing=(a,), dim=1, edge_order=2)[0]

    assert gradcheck(slopes, (x, a))
    assert gradgradcheck(slopes, (x, a))
    compiled = jtorch.compile(slopes, fullgraph=True)
    np.testing.assert_allclose(compiled(x, a).detach().numpy(), slopes(x, a).detach().numpy(), rtol=1e-12)


BAD = {
    "one place": lambda L: L.gradient(L.ones(1)),
    "edge order": lambda L: L.gradient(L.ones(3), edge_order=3),
    "two places": lambda L: L.gradient(L.ones(2), edge_order=2),
    "too many distances": lambda L: L.gradient(L.ones(3, 3), spacing=(1.0, 2.0, 3.0)),
    "too few distances": lambda L: L.gradient(L.ones(3, 3), spacing=(1.0,), dim=(0, 1)),
    "twice": lambda L: L.gradient(L.ones(3, 3), dim=(0, 0)),
    "places in rows": lambda L: L.gradient(L.ones(3, 3), spacing=(L.ones(3, 1), L.ones(3))),
    "bytes": lambda L: L.gradient(L.arange(3).byte()),
}


@needs_torch
@each("name", BAD)
def test_refuses_in_pytorchs_words(name):
    with pytest.raises(RuntimeError) as theirs:
        BAD[name](torch)
    with pytest.raises(RuntimeError) as ours:
        BAD[name](jtorch)
    assert str(ours.value) == str(theirs.value)
