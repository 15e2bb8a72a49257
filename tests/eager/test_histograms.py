"""``histogramdd`` against PyTorch and NumPy."""

from __future__ import annotations

import numpy as np
import pytest

import jtorch
from tests.each import each
from tests.ops.oracle import compare
from tests.ops.support import HAS_TORCH, needs_torch

if HAS_TORCH:
    import torch

RNG = np.random.default_rng(0)
POINTS, WEIGHTS = RNG.random((50, 2)), RNG.random(50)
EDGES = [np.array([0.1, 0.5, 0.6]), np.array([0.0, 0.2, 0.9, 1.0])]


def _all(found):
    return (found.hist, *found.bin_edges)


CALLS = {
    "counts": (lambda L, x, **k: _all(L.histogramdd(x.detach(), bins=(3, 4), **k)), [POINTS]),
    "one count": (lambda L, x, **k: _all(L.histogramdd(x.detach(), 3, **k)), [POINTS]),
    "weights": (
        lambda L, x, w, **k: _all(
            L.histogramdd(x.detach(), 3, weight=w.detach(), range=(0.2, 0.8, 0.1, 0.7), **k)
        ),
        [POINTS, WEIGHTS],
    ),
    "edges": (
        lambda L, x, a, b, **k: _all(L.histogramdd(x.detach(), (a.detach(), b.detach()), **k)),
        [POINTS, *EDGES],
    ),
    "on edges": (
        lambda L, x, a, b, **k: _all(L.histogramdd(x.detach(), (a.detach(), b.detach()), **k)),
        [np.array([[0.1, 0.0], [0.6, 1.0], [0.5, 0.9], [0.7, 0.5]]), *EDGES],
    ),
    "a batch": (lambda L, x, **k: _all(L.histogramdd(x.detach(), 2, **k)), [POINTS.reshape(5, 10, 2)]),
    "of none": (lambda L, x: _all(L.histogramdd(x.detach(), (2, 1))), [POINTS[:0]]),
    "of NaN": (
        lambda L, x, a: _all(L.histogramdd(x.detach(), (a.detach(), a.detach()))),
        [np.array([[0.2, np.nan], [0.2, 0.3]]), EDGES[0]],
    ),
}  # fmt: skip


@needs_torch
@each("name", CALLS)
def test_equals_pytorch(name):
    call, arrays = CALLS[name]
    compare(call, jtorch, torch, arrays, rtol=1e-10)
    if not name.startswith("of"):
        compare(lambda L, *x: call(L, *x, density=True), jtorch, torch, arrays, rtol=1e-10)
        compare(call, jtorch, torch, [a.astype(np.float32) for a in arrays], rtol=1e-5)


def test_equals_numpy():
    found = jtorch.histogramdd(jtorch.tensor(POINTS), bins=(4, 5), weight=jtorch.tensor(WEIGHTS))
    expected, edges = np.histogramdd(POINTS, bins=(4, 5), weights=WEIGHTS)
    np.testing.assert_allclose(found.hist.numpy(), expected, rtol=1e-12)
    for ours, theirs in zip(found.bin_edges, edges, strict=True):
        np.testing.assert_allclose(ours.numpy(), theirs, rtol=1e-12)


def test_compiles():
    function = lambda x: jtorch.histogramdd(x, 3, range=(0.0, 1.0, 0.0, 1.0)).hist  # noqa: E731
    x = jtorch.tensor(POINTS)
    np.testing.assert_array_equal(jtorch.compile(function, fullgraph=True)(x).numpy(), function(x).numpy())


BAD = {
    "a vector": lambda L: L.histogramdd(L.ones(5), bins=2),
    "bins": lambda L: L.histogramdd(L.ones(5, 2), bins=(2,)),
    "no bins": lambda L: L.histogramdd(L.ones(5, 2), bins=(2, 0)),
    "range": lambda L: L.histogramdd(L.ones(5, 2), bins=2, range=(0.0, 1.0)),
    "order": lambda L: L.histogramdd(L.ones(5, 2), bins=2, range=(0.0, 1.0, 1.0, 0.0)),
    "weight": lambda L: L.histogramdd(L.ones(5, 2), bins=2, weight=L.ones(4)),
    "ints": lambda L: L.histogramdd(L.ones(5, 2).long(), bins=2),
    "edges of another dtype": lambda L: L.histogramdd(L.ones(5, 2), bins=(L.ones(2).double(),) * 2),
}


@needs_torch
@each("name", BAD)
def test_refuses_in_pytorchs_words(name):
    with pytest.raises(RuntimeError) as theirs:
        BAD[name](torch)
    with pytest.raises(type(theirs.value)) as ours:
        BAD[name](jtorch)
    assert str(ours.value) == str(theirs.value)
