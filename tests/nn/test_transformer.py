"""Transformer and its parts against PyTorch."""

from __future__ import annotations

import importlib.util

import numpy as np
import pytest

import jtorch
from jtorch import nn
from tests.nn.twins import compare, draw, twins

pytestmark = pytest.mark.filterwarnings("ignore:enable_nested_tensor is True:UserWarning")
SIZES = {"d_model": 6, "nhead": 2, "dim_feedforward": 7, "dropout": 0.0}
OPTIONS = [
    {},
    {"norm_first": True},
    {"batch_first": True, "activation": "gelu"},
    {"bias": False, "layer_norm_eps": 1e-2},
    {"norm_first": True, "batch_first": True, "bias": False},
]
CAUSAL = np.triu(np.full((4, 4), -np.inf), 1)
PADDING = np.array([[False] * 4, [False, False, True, True]])
MASKS = {
    "none": (None, None, False),
    "causal": (CAUSAL, None, True),
    "mask": (CAUSAL < 0, None, False),
    "padding": (None, PADDING, False),
    "both": (CAUSAL < 0, PADDING, False),
}


def tensor(lib, array):
    return None if array is None else lib.tensor(array)


def source(options, length=4, seed=0):
    x = draw(length, 2, 6, seed=seed)
    return x.swapaxes(0, 1).copy() if options.get("batch_first") else x


@pytest.mark.parametrize("masks", MASKS.values(), ids=MASKS)
@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_encoder_layer_equals_pytorch(torch, options, masks):
    mask, padding, causal = masks
    ours, theirs = twins(torch, "TransformerEncoderLayer", **SIZES, **options)
    compare(
        torch, ours, theirs, [source(options)],
        lambda lib, m, x: m(x, tensor(lib, mask), tensor(lib, padding), is_causal=causal),
    )  # fmt: skip


@pytest.mark.parametrize("masks", MASKS.values(), ids=MASKS)
@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_decoder_layer_equals_pytorch(torch, options, masks):
    mask, padding, causal = masks
    ours, theirs = twins(torch, "TransformerDecoderLayer", **SIZES, **options)
    compare(
        torch, ours, theirs, [source(options), source(options, 5, seed=1)],
        lambda lib, m, x, memory: m(
            x, memory, tensor(lib, mask), None, tensor(lib, padding), tgt_is_causal=causal
        ),
    )  # fmt: skip


@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_transformer_equals_pytorch(torch, options):
    ours, theirs = twins(torch, "Transformer", num_encoder_layers=2, num_decoder_layers=2, **SIZES, **options)
    assert len({id(layer) for layer in ours.encoder.layers}) == 2

    def call(lib, m, src, tgt):
        mask = m.generate_square_subsequent_mask(4).to(src.dtype)
        return m(
            src, tgt, tgt_mask=mask, src_key_padding_mask=lib.tensor(np.pad(PADDING, ((0, 0), (1, 0)))),
            tgt_is_causal=True,
        )  # fmt: skip

    compare(torch, ours, theirs, [source(options, 5), source(options, seed=1)], call)


def test_input_without_batch(torch):
    ours, theirs = twins(torch, "Transformer", num_encoder_layers=1, num_decoder_layers=1, **SIZES)
    compare(torch, ours, theirs, [draw(5, 6), draw(4, 6)], lambda lib, m, x, y: m(x, y))


def test_stack_of_layers_with_a_norm_and_a_module_as_activation(torch):
    def build(lib):
        layer = lib.nn.TransformerEncoderLayer(**SIZES, activation=lib.nn.GELU())
        return lib.nn.TransformerEncoder(layer, 2, norm=lib.nn.LayerNorm(6)).double()

    theirs, ours = build(torch), build(jtorch)
    ours.load_state_dict({k: jtorch.from_numpy(v.numpy()) for k, v in theirs.state_dict().items()})
    assert repr(ours) == repr(theirs)
    compare(
        torch, ours, theirs, [draw(4, 2, 6)],
        lambda lib, m, x: m(x, src_key_padding_mask=lib.tensor(PADDING)),
    )  # fmt: skip


def test_mask_of_subsequent_positions():
    mask = nn.Transformer.generate_square_subsequent_mask(3)
    inf = float("inf")
    assert mask.tolist() == [[0.0, -inf, -inf], [0.0, 0.0, -inf], [0.0, 0.0, 0.0]]
    assert nn.Transformer.generate_square_subsequent_mask(2, dtype=jtorch.float64).dtype is jtorch.float64


def test_causal_output_does_not_depend_on_the_future():
    layer, mask = nn.TransformerEncoderLayer(**SIZES), nn.Transformer.generate_square_subsequent_mask(4)
    x = jtorch.randn(4, 1, 6)
    y = x.clone()
    y[3] = 5.0
    a, b = layer(x, mask, is_causal=True), layer(y, mask, is_causal=True)
    np.testing.assert_array_equal(a[:3].detach().numpy(), b[:3].detach().numpy())


BAD_CALLS = [
    (lambda m, z: m(z(4, 2, 6), z(4, 3, 6)), "the batch number of src and tgt must be equal"),
    (lambda m, z: m(z(4, 2, 5), z(4, 2, 6)), "the feature number of src and tgt must be equal to d_model"),
]


@pytest.mark.parametrize(("call", "text"), BAD_CALLS)
def test_errors(call, text):
    with pytest.raises(RuntimeError, match=text):
        call(nn.Transformer(6, 2, 1, 1, 4), jtorch.zeros)


def test_unknown_activation():
    with pytest.raises(RuntimeError, match="activation should be relu/gelu, not tanh"):
        nn.TransformerEncoderLayer(4, 2, activation="tanh")


# -- compiled ----------------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.skipif(
    importlib.util.find_spec("numba") is None, reason="compiling needs Numba, which is not installed"
)
def test_compiled_step_equals_eager():
    def losses(compiled):
        jtorch.manual_seed(0)
        model = nn.TransformerEncoderLayer(**(SIZES | {"dropout": 0.1}), batch_first=True)
        # not Adam: the gradient of the keys' bias is 0 but for rounding, which Adam would magnify
        optimizer = jtorch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)

        def step(x, mask, padding):
            optimizer.zero_grad()
            loss = (model(x, mask, padding) ** 3).mean()
            loss.backward()
            optimizer.step()
            return loss

        run = jtorch.compile(step) if compiled else step
        x = jtorch.tensor(draw(2, 4, 6).astype(np.float32))
        arguments = x, jtorch.tensor(CAUSAL < 0), jtorch.tensor(PADDING)
        return [run(*arguments).item() for _ in range(4)], model

    (eager, a), (compiled, b) = losses(False), losses(True)
    np.testing.assert_allclose(compiled, eager, rtol=1e-4)
    for p, q in zip(a.parameters(), b.parameters(), strict=True):
        np.testing.assert_allclose(p.detach().numpy(), q.detach().numpy(), rtol=1e-3, atol=1e-5)
