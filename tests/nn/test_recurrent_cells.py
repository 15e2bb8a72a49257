"""RNNCell, LSTMCell, GRUCell against PyTorch."""

from __future__ import annotations

import pytest

import jtorch
from jtorch import nn
from tests.nn.twins import compare, draw, twins

CASES = [
    ("RNNCell", {}),
    ("RNNCell", {"nonlinearity": "relu", "bias": False}),
    ("LSTMCell", {}),
    ("LSTMCell", {"bias": False}),
    ("GRUCell", {}),
    ("GRUCell", {"bias": False}),
]


@pytest.mark.parametrize(("name", "options"), CASES)
@pytest.mark.parametrize("batch", [(3,), (), (0,)])
@pytest.mark.parametrize("with_state", [True, False])
def test_equals_pytorch(torch, name, options, batch, with_state):
    ours, theirs = twins(torch, name, 4, 5, **options)
    count = (2 if name == "LSTMCell" else 1) if with_state else 0
    hidden = [draw(*batch, 5, seed=k) for k in range(count)]

    def call(lib, module, x, *hx):
        return module(x, hx[0] if len(hx) == 1 else hx) if hx else module(x)

    compare(torch, ours, theirs, [draw(*batch, 4), *hidden], call)


BAD_CALLS = [
    (lambda L, z: L.RNNCell(2, 3)(z(1, 1, 2)), ValueError, "RNNCell: Expected input to be 1D or 2D, got 3D"),
    (lambda L, z: L.GRUCell(2, 3)(z(1, 2), z(1, 1, 3)), ValueError, "Expected hidden to be 1D or 2D, got 3D"),
    (
        lambda L, z: L.LSTMCell(2, 3)(z(1, 2), (z(1, 3), z(1, 1, 3))),
        ValueError,
        r"LSTMCell: Expected hx\[1\] to be 1D or 2D, got 3D",
    ),
    (lambda L, z: L.LSTMCell(2, 3)(z(2, 3)), RuntimeError, "inconsistent input_size: got 3 expected 2"),
    (
        lambda L, z: L.GRUCell(2, 3)(z(2, 2), z(3, 3)),
        RuntimeError,
        "Input batch size 2 doesn't match hidden0 batch size 3",
    ),
    (
        lambda L, z: L.LSTMCell(2, 3)(z(2, 2), (z(2, 4), z(2, 3))),
        RuntimeError,
        "hidden0 has inconsistent hidden_size: got 4, expected 3",
    ),
    (lambda L, z: L.RNNCell(2, 3, nonlinearity="x")(z(2, 2)), RuntimeError, "Unknown nonlinearity: x"),
]


@pytest.mark.parametrize(("call", "error", "text"), BAD_CALLS)
def test_errors(call, error, text):
    with pytest.raises(error, match=text):
        call(nn, jtorch.zeros)


@pytest.mark.parametrize(("call", "error", "text"), BAD_CALLS)
def test_errors_are_pytorchs(torch, call, error, text):
    with pytest.raises(error, match=text):
        call(torch.nn, torch.zeros)


def test_relu_cell_in_closed_form():
    cell = nn.RNNCell(1, 1, nonlinearity="relu")
    for p in cell.parameters():
        nn.init.constant_(p, 2.0)
    assert cell(jtorch.tensor([[1.0], [-9.0]]), jtorch.ones(2, 1)).tolist() == [[8.0], [0.0]]
    assert repr(cell) == "RNNCell(1, 1, nonlinearity=relu)"
