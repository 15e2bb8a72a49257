"""``index_reduce`` and ``pdist`` against PyTorch, with the functions of ``torch.functional``."""

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
X, SOURCE, AT = RNG.standard_normal((4, 3)), RNG.standard_normal((5, 3)), np.array([0, 2, 0, 3, 2])
REDUCTIONS = [(reduce, own) for reduce in ("prod", "mean", "amax", "amin") for own in (True, False)]
beta = pytest.mark.filterwarnings("ignore:index_reduce")


@needs_torch
@beta
@each("reduce, own", REDUCTIONS)
def test_equals_pytorch(reduce, own):
    def rows(L, x, i, s):
        return x.index_reduce(0, i, s, reduce, include_self=own)

    def columns(L, x, i, s):
        return L.index_reduce(x, -1, i.int() if own else i, s.mT, reduce, include_self=own)

    close = {"rtol": 1e-10, "atol": 1e-12}
    compare(rows, jtorch, torch, [X, AT, SOURCE], **close)
    compare(columns, jtorch, torch, [X.T.copy(), AT, SOURCE], **close)
    compare(rows, jtorch, torch, [(X * 9).astype(np.int64), AT, (SOURCE * 9).astype(np.int64)])
    compare(rows, jtorch, torch, [X[:, 0].copy(), np.array(1), SOURCE[0, :1].copy()], **close)


@needs_torch
@beta
def test_in_place():
    compare(lambda L, x, i, s: (x * 1).index_reduce_(0, i, s, "amax"), jtorch, torch, [X, AT, SOURCE])


@each("reduce, own", REDUCTIONS)
def test_gradients_are_those_of_finite_differences(reduce, own):
    x, s = (jtorch.tensor(a, requires_grad=True) for a in (X, SOURCE))
    index = jtorch.tensor(AT)
    assert gradcheck(lambda x, s: x.index_reduce(0, index, s, reduce, include_self=own), (x, s))


def test_compiled_equals_eager():
    function = lambda x, i, s: x.index_reduce(0, i, s, "prod").index_reduce(0, i, s, "mean")  # noqa: E731
    inputs = [jtorch.tensor(a) for a in (X, AT, SOURCE)]
    compiled = jtorch.compile(function, fullgraph=True)
    np.testing.assert_allclose(compiled(*inputs).numpy(), function(*inputs).numpy(), rtol=1e-12)


BAD = {
    "dtype": lambda L, x: x.index_reduce(0, L.tensor([0, 1]), L.ones(2, 2).double(), "prod"),
    "index": lambda L, x: x.index_reduce(0, L.tensor([0, 1.0]), L.ones(2, 2), "prod"),
    "matrix of indices": lambda L, x: x.index_reduce(0, L.tensor([[0, 1]]), L.ones(2, 2), "prod"),
    "too large": lambda L, x: x.index_reduce(0, L.tensor([0, 7]), L.ones(2, 2), "prod"),
    "negative": lambda L, x: x.index_reduce(0, L.tensor([0, -1]), L.ones(2, 2), "mean"),
    "sum": lambda L, x: x.index_reduce(0, L.tensor([0, 1]), L.ones(2, 2), "sum"),
    "count": lambda L, x: x.index_reduce(0, L.tensor([0, 1, 2]), L.ones(2, 2), "prod"),
    "shape": lambda L, x: x.index_reduce(0, L.tensor([0, 1]), L.ones(2, 3), "prod"),
    "dims": lambda L, x: x.index_reduce(0, L.tensor([0]), L.ones(1), "prod"),
    "dim": lambda L, x: x.index_reduce(3, L.tensor([0, 1]), L.ones(2, 2), "prod"),
    "pdist of a vector": lambda L, x: L.nn.functional.pdist(L.ones(3)),
    "pdist of ints": lambda L, x: L.nn.functional.pdist(L.ones(3, 2).long()),
    "pdist order": lambda L, x: L.nn.functional.pdist(L.ones(3, 2), -1),
}


@needs_torch
@beta
@each("name", BAD)
def test_refuses_in_pytorchs_words(name):
    with pytest.raises((RuntimeError, IndexError)) as theirs:
        BAD[name](torch, torch.ones(3, 2))
    with pytest.raises(type(theirs.value)) as ours:
        BAD[name](jtorch, jtorch.ones(3, 2))
    assert str(ours.value) == str(theirs.value)


@needs_torch
@each("p", [0, 0.5, 1, 2, 3, float("inf")])
def test_pdist_equals_pytorch(p):
    x = X if p else X.round()
    requires = p != 0  # there is a node in PyTorch, whose gradient is 0
    compare(
        lambda L, x: L.nn.functional.pdist(x if requires else x.detach(), p), jtorch, torch, [x], rtol=1e-9
    )


def test_pdist_has_gradients_of_both_orders():
    x = jtorch.tensor(X, requires_grad=True)
    assert gradcheck(jtorch.pdist, (x,))
    assert gradgradcheck(lambda x: jtorch.pdist(x, 3), (x,))


@needs_torch
def test_functional_has_pytorchs_names():
    for name in torch.functional.__all__:
        assert getattr(jtorch.functional, name) is getattr(jtorch, name)
    with pytest.raises(AttributeError, match="no attribute 'relu'"):
        _ = jtorch.functional.relu
