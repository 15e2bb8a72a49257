"""state_dict and load_state_dict."""

from __future__ import annotations

import numpy as np
import pytest

import jtorch
from jtorch import nn


def model(lib=jtorch):
    return lib.nn.Sequential(lib.nn.Linear(2, 3), lib.nn.ReLU(), lib.nn.Linear(3, 1))


def as_arrays(state):
    return {k: v.numpy() for k, v in state.items()}


def test_interchange_with_pytorch(torch):
    torch.manual_seed(0)  # a result near 0 has no six digits in float32
    ours, theirs = model(), model(torch)
    arrays = as_arrays(theirs.state_dict())
    result = ours.load_state_dict({k: jtorch.from_numpy(v) for k, v in arrays.items()})
    assert repr(result) == "<All keys matched successfully>"
    x = np.random.default_rng(0).standard_normal((4, 2)).astype(np.float32)
    np.testing.assert_allclose(
        ours(jtorch.tensor(x)).detach().numpy(), theirs(torch.tensor(x)).detach().numpy(), rtol=1e-6
    )
    theirs.load_state_dict({k: torch.tensor(v) for k, v in as_arrays(model().state_dict()).items()})


def test_shares_memory_and_carries_no_tape():
    net = model()
    state = net.state_dict()
    assert not state["0.weight"].requires_grad
    with jtorch.no_grad():
        net[0].weight.fill_(7.0)
    assert state["0.weight"].tolist() == [[7.0, 7.0]] * 3
    assert net.state_dict(keep_vars=True)["0.weight"] is net[0].weight


def test_loading_keeps_the_parameters():
    net = model()
    weight, data = net[0].weight, net[0].weight._data
    net.load_state_dict(model().state_dict())
    assert net[0].weight is weight and weight._data is data
    assert weight.requires_grad and weight.is_leaf


@pytest.mark.parametrize(
    "given",
    [
        {},
        {"0.weight": (3, 2), "0.bias": (3,), "2.weight": (1, 3)},
        {"0.weight": (2, 2), "extra": (1,), "0.bias": (3,), "2.weight": (1, 3), "2.bias": (2,)},
    ],
)
def test_errors_are_word_for_word(torch, given):
    net = model()
    before = as_arrays({k: v.clone() for k, v in net.state_dict().items()})
    with pytest.raises(RuntimeError) as ours:
        net.load_state_dict({k: jtorch.ones(s) for k, s in given.items()})
    with pytest.raises(RuntimeError) as theirs:
        model(torch).load_state_dict({k: torch.ones(s) for k, s in given.items()})
    assert str(ours.value) == str(theirs.value)
    for key, value in net.state_dict().items():
        np.testing.assert_array_equal(value.numpy(), before[key], err_msg="a failed load changed something")


def test_not_strict_reports():
    result = model().load_state_dict({"0.bias": jtorch.ones(3), "extra": jtorch.ones(1)}, strict=False)
    assert result.missing_keys == ["0.weight", "2.weight", "2.bias"]
    assert result.unexpected_keys == ["extra"]


def test_what_is_no_tensor_is_named():
    with pytest.raises(RuntimeError, match=r'parameter named "0\.bias", expected torch\.Tensor'):
        model().load_state_dict({"0.bias": [1, 2, 3]}, strict=False)


def test_zero_dim_takes_a_vector_of_one():
    net = nn.Module()
    net.scale = nn.Parameter(jtorch.tensor(1.0))
    net.load_state_dict({"scale": jtorch.tensor([5.0])})
    assert net.scale.item() == 5.0


def test_casts_to_the_parameter_dtype():
    net = nn.Linear(1, 1, bias=False)
    net.load_state_dict({"weight": jtorch.tensor([[2.5]], dtype=jtorch.float64)})
    assert net.weight.dtype is jtorch.float32 and net.weight.item() == 2.5


def test_assign_takes_the_given_tensor():
    net = nn.Linear(1, 1, bias=False)
    net.requires_grad_(False)
    given = jtorch.tensor([[2.5]], dtype=jtorch.float64)
    net.load_state_dict({"weight": given}, assign=True)
    assert net.weight.dtype is jtorch.float64 and not net.weight.requires_grad
    assert isinstance(net.weight, nn.Parameter)


@pytest.mark.parametrize("version", [None, 1, 2])
def test_batch_norm_of_before_it_counted_batches(version):
    def load(library):
        layer = library.nn.Sequential(library.nn.BatchNorm1d(2))
        layer[0].num_batches_tracked.fill_(5)
        old = layer.state_dict()
        del old["0.num_batches_tracked"], old._metadata
        if version:
            old._metadata = {"0": {"version": version}}
        try:
            return str(layer.load_state_dict(old)), layer[0].num_batches_tracked.item()
        except RuntimeError as error:
            return str(error)

    expected = load(jtorch)
    assert ("Missing key(s)" in expected) if version == 2 else expected[1] == 5
    torch = pytest.importorskip("torch")
    assert load(torch) == expected
