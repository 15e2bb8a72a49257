"""Initialisation: bounds and moments follow from the formulas; layers start as PyTorch's do."""

from __future__ import annotations

import math

import numpy as np
import pytest

import jtorch
from jtorch import nn
from jtorch.nn import init

SHAPE = (200, 50, 3, 3)  # fan in 450, fan out 1800


@pytest.fixture(autouse=True)
def seed():
    jtorch.manual_seed(0)


@pytest.mark.parametrize(
    ("fill", "std"),
    [
        (lambda t: init.uniform_(t, -2, 4), 6 / math.sqrt(12)),
        (lambda t: init.normal_(t, 1, 0.5), 0.5),
        (lambda t: init.xavier_uniform_(t, gain=2), 2 * math.sqrt(2 / 2250)),
        (lambda t: init.xavier_normal_(t), math.sqrt(2 / 2250)),
        (lambda t: init.kaiming_uniform_(t, nonlinearity="relu"), math.sqrt(2 / 450)),
        (
            lambda t: init.kaiming_normal_(t, mode="fan_out", nonlinearity="relu"),
            math.sqrt(2 / 1800),
        ),
        (lambda t: init.kaiming_uniform_(t, a=math.sqrt(5)), 1 / math.sqrt(3 * 450)),
    ],
)
def test_standard_deviation(fill, std):
    t = nn.Parameter(jtorch.zeros(SHAPE))
    assert fill(t) is t and t.is_leaf and t.requires_grad
    assert np.std(t.detach().numpy()) == pytest.approx(std, rel=0.02)


def test_uniform_stays_in_its_bounds():
    x = init.kaiming_uniform_(jtorch.zeros(SHAPE), a=math.sqrt(5)).numpy()
    bound = 1 / math.sqrt(450)
    assert -bound <= x.min() < -0.99 * bound and 0.99 * bound < x.max() <= bound


@pytest.mark.parametrize("shape", [(6, 10), (10, 6), (4, 3, 2)])
def test_orthogonal(shape):
    x = init.orthogonal_(jtorch.zeros(shape), gain=2).numpy().reshape(shape[0], -1)
    small = x if x.shape[0] <= x.shape[1] else x.T
    np.testing.assert_allclose(small @ small.T, 4 * np.eye(len(small)), atol=1e-5)


def test_constants():
    assert init.constant_(jtorch.zeros(2), 3.5).tolist() == [3.5, 3.5]
    assert init.ones_(jtorch.zeros(2)).tolist() == [1.0, 1.0]
    assert init.zeros_(jtorch.ones(2)).tolist() == [0.0, 0.0]
    assert init.eye_(jtorch.ones(2, 3)).tolist() == [[1.0, 0.0, 0.0], [0.0, 1.0, 0.0]]


@pytest.mark.parametrize(
    ("name", "param"),
    [("linear", None), ("tanh", None), ("relu", None), ("leaky_relu", 0.3), ("selu", None)],
)
def test_gain_equals_pytorch(torch, name, param):
    assert init.calculate_gain(name, param) == torch.nn.init.calculate_gain(name, param)


def test_errors():
    with pytest.raises(ValueError, match="fewer than 2 dimensions"):
        init.xavier_normal_(jtorch.zeros(3))
    with pytest.raises(ValueError, match="Unsupported nonlinearity swoosh"):
        init.calculate_gain("swoosh")
    with pytest.raises(ValueError, match=r"Mode fan not supported"):
        init.kaiming_normal_(jtorch.zeros(2, 2), mode="fan")


@pytest.mark.parametrize(
    ("name", "args"), [("Linear", (300, 200)), ("Conv2d", (30, 40, 5)), ("Embedding", (300, 50))]
)
def test_layers_start_like_pytorch(torch, name, args):
    torch.manual_seed(0)
    ours, theirs = getattr(nn, name)(*args), getattr(torch.nn, name)(*args)
    for (_, p), (_, q) in zip(ours.named_parameters(), theirs.named_parameters(), strict=True):
        a, b = p.detach().numpy().ravel(), q.detach().numpy().ravel()
        tolerance = 6 / math.sqrt(a.size)  # six standard errors
        assert abs(a.mean() - b.mean()) < tolerance * b.std()
        assert a.std() == pytest.approx(b.std(), rel=tolerance)
        if name != "Embedding":  # uniform: the extremes are the bound
            assert abs(a).max() == pytest.approx(abs(b).max(), rel=0.05)


def test_seed_decides():
    first = nn.Linear(3, 3).weight.tolist()
    jtorch.manual_seed(0)
    assert nn.Linear(3, 3).weight.tolist() == first


@pytest.mark.filterwarnings("ignore:Initializing zero-element tensors")
def test_empty_layer():
    assert nn.Linear(0, 2).weight.shape == (2, 0)


def test_truncated_normal():
    from scipy import stats

    for mean, std, a, b in ((0.0, 1.0, -2.0, 2.0), (1.0, 0.5, 1.2, 3.0), (0.0, 1.0, 1.0, 2.0)):
        x = init.trunc_normal_(jtorch.zeros(20000, dtype=jtorch.float64), mean, std, a, b).numpy()
        assert a <= x.min() and x.max() <= b
        expected = stats.truncnorm((a - mean) / std, (b - mean) / std, mean, std)
        assert x.mean() == pytest.approx(expected.mean(), abs=0.02)
        assert x.std() == pytest.approx(expected.std(), rel=0.03)
    with pytest.warns(UserWarning, match=r"mean is more than 2 std from \[a, b\]"):
        init.trunc_normal_(jtorch.zeros(2), mean=5.0)


def test_sparse():
    x = init.sparse_(jtorch.zeros(10, 4), 0.25).numpy()
    assert ((x == 0).sum(0) == 3).all()
    with pytest.raises(ValueError, match="Only tensors with 2 dimensions are supported"):
        init.sparse_(jtorch.zeros(3), 0.1)


@pytest.mark.parametrize(("shape", "groups"), [((4, 3, 3), 1), ((4, 2, 3, 5), 2), ((6, 2, 3, 3, 2), 3)])
def test_dirac(torch, shape, groups):
    ours = init.dirac_(jtorch.ones(*shape), groups).numpy()
    np.testing.assert_array_equal(ours, torch.nn.init.dirac_(torch.ones(*shape), groups).numpy())
    with pytest.raises(ValueError, match="dim 0 must be divisible by groups"):
        init.dirac_(jtorch.ones(*shape), 5)


def test_older_names_and_empty_tensors_warn():
    with pytest.warns(FutureWarning, match=r"`nn\.init\.constant` is now deprecated"):
        assert init.constant(jtorch.zeros(2), 3.0).tolist() == [3.0, 3.0]
    with pytest.warns(UserWarning, match="Initializing zero-element tensors is a no-op"):
        init.kaiming_normal_(jtorch.zeros(0, 2))
