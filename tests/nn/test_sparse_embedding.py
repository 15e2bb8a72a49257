"""Sparse gradients of looked up rows, and the optimizers that take them, against PyTorch's."""

from __future__ import annotations

import numpy as np
import pytest

import jtorch
from jtorch.core.errors import CompileError
from tests.each import each
from tests.ops.support import HAS_TORCH, needs_torch

if HAS_TORCH:
    import torch

pytestmark = pytest.mark.filterwarnings("ignore:Sparse")  # PyTorch says that it checks nothing

IDS = [[0, 1], [3, 0]]


def _table(L, shape=(5, 2), dtype="float32"):
    values = np.random.default_rng(3).standard_normal(shape).astype(dtype)
    return L.tensor(values, requires_grad=True)


def _looked_up(L, w, ids=IDS, **options):
    return L.nn.functional.embedding(L.tensor(ids, dtype=L.int64), w, sparse=True, **options)


def _shown(g):
    """Layout, places and values of a gradient, which PyTorch may print in another way."""
    if not g.is_sparse:
        return "dense", np.round(g.detach().numpy(), 5).tolist()
    values = np.round(g._values().detach().numpy(), 5).tolist()
    return "sparse", tuple(g.shape), g.is_coalesced(), g._indices().tolist(), values


def _passed(L, *losses, **options):
    """The gradient of a table after a backward pass through each of ``losses``."""
    w = _table(L, **options)
    for loss in losses:
        loss(L, w).backward()
    return _shown(w.grad)


def _hooked(L, w):
    seen = []
    w.register_hook(lambda g: (seen.append(g.is_sparse), g * 2)[1])
    w.register_post_accumulate_grad_hook(lambda p: seen.append(p.grad.is_sparse))
    loss = _looked_up(L, w).sum()
    loss.backward()
    return seen, _shown(w.grad)


def _bag(L, w, ids, offsets=None, **options):
    offsets = None if offsets is None else L.tensor(offsets)
    rows = L.nn.functional.embedding_bag(L.tensor(ids), w, offsets, sparse=True, **options)
    return (rows * L.arange(1.0, rows.numel() + 1).reshape(rows.shape)).sum()


def _weights(L, w):
    return _bag(L, w, [1, 2, 4], [0, 2], mode="sum", per_sample_weights=L.tensor([0.5, 2.0, -1.0]))


GRADIENTS = {
    "rows": lambda L: _passed(L, lambda L, w: _looked_up(L, w).pow(2).sum()),
    "float64": lambda L: _passed(L, lambda L, w: _looked_up(L, w).pow(2).sum(), dtype="float64"),
    "one row": lambda L: _passed(L, lambda L, w: _looked_up(L, w, [2]).sum()),
    "one number": lambda L: _passed(L, lambda L, w: _looked_up(L, w, 2).sum()),
    "none": lambda L: _passed(L, lambda L, w: _looked_up(L, w, []).sum()),
    "padding": lambda L: _passed(L, lambda L, w: _looked_up(L, w, padding_idx=0).sum()),
    "padding alone": lambda L: _passed(L, lambda L, w: _looked_up(L, w, [1], padding_idx=-4).sum()),
    "beside a dense one": lambda L: _passed(L, lambda L, w: _looked_up(L, w).sum() + (w * w).sum()),
    "before a dense one": lambda L: _passed(L, lambda L, w: (w * w).sum() + _looked_up(L, w).sum()),
    "beside two dense ones": lambda L: _passed(
        L, lambda L, w: (w * w).sum() + _looked_up(L, w).sum() + w.exp().sum() + _looked_up(L, w).sum()
    ),
    "dense, then sparse": lambda L: _passed(
        L, lambda L, w: (w * w).sum(), lambda L, w: _looked_up(L, w).sum()
    ),
    "sparse, then dense": lambda L: _passed(
        L, lambda L, w: _looked_up(L, w).sum(), lambda L, w: (w * w).sum()
    ),
    "hooks": lambda L: _hooked(L, _table(L)),
    "autograd.grad": lambda L: (lambda w: _shown(L.autograd.grad(_looked_up(L, w).sum(), w)[0]))(_table(L)),
    "bag, sum": lambda L: _passed(L, lambda L, w: _bag(L, w, [1, 2, 4], [0, 2], mode="sum")),
    "bag, mean": lambda L: _passed(L, lambda L, w: _bag(L, w, [1, 2, 4], [0, 2])),
    "bag, rows": lambda L: _passed(L, lambda L, w: _bag(L, w, IDS, mode="sum")),
    "bag, padding": lambda L: _passed(L, lambda L, w: _bag(L, w, IDS, mode="mean", padding_idx=0)),
    "bag, weights": lambda L: _passed(L, _weights),
}


@needs_torch
@each("case", GRADIENTS)
def test_gradients_equal_pytorch_s(case):
    assert GRADIENTS[case](jtorch) == GRADIENTS[case](torch)


def _summed(L, *ids):
    """What lookups of ``ids`` give together, in one pass and over several, with each place once."""
    together, apart = _table(L), _table(L)
    sum(_looked_up(L, together, i).pow(2).sum() for i in ids).backward()
    for i in ids:
        _looked_up(L, apart, i).pow(2).sum().backward()
    return [_shown(w.grad.coalesce()) for w in (together, apart)]


@needs_torch
def test_sums_equal_pytorch_s():
    ids = IDS, [2, 2, 3], [4]
    assert _summed(jtorch, *ids) == _summed(torch, *ids)


def test_the_rows_with_their_numbers():
    w = jtorch.ones(5, 2, requires_grad=True)
    (_looked_up(jtorch, w, [3, 0, 3]) * jtorch.tensor([[1.0], [2.0], [4.0]])).sum().backward()
    first = w.grad
    assert _shown(first) == ("sparse", (5, 2), False, [[3, 0, 3]], [[1.0, 1.0], [2.0, 2.0], [4.0, 4.0]])
    assert _shown(first.coalesce())[3:] == ([[0, 3]], [[2.0, 2.0], [5.0, 5.0]])
    _looked_up(jtorch, w, [1]).sum().backward()
    assert w.grad is first  # added to in place
    assert first.to_dense()[:, 0].tolist() == [2.0, 1.0, 0.0, 5.0, 0.0]


def test_a_dense_gradient_is_added_to_in_place():
    w = jtorch.zeros(3, 1, requires_grad=True)
    w.grad = held = jtorch.ones(3, 1)
    _looked_up(jtorch, w, [2, 2]).sum().backward()
    assert w.grad is held
    assert held.tolist() == [[1.0], [1.0], [3.0]]


def test_is_no_view_of_the_gradient_that_was_given():
    w, g = jtorch.zeros(3, 2, requires_grad=True), jtorch.ones(2, 2)
    rows = _looked_up(jtorch, w, [0, 2])
    rows.backward(g, retain_graph=True)
    (found,) = jtorch.autograd.grad(rows, w, g)
    g.zero_()
    assert w.grad._values().tolist() == found._values().tolist() == [[1.0, 1.0], [1.0, 1.0]]


def test_is_dense_of_a_computed_table_and_with_a_graph():
    w = jtorch.ones(3, 1, requires_grad=True)
    _looked_up(jtorch, w * 2, [1, 1]).sum().backward()
    assert w.grad.tolist() == [[0.0], [4.0], [0.0]]
    (g,) = jtorch.autograd.grad(_looked_up(jtorch, w, [1, 1]).pow(3).sum(), w, create_graph=True)
    assert not g.is_sparse
    assert jtorch.autograd.grad(g.sum(), w)[0].to_dense().tolist() == [[0.0], [12.0], [0.0]]


def test_ids_that_were_written_over_are_noticed():
    w, ids = jtorch.ones(3, 1, requires_grad=True), jtorch.tensor([0, 1])
    loss = jtorch.nn.functional.embedding(ids, w, sparse=True).sum()
    ids.zero_()
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        loss.backward()


def test_frequencies_are_refused():
    w = jtorch.ones(3, 1, requires_grad=True)
    with pytest.raises(RuntimeError, match="scale_grad_by_freq not supported with sparse gradients"):
        _looked_up(jtorch, w, [1, 1], scale_grad_by_freq=True).sum().backward()


# -- layers and optimizers -------------------------------------------------------------------------------


def _trained(L, make, steps=4, bag=False, dtype="float32"):
    """The table of a layer after some steps, each with rows of its own, some of them twice."""
    layer = (L.nn.EmbeddingBag if bag else L.nn.Embedding)(6, 3, sparse=True)
    layer.weight.data = _table(L, (6, 3), dtype).detach()
    optimizer = make(L, layer.parameters())
    rng = np.random.default_rng(0)
    for _ in range(steps):
        optimizer.zero_grad()
        for _ in range(2):
            layer(L.tensor(rng.integers(0, 5, (3, 2)))).pow(2).sum().backward()
        assert layer.weight.grad.is_sparse
        optimizer.step()
    return layer.weight.detach().numpy()


OPTIMIZERS = {
    "SGD": lambda L, p: L.optim.SGD(p, lr=0.1),
    "SGD, uphill": lambda L, p: L.optim.SGD(p, lr=0.01, maximize=True),
    "SGD, momentum": lambda L, p: L.optim.SGD(p, lr=0.05, momentum=0.9),
    "SGD, dampened": lambda L, p: L.optim.SGD(p, lr=0.05, momentum=0.9, dampening=0.5),
    "SGD, Nesterov": lambda L, p: L.optim.SGD(p, lr=0.05, momentum=0.9, nesterov=True),
    "Adagrad": lambda L, p: L.optim.Adagrad(p, lr=0.1),
    "Adagrad, options": lambda L, p: L.optim.Adagrad(
        p, lr=0.1, lr_decay=0.1, initial_accumulator_value=0.5, eps=1e-3, maximize=True
    ),
    "SparseAdam": lambda L, p: L.optim.SparseAdam(p, lr=0.1),
    "lr as a tensor": lambda L, p: L.optim.SGD(p, lr=L.tensor(0.1)),
}


@needs_torch
@each("case, bag, dtype", [(c, b, d) for c in OPTIMIZERS for b in (0, 1) for d in ("float32", "float64")])
def test_optimizers_equal_pytorch_s(case, bag, dtype):
    ours, theirs = (_trained(L, OPTIMIZERS[case], bag=bag, dtype=dtype) for L in (jtorch, torch))
    np.testing.assert_allclose(ours, theirs, rtol=3e-6, atol=3e-7)


@each("case", OPTIMIZERS)
def test_a_row_that_is_not_looked_up_stays(case):
    trained = _trained(jtorch, OPTIMIZERS[case])
    before = _table(jtorch, (6, 3)).detach().numpy()
    assert (trained[5] == before[5]).all()
    assert (trained[:5] != before[:5]).any(1).all()


def test_lbfgs_takes_them_as_dense_ones():
    def last(L, **options):
        layer = L.nn.Embedding(3, 2, **options)
        layer.weight.data = L.ones(3, 2)
        optimizer = L.optim.LBFGS(layer.parameters(), lr=0.1)

        def closure():
            optimizer.zero_grad()
            loss = (layer(L.tensor([0, 2])) ** 2).sum()
            loss.backward()
            return loss

        optimizer.step(closure)
        return layer.weight.tolist()

    assert last(jtorch, sparse=True) == last(jtorch) != [[1.0, 1.0]] * 3


REFUSALS = {
    name: (lambda L, p, name=name: getattr(L.optim, name)(p, lr=0.1))
    for name in (
        "Adadelta", "Adafactor", "Adam", "AdamW", "Adamax", "ASGD", "Muon", "NAdam", "RAdam", "RMSprop",
        "Rprop",
    )
} | {
    "fused SGD": lambda L, p: L.optim.SGD(p, lr=0.1, fused=True),
    "fused Adagrad": lambda L, p: L.optim.Adagrad(p, lr=0.1, fused=True),
}  # fmt: skip


def _refusal(L, make):
    dense, table = L.ones(2, 2, requires_grad=True), L.ones(3, 2, requires_grad=True)
    optimizer = make(L, [dense, table])
    (dense.sum() + _looked_up(L, table, [1]).sum()).backward()
    with pytest.raises(RuntimeError) as error:
        optimizer.step()
    assert dense.tolist() == [[1.0, 1.0]] * 2  # nothing was updated
    return str(error.value)


@needs_torch
@each("case", REFUSALS)
def test_refused_in_pytorch_s_words(case):
    assert _refusal(jtorch, REFUSALS[case]) == _refusal(torch, REFUSALS[case])


def test_refused_before_anything_is_updated():
    assert _refusal(jtorch, REFUSALS["Adam"]).endswith("please consider SparseAdam instead")
    for name in ("SGD", "Adagrad"):  # PyTorch says so of Adagrad, in the middle of a step
        decay = _refusal(jtorch, lambda L, p, name=name: getattr(L.optim, name)(p, lr=0.1, weight_decay=0.1))
        assert decay == "weight_decay option is not compatible with sparse gradients"


def test_sixteen_bits():
    w = jtorch.ones(3, 2, dtype=jtorch.bfloat16, requires_grad=True)
    _looked_up(jtorch, w, [1, 1]).sum().backward()
    assert w.grad.is_sparse
    jtorch.optim.SGD([w], lr=0.25).step()
    assert w.tolist() == [[1.0, 1.0], [0.5, 0.5], [1.0, 1.0]]


@pytest.mark.parametrize("dtype", [jtorch.bfloat16, jtorch.float16], ids=str)
@pytest.mark.parametrize("dense", [False, True])
def test_gradients_of_16_bits_meet(dtype, dense):
    w = jtorch.ones(5, 2, dtype=dtype, requires_grad=True)
    loss = _looked_up(jtorch, w, [1, 2]).sum() + 2 * _looked_up(jtorch, w, [2, 3]).sum()
    if dense:
        loss = loss + (w * w).sum()
    loss.backward()
    assert w.grad.is_sparse is not dense and w.grad.dtype == dtype
    found = w.grad if dense else w.grad.to_dense()
    assert found.tolist() == [[n + 2 * dense] * 2 for n in (0, 1, 3, 2, 0)]
    held = w.grad
    _looked_up(jtorch, w, [4, 4]).sum().backward()
    assert w.grad is held
    last = held if dense else held.to_dense()
    assert last[4].tolist() == [2.0 + 2 * dense] * 2


def test_clipping_and_scaling():
    w = jtorch.ones(4, 1, requires_grad=True)
    (_looked_up(jtorch, w, [0, 0, 3]) * jtorch.tensor([[1.0], [2.0], [4.0]])).sum().backward()
    assert jtorch.nn.utils.clip_grad_norm_([w], 2.5).item() == 5.0  # of (3, 4)
    np.testing.assert_allclose(w.grad.to_dense()[:, 0].numpy(), [1.5, 0.0, 0.0, 2.0], rtol=1e-6)
    scaler, optimizer = jtorch.amp.GradScaler("cpu", init_scale=4.0), jtorch.optim.SGD([w], lr=1.0)
    optimizer.zero_grad()
    scaler.scale(_looked_up(jtorch, w, [1, 1]).sum()).backward()
    scaler.step(optimizer)
    assert w.tolist() == [[1.0], [-1.0], [1.0], [1.0]]


# -- compiled --------------------------------------------------------------------------------------------


def test_compiled_code_refuses_with_its_line():
    w = jtorch.ones(3, 1, requires_grad=True)
    look_up = jtorch.compile(lambda ids: jtorch.nn.functional.embedding(ids, w, sparse=True), fullgraph=True)
    with pytest.raises(CompileError, match=r"test_sparse_embedding.py:\d+ in .*sparse=True"):
        look_up(jtorch.tensor([1]))


@pytest.mark.filterwarnings("ignore::jtorch.core.errors.EagerWarning")
def test_compiled_code_runs_eagerly():
    layer = jtorch.nn.Embedding(3, 2, sparse=True)
    before = layer.weight.detach().clone()
    optimizer = jtorch.optim.SGD(layer.parameters(), lr=0.5)

    @jtorch.compile(fullgraph=False)
    def step(ids):
        optimizer.zero_grad()
        loss = layer(ids).sum()
        loss.backward()
        optimizer.step()
        return loss

    step(jtorch.tensor([1, 1]))
    step(jtorch.tensor([2]))
    assert layer.weight.grad.is_sparse
    moved = (before - layer.weight.detach()).round(decimals=4)
    assert moved.tolist() == [[0.0, 0.0], [1.0, 1.0], [0.5, 0.5]]


def test_compiled_lookups_without_a_gradient():
    table = jtorch.ones(3, 1)
    found = jtorch.compile(lambda ids: jtorch.nn.functional.embedding(ids, table, sparse=True))
    assert found(jtorch.tensor([1, 2])).tolist() == [[1.0], [1.0]]


NORMS = ["fro", 1, 2, 3.0, float("inf"), 0]


def _norms_and_a_quotient(L):
    """What programs that watch and average gradients ask of one, where rows are looked up twice."""
    w = _table(L)
    (_looked_up(L, w) ** 2).sum().backward()
    norms = [w.grad.norm().item(), *(w.grad.norm(p).item() for p in NORMS)]
    gradient = w.grad
    assert gradient.div_(4) is gradient
    return norms, _shown(w.grad.div_(L.tensor(0.5)).coalesce())


@needs_torch
def test_norms_and_quotients_of_a_gradient_equal_pytorch_s():
    (ours, quotient), (theirs, expected) = map(_norms_and_a_quotient, (jtorch, torch))
    np.testing.assert_allclose(ours, theirs, rtol=1e-6)
    assert quotient == expected


def test_norms_of_a_gradient_are_those_of_the_dense_one():
    w = _table(jtorch)
    (_looked_up(jtorch, w) ** 2).sum().backward()
    for p in NORMS:
        dense = w.grad.to_dense().flatten()
        assert w.grad.norm(p).item() == pytest.approx(dense.norm(p).item(), rel=1e-6)


def test_a_table_shows_that_its_gradient_is_sparse():
    layer = jtorch.nn.Embedding(7, 3, padding_idx=1, sparse=True)
    assert repr(layer) == "Embedding(7, 3, padding_idx=1, sparse=True)"
    if HAS_TORCH:
        assert repr(layer) == repr(torch.nn.Embedding(7, 3, padding_idx=1, sparse=True))
