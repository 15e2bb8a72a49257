"""flex_attention against scaled_dot_product_attention, and masks by blocks against PyTorch's."""

from __future__ import annotations

import math

import numpy as np
import pytest

import jtorch
import jtorch.nn.functional as F
from jtorch.nn.attention import flex_attention as flex
from tests.ops.support import HAS_TORCH, needs_torch

if HAS_TORCH:
    import torch
    from torch.nn.attention import flex_attention as torch_flex

RNG = np.random.default_rng(0)
Q = RNG.standard_normal((2, 4, 6, 8)).astype(np.float32)
K, V = (RNG.standard_normal((2, 4, 10, n)).astype(np.float32) for n in (8, 3))
BIAS = RNG.standard_normal((4, 6, 10)).astype(np.float32)
DOCUMENT = np.array([[0, 0, 0, 1, 1, 1, 2, 2, 2, 2], [0] * 5 + [1] * 5])


def causal(b, h, q_idx, kv_idx):
    return q_idx + 4 >= kv_idx


def late(b, h, q_idx, kv_idx):
    return (q_idx > 1) & (kv_idx > 2)


def mods(library):
    bias = library.tensor(BIAS)
    return {
        "none": None,
        "bias": lambda score, b, h, q, k: score + bias[h, q, k],
        "distance": lambda score, b, h, q, k: score - (h + 1) * (q - k).abs(),
        "cap": lambda score, b, h, q, k: 2 * library.tanh(score / 2),
        "vector": lambda score, b, h, q, k: score * bias[h, q].mean(),  # of one score all of a row
    }


def masks(library, module):
    document = library.tensor(DOCUMENT)

    def same(b, h, q_idx, kv_idx):
        return document[b, q_idx] == document[b, kv_idx]

    return {
        "none": None,
        "causal": module.create_block_mask(causal, None, None, 6, 10, "cpu", BLOCK_SIZE=4),
        "documents": module.create_block_mask(
            module.and_masks(causal, same), 2, None, 6, 10, "cpu", BLOCK_SIZE=(2, 3)
        ),
        "either": module.create_block_mask(module.or_masks(causal, same), 2, 4, 6, 10, "cpu"),
        "late": module.create_block_mask(late, None, None, 6, 10, "cpu"),
    }


@needs_torch
@pytest.mark.parametrize("mask", ["none", "causal", "documents", "either", "late"])
def test_equals_pytorch(mask, monkeypatch):
    monkeypatch.setattr(
        torch_flex, "_FLEX_ATTENTION_DISABLE_COMPILE_DEBUG", True
    )  # else it wants a C++ compiler
    ours, theirs = masks(jtorch, flex)[mask], masks(torch, torch_flex)[mask]
    x, y = (tuple(map(library.tensor, (Q, K, V))) for library in (jtorch, torch))
    for mod, their_mod in zip(mods(jtorch).values(), mods(torch).values(), strict=True):
        found = flex.flex_attention(*x, mod, ours)
        wanted = torch_flex.flex_attention(*y, their_mod, theirs)
        np.testing.assert_allclose(found.numpy(), wanted.numpy(), rtol=2e-5, atol=2e-6)


@needs_torch
@pytest.mark.parametrize("mask", ["causal", "documents", "either", "late"])
def test_blocks_are_those_of_pytorch(mask):
    ours, theirs = masks(jtorch, flex)[mask], masks(torch, torch_flex)[mask]
    assert (ours.shape, ours.numel(), ours.BLOCK_SIZE) == (theirs.shape, theirs.numel(), theirs.BLOCK_SIZE)
    assert ours.sparsity() == pytest.approx(theirs.sparsity())
    for name in (
        "kv_num_blocks", "kv_indices", "full_kv_num_blocks", "full_kv_indices", "q_num_blocks", "q_indices",
        "full_q_num_blocks", "full_q_indices",
    ):  # fmt: skip
        found, wanted = getattr(ours, name), getattr(theirs, name)
        assert found.dtype is jtorch.int32
        np.testing.assert_array_equal(found.numpy(), wanted.numpy())
    assert ours.to_dense().tolist() == theirs.to_dense().tolist()
    assert ours[0].to_dense().tolist() == theirs[0].to_dense().tolist()


@pytest.mark.parametrize("compiled", [False, True], ids=["eager", "compiled"])
def test_a_mask_is_that_of_scaled_dot_product_attention(compiled):
    def ours(q, k, v):
        mask = flex.create_block_mask(causal, None, None, 6, 10, BLOCK_SIZE=4)
        return flex.flex_attention(q, k, v, lambda score, b, h, i, j: score + h * j, mask, scale=0.3)

    def wanted(q, k, v):
        seen = jtorch.arange(6)[:, None] + 4 >= jtorch.arange(10)
        bias = jtorch.arange(4)[:, None, None] * jtorch.arange(10.0)
        return F.scaled_dot_product_attention(q, k, v, jtorch.where(seen, bias, -math.inf), scale=0.3)

    results = []
    for function in (jtorch.compile(ours, fullgraph=True) if compiled else ours, wanted):
        x = [jtorch.tensor(a, requires_grad=True) for a in (Q, K, V)]
        out = function(*x)
        out.square().sum().backward()
        results.append([out.detach(), *(t.grad for t in x)])
    for a, b in zip(*results, strict=True):
        np.testing.assert_allclose(a.numpy(), b.numpy(), rtol=2e-4, atol=2e-5)


def test_a_query_without_keys_gets_zeros_and_no_nan():
    q, k, v = (jtorch.tensor(a, requires_grad=True) for a in (Q, K, V))
    mask = flex.create_block_mask(late, None, None, 6, 10)
    out, aux = flex.flex_attention(q, k, v, block_mask=mask, return_aux=flex.AuxRequest(True, True))
    assert not out[:, :, :2].any() and out[:, :, 2:].all()
    assert aux.lse[:, :, :2].isneginf().all() and aux.max_scores[:, :, :2].isneginf().all()
    scores = (q @ k.mT / math.sqrt(8))[:, :, 2:, 3:]
    np.testing.assert_allclose(aux.lse[:, :, 2:].tolist(), scores.logsumexp(-1).tolist(), rtol=1e-5)
    np.testing.assert_allclose(aux.max_scores[:, :, 2:].tolist(), scores.amax(-1).tolist(), rtol=1e-5)
    (out.sum() + flex.flex_attention(q, k, v, block_mask=mask, return_lse=True)[1][:, :, 2:].sum()).backward()
    assert all(t.grad.isfinite().all() for t in (q, k, v)) and not q.grad[:, :, :2].any()


def test_tables_of_blocks_decide_where_they_are_given():
    """In full blocks the function is not asked, in those that are named nowhere nothing is seen."""
    count, columns = jtorch.tensor([[[1, 0]]], dtype=jtorch.int32), jtorch.tensor([[[[1, 0], [0, 1]]]])
    full, full_columns = jtorch.tensor([[[0, 1]]]), jtorch.tensor([[[[0, 1], [1, 0]]]])
    mask = flex.BlockMask.from_kv_blocks(
        count, columns, full, full_columns, 2, lambda b, h, q_idx, kv_idx: kv_idx == 3
    )
    assert mask.shape == (1, 1, 4, 4) and mask.to_dense().tolist() == [[[[0, 1], [0, 1]]]]
    q, k = jtorch.zeros(1, 1, 4, 2), jtorch.zeros(1, 1, 4, 2)
    out = flex.flex_attention(q, k, jtorch.eye(4).reshape(1, 1, 4, 4), block_mask=mask)
    assert out[0, 0].tolist() == [[0, 0, 0, 1]] * 2 + [[0, 0, 0.5, 0.5]] * 2
    assert mask.to("cpu").to_dense().tolist() == mask.to_dense().tolist()


def test_heads_are_shared_when_asked():
    q, k, v = jtorch.tensor(Q), jtorch.tensor(K)[:1, :2], jtorch.tensor(V)[:1, :2]
    found = flex.flex_attention(q, k, v, enable_gqa=True)
    wanted = F.scaled_dot_product_attention(
        q, k.expand(2, -1, -1, -1), v.expand(2, -1, -1, -1), enable_gqa=True
    )
    np.testing.assert_allclose(found.numpy(), wanted.numpy(), rtol=1e-5, atol=1e-6)
    half = flex.flex_attention(q.half(), q.half(), q.half())
    assert half.dtype is jtorch.float16


def test_masks_of_functions():
    assert flex.create_mask(causal, None, 2, 6, 10).sum().item() == 90
    by_score = flex.create_mask(lambda s, b, h, i, j: jtorch.where(i > j, s, -math.inf), 1, 1, 2, 2)
    assert by_score.tolist() == [[[[False, False], [True, False]]]]
    assert flex.create_block_mask(flex.noop_mask, 1, 1, 4, 4, BLOCK_SIZE=2).full_kv_num_blocks.tolist() == [
        [[2, 2]]
    ]
    assert "shape=(1, 1, 4, 4)" in repr(flex.create_block_mask(flex.noop_mask, 1, 1, 4, 4, BLOCK_SIZE=2))


def test_errors():
    q, k, v = map(jtorch.tensor, (Q, K, V))
    mask = flex.create_block_mask(causal, None, None, 6, 9)
    with pytest.raises(ValueError, match="Try setting enable_gqa=True"):
        flex.flex_attention(q, k[:, :2], v[:, :2])
    with pytest.raises(ValueError, match="multiple of kv heads"):
        flex.flex_attention(q[:, :3], k[:, :2], v[:, :2], enable_gqa=True)
    with pytest.raises(ValueError, match="but got q_len=6 and kv_len=10"):
        flex.flex_attention(q, k, v, block_mask=mask)
    with pytest.raises(ValueError, match="heads of 3 is neither 1 nor the query's 4"):
        flex.flex_attention(q, k, v, block_mask=flex.create_block_mask(causal, None, 3, 6, 10))
    with pytest.raises(ValueError, match="the same dtype"):
        flex.flex_attention(q, k.double(), v)
    with pytest.raises(ValueError, match="4D tensors"):
        flex.flex_attention(q[0], k[0], v[0])
    with pytest.raises(RuntimeError, match="sliced BlockMask"):
        flex.flex_attention(q, k, v, block_mask=mask[:1])
    with pytest.raises(AssertionError, match="mask_mod"):
        flex.create_block_mask(lambda s, b, h, i, j: s, None, None, 2, 2)
    with pytest.raises(RuntimeError, match="callable"):
        flex.and_masks(causal, 3)
