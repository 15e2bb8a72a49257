"""Functions of ``torch`` that give statistics, masks, and results of a known size."""

from __future__ import annotations

import numpy as np
import pytest

import jtorch
from tests.ops.oracle import compare
from tests.ops.support import HAS_TORCH, needs_torch

if HAS_TORCH:
    import torch

RNG = np.random.default_rng(0)
X, ONES = RNG.standard_normal((2, 4, 3)), np.ones((2, 2))
W, B = RNG.standard_normal(3), RNG.standard_normal(3)
CHANNELS = RNG.random(4) + 0.5
IMAGE, GRID = RNG.standard_normal((1, 2, 3, 3)), RNG.uniform(-1.2, 1.2, (1, 2, 2, 2))
VOLUME, GRID_3D = RNG.standard_normal((1, 2, 2, 3, 3)), RNG.uniform(-1.2, 1.2, (1, 2, 2, 2, 3))
KERNEL, BIAS = RNG.standard_normal((2, 3, 5)), RNG.standard_normal(5)
CASES = {
    "layer_norm": (lambda L, x, w, b: L.native_layer_norm(x, (3,), w, b, 1e-5), [X, W, B]),
    "layer_norm of two dims": (lambda L, x: L.native_layer_norm(x, (4, 3), None, None, 1e-5), [X]),
    "group_norm": (lambda L, x, w: L.native_group_norm(x, w, None, 2, 4, 3, 2, 1e-5), [X, CHANNELS]),
    "group_norm of none": (lambda L, x: L.native_group_norm(x[:0], None, None, 0, 4, 3, 2, 1e-5), [X]),
    "batch_norm": (
        lambda L, x, w, b: L.native_batch_norm(x, w, b, None, None, True, 0.1, 1e-5), [X, CHANNELS, CHANNELS],
    ),
    "batch_norm of statistics": (
        lambda L, x, m: L.native_batch_norm(x, None, None, m.detach(), m.detach(), False, 0.1, 1e-5),
        [X, CHANNELS],
    ),
    "dropout off": (lambda L, x: L.native_dropout(x, 0.5, False), [X]),
    "feature_dropout off": (lambda L, x: L.feature_dropout(x, 0.5, False), [X]),
    "grid_sampler_2d": (lambda L, x, g: L.grid_sampler_2d(x, g, 0, 1, True), [IMAGE, GRID]),
    "grid_sampler_3d": (lambda L, x, g: L.grid_sampler_3d(x, g, 0, 0, False), [VOLUME, GRID_3D]),
    "conv_tbc": (lambda L, x, w, b: L.conv_tbc(x, w, b, 1), [X, KERNEL, BIAS]),
    "nonzero_static": (lambda L, x: L.nonzero_static(x > 0, size=4), [X]),
    "nonzero_static of fewer": (lambda L, x: L.nonzero_static(x > 0, size=30, fill_value=7), [X]),
    "nonzero_static 0-d": (lambda L: L.nonzero_static(L.tensor(3.0), size=2), []),
    "nonzero_static of none": (lambda L: L.nonzero_static(L.zeros(0, 3), size=2), []),
    "as_strided_scatter": (
        lambda L, x, s: L.as_strided_scatter(x.detach(), s, (2, 2), (1, 2), 3), [X, ONES],
    ),
    "as_strided_scatter of a view": (
        lambda L, x, s: L.as_strided_scatter(x.detach().transpose(0, 2)[1:], s.detach(), (2, 2), (1, 2)),
        [X, ONES],
    ),
}  # fmt: skip


@needs_torch
@pytest.mark.parametrize("name", CASES)
def test_equals_pytorch(name):
    call, arrays = CASES[name]
    compare(call, jtorch, torch, arrays, rtol=1e-9, atol=1e-10)


def test_statistics_are_those_of_the_rows():
    out, mean, rstd = jtorch.native_layer_norm(jtorch.tensor([[1.0, 3.0], [5.0, 5.0]]), (2,), None, None, 0.0)
    assert mean.tolist() == [[2.0], [5.0]] and rstd.tolist() == [[1.0], [np.inf]]
    assert out[0].tolist() == [-1.0, 1.0]
    with pytest.raises(RuntimeError, match=r"expected 2 \* 4 \* 5 elements"):
        jtorch.native_group_norm(jtorch.ones(2, 4, 3), None, None, 2, 4, 5, 2, 1e-5)


def test_dropout_gives_its_mask():
    x = jtorch.full((200,), 3.0, requires_grad=True)
    out, kept = jtorch.native_dropout(x, 0.25, True)
    assert kept.dtype is jtorch.bool and 110 < kept.sum() < 190
    assert out.tolist() == [4.0 * k for k in kept.tolist()]
    out.sum().backward()
    np.testing.assert_allclose(x.grad.numpy(), kept.numpy() / 0.75, rtol=1e-6)
    assert jtorch.native_dropout(x, 1.0, True)[0].tolist() == [0.0] * 200
    whole = jtorch.feature_dropout(jtorch.ones(50, 2, 3), 0.5, True).reshape(100, 3)
    assert {tuple(row) for row in whole.tolist()} == {(0.0,) * 3, (2.0,) * 3}
    for function in (jtorch.native_dropout, jtorch.feature_dropout):
        with pytest.raises(RuntimeError, match=r"between 0 and 1, but got 1\.5"):
            function(x, 1.5, True)


def test_a_known_number_of_places_needs_no_elements():
    x = jtorch.tensor([[0, 5], [6, 0]])
    wanted = [[0, 1], [1, 0], [-1, -1]]
    assert jtorch.nonzero_static(x, size=3).tolist() == wanted
    assert jtorch.compile(lambda x: jtorch.nonzero_static(x, size=3), fullgraph=True)(x).tolist() == wanted
    assert jtorch.nonzero_static(x, size=0).shape == (0, 2)
    with pytest.raises(RuntimeError, match="non-negative"):
        jtorch.nonzero_static(x, size=-1)


def test_empty_permuted_lies_in_the_order_asked_for():
    x = jtorch.empty_permuted((2, 3, 4), (1, 2, 0), dtype=jtorch.float64, requires_grad=True)
    assert x.shape == (2, 3, 4) and x.stride() == (1, 8, 2) and x.requires_grad and x.is_leaf
    with pytest.raises(RuntimeError, match="an order of 2 dims"):
        jtorch.empty_permuted((2, 3), (1, 1))


def test_as_strided_scatter_leaves_its_input_alone():
    x = jtorch.zeros(2, 3, requires_grad=True)
    out = jtorch.as_strided_scatter(x, jtorch.ones(2), (2,), (2,), 1)
    assert out.tolist() == [[0.0, 1.0, 0.0], [1.0, 0.0, 0.0]] and x.tolist() == [[0.0] * 3] * 2
    out.sum().backward()
    assert x.grad.tolist() == [[1.0, 0.0, 1.0], [0.0, 1.0, 1.0]]
    with pytest.raises(RuntimeError, match="expected src to have a size"):
        jtorch.as_strided_scatter(x, jtorch.ones(3), (2,), (2,))


def test_norms_of_matrices():
    x = jtorch.tensor([[3.0, 0.0], [0.0, 4.0]])
    assert jtorch.frobenius_norm(x).item() == 5.0 and jtorch.nuclear_norm(x).item() == pytest.approx(7.0)
    assert jtorch.frobenius_norm(x, 1, keepdim=True).tolist() == [[3.0], [4.0]]
    assert jtorch.nuclear_norm(x, keepdim=True).shape == (1, 1)
    out = jtorch.zeros(())
    assert jtorch.frobenius_norm(x, out=out) is out and out.item() == 5.0
    places = jtorch.zeros(2, 2, dtype=jtorch.int64)
    assert jtorch.nonzero_static(x, size=2, out=places) is places and places.tolist() == [[0, 0], [1, 1]]


# -- bags of rows --------------------------------------------------------------------------------------------

TABLE, IDS = np.random.default_rng(0).standard_normal((6, 2)), [1, 2, 4, 5, 4, 3]
BAGS = [
    (offsets, mode, padding, last)
    for offsets, last in (([0, 2, 2, 5], False), ([0, 2, 2, 5, 6], True), ([0], False))
    for mode in (0, 1, 2)
    for padding in (None, 4, -2)
]


def _bags(L, offsets, mode, padding, last, dtype="int64"):
    w = L.tensor(TABLE, requires_grad=True)
    ids, starts = (L.tensor(v, dtype=getattr(L, dtype)) for v in (IDS, offsets))
    out, *others = L.embedding_bag(w, ids, starts, False, mode, False, None, last, padding)
    (out * out).sum().backward()
    told = [(str(t.dtype).split(".")[1], tuple(t.shape), t.tolist()) for t in others]
    return out.detach().numpy(), w.grad.numpy(), told


@pytest.mark.parametrize("dtype", ["int64", "int32"])
def test_embedding_bag_is_pytorchs(dtype):
    torch = pytest.importorskip("torch")
    for case in BAGS:
        ours, theirs = (_bags(L, *case, dtype) for L in (jtorch, torch))
        for have, want in zip(ours[:2], theirs[:2], strict=True):
            np.testing.assert_allclose(have, want, rtol=1e-12, err_msg=str(case))
        assert ours[2] == theirs[2], case


def test_embedding_bag_by_hand():
    table = jtorch.tensor([[1.0, 8.0], [3.0, 2.0], [5.0, 6.0]])
    ids, starts = jtorch.tensor([0, 1, 2]), jtorch.tensor([0, 0, 2])
    out, bags, sizes, rows = jtorch.embedding_bag(table, ids, starts, mode=2)
    assert out.tolist() == [[0.0, 0.0], [3.0, 8.0], [5.0, 6.0]]
    assert (bags.tolist(), sizes.tolist(), rows.tolist()) == ([1, 1, 2], [0, 2, 1], [[0, 0], [1, 0], [2, 2]])
    none = jtorch.embedding_bag(table, ids, jtorch.tensor([], dtype=jtorch.int64), mode=2)
    assert [tuple(t.shape) for t in none] == [(0, 2), (3,), (0,), (0, 2)]


def test_embedding_bag_compiled():
    def pooled(table, ids, starts, mode):
        return jtorch.embedding_bag(table, ids, starts, mode=mode)

    compiled = jtorch.compile(pooled, fullgraph=True)
    for mode in (0, 1, 2):
        given = jtorch.tensor(TABLE), jtorch.tensor(IDS), jtorch.tensor([0, 2, 2, 5]), mode
        for have, want in zip(compiled(*given), pooled(*given), strict=True):
            np.testing.assert_allclose(have.numpy(), want.numpy(), rtol=1e-12)


@pytest.mark.parametrize("library", ["jtorch", "torch"])
def test_errors_of_bags(library):
    L = pytest.importorskip(library)
    w, ids, starts = L.tensor(TABLE), L.tensor(IDS), L.tensor([0, 2])
    with pytest.raises(RuntimeError, match=r"^`mode` must be sum, mean, or max\.$"):
        L.embedding_bag(w, ids, starts, mode=3)
    with pytest.raises(RuntimeError, match="per_sample_weights only supported with mode='sum'"):
        L.embedding_bag(w, ids, starts, mode=1, per_sample_weights=L.ones(6))
    with pytest.raises(RuntimeError, match=r"scalar types: Long, Int; but got torch\.FloatTensor instead"):
        L.embedding_renorm_(w, ids.float(), 1.0, 2.0)
    with pytest.raises(IndexError, match="6"):
        L.embedding_renorm_(w, ids + 1, 1.0, 2.0)


@pytest.mark.parametrize("library", ["jtorch", "torch"])
def test_rows_are_shortened_in_place(library):
    L = pytest.importorskip(library)
    w = L.tensor([[3.0, 4.0], [0.3, 0.4], [6.0, 8.0]])
    assert L.embedding_renorm_(w, L.tensor([[0, 1], [1, 0]]), 1.0, 2.0) is w
    np.testing.assert_allclose(w.numpy(), [[0.6, 0.8], [0.3, 0.4], [6.0, 8.0]], rtol=1e-5)


def test_feature_dropout_in_place():
    x = jtorch.ones(4, 500, 2)
    assert jtorch.feature_dropout_(x, 0.25, True) is x
    assert sorted(set(x.reshape(-1).tolist())) == [0.0, pytest.approx(4 / 3)]
    assert jtorch.equal(x[..., 0], x[..., 1])


@pytest.mark.parametrize("library", ["jtorch", "torch"])
def test_methods_of_these_names(library):
    L = pytest.importorskip(library)
    x = L.arange(12.0).reshape(3, 4)
    assert x.nonzero_static(size=2, fill_value=-1).tolist() == [[0, 1], [0, 2]]
    assert x.as_strided_scatter(L.zeros(2), (2,), (1,), 5)[1].tolist() == [4.0, 0.0, 0.0, 7.0]
    assert [t.tolist() for t in x.unsafe_chunk(2, 1)] == [t.tolist() for t in x.chunk(2, 1)]
    assert [t.tolist() for t in x.unsafe_split(2)] == [t.tolist() for t in x.split(2)]
    assert [len(t) for t in x.unsafe_split_with_sizes((1, 2))] == [1, 2]
    assert (x.sparse_dim(), x.dense_dim(), x.to_dense() is x, x.to_dense(L.float64).dtype) == (
        0, 2, True, L.float64,
    )  # fmt: skip
    assert (x.dim_order(), x.t().dim_order()) == ((0, 1), (1, 0))
    assert x.dim_order(ambiguity_check=True) == (0, 1)
    for checked in (True, [L.contiguous_format, L.channels_last]):
        with pytest.raises(RuntimeError, match="does not have unique dim order"):
            x.reshape(1, 1, 3, 4).dim_order(ambiguity_check=checked)
    assert x.reshape(1, 3, 4).dim_order(ambiguity_check=[L.contiguous_format]) == (0, 1, 2)
    with pytest.raises(TypeError, match="must be a bool or a list of memory formats"):
        x.dim_order(ambiguity_check=1)
    assert x.reshape(1, 3, 2, 2).to(memory_format=L.channels_last).dim_order() == (0, 2, 3, 1)
