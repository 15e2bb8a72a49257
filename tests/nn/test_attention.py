"""MultiheadAttention against PyTorch: options, masks, layouts, errors."""

from __future__ import annotations

import numpy as np
import pytest

import jtorch
from jtorch import nn
from tests.nn.twins import compare, draw, twins

OPTIONS = [
    {},
    {"bias": False},
    {"add_bias_kv": True},
    {"add_zero_attn": True, "add_bias_kv": True},
    {"kdim": 5, "vdim": 3},
    {"kdim": 5, "vdim": 3, "bias": False, "add_zero_attn": True},
    {"batch_first": True},
]
PADDING = np.array([[False] * 5, [False, False, True, True, True]])  # (B, S)
CAUSAL = np.triu(np.ones((4, 5), bool), 1)
MASKS = {
    "none": {},
    "padding": {"key_padding_mask": PADDING},
    "float padding": {"key_padding_mask": np.where(PADDING, -1.0, 0.5)},
    "mask": {"attn_mask": CAUSAL},
    "float mask for each head": {"attn_mask": draw(4, 4, 5)},
    "both": {"attn_mask": CAUSAL, "key_padding_mask": PADDING},
    "causal": {"attn_mask": CAUSAL, "is_causal": True},
}
WANTED = [{"need_weights": False}, {}, {"average_attn_weights": False}]


def given(lib, options):
    return {k: lib.tensor(v) if isinstance(v, np.ndarray) else v for k, v in options.items()}


@pytest.mark.parametrize("mask", MASKS.values(), ids=MASKS)
@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_equals_pytorch(torch, options, mask):
    shapes = [(4, 2, 6), (5, 2, options.get("kdim", 6)), (5, 2, options.get("vdim", 6))]
    arrays = [draw(*s, seed=k) for k, s in enumerate(shapes)]
    if options.get("batch_first"):
        arrays = [a.swapaxes(0, 1).copy() for a in arrays]
    for wanted in WANTED:
        ours, theirs = twins(torch, "MultiheadAttention", 6, 2, **options)
        compare(
            torch, ours, theirs, arrays,
            lambda lib, m, q, k, v, w=wanted: m(q, k, v, **given(lib, mask), **w),
        )  # fmt: skip


@pytest.mark.parametrize("batch_first", [False, True])
def test_self_attention_and_input_without_batch(torch, batch_first):
    ours, theirs = twins(torch, "MultiheadAttention", 6, 3, batch_first=batch_first)
    compare(torch, ours, theirs, [draw(4, 2, 6)], lambda lib, m, x: m(x, x, x))
    ours, theirs = twins(torch, "MultiheadAttention", 6, 3, batch_first=batch_first)
    compare(torch, ours, theirs, [draw(4, 6)], lambda lib, m, x: m(x, x, x))
    padding = np.array([False, True, False, False])
    ours, theirs = twins(torch, "MultiheadAttention", 6, 3, batch_first=batch_first)
    compare(
        torch, ours, theirs, [draw(4, 6), draw(4, 6, seed=1)],
        lambda lib, m, q, k: m(q, k, k, key_padding_mask=lib.tensor(padding)),
    )  # fmt: skip


def test_query_that_sees_no_key():
    """NaN where the weights are asked for and zeros elsewhere, as in PyTorch."""
    layer, x = nn.MultiheadAttention(4, 2), jtorch.ones(3, 1, 4)
    mask = jtorch.tensor([[True] * 3, [False] * 3, [False] * 3])
    out, weights = layer(x, x, x, attn_mask=mask)
    assert out.isnan()[:, 0, 0].tolist() == [True, False, False]
    assert weights.isnan()[0, :, 0].tolist() == [True, False, False]
    out, _ = layer(x, x, x, attn_mask=mask, need_weights=False)
    np.testing.assert_allclose(out[0, 0].tolist(), layer.out_proj.bias.tolist(), atol=1e-7)


def test_dropout_only_while_training():
    jtorch.manual_seed(0)
    layer, x = nn.MultiheadAttention(4, 2, dropout=0.5), jtorch.randn(3, 2, 4)
    assert not layer(x, x, x)[0].equal(layer(x, x, x)[0])
    layer.eval()
    assert layer(x, x, x)[0].equal(layer(x, x, x)[0])


Z = (4, 2, 6)
BAD_CALLS = [
    (lambda m, z: m(z(1, 1, 1, 6), z(*Z), z(*Z)), AssertionError, "but received 4-D query tensor"),
    (lambda m, z: m(z(4, 6), z(*Z), z(*Z)), AssertionError, "`key` and `value` to be 2-D but found 3-D"),
    (lambda m, z: m(z(*Z), z(*Z), z(*Z), z(4)), AssertionError, "`key_padding_mask` to be `None` or 2-D"),
    (lambda m, z: m(z(*Z), z(*Z), z(*Z), attn_mask=z(4)), AssertionError, "`None`, 2-D or 3-D but found 1-D"),
    (lambda m, z: m(z(*Z), z(*Z), z(*Z), attn_mask=z(4, 3)), RuntimeError, "of the 2D attn_mask is"),
    (lambda m, z: m(z(*Z), z(*Z), z(*Z), attn_mask=z(3, 4, 4)), RuntimeError, "of the 3D attn_mask is"),
    (lambda m, z: m(z(*Z), z(*Z), z(*Z), z(3, 4)), AssertionError, r"shape\[0\] to be 2, but got 3"),
    (lambda m, z: m(z(4, 2, 5), z(*Z), z(*Z)), AssertionError, "embedding dimension of 6, but got 5"),
    (lambda m, z: m(z(*Z), z(*Z), z(3, 2, 6)), AssertionError, "does not match value shape"),
    (lambda m, z: m(z(*Z), z(*Z), z(*Z), is_causal=True), RuntimeError, "Need attn_mask if specifying"),
    (lambda m, z: m(z(*Z), z(*Z), z(*Z), attn_mask=z(4, 4).long()), AssertionError, "only bool and floating"),
]


@pytest.mark.parametrize(("call", "error", "text"), BAD_CALLS)
def test_errors(call, error, text):
    with pytest.raises(error, match=text):
        call(nn.MultiheadAttention(6, 2), jtorch.zeros)


@pytest.mark.parametrize(("call", "error", "text"), BAD_CALLS)
def test_errors_are_pytorchs(torch, call, error, text):
    with pytest.raises(error, match=text):
        call(torch.nn.MultiheadAttention(6, 2), torch.zeros)


def test_constructor():
    with pytest.raises(AssertionError, match="embed_dim must be divisible by num_heads"):
        nn.MultiheadAttention(6, 4)
    with pytest.raises(ValueError, match="got embed_dim=0 and num_heads=2"):
        nn.MultiheadAttention(0, 2)
    layer = nn.MultiheadAttention(6, 2)
    assert layer.in_proj_weight.abs().max().item() <= (6 / 24) ** 0.5
    assert layer.in_proj_bias.tolist() == [0.0] * 18
