"""Parametrizations, both forms of weight normalisation, and modules as functions of their parameters."""

from __future__ import annotations

import copy

import numpy as np
import pytest

import jtorch
from jtorch import nn
from jtorch.nn.utils import parametrizations, parametrize, stateless

X = np.random.default_rng(0).standard_normal((5, 3))


class Symmetric(nn.Module):
    def forward(self, x):
        return x.triu() + x.triu(1).mT


class Doubled(nn.Module):
    def forward(self, x):
        return x * 2

    def right_inverse(self, x):
        return x / 2


def test_register_and_remove():
    layer = nn.Linear(3, 3)
    original = layer.weight
    parametrize.register_parametrization(layer, "weight", Symmetric())
    assert type(layer).__name__ == "ParametrizedLinear" and isinstance(layer, nn.Linear)
    assert parametrize.is_parametrized(layer) and parametrize.is_parametrized(layer, "weight")
    assert not parametrize.is_parametrized(layer, "bias")
    assert [n for n, _ in layer.named_parameters()] == ["bias", "parametrizations.weight.original"]
    np.testing.assert_array_equal(layer.weight.detach().numpy(), layer.weight.mT.detach().numpy())
    layer(jtorch.ones(2, 3)).sum().backward()
    assert layer.parametrizations.weight.original.grad.shape == (3, 3)
    assert parametrize.type_before_parametrizations(layer) is nn.Linear
    value = layer.weight.detach().clone()
    parametrize.remove_parametrizations(layer, "weight")
    assert type(layer) is nn.Linear and isinstance(layer.weight, nn.Parameter)
    np.testing.assert_array_equal(layer.weight.detach().numpy(), value.numpy())
    assert original.shape == (3, 3) and not parametrize.is_parametrized(layer)


def test_assigning_goes_through_the_right_inverse():
    layer = nn.Linear(3, 2)
    before = layer.weight.detach().clone()
    parametrize.register_parametrization(layer, "weight", Doubled())
    np.testing.assert_allclose(layer.weight.detach().numpy(), before.numpy(), rtol=1e-6)
    parametrize.register_parametrization(layer, "weight", Doubled())  # leaves the original, as in PyTorch
    np.testing.assert_allclose(layer.weight.detach().numpy(), 2 * before.numpy(), rtol=1e-6)
    layer.weight = jtorch.full((2, 3), 8.0)
    assert layer.weight.tolist() == [[8.0] * 3] * 2
    assert layer.parametrizations.weight.original.tolist() == [[2.0] * 3] * 2
    parametrize.remove_parametrizations(layer, "weight", leave_parametrized=False)
    assert layer.weight.tolist() == [[2.0] * 3] * 2


def test_cached_computes_once():
    calls = []

    class Counting(nn.Module):
        def forward(self, x):
            calls.append(1)
            return x * 1

    layer = nn.Linear(2, 2)
    parametrize.register_parametrization(layer, "weight", Counting())
    calls.clear()
    with parametrize.cached():
        assert layer.weight is layer.weight
    assert len(calls) == 1
    assert layer.weight is not layer.weight


def test_errors():
    layer = nn.Linear(3, 2)
    with pytest.raises(ValueError, match="does not have a parameter, a buffer, or a parametrized element"):
        parametrize.register_parametrization(layer, "nothing", Doubled())
    with pytest.raises(ValueError, match="may not change the shape of the tensor"):
        parametrize.register_parametrization(layer, "weight", nn.Flatten(0))
    with pytest.raises(ValueError, match="does not have a parametrization on weight"):
        parametrize.remove_parametrizations(layer, "weight")


def _pair(torch, make):
    ours, theirs = make(jtorch).double(), make(torch).double()
    state = {k: torch.tensor(v.detach().numpy()) for k, v in ours.state_dict().items()}
    theirs.load_state_dict(state)
    return ours, theirs


def _compare(ours, theirs, torch):
    a, b = ours(jtorch.tensor(X)), theirs(torch.tensor(X))
    np.testing.assert_allclose(a.detach().numpy(), b.detach().numpy(), rtol=1e-10, atol=1e-12)
    (a * a).sum().backward()
    (b * b).sum().backward()
    for (name, p), (other, q) in zip(ours.named_parameters(), theirs.named_parameters(), strict=True):
        assert name == other
        np.testing.assert_allclose(p.grad.numpy(), q.grad.numpy(), rtol=1e-9, atol=1e-11)


@pytest.mark.parametrize("dim", [0, 1, None])
def test_weight_norm_equals_pytorch(torch, dim):
    def make(lib):
        return lib.nn.utils.parametrizations.weight_norm(lib.nn.Linear(3, 4), dim=dim)

    ours, theirs = _pair(torch, make)
    assert list(ours.state_dict()) == list(theirs.state_dict())
    _compare(ours, theirs, torch)
    copied = copy.deepcopy(ours)
    np.testing.assert_array_equal(copied.weight.detach().numpy(), ours.weight.detach().numpy())


def test_weight_norm_loads_the_older_names():
    layer = parametrizations.weight_norm(nn.Linear(3, 2))
    old = {"weight_g": jtorch.ones(2, 1), "weight_v": jtorch.ones(2, 3), "bias": jtorch.zeros(2)}
    layer.load_state_dict(old)
    np.testing.assert_allclose(layer.weight.detach().numpy(), 3**-0.5, rtol=1e-6)


@pytest.mark.filterwarnings("ignore:`torch.nn.utils.weight_norm` is deprecated")
@pytest.mark.filterwarnings("ignore::FutureWarning")
def test_older_weight_norm_equals_pytorch(torch):
    ours, theirs = _pair(torch, lambda lib: lib.nn.utils.weight_norm(lib.nn.Linear(3, 4)))
    assert list(ours.state_dict()) == list(theirs.state_dict())
    _compare(ours, theirs, torch)
    value = ours.weight.detach().clone()
    nn.utils.remove_weight_norm(ours)
    assert sorted(ours.state_dict()) == ["bias", "weight"] and not ours._forward_pre_hooks
    np.testing.assert_allclose(ours.weight.detach().numpy(), value.numpy(), rtol=1e-12)
    with pytest.raises(ValueError, match="weight_norm of 'weight' not found"):
        nn.utils.remove_weight_norm(ours)


def test_spectral_norm_equals_pytorch(torch):
    ours, theirs = _pair(torch, lambda lib: lib.nn.utils.parametrizations.spectral_norm(lib.nn.Linear(3, 4)))
    assert list(ours.state_dict()) == list(theirs.state_dict())
    _compare(ours, theirs, torch)
    for _ in range(60):
        ours(jtorch.tensor(X))
    assert np.linalg.norm(ours.weight.detach().numpy(), 2) == pytest.approx(1.0, rel=1e-4)
    ours.eval()
    assert (ours.weight == ours.weight).all().item()


@pytest.mark.parametrize("shape", [(3, 3), (3, 5), (5, 3)])
@pytest.mark.parametrize("orthogonal_map", ["matrix_exp", "cayley"])
def test_orthogonal(shape, orthogonal_map):
    layer = nn.Linear(shape[1], shape[0]).double()
    parametrizations.orthogonal(layer, orthogonal_map=orthogonal_map)
    optimizer = jtorch.optim.SGD(layer.parameters(), lr=0.1)
    for _ in range(3):
        optimizer.zero_grad()
        (layer(jtorch.ones(2, shape[1], dtype=jtorch.float64)) ** 2).sum().backward()
        optimizer.step()
        weight = layer.weight.detach().numpy()
        small = weight @ weight.T if shape[0] <= shape[1] else weight.T @ weight
        np.testing.assert_allclose(small, np.eye(min(shape)), atol=1e-12)
    with pytest.raises(ValueError, match="orthogonal_map has to be one of"):
        parametrizations.orthogonal(nn.Linear(2, 2), orthogonal_map="other")


def test_functional_call(torch):
    for lib in (jtorch, torch):
        call = lib.nn.utils.stateless.functional_call if lib is jtorch else torch.func.functional_call
        net = lib.nn.Sequential(lib.nn.Linear(2, 2), lib.nn.Tanh())
        kept = net[0].weight
        weight = lib.ones(2, 2, requires_grad=True)
        out = call(net, {"0.weight": weight, "0.bias": lib.zeros(2)}, (lib.ones(1, 2),))
        np.testing.assert_allclose(out.detach().numpy(), np.tanh([[2.0, 2.0]]), rtol=1e-6)
        out.sum().backward()
        assert weight.grad is not None and net[0].weight is kept and kept.grad is None
        with pytest.raises(RuntimeError, match="Missing"):
            call(net, {"0.weight": weight}, (lib.ones(1, 2),), strict=True)
        with pytest.raises(ValueError, match="Expected parameter_and_buffer_dicts to be a dict"):
            call(net, 3, ())


def test_functional_call_with_tied_weights():
    net = nn.Sequential(nn.Linear(2, 2, bias=False), nn.Linear(2, 2, bias=False))
    net[1].weight = net[0].weight
    x, eye = jtorch.ones(1, 2), jtorch.eye(2) * 3
    assert stateless.functional_call(net, {"0.weight": eye}, x).tolist() == [[9.0, 9.0]]
    untied = stateless.functional_call(net, ({"0.weight": eye}, {}), x, tie_weights=False)
    assert untied.tolist() != [[9.0, 9.0]]


def test_skip_init():
    layer = nn.utils.skip_init(nn.Linear, 3, 2, bias=False)
    assert layer.weight.shape == (2, 3) and layer.bias is None
    with pytest.raises(RuntimeError, match="Expected a Module; got 3"):
        nn.utils.skip_init(3)
    with pytest.raises(RuntimeError, match="Module must support a 'device' arg"):
        nn.utils.skip_init(nn.ReLU)


def test_older_spectral_norm_equals_pytorch(torch):
    ours, theirs = _pair(torch, lambda lib: lib.nn.utils.spectral_norm(lib.nn.Linear(3, 4)))
    assert list(ours.state_dict()) == list(theirs.state_dict())
    _compare(ours, theirs, torch)
    for _ in range(60):
        ours(jtorch.tensor(X))
    assert np.linalg.norm(ours.weight.detach().numpy(), 2) == pytest.approx(1.0, rel=1e-4)
    with pytest.raises(RuntimeError, match="Cannot register two spectral_norm hooks"):
        nn.utils.spectral_norm(ours)
    nn.utils.remove_spectral_norm(ours)
    assert sorted(ours.state_dict()) == ["bias", "weight"] and not ours._forward_pre_hooks
    with pytest.raises(ValueError, match="spectral_norm of 'weight' not found"):
        nn.utils.remove_spectral_norm(ours)
