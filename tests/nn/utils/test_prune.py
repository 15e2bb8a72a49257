"""Pruning: masks as PyTorch makes them, in turn and together, undone, and refused."""

from __future__ import annotations

import numpy as np
import pytest

import jtorch
from jtorch import nn
from jtorch.nn.utils import prune

RNG = np.random.default_rng(0)
WEIGHT, BIAS = RNG.standard_normal((4, 3, 2, 2)), RNG.standard_normal(4)


@pytest.fixture(scope="module")
def torch():
    return pytest.importorskip("torch")


def convolution(lib):
    layer = lib.nn.Conv2d(3, 4, 2).double()
    with lib.no_grad():
        layer.weight.copy_(lib.tensor(WEIGHT))
        layer.bias.copy_(lib.tensor(BIAS))
    return layer


STEPS = {
    "l1 fraction": [("l1_unstructured", "weight", 0.3)],
    "l1 count": [("l1_unstructured", "bias", 3)],
    "l1 none": [("l1_unstructured", "weight", 0)],
    "l1 all": [("l1_unstructured", "weight", 1.0)],
    "l2 channels": [("ln_structured", "weight", 0.5, 2, 0)],
    "l1 channels of a negative dim": [("ln_structured", "weight", 1, 1, -2)],
    "largest": [("ln_structured", "weight", 1, float("inf"), 1)],
    "no channels": [("ln_structured", "weight", 0.0, 2, 0)],
    "identity": [("identity", "weight")],
    "entries, then channels": [("l1_unstructured", "weight", 0.2), ("ln_structured", "weight", 0.5, 2, 0)],
    "channels, then entries": [("ln_structured", "weight", 1, 2, 1), ("l1_unstructured", "weight", 0.25)],
    "three": [
        ("ln_structured", "weight", 1, 2, 1), ("ln_structured", "weight", 1, 2, 0),
        ("l1_unstructured", "weight", 3),
    ],
}  # fmt: skip


@pytest.mark.parametrize("steps", STEPS.values(), ids=STEPS)
def test_masks_are_those_of_pytorch(torch, steps):
    import torch.nn.utils.prune as theirs

    layers = convolution(jtorch), convolution(torch)
    for layer, module in zip(layers, (prune, theirs), strict=True):
        for function, *arguments in steps:
            assert getattr(module, function)(layer, *arguments) is layer
    ours, expected = layers
    assert [n for n, _ in ours.named_parameters()] == [n for n, _ in expected.named_parameters()]
    assert list(ours.state_dict()) == list(expected.state_dict())
    for name, value in expected.state_dict().items():
        np.testing.assert_array_equal(ours.state_dict()[name].numpy(), value.numpy())
    x = RNG.standard_normal((2, 3, 5, 5))
    ours(jtorch.tensor(x)).square().sum().backward()
    expected(torch.tensor(x)).square().sum().backward()
    for mine, other in zip(ours.parameters(), expected.parameters(), strict=True):
        np.testing.assert_allclose(mine.grad.numpy(), other.grad.numpy(), rtol=1e-12, atol=1e-12)
    np.testing.assert_array_equal(ours.weight.detach().numpy(), expected.weight.detach().numpy())


def test_smallest_entries_go_and_stay_away_in_training():
    layer = nn.Linear(4, 3).double()
    before = layer.weight.detach().clone().numpy()
    prune.l1_unstructured(layer, "weight", 5)
    mask = layer.weight_mask.numpy()
    assert (mask == 0).sum() == 5 and np.abs(before[mask == 0]).max() < np.abs(before[mask == 1]).min()
    optimizer = jtorch.optim.SGD(layer.parameters(), lr=0.1)
    for _ in range(2):
        optimizer.zero_grad()
        layer(jtorch.ones(2, 4, dtype=jtorch.float64)).sum().backward()
        optimizer.step()
        assert not layer.weight_orig.grad.numpy()[mask == 0].any()
    layer(jtorch.ones(2, 4, dtype=jtorch.float64))
    assert not layer.weight.detach().numpy()[mask == 0].any()


@pytest.mark.parametrize("amount, count", [(3, 3), (0.25, 6), (0, 0), (1.0, 24)])
def test_random_entries(amount, count):
    layer = nn.Linear(6, 4)
    jtorch.manual_seed(0)
    prune.random_unstructured(layer, "weight", amount)
    assert int((layer.weight_mask == 0).sum()) == count


@pytest.mark.parametrize("dim, size", [(0, 4), (1, 3), (-1, 2)])
def test_random_channels(dim, size):
    layer = convolution(jtorch)
    prune.random_structured(layer, "weight", 1, dim)
    others = [d for d in range(4) if d != dim % 4]
    left = layer.weight_mask.sum(dim=others).numpy()
    assert sorted(left > 0) == [False] + [True] * (size - 1)


def test_several_tensors_as_one(torch):
    import torch.nn.utils.prune as theirs

    pairs = [(convolution(lib), lib) for lib in (jtorch, torch)]
    for (layer, lib), module in zip(pairs, (prune, theirs), strict=True):
        module.l1_unstructured(layer, "bias", 1)
        places = ((layer, "weight"), (layer, "bias"))
        scores = {(layer, "bias"): lib.arange(4, dtype=lib.float64)}
        module.global_unstructured(places, module.L1Unstructured, importance_scores=scores, amount=0.4)
    for name in ("weight_mask", "bias_mask"):
        mine, other = (getattr(layer, name) for layer, _ in pairs)
        np.testing.assert_array_equal(mine.numpy(), other.numpy())


def test_a_mask_of_ones_own_and_removal():
    layer = nn.Linear(5, 3)
    assert not prune.is_pruned(layer)
    prune.custom_from_mask(layer, "bias", jtorch.tensor([0, 1, 0]))
    assert prune.is_pruned(nn.Sequential(layer)) and layer.bias_mask.tolist() == [0, 1, 0]
    pruned, original = layer.bias.detach().clone(), layer.bias_orig
    assert prune.remove(layer, "bias") is layer
    assert layer.bias is original and layer.bias.tolist() == pruned.tolist()
    assert not prune.is_pruned(layer) and list(layer.state_dict()) == ["weight", "bias"]


class EverySecond(prune.BasePruningMethod):
    PRUNING_TYPE = "unstructured"

    def compute_mask(self, t, default_mask):
        mask = default_mask.clone()
        mask.view(-1)[::2] = 0
        return mask


def test_methods_of_ones_own():
    layer = nn.Linear(4, 2)
    prune.identity(layer, "bias")
    EverySecond.apply(layer, "weight")
    assert layer.weight_mask.tolist() == [[0, 1, 0, 1]] * 2
    EverySecond.apply(layer, "weight")  # every second of those left
    assert layer.weight_mask.tolist() == [[0, 0, 0, 1]] * 2
    (_, container) = prune.hook_of(layer, "weight")
    assert [type(m) for m in container] == [EverySecond, EverySecond] and len(container) == 2
    t = jtorch.tensor([1.0, 2.0, 3.0])
    assert EverySecond().prune(t).tolist() == [0, 2, 0]
    assert prune.L1Unstructured(1).prune(t, importance_scores=-t + 3).tolist() == [1, 2, 0]


class Failing(prune.BasePruningMethod):
    def compute_mask(self, t, default_mask):
        raise RuntimeError("no mask")


def test_a_method_that_fails_leaves_the_module_as_it_was():
    layer = nn.Linear(2, 2)
    weight = layer.weight
    with pytest.raises(RuntimeError, match="no mask"):
        Failing.apply(layer, "weight")
    assert layer.weight is weight and sorted(layer.state_dict()) == ["bias", "weight"]


REFUSED = {
    "negative": (
        ValueError, "amount=-1 should either be a float", lambda m, p: p.l1_unstructured(m, "bias", -1)
    ),
    "fraction": (
        ValueError, "amount=1.5 should either be", lambda m, p: p.random_unstructured(m, "bias", 1.5)
    ),
    "type": (TypeError, "Invalid type for amount: a", lambda m, p: p.l1_unstructured(m, "bias", "a")),
    "too many": (
        ValueError, "amount=9 should be smaller than the number of parameters to prune=4",
        lambda m, p: p.l1_unstructured(m, "bias", 9),
    ),
    "vector": (
        ValueError, "Structured pruning can only be applied to multidimensional tensors",
        lambda m, p: p.ln_structured(m, "bias", 1, 2, 0),
    ),
    "dim": (
        IndexError, "Invalid index 4 for tensor of size",
        lambda m, p: p.random_structured(m, "weight", 1, 4),
    ),
    "not pruned": (
        ValueError, "has to be pruned before pruning can be removed", lambda m, p: p.remove(m, "bias")
    ),
    "structured": (
        TypeError, 'Only "unstructured" PRUNING_TYPE supported',
        lambda m, p: p.global_unstructured([(m, "weight")], p.LnStructured, amount=1, n=2),
    ),
    "not parameters": (
        TypeError, "parameters is not an Iterable", lambda m, p: p.global_unstructured(1, p.Identity)
    ),
    "scores": (
        TypeError, "importance_scores must be of type dict",
        lambda m, p: p.global_unstructured([], p.Identity, importance_scores=[1]),
    ),
    "container": (
        TypeError, "is not a BasePruningMethod subclass",
        lambda m, p: p.PruningContainer().add_pruning_method(1),
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", REFUSED.values(), ids=REFUSED)
def test_what_is_refused(torch, case):
    import torch.nn.utils.prune as theirs

    error, match, call = case
    for lib, module in ((jtorch, prune), (torch, theirs)):
        with pytest.raises(error, match=match):
            call(convolution(lib), module)
