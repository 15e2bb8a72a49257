"""Dropout: what it keeps, what it zeroes, and that both modes draw the same masks."""

from __future__ import annotations

import numpy as np
import pytest

import jtorch
from jtorch.nn import functional as F
from tests.nn.functional.agree import agree_on_error, draw

NAMES = ["dropout", "dropout1d", "dropout2d", "dropout3d", "alpha_dropout", "feature_alpha_dropout"]
SHAPES = {"dropout1d": (50, 40, 3), "dropout2d": (50, 40, 3, 2), "dropout3d": (50, 40, 3, 2, 2)}


@pytest.mark.parametrize("name", ["dropout1d", "dropout2d", "dropout3d"])
def test_whole_channels_are_zeroed(name):
    jtorch.manual_seed(0)
    out = getattr(F, name)(jtorch.ones(SHAPES[name]), 0.25).numpy().reshape(50 * 40, -1)
    assert (out == out[:, :1]).all()
    assert 0.7 < (out[:, 0] != 0).mean() < 0.8
    assert set(out[:, 0].tolist()) == {0.0, float(np.float32(1 / 0.75))}


@pytest.mark.parametrize("name", ["alpha_dropout", "feature_alpha_dropout"])
def test_alpha_dropout_keeps_mean_and_variance(name):
    jtorch.manual_seed(0)
    x = jtorch.randn(400, 300)
    out = getattr(F, name)(x, 0.2, training=True).numpy()
    assert abs(out.mean()) < 0.02
    assert abs(out.std() - 1) < 0.02


def test_alpha_dropout_takes_pytorchs_two_values(torch):
    jtorch.manual_seed(0)
    torch.manual_seed(0)
    ours = F.alpha_dropout(jtorch.full((64,), 2.0), 0.3, True)
    theirs = torch.nn.functional.alpha_dropout(torch.full((64,), 2.0), 0.3, True)
    np.testing.assert_allclose(sorted(set(ours.tolist())), sorted(set(theirs.tolist())), rtol=1e-6)


@pytest.mark.parametrize("name", NAMES)
def test_nothing_happens_outside_training(name):
    x = jtorch.ones(2, 3, 4, 5)[:, :, 0] if name == "dropout1d" else jtorch.ones(2, 3, 4, 5)
    assert getattr(F, name)(x, 0.5, training=False) is x


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("p", [-0.1, 1.5])
def test_probability_out_of_range(torch, name, p):
    agree_on_error(torch, lambda F, x: getattr(F, name)(x, p), [draw(2, 3, 4)])


def test_dims(torch):
    agree_on_error(torch, lambda F, x: F.dropout1d(x), [draw(3)])
    agree_on_error(torch, lambda F, x: F.dropout2d(x), [draw(3)])


@pytest.mark.filterwarnings("ignore:dropout[23]d:UserWarning")
@pytest.mark.parametrize("name", NAMES)
def test_gradient_and_compiled_mask(name):
    x = jtorch.ones(3, 4, 5, requires_grad=True)

    def step(x):
        return getattr(F, name)(x, 0.5, training=True)

    jtorch.manual_seed(7)
    out = step(x)
    out.sum().backward()
    assert set(np.unique(x.grad.numpy()[out.detach().numpy() == 0])) <= {0.0}
    jtorch.manual_seed(7)
    np.testing.assert_array_equal(jtorch.compile(step)(x.detach()).numpy(), out.detach().numpy())


def test_in_place():
    x = jtorch.ones(1000)
    assert F.dropout(x, 0.5, inplace=True) is x
    assert 400 < (x == 0).sum().item() < 600


def test_what_is_no_tensor_of_floats_is_pytorchs_error():
    for name in ("dropout", "alpha_dropout", "feature_alpha_dropout"):
        for wrong in (3, [1.0], None):
            kind = type(wrong).__name__
            with pytest.raises(
                TypeError, match=rf"{name}\(\): argument 'input' \(position 1\) must be Tensor, not {kind}"
            ):
                getattr(F, name)(wrong)
    with pytest.raises(RuntimeError, match="result type Float can't be cast to the desired output type Long"):
        F.dropout(jtorch.arange(3))
    with pytest.raises(TypeError, match=r"relu\(\): argument 'input' \(position 1\) must be Tensor, not int"):
        F.relu(3)
    for name in ("exp", "tanh", "abs", "gelu"):
        with pytest.raises(
            TypeError, match=rf"{name}\(\): argument 'input' \(position 1\) must be Tensor, not int"
        ):
            getattr(F if name == "gelu" else jtorch, name)(3)
