"""Layers against PyTorch: repr, state dict keys, outputs and gradients from the same weights."""

from __future__ import annotations

import numpy as np
import pytest

import jtorch
from jtorch import nn

IMAGE = (2, 4, 9, 8)
LAYERS = [
    ("Linear", (5, 3), {}, (4, 5)),
    ("Linear", (5, 3), {"bias": False}, (2, 4, 5)),
    ("Linear", (5, 3), {}, (5,)),
    ("Conv2d", (4, 6, 3), {}, IMAGE),
    ("Conv2d", (4, 6, (3, 2)), {"stride": 2, "padding": (1, 0), "bias": False}, IMAGE),
    ("Conv2d", (4, 6, 3), {"padding": "same", "groups": 2, "dilation": 2}, IMAGE),
    ("MaxPool2d", (2,), {}, IMAGE),
    ("MaxPool2d", (3, 2, 1), {}, IMAGE),
    ("AvgPool2d", (2,), {}, IMAGE),
    ("AvgPool2d", ((2, 3),), {"stride": 2, "padding": 1}, IMAGE),
    ("Flatten", (), {}, IMAGE),
    ("Flatten", (2, 3), {}, IMAGE),
    ("ReLU", (), {}, (3, 4)),
    ("Tanh", (), {}, (3, 4)),
    ("Sigmoid", (), {}, (3, 4)),
    ("GELU", (), {}, (3, 4)),
    ("GELU", ("tanh",), {}, (3, 4)),
    ("SiLU", (), {}, (3, 4)),
    ("ELU", (0.5,), {}, (3, 4)),
    ("LeakyReLU", (0.2,), {}, (3, 4)),
    ("Softplus", (), {}, (3, 4)),
    ("Softmax", (-1,), {}, (3, 4)),
    ("LogSoftmax", (1,), {}, (3, 4)),
    ("LayerNorm", (4,), {}, (3, 4)),
    ("LayerNorm", ((3, 4),), {"bias": False}, (2, 3, 4)),
    ("LayerNorm", ((3, 4),), {"elementwise_affine": False}, (2, 3, 4)),
    ("Identity", (), {}, (3,)),
]


def named(case):
    name, args, options, _ = case
    return f"{name}{args}{options or ''}"


def twins(torch, case):
    """(ours, theirs) with equal weights."""
    name, args, options, _ = case
    ours, theirs = getattr(nn, name)(*args, **options), getattr(torch.nn, name)(*args, **options)
    ours.load_state_dict({k: jtorch.from_numpy(v.numpy()) for k, v in theirs.state_dict().items()})
    return ours, theirs


@pytest.mark.parametrize("case", LAYERS, ids=named)
def test_layer_equals_pytorch(torch, case):
    ours, theirs = twins(torch, case)
    assert repr(ours) == repr(theirs)
    assert list(ours.state_dict()) == list(theirs.state_dict())
    x = np.random.default_rng(0).standard_normal(case[3]).astype(np.float32)
    a = jtorch.tensor(x, requires_grad=True)
    b = torch.tensor(x, requires_grad=True)
    out, expected = ours(a), theirs(b)
    np.testing.assert_allclose(out.detach().numpy(), expected.detach().numpy(), rtol=2e-5, atol=2e-6)
    g = np.random.default_rng(1).standard_normal(expected.shape).astype(np.float32)
    out.backward(jtorch.tensor(g))
    expected.backward(torch.tensor(g))
    np.testing.assert_allclose(a.grad.numpy(), b.grad.numpy(), rtol=2e-5, atol=2e-6)
    for p, q in zip(ours.parameters(), theirs.parameters(), strict=True):
        np.testing.assert_allclose(p.grad.numpy(), q.grad.numpy(), rtol=2e-5, atol=1e-5)


def test_dropout_zeroes_only_while_training():
    jtorch.manual_seed(0)
    layer, x = nn.Dropout(0.25), jtorch.ones(1000)
    kept = (layer(x) != 0).float().mean().item()
    assert 0.7 < kept < 0.8
    assert set(layer(x).tolist()) == {0.0, float(np.float32(1 / 0.75))}
    assert layer.eval()(x) is x
    assert repr(layer) == "Dropout(p=0.25, inplace=False)"
    with pytest.raises(ValueError, match=r"between 0 and 1, but got 1\.5"):
        nn.Dropout(1.5)


@pytest.mark.parametrize(
    ("build", "error", "text"),
    [
        (
            lambda: nn.Conv2d(3, 4, 2, groups=2),
            ValueError,
            "in_channels must be divisible by groups",
        ),
        (
            lambda: nn.Conv2d(4, 3, 2, groups=2),
            ValueError,
            "out_channels must be divisible by groups",
        ),
        (lambda: nn.Conv2d(4, 4, 2, padding="sme"), ValueError, "Invalid padding string 'sme'"),
        (lambda: nn.Conv2d(4, 4, 2, 2, padding="same"), ValueError, "not supported for strided"),
        (lambda: nn.Conv2d(4, 4, 2, padding_mode="foo"), ValueError, "padding_mode must be one of"),
        (lambda: nn.Linear(3, 2)(jtorch.ones(4, 5)), RuntimeError, r"\(4x5 and 3x2\)"),
    ],
)
def test_errors(build, error, text):
    with pytest.raises(error, match=text):
        build()


def test_empty_batch():
    layer = nn.Linear(3, 2)
    out = layer(jtorch.zeros(0, 3))
    out.sum().backward()
    assert out.shape == (0, 2)
    assert layer.weight.grad.tolist() == [[0.0] * 3] * 2


def test_an_attribute_of_a_linear_layer_stands_before_its_parameter():
    layer = nn.Linear(4, 3, bias=False)
    layer.__dict__["weight"] = jtorch.zeros(3, 4)
    assert layer(jtorch.ones(2, 4)).abs().sum() == 0
    layer = nn.Linear(4, 3)
    layer.__dict__["bias"] = None
    assert jtorch.equal(layer(jtorch.ones(2, 4)), jtorch.ones(2, 4) @ layer.weight.t())

    class Zero(nn.Linear):
        weight = property(lambda self: jtorch.zeros(3, 4))

    layer = nn.Linear(4, 3, bias=False)
    layer.__class__ = Zero
    assert layer(jtorch.ones(2, 4)).abs().sum() == 0
    layer = nn.Linear(4, 3)
    try:
        nn.Linear.bias = property(lambda self: None)
        assert jtorch.equal(layer(jtorch.ones(2, 4)), jtorch.ones(2, 4) @ layer.weight.t())
    finally:
        del nn.Linear.bias
    weight = layer.weight.detach()
    del layer.weight
    layer.weight = weight * 2
    assert jtorch.equal(layer(jtorch.zeros(2, 4)), layer.bias.expand(2, 3))
