"""``torch.lstm`` and its kin: recurrent layers as functions of their weights, against modules and PyTorch."""

from __future__ import annotations

import numpy as np
import pytest

import jtorch
from tests.each import each
from tests.ops.support import needs_torch

KINDS = {
    "lstm": ("LSTM", {}),
    "gru": ("GRU", {}),
    "rnn_tanh": ("RNN", {}),
    "rnn_relu": ("RNN", {"nonlinearity": "relu"}),
}
SHAPES = [
    {}, {"num_layers": 2}, {"bidirectional": True}, {"bias": False}, {"batch_first": True},
    {"num_layers": 2, "bidirectional": True, "batch_first": True, "bias": False},
]  # fmt: skip
CASES = [(name, options) for name in KINDS for options in SHAPES]
CASES += [("lstm", {"proj_size": 2}), ("lstm", {"proj_size": 2, "bidirectional": True, "num_layers": 2})]


def _layer(name, options):
    cls, more = KINDS[name]
    jtorch.manual_seed(0)
    return getattr(jtorch.nn, cls)(3, 4, **more, **options).double()


def _arguments(L, layer, packed, train=False, dropout=0.0):
    """The arguments of the function, as leaves of ``L``: (all, those that have gradients)."""
    rng = np.random.default_rng(1)
    leaf = lambda a: L.tensor(np.asarray(a), requires_grad=True)  # noqa: E731
    batch, directions = 3, 2 if layer.bidirectional else 1
    widths = layer._state_widths()
    states = [leaf(rng.standard_normal((layer.num_layers * directions, batch, w))) for w in widths]
    weights = [leaf(w.detach().numpy()) for w in layer._flat_weights]
    hx = tuple(states) if len(states) > 1 else states[0]
    options = (layer.bias, layer.num_layers, dropout, train, layer.bidirectional)
    if packed:
        rows = leaf(rng.standard_normal((6, 3)))
        return (rows, L.tensor([3, 2, 1]), hx, weights, *options), [rows, *states, *weights]
    x = leaf(rng.standard_normal((3, 5, 3) if layer.batch_first else (5, 3, 3)))
    return (x, hx, weights, *options, layer.batch_first), [x, *states, *weights]


def _results(L, name, options, packed, wrap=lambda f: f):
    arguments, leaves = _arguments(L, _layer(name, options), packed)
    found = wrap(getattr(L, name))(*arguments)
    loss = sum((t * t).sum() for t in found)
    return [t.detach().numpy() for t in (*found, *L.autograd.grad(loss, leaves))]


@needs_torch
@each("name, options, packed", [(n, o, p) for n, o in CASES for p in (False, True)])
def test_values_and_gradients_are_pytorchs(name, options, packed):
    import torch

    ours, theirs = (_results(L, name, options, packed) for L in (jtorch, torch))
    for have, want in zip(ours, theirs, strict=True):
        np.testing.assert_allclose(have, want, rtol=1e-9, atol=1e-10)


@each("name, options", CASES)
def test_is_what_the_module_computes(name, options):
    layer = _layer(name, options)
    (x, hx, *others), _ = _arguments(jtorch, layer, False)
    out, last = layer(x, hx)
    expected = [out, *(last if isinstance(last, tuple) else (last,))]
    for have, want in zip(getattr(jtorch, name)(x, hx, *others), expected, strict=True):
        assert jtorch.equal(have, want)


@each("name, packed", [(name, packed) for name in KINDS for packed in (False, True)])
def test_compiled_equals_eager(name, packed):
    options = {"num_layers": 2}
    eager = _results(jtorch, name, options, packed)
    compiled = _results(
        jtorch, name, options, packed, lambda f: jtorch.compile(lambda *a: f(*a), fullgraph=True)
    )
    for have, want in zip(compiled, eager, strict=True):
        np.testing.assert_allclose(have, want, rtol=1e-9, atol=1e-10)


def test_dropout_is_between_layers_in_training():
    layer = _layer("gru", {"num_layers": 2})
    results = []
    for train in (True, True, False):
        arguments, _ = _arguments(jtorch, layer, False, train, 0.5)
        results.append(jtorch.gru(*arguments)[0])
    assert not jtorch.equal(results[0], results[1])
    assert jtorch.equal(results[2], jtorch.gru(*_arguments(jtorch, layer, False)[0])[0])


def _refused(L):
    x, h = L.ones(5, 3, 4), L.zeros(1, 3, 2)
    w = [L.ones(8, 4), L.ones(8, 2), L.ones(8), L.ones(8)]
    options = (True, 1, 0.0, False, False, False)
    return {
        "states": lambda: L.lstm(x, (h,), w, *options),
        "weights": lambda: L.gru(x, h, w[:3], *options),
        "layers": lambda: L.rnn_tanh(x, h, [*w, *w], *options),
        "layers of states": lambda: L.rnn_tanh(x, h.expand(2, 3, 2), w, *options),
        "steps": lambda: L.rnn_relu(x[:0], h, w, *options),
    }


@each("name", list(_refused(jtorch)))
def test_refuses_in_pytorchs_words(name):
    torch = pytest.importorskip("torch")
    said = []
    for L in (jtorch, torch):
        with pytest.raises(RuntimeError) as error:
            _refused(L)[name]()
        said.append(str(error.value))
    assert said[0] == said[1]


def test_what_does_not_fit_is_an_error():
    x, h = jtorch.ones(5, 3, 4), jtorch.zeros(1, 3, 2)
    w = [jtorch.ones(2, 4), jtorch.ones(2, 2), jtorch.ones(2), jtorch.ones(2)]
    with pytest.raises(RuntimeError, match=r"Expected hidden size \[1, 3, 2\], got \[1, 2, 2\]"):
        jtorch.rnn_tanh(x, h[:, :2], w, True, 1, 0.0, False, False, False)
    with pytest.raises(RuntimeError, match="must have the same dtype"):
        jtorch.rnn_tanh(x, h.double(), w, True, 1, 0.0, False, False, False)
    with pytest.raises(RuntimeError, match="input and hx have 3 dims"):
        jtorch.rnn_tanh(x[0], h[0], w, True, 1, 0.0, False, False, False)
    with pytest.raises(TypeError, match=r"gru\(\) takes \(input, hx, params"):
        jtorch.gru(x, h, w)
