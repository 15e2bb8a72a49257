"""RNN, LSTM, GRU against PyTorch: layers, directions, layouts, packed sequences, errors."""

from __future__ import annotations

import importlib.util

import numpy as np
import pytest

import jtorch
from jtorch import nn
from jtorch.autograd import gradcheck
from jtorch.nn.utils import rnn as ours_rnn
from tests.nn.twins import compare, draw, flat, same, twins

OPTIONS = [
    {},
    {"bias": False},
    {"num_layers": 2},
    {"batch_first": True},
    {"bidirectional": True},
    {"num_layers": 2, "bidirectional": True, "batch_first": True},
]
KINDS = [("RNN", {}), ("RNN", {"nonlinearity": "relu"}), ("LSTM", {}), ("GRU", {})]
CASES = [(name, {**special, **options}) for name, special in KINDS for options in OPTIONS]
CASES += [("LSTM", {"proj_size": 2, **options}) for options in OPTIONS]
IDS = [f"{name}-{'-'.join(f'{k}={v}' for k, v in options.items())}" for name, options in CASES]


def states(module, batch):
    """Initial states as arrays, in the module's shapes."""
    count = len(module.all_weights)
    widths = [module.proj_size or module.hidden_size]
    widths += [module.hidden_size] if isinstance(module, nn.LSTM) else []
    return [draw(count, batch, w, seed=9 + k) for k, w in enumerate(widths)]


def call_with_states(lib, module, x, *hx):
    return module(x, hx[0] if len(hx) == 1 else tuple(hx)) if hx else module(x)


@pytest.mark.parametrize(("name", "options"), CASES, ids=IDS)
def test_equals_pytorch(torch, name, options):
    x = draw(5, 3, 4)
    ours, theirs = twins(torch, name, 4, 6, **options)
    compare(torch, ours, theirs, [x], call_with_states)
    ours, theirs = twins(torch, name, 4, 6, **options)
    batch = 5 if options.get("batch_first") else 3
    compare(torch, ours, theirs, [x, *states(ours, batch)], call_with_states)


@pytest.mark.parametrize(("name", "options"), CASES, ids=IDS)
def test_packed_sequences_equal_pytorch(torch, name, options):
    x = draw(5, 4, 4)

    def call(lib, module, x, *hx):
        utils = ours_rnn if lib is jtorch else torch.nn.utils.rnn
        packed = utils.pack_padded_sequence(x, [3, 5, 1, 3], enforce_sorted=False)
        out, last = call_with_states(lib, module, packed, *hx)
        padded, lengths = utils.pad_packed_sequence(out, padding_value=-1.0, total_length=6)
        assert lengths.tolist() == [3, 5, 1, 3]
        return out.data, padded, last

    for given in (False, True):
        ours, theirs = twins(torch, name, 4, 6, **options)
        compare(torch, ours, theirs, [x, *(states(ours, 4) if given else [])], call)


@pytest.mark.parametrize("name", ["RNN", "LSTM", "GRU"])
@pytest.mark.parametrize("steps", [1, 3])
def test_input_without_batch(torch, name, steps):
    ours, theirs = twins(torch, name, 4, 6, bidirectional=True)
    compare(torch, ours, theirs, [draw(steps, 4)], call_with_states)
    ours, theirs = twins(torch, name, 4, 6, bidirectional=True)
    arrays = [draw(steps, 4), *(s[:, 0] for s in states(ours, 1))]
    compare(torch, ours, theirs, arrays, call_with_states)


@pytest.mark.parametrize("name", ["RNN", "LSTM", "GRU"])
def test_empty_batch_and_input_that_is_not_contiguous(torch, name):
    ours, theirs = twins(torch, name, 4, 6)
    compare(torch, ours, theirs, [draw(3, 0, 4)], call_with_states)
    compare(torch, ours, theirs, [draw(4, 3, 5)], lambda lib, m, x: m(x.transpose(0, 2)))


@pytest.mark.parametrize("name", ["RNN", "LSTM", "GRU"])
def test_nan_reaches_what_comes_after_it(name):
    x = jtorch.zeros(4, 2, 3)
    x[1, 0, 0] = float("nan")
    out, _ = getattr(nn, name)(3, 2)(x)
    broken = out.isnan()
    assert broken[1:, 0].all()
    assert not broken[0].any()
    assert not broken[:, 1].any()


@pytest.mark.parametrize("bidirectional", [False, True])
def test_lstm_is_its_cell_step_by_step(bidirectional):
    layer, cell = nn.LSTM(3, 4, bidirectional=bidirectional), nn.LSTMCell(3, 4)
    cell.load_state_dict({k[:-3]: v for k, v in list(layer.state_dict().items())[:4]})
    x = jtorch.tensor(draw(5, 2, 3).astype(np.float32))
    h = c = jtorch.zeros(2, 4)
    for t in range(5):
        h, c = cell(x[t], (h, c))
    np.testing.assert_allclose(layer(x)[0][-1, :, :4].tolist(), h.tolist(), rtol=1e-5, atol=1e-6)


def test_dropout_between_layers_only_while_training():
    jtorch.manual_seed(0)
    layer, x = nn.GRU(3, 8, num_layers=2, dropout=0.5), jtorch.ones(4, 2, 3)
    assert not layer(x)[0].equal(layer(x)[0])
    layer.eval()
    assert layer(x)[0].equal(layer(x)[0])
    assert repr(layer) == "GRU(3, 8, num_layers=2, dropout=0.5)"
    with pytest.warns(UserWarning, match="dropout option adds dropout after all but last"):
        nn.GRU(3, 8, dropout=0.5)


def test_parameters_start_within_the_bound_and_can_be_replaced():
    layer = nn.LSTM(3, 16)
    assert all(p.abs().max().item() <= 0.25 for p in layer.parameters())
    layer.weight_hh_l0 = nn.Parameter(jtorch.zeros(64, 16))
    assert layer.all_weights[0][1] is layer.weight_hh_l0
    layer.flatten_parameters()


@pytest.mark.parametrize("name", ["RNN", "LSTM", "GRU"])
def test_second_gradient(name):
    layer = getattr(nn, name)(2, 2, bidirectional=True).double()
    x = jtorch.tensor(draw(3, 2, 2), requires_grad=True)

    def slope(x, *weights):
        g = jtorch.autograd.grad((layer(x)[0] ** 2).sum(), x, create_graph=True)
        return g[0]

    assert gradcheck(slope, (x, *layer.parameters()))


BAD_LAYERS = [
    (lambda L: L.RNN(2, 3, nonlinearity="x"), ValueError, "Unknown nonlinearity 'x'"),
    (lambda L: L.GRU(2, 3, proj_size=1), ValueError, "proj_size argument is only supported for LSTM"),
    (lambda L: L.LSTM(2, 3, proj_size=3), ValueError, "proj_size has to be smaller than hidden_size"),
    (lambda L: L.LSTM(2, 3, proj_size=-1), ValueError, "proj_size should be a positive integer"),
    (lambda L: L.RNN(2, 3, dropout=2), ValueError, r"dropout should be a number in range \[0, 1\]"),
    (lambda L: L.RNN(0, 3), ValueError, "input_size must be greater than zero"),
    (lambda L: L.RNN(2, 0), ValueError, "hidden_size must be greater than zero"),
    (lambda L: L.RNN(2, 3, 0), ValueError, "num_layers must be greater than zero"),
    (lambda L: L.RNN(2, 3.0), TypeError, "hidden_size should be of type int, got: float"),
    (lambda L: L.RNN(2, 3, bias=1), TypeError, "bias should be of type bool, got: int"),
]
BAD_CALLS = [
    (lambda L, z: L.LSTM(2, 3)(z(2)), ValueError, "LSTM: Expected input to be 2D or 3D, got 1D instead"),
    (lambda L, z: L.RNN(2, 3)(z(2)), ValueError, "RNN: Expected input to be 2D or 3D, got 1D tensor"),
    (lambda L, z: L.GRU(2, 3)(z(1, 1, 4)), RuntimeError, "Expected 2, got 4"),
    (lambda L, z: L.RNN(2, 3)(z(0, 1, 2)), RuntimeError, "Expected sequence length to be larger than 0"),
    (lambda L, z: L.RNN(2, 3)(z(1, 1, 2).double()), ValueError, "does not match weight dtype"),
    (lambda L, z: L.RNN(2, 3)(z(1, 1, 2), z(1, 3)), RuntimeError, "should also be 3-D but got 2-D tensor"),
    (lambda L, z: L.GRU(2, 3)(z(1, 2), z(1, 1, 3)), RuntimeError, "should also be 2-D but got 3-D tensor"),
    (
        lambda L, z: L.LSTM(2, 3)(z(1, 1, 2), (z(1, 3), z(1, 1, 3))),
        RuntimeError,
        r"hx and cx should also be 3-D but got \(2-D, 3-D\) tensors",
    ),
    (
        lambda L, z: L.GRU(2, 3)(z(1, 4, 2), z(1, 1, 3)),
        RuntimeError,
        r"Expected hidden size \(1, 4, 3\), got \[1, 1, 3\]",
    ),
    (
        lambda L, z: L.LSTM(2, 3)(z(1, 4, 2), (z(1, 4, 3), z(1, 4, 2))),
        RuntimeError,
        r"Expected hidden\[1\] size \(1, 4, 3\), got \[1, 4, 2\]",
    ),
]


@pytest.mark.parametrize(("build", "error", "text"), BAD_LAYERS)
def test_errors_of_constructors(build, error, text):
    with pytest.raises(error, match=text):
        build(nn)


@pytest.mark.parametrize(("build", "error", "text"), BAD_LAYERS)
def test_errors_of_constructors_are_pytorchs(torch, build, error, text):
    with pytest.raises(error, match=text):
        build(torch.nn)


@pytest.mark.parametrize(("call", "error", "text"), BAD_CALLS)
def test_errors_of_calls(call, error, text):
    with pytest.raises(error, match=text):
        call(nn, jtorch.zeros)


@pytest.mark.parametrize(("call", "error", "text"), BAD_CALLS)
def test_errors_of_calls_are_pytorchs(torch, call, error, text):
    with pytest.raises(error, match=text):
        call(torch.nn, torch.zeros)


# -- compiled ----------------------------------------------------------------------------------------------


@pytest.mark.skipif(
    importlib.util.find_spec("numba") is None, reason="compiling needs Numba, which is not installed"
)
@pytest.mark.parametrize("options", [{}, {"bidirectional": True, "num_layers": 2}])
def test_compiled_step_equals_eager(options):
    def losses(compiled):
        jtorch.manual_seed(0)
        model, head = nn.LSTM(3, 4, **options), nn.Linear(8 if options else 4, 2)
        optimizer = jtorch.optim.Adam([*model.parameters(), *head.parameters()], lr=0.05)

        def step(x, y):
            optimizer.zero_grad()
            loss = nn.functional.mse_loss(head(model(x)[0][-1]), y)
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            return loss

        run = jtorch.compile(step) if compiled else step
        x, y = (jtorch.tensor(draw(*s).astype(np.float32)) for s in ((4, 2, 3), (2, 2)))
        return [run(x, y).item() for _ in range(4)], model

    (eager, a), (compiled, b) = losses(False), losses(True)
    np.testing.assert_allclose(compiled, eager, rtol=1e-5)
    for p, q in zip(a.parameters(), b.parameters(), strict=True):
        np.testing.assert_allclose(p.detach().numpy(), q.detach().numpy(), rtol=1e-4, atol=1e-5)


def test_helpers_compare_what_they_should():
    assert len(flat((jtorch.ones(1), [None, (jtorch.ones(2),)]))) == 2
    with pytest.raises(AssertionError):
        same(jtorch.ones(2), jtorch.zeros(2))
