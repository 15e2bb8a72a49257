"""Autocast in compiled functions: each call gives eager mode's dtype, and its value up to 16 bits."""

from __future__ import annotations

import warnings

import pytest

import jtorch
from jtorch.core.errors import EagerWarning
from tests.amp.autocast_calls import CALLS
from tests.each import each

# what a compiled function would make anew at each call, or cannot record
EAGER = (
    "polar",
    "view_as_complex",
    "LSTM",
    "GRU",
    "RNN",
    "LSTMCell",
    "GRUCell",
    "RNNCell",
    "MultiheadAttention",
    "TransformerEncoderLayer",
)


@pytest.mark.slow
@each("name", [pytest.param(name, id=name) for name in CALLS if name not in EAGER])
def test_recorded_calls_give_what_eager_ones_give(name):
    def call():
        return CALLS[name](jtorch, lambda t: t)

    with jtorch.autocast("cpu", dtype=jtorch.bfloat16), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        warnings.simplefilter("error", EagerWarning)
        jtorch.manual_seed(0)
        expected = call()
        jtorch.manual_seed(0)
        found = jtorch.compile(call)()
    assert found.dtype is expected.dtype
    jtorch.testing.assert_close(found, expected, rtol=2**-6, atol=2**-6)


def test_recurrent_layers_are_recorded_under_autocast():
    x = jtorch.randn(5, 2, 3)
    for layer in (jtorch.nn.LSTM(3, 4), jtorch.nn.GRU(3, 4), jtorch.nn.RNN(3, 4)):
        run = jtorch.compile(lambda x, layer=layer: layer(x)[0])
        with jtorch.autocast("cpu", dtype=jtorch.bfloat16):
            expected, found = layer(x)[0], run(x)
        assert found.dtype is expected.dtype
        jtorch.testing.assert_close(found, expected, rtol=2**-6, atol=2**-6)
