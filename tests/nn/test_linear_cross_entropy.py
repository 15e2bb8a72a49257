"""``linear_cross_entropy`` and its module against PyTorch's, and against a layer and a loss."""

from __future__ import annotations

import numpy as np
import pytest

import jtorch
from jtorch import nn
from tests.each import each
from tests.ops.support import HAS_TORCH, needs_torch

if HAS_TORCH:
    import torch

RNG = np.random.default_rng(0)
X, W, B = RNG.standard_normal((5, 4)), RNG.standard_normal((3, 4)), RNG.standard_normal(3)
WIDE, WIDE_BIAS = RNG.standard_normal((3, 2, 4)), RNG.standard_normal((3, 2))
CLASSES, GRID = np.array([0, 2, 1, -100, 2]), RNG.integers(0, 3, (5, 2))
SHARES = RNG.dirichlet(np.ones(3), 5)

CASES = {
    "plain": (X, W, None, CLASSES, {}),
    "one": (X[0], W, B, np.array(1), {}),
    "bias": (X, W, B, CLASSES, {"reduction": "sum"}),
    "none": (X, W, B, CLASSES, {"reduction": "none"}),
    "weight": (X, W, B, CLASSES, {"weight": np.array([0.5, 1.0, 2.0]), "label_smoothing": 0.1}),
    "ignored": (X, W, B, np.array([0, 2, 1, 1, 2]), {"ignore_index": 1}),
    "probabilities": (X, W, B, SHARES, {"label_smoothing": 0.2}),
    "more dims": (X, WIDE, WIDE_BIAS, GRID, {}),
    "more dims, none": (X, WIDE, None, GRID, {"reduction": "none"}),
}


def _result(L, name, function=None):
    x, w, b, target, options = CASES[name]
    leaves = [None if a is None else L.tensor(a, requires_grad=True) for a in (x, w, b)]
    options = {k: L.tensor(v) if isinstance(v, np.ndarray) else v for k, v in options.items()}
    function = function or L.nn.functional.linear_cross_entropy
    loss = function(leaves[0], leaves[1], L.tensor(target), linear_bias=leaves[2], **options)
    (loss * loss).sum().backward()
    return [t.detach().numpy() for t in (loss, *(leaf.grad for leaf in leaves if leaf is not None))]


@needs_torch
@each("name", list(CASES))
def test_values_and_gradients_are_pytorchs(name):
    import torch

    for have, want in zip(_result(jtorch, name), _result(torch, name), strict=True):
        np.testing.assert_allclose(have, want, rtol=1e-10, atol=1e-12)


@each("name", list(CASES))
def test_compiled_equals_eager(name):
    compiled = jtorch.compile(nn.functional.linear_cross_entropy, fullgraph=True)
    for have, want in zip(_result(jtorch, name, compiled), _result(jtorch, name), strict=True):
        np.testing.assert_allclose(have, want, rtol=1e-10, atol=1e-12)


def test_is_a_layer_and_a_loss():
    layer = nn.LinearCrossEntropyLoss(4, 3, bias=True, label_smoothing=0.1)
    x, target = jtorch.randn(5, 4), jtorch.tensor([0, 2, 1, 0, 2])
    expected = nn.CrossEntropyLoss(label_smoothing=0.1)(layer.linear(x), target)
    assert jtorch.equal(layer(x, target), expected)
    wide = nn.LinearCrossEntropyLoss(4, 3, out_features=(2,), bias=True)
    expected = nn.CrossEntropyLoss()(wide.linear(x).reshape(5, 3, 2), jtorch.ones(5, 2, dtype=jtorch.int64))
    assert jtorch.allclose(wide(x, jtorch.ones(5, 2, dtype=jtorch.int64)), expected)


def _refused(L):
    f, x, w = L.nn.functional.linear_cross_entropy, L.ones(5, 4), L.ones(3, 4)
    target = L.zeros(5, dtype=L.int64)
    return {
        "dims": lambda: f(L.ones(2, 5, 4), w, target),
        "dims of the weight": lambda: f(x, w[0], target),
        "features": lambda: f(x, L.ones(3, 5), target),
        "bias": lambda: f(x, w, target, linear_bias=L.ones(4)),
        "one with more dims": lambda: f(x[0], L.ones(3, 2, 4), target),
        "ignored probabilities": lambda: f(x, w, L.ones(5, 3), ignore_index=1),
        "weight": lambda: L.nn.LinearCrossEntropyLoss(4, 3, weight=L.ones(4)),
        "smoothing": lambda: L.nn.LinearCrossEntropyLoss(4, 3, label_smoothing=1.5),
    }


@needs_torch
@each("name", list(_refused(jtorch)))
def test_refuses_in_pytorchs_words(name):
    import torch

    said = []
    for L in (jtorch, torch):
        with pytest.raises(RuntimeError) as error:
            _refused(L)[name]()
        said.append(str(error.value))
    assert said[0] == said[1]


@needs_torch
def test_options_change_no_result():
    def found(L):
        made = L.nn.LinearCrossEntropyOptions(batch_chunk_size=1, chunking_method=None, acc_policy="accurate")
        x, w = L.ones(2, 2, requires_grad=True), L.tensor([[1.0, 2.0], [0.0, 1.0], [3.0, -1.0]])
        loss = L.nn.functional.linear_cross_entropy(x, w, L.tensor([0, 2]), options=made)
        loss.backward()
        return [round(v, 5) for v in (loss.item(), *x.grad.flatten().tolist())]

    assert found(jtorch) == found(torch)


@each("wrong", [{"acc_policy": "x"}, {"chunking_method": "aspect_ratio:0"}, {"batch_chunk_size": 0}])
def test_options_are_checked(wrong):
    with pytest.raises(ValueError, match=next(iter(wrong))):
        nn.LinearCrossEntropyOptions(**wrong)
    assert nn.LinearCrossEntropyOptions(chunking_method="aspect_ratio:2").acc_policy == "auto"


def test_options_of_another_class_are_refused():
    with pytest.raises(TypeError, match="expected LinearCrossEntropyOptions, got object"):
        nn.functional.linear_cross_entropy(
            jtorch.ones(1, 2), jtorch.ones(3, 2), jtorch.tensor([0]), options=object()
        )


@needs_torch
def test_text_and_parameters_are_pytorchs():
    import torch

    ours, theirs = (L.nn.LinearCrossEntropyLoss(4, 3, out_features=(2,), bias=True) for L in (jtorch, torch))
    assert repr(ours) == repr(theirs)
    assert [(n, tuple(p.shape)) for n, p in ours.named_parameters()] == [
        (n, tuple(p.shape)) for n, p in theirs.named_parameters()
    ]
