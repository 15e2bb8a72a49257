"""The functions of the module ``torch`` that layers are made of, in PyTorch's order of arguments."""

from __future__ import annotations

import numpy as np
import pytest

import jtorch
import jtorch.nn as nn

RNG = np.random.default_rng(0)
X, Y, Z = (RNG.standard_normal((4, 6)) for _ in range(3))
ONE, TWO = RNG.random(6) + 0.5, RNG.random(6)
W_LSTM, W_GRU, W_RNN = (RNG.standard_normal((k * 6, 6)) for k in (4, 3, 1))
SIGNS = np.array([1.0, -1.0, 1.0, -1.0])
IMAGE, KERNEL = RNG.standard_normal((2, 3, 5, 5)), RNG.standard_normal((4, 3, 3, 3))


def _turned(library):
    return library.eye(2, 3).double().expand(2, 2, 3) * 0.7


CASES = {
    "batch_norm": (
        lambda T, x, w, b: T.batch_norm(x, w, b, None, None, True, 0.1, 1e-5, False), [X, ONE, TWO],
    ),
    "instance_norm": (
        lambda T, x: T.instance_norm(x, None, None, None, None, True, 0.1, 1e-5, False), [IMAGE],
    ),
    "group_norm": (lambda T, x: T.group_norm(x, 3, None, None, 1e-4), [IMAGE]),
    "dropout off": (lambda T, x: T.dropout(x, 0.5, False), [X]),
    "alpha_dropout off": (lambda T, x: T.alpha_dropout(x, 0.5, train=False), [X]),
    "hinge": (lambda T, x: T.hinge_embedding_loss(x, T.sign(x.detach()), 0.5, 2), [X]),
    "cosine": (lambda T, x, y, s: T.cosine_embedding_loss(x, y, s, 0.1), [X, Y, SIGNS]),
    "ranking": (lambda T, x, y: T.margin_ranking_loss(x[0], y[0], T.sign(x[1].detach()), 0.1, 0), [X, Y]),
    "triplet": (lambda T, x, y, z: T.triplet_margin_loss(x, y, z, 2.0, 2.0, 1e-6, True), [X, Y, Z]),
    "poisson": (lambda T, x, y: T.poisson_nll_loss(x, y.abs(), True, False, 1e-8, 1), [X, Y]),
    "convolution": (
        lambda T, x, w: T.convolution(x, w, None, [2, 2], [1, 1], [1, 1], False, [0, 0], 1), [IMAGE, KERNEL],
    ),
    "convolution transposed": (
        lambda T, x, w: T.convolution(x, w, None, [2, 2], [1, 1], [1, 1], True, [1, 1], 1),
        [IMAGE, KERNEL.transpose(1, 0, 2, 3).copy()],
    ),
    "constant_pad_nd": (lambda T, x: T.constant_pad_nd(x, (1, 2), 3.0), [X]),
    "renorm": (lambda T, x: T.renorm(x, 2, 0, 1.5), [X]),
    "norm_except_dim": (lambda T, x: T.norm_except_dim(x, 2, 1), [X]),
    "bilinear": (lambda T, x, y, w: T.bilinear(x, y, w.reshape(6, 6, 1).transpose(0, 2)), [X, Y, W_RNN]),
    "lstm_cell": (lambda T, x, y, z, a, b: T.cat(T.lstm_cell(x, (y, z), a, b)), [X, Y, Z, W_LSTM, W_LSTM]),
    "gru_cell": (lambda T, x, y, a, b: T.gru_cell(x, y, a, b), [X, Y, W_GRU, W_GRU]),
    "rnn_tanh_cell": (lambda T, x, y, a, b: T.rnn_tanh_cell(x, y, a, b), [X, Y, W_RNN, W_RNN]),
    "rnn_relu_cell": (lambda T, x, y, a, b: T.rnn_relu_cell(x, y, a, b), [X, Y, W_RNN, W_RNN]),
    "grid_sampler": (
        lambda T, x: T.grid_sampler(x, T.affine_grid_generator(_turned(T), [2, 3, 4, 4], False), 0, 1, False),
        [IMAGE],
    ),
    "vmap": (lambda T, x, y: T.vmap(T.dot)(x, y), [X, Y]),
    "methods": (lambda T, x: T.clamp_(T.square_(x * 1), 0.1, 2.0), [X]),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_values_and_gradients_are_pytorchs(name):
    torch = pytest.importorskip("torch")
    function, arrays = CASES[name]
    found = []
    for library in (jtorch, torch):
        leaves = [library.tensor(a).requires_grad_() for a in arrays]
        out = function(library, *leaves)
        grads = library.autograd.grad((out * out).sum(), leaves, allow_unused=True)
        found.append([out, *grads])
    for have, want in zip(*found, strict=True):
        assert (have is None) == (want is None)
        if want is not None:
            np.testing.assert_allclose(have.detach().numpy(), want.detach().numpy(), rtol=1e-9, atol=1e-10)


def test_dropout_in_training_drops():
    x = jtorch.ones(1000)
    out = jtorch.dropout(x, 0.25, True)
    assert sorted(set(out.tolist())) == [0.0, pytest.approx(4 / 3)]
    assert jtorch.dropout_(x, 1.0, True) is x and x.sum() == 0


@pytest.mark.parametrize("name", ["hann", "hamming", "blackman", "bartlett", "kaiser"])
def test_windows(name):
    torch = pytest.importorskip("torch")
    for length in (0, 1, 2, 7, 10):
        for periodic in (True, False):
            have, want = (
                getattr(library, f"{name}_window")(length, periodic, dtype=library.float64)
                for library in (jtorch, torch)
            )
            np.testing.assert_allclose(have.numpy(), want.numpy(), atol=1e-12)
    with pytest.raises(RuntimeError, match="requires non-negative window_length, got window_length=-1"):
        getattr(jtorch, f"{name}_window")(-1)


def test_layers_are_where_pytorch_keeps_them():
    from jtorch.nn.modules.batchnorm import _BatchNorm
    from jtorch.nn.modules.conv import Conv2d, _ConvNd
    from jtorch.nn.modules.utils import _pair, _triple, consume_prefix_in_state_dict_if_present

    assert Conv2d is nn.Conv2d and nn.modules.Linear is nn.Linear and nn.modules.rnn.LSTM is nn.LSTM
    assert issubclass(nn.BatchNorm2d, _BatchNorm) and issubclass(nn.Conv1d, _ConvNd)
    assert _pair(3) == (3, 3) and _triple((1, 2, 3)) == (1, 2, 3)
    state = nn.Sequential(nn.Sequential(nn.Linear(1, 1))).state_dict()
    consume_prefix_in_state_dict_if_present(state, "0.")
    assert list(state) == ["0.weight", "0.bias"] and set(state._metadata) == {"", "0"}
    with pytest.raises(AttributeError, match="has no attribute 'Nothing'"):
        nn.modules.Nothing  # noqa: B018
