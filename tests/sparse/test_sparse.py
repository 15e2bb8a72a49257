"""Sparse matrices against PyTorch's: values, places, gradients, texts; and a network on a graph."""

from __future__ import annotations

import operator
import warnings

import numpy as np
import pytest

import jtorch
from jtorch import nn
from tests.each import each

INDICES, VALUES = [[0, 1, 1, 2, 1], [2, 0, 2, 1, 2]], [3.0, 4.0, 5.0, -6.0, 0.5]


def _shown(value):
    if isinstance(value, (tuple, list)):
        return [_shown(v) for v in value]
    if getattr(value, "is_sparse", False):
        places = value.coalesce()
        return str(value.layout), tuple(value.shape), places.indices().tolist(), _rounded(places.values())
    return _rounded(value) if hasattr(value, "tolist") else value


def _rounded(tensor):
    return np.round(np.asarray(tensor.detach().tolist(), np.float64), 5).tolist(), str(tensor.dtype)[-7:]


def _made(L):
    return L.sparse_coo_tensor(L.tensor(INDICES), L.tensor(VALUES), (3, 3))


CASES = {
    "facts": lambda L, s, d: [
        s.shape,
        s.size(0),
        s.dim(),
        s.numel(),
        s._nnz(),
        s.sparse_dim(),
        s.dense_dim(),
    ],
    "flags": lambda L, s, d: [s.is_sparse, s.is_coalesced(), s.coalesce().is_coalesced(), s.requires_grad],
    "dense": lambda L, s, d: s.to_dense(),
    "coalesced": lambda L, s, d: [s.coalesce().indices(), s.coalesce().values()],
    "of a dense one": lambda L, s, d: [d.to_sparse(), d.to_sparse().is_coalesced(), d.relu().to_sparse()],
    "some dims": lambda L, s, d: d.to_sparse(1).to_dense(),
    "transposed": lambda L, s, d: [s.t(), s.transpose(0, 1)],
    "product": lambda L, s, d: [
        s @ d,
        d @ s,
        s @ d[0],
        L.mm(s, d),
        L.spmm(s, d),
        L.matmul(s, d),
        s.matmul(d),
    ],
    "sparse.mm": lambda L, s, d: [L.sparse.mm(s, d), L.sparse.addmm(d, s, d, beta=0.5, alpha=2.0)],
    "product of two": lambda L, s, d: [s @ s, s @ s.t(), L.sparse.mm(s, s)],
    "sums": lambda L, s, d: [
        s.sum(),
        L.sparse.sum(s),
        L.sparse.sum(s, 0),
        L.sparse.sum(s, dim=[1]),
        L.sum(s, dim=1),
    ],
    "arithmetic": lambda L, s, d: [
        s + s,
        s - s,
        s * 2,
        2 * s,
        s / 2,
        s // 2,
        s // L.tensor(0.7),
        s.floor_divide(-1.5),
        s.div(0.7, rounding_mode="trunc"),
        -s,
        s * s,
        d + s,
        d - s.to_dense(),
        s * d,
    ],
    "dtypes": lambda L, s, d: [s.double(), s.to(L.float64), (s * 2).long(), L.eye(3) + s.long()],
    "functions": lambda L, s, d: [
        L.mul(s, 2),
        L.div(s, 2),
        L.floor_divide(s, 2),
        (s.to_sparse_csr() + s.to_sparse_csr()).layout is L.sparse_csr,
        L.add(s, s),
        L.sub(s, s),
        L.add(d, s),
        L.mul(s, s),
        s.mul(2),
        s.add(s, alpha=2),
        s.sub(s, alpha=3),
        L.add(s, s, alpha=2),
        s.div(4),
    ],
    "powers": lambda L, s, d: [
        s**2,
        s.pow(3),
        s.abs() ** 0.5,
        s**-1,
        s.coalesce().square(),
        L.pow(s, 2),
        (s * 2).long() ** 2,
        s.half() ** 2,
    ],
    "data": lambda L, s, d: [s.data, s.requires_grad_().data.requires_grad, (s * 2).data],
    "copies": lambda L, s, d: [s.clone(), s.detach(), s.cpu()],
    "softmax": lambda L, s, d: [L.sparse.softmax(s, 1), L.sparse.softmax(s, 0), L.sparse.log_softmax(s, 1)],
    "rows": lambda L, s, d: [
        s.to_sparse_csr().crow_indices(),
        s.to_sparse_csr().col_indices(),
        d.to_sparse_csr().to_dense(),
        s.to_sparse_csr() @ d,
        L.sparse_csr_tensor([0, 1, 1, 3], [1, 0, 2], [1.0, 2.0, 3.0]).to_dense(),
    ],
    "inferred size": lambda L, s, d: L.sparse_coo_tensor(INDICES, VALUES),
    "integers": lambda L, s, d: L.sparse_coo_tensor(INDICES, L.ones(5), (3, 3), dtype=L.int64),
    "none": lambda L, s, d: L.sparse_coo_tensor(L.zeros(2, 0, dtype=L.int64), L.zeros(0), (2, 3)).to_dense(),
}


@each("name", CASES)
def test_it_is_as_pytorch_has_it(name):
    torch = pytest.importorskip("torch")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # PyTorch's, about its own states
        found, expected = (
            _shown(CASES[name](L, _made(L), L.arange(9.0).reshape(3, 3) - 3)) for L in (jtorch, torch)
        )
    assert repr(found) == repr(expected)


@pytest.mark.parametrize("of", [jtorch.float32, jtorch.float64], ids=str)
def test_the_text(of):
    torch = pytest.importorskip("torch")
    ours, theirs = _made(jtorch).to(of), _made(torch).to(getattr(torch, of.name))
    for a, b in ((ours, theirs), (ours.coalesce(), theirs.coalesce())):
        assert repr(a).replace("=jtorch.", "=torch.") == repr(b)


def _gradients(L):
    values, d = L.tensor(VALUES, requires_grad=True), L.arange(9.0).reshape(3, 3).requires_grad_()
    s = L.sparse_coo_tensor(L.tensor(INDICES), values, (3, 3))
    loss = ((s @ d) * d).sum() + (s.to_dense() * s.to_dense()).sum() + L.sparse.softmax(s, 1).to_dense()[1, 2]
    return [_rounded(g) for g in L.autograd.grad(loss, (values, d))]


def test_gradients_reach_the_values_and_the_matrix():
    torch = pytest.importorskip("torch")
    assert _gradients(jtorch) == _gradients(torch)


def test_gradients_of_a_power():
    values = jtorch.tensor([1.0, 4.0], requires_grad=True)
    (jtorch.sparse_coo_tensor([[0, 2]], values, (4,)) ** 2).to_dense().sum().backward()
    assert values.grad.tolist() == [2.0, 8.0]


def test_data_is_set_to_that_of_another():
    """It was an attribute like any other: nothing changed."""
    shown = []
    for L in (jtorch, pytest.importorskip("torch")):
        s = _made(L).requires_grad_()
        s.data = (_made(L) * 2).coalesce()
        shown.append((s.to_dense().tolist(), s.requires_grad, s._nnz(), s.is_leaf))
        with pytest.raises(RuntimeError):
            s.data = L.ones(3, 3)
    assert shown[0] == shown[1]


@each("exponent", [0, 0.0, 0.5])
def test_powers_that_would_be_dense_or_of_another_dtype_are_refused(exponent):
    for L in (jtorch, pytest.importorskip("torch")):
        s = (_made(L) * 2).long() if exponent else _made(L)
        with pytest.raises(RuntimeError, match=r"cannot raise to zeroth power|result type Float|a result of"):
            s**exponent
    with pytest.raises(NotImplementedError, match="the exponent must be a number"):
        _made(jtorch).pow(jtorch.tensor(2.0))


def test_gradients_of_the_product_of_two():
    values = jtorch.tensor(VALUES, requires_grad=True)
    s = jtorch.sparse_coo_tensor(INDICES, values, (3, 3))
    weights = jtorch.arange(9.0).reshape(3, 3)
    (g,) = jtorch.autograd.grad(((s @ s).to_dense() * weights).sum(), values)
    dense = s.to_dense()
    (h,) = jtorch.autograd.grad(((dense @ dense) * weights).sum(), values)
    assert jtorch.allclose(g, h)


@pytest.mark.parametrize("compiled", [lambda f: f, jtorch.compile], ids=["eager", "compiled"])
def test_a_network_on_a_graph_learns_as_with_a_dense_matrix(compiled):
    def trained(sparse):
        jtorch.manual_seed(0)
        edges = jtorch.randint(0, 12, (2, 40))
        graph = jtorch.sparse_coo_tensor(edges, jtorch.ones(40), (12, 12)) + jtorch.eye(12).to_sparse()
        graph, x = (graph if sparse else graph.to_dense()), jtorch.randn(12, 5)
        first, last, labels = nn.Linear(5, 8), nn.Linear(8, 3), jtorch.arange(12) % 3
        optimizer = jtorch.optim.SGD([*first.parameters(), *last.parameters()], 0.1)

        @compiled
        def step(x, labels):
            optimizer.zero_grad()
            scores = graph @ last((graph @ first(x)).relu())
            loss = nn.functional.cross_entropy(scores, labels)
            loss.backward()
            optimizer.step()
            return loss

        return [step(x, labels).item() for _ in range(5)]

    assert trained(True) == pytest.approx(trained(False), rel=1e-4)


def test_comparisons_have_no_sparse_result():
    s, dense = _made(jtorch), jtorch.ones(3, 3)
    for pair in ((s, s), (s, 2), (2.0, s), (s, dense), (dense, s)):
        for compare in (operator.eq, operator.ne, operator.lt, operator.le, operator.gt, operator.ge):
            with pytest.raises((NotImplementedError, TypeError)):
                compare(*pair)
    assert s != None and s in [s] and len({s, s}) == 1  # noqa: E711 - an operator is asked


def test_divisors_are_numbers():
    s, dense = _made(jtorch), jtorch.ones(3, 3)
    for pair in ((s, s), (s, dense), (dense, s)):
        for divide in (operator.truediv, operator.floordiv):
            with pytest.raises(RuntimeError, match="requires a scalar or zero-dim dense tensor divisor"):
                divide(*pair)


def test_what_does_not_fit_is_refused():
    for indices, values, size, text in (
        ([[0, 3], [0, 0]], [1.0, 1.0], (3, 3), "for dim 0, size is 3 but found index 3"),
        ([[0, -1], [0, 0]], [1.0, 1.0], (3, 3), "found negative index -1 for dim 0"),
        ([[0], [0]], [1.0, 1.0], (3, 3), "must have same nnz"),
        ([0, 1], [1.0, 1.0], (3, 3), "indices must be sparse_dim x nnz"),
        ([[0], [0]], [1.0], (3,), r"sparse_dim \(2\) \+ dense_dim \(0\)"),
    ):
        with pytest.raises(RuntimeError, match=text):
            jtorch.sparse_coo_tensor(indices, values, size)
    s = _made(jtorch)
    with pytest.raises(RuntimeError, match="uncoalesced"):
        s.values()
    with pytest.raises(RuntimeError, match=r"cannot be multiplied \(3x3 and 2x2\)"):
        s @ jtorch.ones(2, 2)
    with pytest.raises(TypeError, match=r"exp\(\) is not there for sparse tensors"):
        jtorch.exp(s)


def _compressed(L):
    ccol, row, values = L.tensor([0, 1, 1, 3]), L.tensor([1, 0, 1]), L.tensor([5.0, 7.0, 9.0])
    by_columns = L.sparse_csc_tensor(ccol, row, values, (2, 3))
    by_rows = L.sparse_compressed_tensor(ccol, row, values, (3, 2), layout=L.sparse_csr)
    again = L.sparse_compressed_tensor(ccol, row, values, (2, 3), layout=L.sparse_csc)
    turned = L.tensor([[0.0, 7.0], [5.0, 9.0]]).to_sparse_csc()
    return [
        (str(s.layout).split(".")[-1], tuple(s.shape), s.to_dense().tolist(), s.values().tolist())
        for s in (by_columns, by_rows, again, turned)
    ] + [(s.ccol_indices().tolist(), s.row_indices().tolist()) for s in (by_columns, again, turned)]


def _products(L):
    a = L.tensor([[0.0, 2.0, 0.0], [0.0, 0.0, 0.0], [1.0, 0.0, 3.0]]).to_sparse()
    b, s = L.arange(6.0).reshape(3, 2), L.tensor([[0.0, 4.0], [5.0, 0.0], [0.0, 6.0]]).to_sparse()
    hybrid, summed = L.hspmm(a, b), L.sspaddmm(s, a, b, beta=0.5, alpha=2.0)
    facts = [(m.sparse_dim(), m.dense_dim(), tuple(m.shape), m.to_dense().tolist()) for m in (hybrid, summed)]
    return facts, hybrid.coalesce().indices().tolist()


@pytest.mark.filterwarnings("ignore:Sparse")
def test_by_columns_and_mixed_products():
    assert _compressed(jtorch)[0] == (
        "sparse_csc", (2, 3), [[0.0, 0.0, 7.0], [5.0, 0.0, 9.0]], [5.0, 7.0, 9.0],
    )  # fmt: skip
    assert _products(jtorch)[1] == [[0, 2]]
    torch = pytest.importorskip("torch")
    assert _compressed(jtorch) == _compressed(torch)
    assert _products(jtorch) == _products(torch)


def test_blocks_are_refused():
    parts = [0, 1], [0], [[[1.0]]]
    with pytest.raises(RuntimeError, match=r"expected compressed sparse tensor layout .*got torch.strided"):
        jtorch.sparse_compressed_tensor(*parts, layout=jtorch.strided)
