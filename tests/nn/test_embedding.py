"""Embedding and EmbeddingBag against PyTorch, and embedding, embedding_bag and one_hot as functions."""

from __future__ import annotations

import importlib.util

import numpy as np
import pytest

import jtorch
from jtorch import nn
from jtorch.nn import functional as F
from tests.nn.twins import compare, draw, twins

IDS = np.array([[0, 2, 6], [2, 2, 5]])
OPTIONS = [
    {},
    {"padding_idx": 2},
    {"padding_idx": -1},
    {"scale_grad_by_freq": True},
    {"padding_idx": 2, "scale_grad_by_freq": True},
    {"max_norm": 1.0},
    {"max_norm": 1.5, "norm_type": 1.0},
]


def squared(out):
    return out, out * out


@pytest.mark.parametrize("options", OPTIONS, ids=str)
@pytest.mark.parametrize("ids", [IDS, IDS[0, :0], np.array(5), IDS.astype(np.int32)])
def test_embedding_equals_pytorch(torch, options, ids):
    ours, theirs = twins(torch, "Embedding", 7, 3, **options)
    for lib, module in ((jtorch, ours), (torch, theirs)):
        with lib.no_grad():  # else the row of padding_idx is 0 and so is its gradient here
            module.weight[2] = 0.5
    compare(torch, ours, theirs, [ids], lambda lib, m, i: squared(m(i)))
    np.testing.assert_allclose(ours.weight.detach().numpy(), theirs.weight.detach().numpy(), rtol=1e-12)


@pytest.mark.parametrize("mode", ["sum", "mean", "max"])
@pytest.mark.parametrize("padding", [None, 2, -1])
@pytest.mark.parametrize("ids", [IDS, np.array([[2, 2], [1, 2]]), IDS[:0]])
def test_bags_of_one_length_equal_pytorch(torch, mode, padding, ids):
    ours, theirs = twins(torch, "EmbeddingBag", 7, 3, mode=mode, padding_idx=padding)
    compare(torch, ours, theirs, [ids], lambda lib, m, i: squared(m(i)))


@pytest.mark.parametrize("mode", ["sum", "mean", "max"])
@pytest.mark.parametrize("padding", [None, 2])
@pytest.mark.parametrize("last", [False, True])
@pytest.mark.parametrize("offsets", [[0, 2, 2, 5], [0, 0], [0], [0, 6]])
def test_bags_by_offsets_equal_pytorch(torch, mode, padding, last, offsets):
    ids = np.array([1, 2, 2, 6, 2, 0])
    options = {"mode": mode, "padding_idx": padding, "include_last_offset": last}
    ours, theirs = twins(torch, "EmbeddingBag", 7, 3, **options)
    if last:
        offsets = [*offsets, 6]  # PyTorch reads beyond its memory where the last offset is not the end
    compare(torch, ours, theirs, [ids], lambda lib, m, i: squared(m(i, lib.tensor(offsets, dtype=lib.int64))))


@pytest.mark.parametrize("ids", [IDS, IDS.reshape(-1)])
@pytest.mark.parametrize("options", [{}, {"padding_idx": 2}, {"max_norm": 1.0}])
def test_weights_of_samples(torch, ids, options):
    ours, theirs = twins(torch, "EmbeddingBag", 7, 3, mode="sum", **options)

    def call(lib, m, i, w):
        return squared(m(i, None if i.ndim == 2 else lib.tensor([0, 1, 4]), w))

    compare(torch, ours, theirs, [ids, draw(*ids.shape)], call)


def test_gradient_of_bags_over_frequency():
    """As documented, and as in ``embedding``: PyTorch's CPU kernel for bags divides by another id's count."""
    layer = nn.EmbeddingBag(7, 3, mode="sum", scale_grad_by_freq=True)
    layer(jtorch.tensor(IDS)).sum().backward()
    expected = np.zeros((7, 3))
    expected[[0, 2, 5, 6]] = 1.0
    np.testing.assert_allclose(layer.weight.grad.numpy(), expected, rtol=1e-6)


def test_from_pretrained():
    table = jtorch.arange(6.0).reshape(3, 2)
    layer = nn.Embedding.from_pretrained(table, padding_idx=-1)
    assert layer(jtorch.tensor([2])).tolist() == [[4.0, 5.0]]
    assert layer.padding_idx == 2
    assert not layer.weight.requires_grad
    bag = nn.EmbeddingBag.from_pretrained(table, freeze=False, mode="sum")
    assert bag(jtorch.tensor([[0, 2]])).tolist() == [[4.0, 6.0]]
    assert bag.weight.requires_grad
    with pytest.raises(AssertionError, match="expected to be 2-dimensional"):
        nn.Embedding.from_pretrained(jtorch.zeros(3))
    with pytest.raises(AssertionError, match="Shape of weight does not match"):
        nn.Embedding(4, 2, _weight=table)


def test_row_of_padding_idx_starts_at_zero():
    assert nn.Embedding(4, 3, padding_idx=-1).weight[3].tolist() == [0.0, 0.0, 0.0]
    assert nn.EmbeddingBag(4, 3, padding_idx=1).weight[1].tolist() == [0.0, 0.0, 0.0]
    with pytest.raises(AssertionError, match="Padding_idx must be within num_embeddings"):
        nn.Embedding(4, 3, padding_idx=4)
    with pytest.raises(AssertionError, match="padding_idx must be within num_embeddings"):
        nn.EmbeddingBag(4, 3, padding_idx=-5)


def bag(lib, ids, offsets=None, **options):
    offsets = None if offsets is None else lib.tensor(offsets)
    return lib.nn.functional.embedding_bag(lib.tensor(ids), lib.zeros(5, 2), offsets, **options)


BAD_CALLS = [
    (lambda L: L.nn.functional.embedding(L.tensor([5]), L.zeros(5, 2)), IndexError, "out of range in self"),
    (lambda L: L.nn.functional.embedding(L.tensor([-1]), L.zeros(5, 2)), IndexError, "index out of range"),
    (lambda L: L.nn.functional.embedding(L.tensor([1.0]), L.zeros(5, 2)), RuntimeError, "to have one of the"),
    (lambda L: L.nn.functional.embedding(L.tensor([1]), L.zeros(5)), RuntimeError, "'weight' must be 2-D"),
    (lambda L: L.nn.functional.embedding(L.tensor([1]), L.zeros(5, 2), 5), AssertionError, "Padding_idx"),
    (lambda L: bag(L, [1, 2, 3], [1, 2]), RuntimeError, r"offsets\[0\] has to be 0, .* However, got 1"),
    (lambda L: bag(L, [1, 2, 3], [0, 4]), RuntimeError, "input's length 3 but got"),
    (lambda L: bag(L, [1, 2, 5], [0, 2]), RuntimeError, r"Index 2 of input takes value 5 which is"),
    (lambda L: bag(L, [1, 2, 3]), ValueError, "offsets has to be a 1D Tensor but got None"),
    (lambda L: bag(L, [1, 2, 3], [[0]]), ValueError, "offsets has to be a 1D Tensor"),
    (lambda L: bag(L, [[1, 2]], [0]), ValueError, "if input is 2D, then offsets has to be None"),
    (lambda L: bag(L, [[[1]]]), ValueError, "input has to be 1D or 2D Tensor, but got Tensor of dimension 3"),
    (lambda L: bag(L, [[1]], mode="min"), ValueError, "mode has to be one of sum, mean or max"),
    (lambda L: bag(L, [[1]], per_sample_weights=L.ones(1, 1)), NotImplementedError, r"got mode='mean'"),
    (lambda L: bag(L, [[1]], mode="sum", per_sample_weights=L.ones(2)), ValueError, "must have the same"),
    (lambda L: bag(L, [[1]], mode="max", scale_grad_by_freq=True), ValueError, "max mode does not support"),
    (lambda L: L.nn.functional.one_hot(L.tensor([1, 5]), 3), RuntimeError, "smaller than num_classes"),
    (lambda L: L.nn.functional.one_hot(L.tensor([-1])), RuntimeError, "must be non-negative"),
    (lambda L: L.nn.functional.one_hot(L.tensor([-1]), 3), RuntimeError, "must be non-negative"),
    (lambda L: L.nn.functional.one_hot(L.tensor([1.0])), RuntimeError, "only applicable to index tensor"),
    (lambda L: L.nn.functional.one_hot(L.zeros(0).long()), RuntimeError, "Can not infer total number"),
]


@pytest.mark.parametrize(("call", "error", "text"), BAD_CALLS)
def test_errors(call, error, text):
    with pytest.raises(error, match=text):
        call(jtorch)


@pytest.mark.parametrize(("call", "error", "text"), BAD_CALLS)
def test_errors_are_pytorchs(torch, call, error, text):
    before = torch.get_num_threads()
    torch.set_num_threads(1)  # on several threads PyTorch notices later, and says less
    try:
        with pytest.raises(error, match=text):
            call(torch)
    finally:
        torch.set_num_threads(before)


def test_offsets_that_decrease_are_an_error():
    with pytest.raises(RuntimeError, match="offsets must not decrease"):
        bag(jtorch, [1, 2, 3], [0, 2, 1])


@pytest.mark.parametrize("shape", [(), (3,), (2, 3), (0,)])
def test_one_hot(torch, shape):
    classes = np.random.default_rng(0).integers(0, 4, shape)
    for count in (4, 6) if 0 in shape else (-1, 4, 6):
        ours = F.one_hot(jtorch.tensor(classes, dtype=jtorch.int64), count)
        theirs = torch.nn.functional.one_hot(torch.tensor(classes, dtype=torch.int64), count)
        assert ours.dtype is jtorch.int64
        np.testing.assert_array_equal(ours.numpy(), theirs.numpy())


@pytest.mark.skipif(
    importlib.util.find_spec("numba") is None, reason="compiling needs Numba, which is not installed"
)
@pytest.mark.parametrize("options", [{"padding_idx": 2}, {"max_norm": 1.0}, {"scale_grad_by_freq": True}])
def test_compiled_step_equals_eager(options):
    def run(compiled):
        jtorch.manual_seed(0)
        table, bags = nn.Embedding(7, 3, **options), nn.EmbeddingBag(7, 3, **options)
        optimizer = jtorch.optim.SGD([*table.parameters(), *bags.parameters()], lr=0.1)

        def step(ids):
            optimizer.zero_grad()
            classes = F.one_hot(ids, 7).sum(1).float()
            loss = (table(ids).sum(1) * bags(ids)).square().mean() + (classes @ table.weight).mean()
            loss.backward()
            optimizer.step()
            return loss

        step = jtorch.compile(step) if compiled else step
        ids = jtorch.tensor(IDS)
        return [step(ids).item() for _ in range(3)], table.weight.tolist(), bags.weight.tolist()

    for a, b in zip(run(False), run(True), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-6)
