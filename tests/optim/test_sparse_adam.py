"""``SparseAdam`` against PyTorch's, and sparse gradients where others meet them."""

from __future__ import annotations

import numpy as np
import pytest

import jtorch
from jtorch.optim import SparseAdam
from tests.each import each
from tests.ops.support import HAS_TORCH, needs_torch

if HAS_TORCH:
    import torch

pytestmark = pytest.mark.filterwarnings("ignore:Sparse")  # PyTorch says that it checks nothing

PLACES = [[[0, 3, 3]], [[2]], [[0, 1, 4]], [[]]]
OPTIONS = [{}, {"lr": 0.1, "betas": (0.5, 0.8), "eps": 1e-3}, {"lr": 0.1, "maximize": True}]


def _sparse(L, places, values, shape):
    return L.sparse_coo_tensor(L.tensor(places, dtype=L.int64), L.tensor(values), shape)


def _steps(L, options, weight, state=None):
    """Steps whose gradients have other rows each time, one of them twice, or none at all."""
    rng = np.random.default_rng(0)
    w = L.tensor(weight, requires_grad=True)
    optimizer = L.optim.SparseAdam([w], **options)
    if state is not None:
        optimizer.load_state_dict(state)
    for places in PLACES:
        values = rng.standard_normal((len(places[0]), *weight.shape[1:])).astype(weight.dtype)
        w.grad = _sparse(L, places, values, weight.shape)
        optimizer.step()
    return w.detach().numpy(), optimizer


def _weight(shape=(5, 2), dtype=np.float32):
    return np.random.default_rng(1).standard_normal(shape).astype(dtype)


@needs_torch
@each("shape, dtype, options", [(s, d, o) for s in ((5,), (5, 2)) for d in "fd" for o in OPTIONS])
def test_equals_pytorch(shape, dtype, options):
    weight = _weight(shape, dtype)
    (ours, optimizer), (theirs, reference) = (_steps(L, options, weight) for L in (jtorch, torch))
    np.testing.assert_allclose(ours, theirs, rtol=2e-6, atol=2e-7)
    mine, its = optimizer.state_dict(), reference.state_dict()
    assert mine["param_groups"] == its["param_groups"]
    assert list(mine["state"][0]) == list(its["state"][0])
    assert mine["state"][0]["step"] == its["state"][0]["step"] == 4
    for name in ("exp_avg", "exp_avg_sq"):
        expected = its["state"][0][name].numpy()
        np.testing.assert_allclose(mine["state"][0][name].numpy(), expected, rtol=2e-6, atol=2e-7)
    assert repr(optimizer) == repr(reference)


def test_moves_the_rows_that_are_there_alone():
    w = jtorch.ones(4, 2, requires_grad=True)
    w.grad = _sparse(jtorch, [[1, 1]], [[2.0, -1.0], [2.0, -1.0]], (4, 2))
    SparseAdam([w], lr=0.25).step()  # the first step is of size lr
    expected = np.ones((4, 2))
    expected[1] = 0.75, 1.25
    np.testing.assert_allclose(w.detach().numpy(), expected, rtol=1e-6)


def test_goes_on_from_its_state_dict():
    weight, state = _weight(), {}
    for L in (jtorch, *([torch] if HAS_TORCH else [])):
        once, optimizer = _steps(L, {"lr": 0.1}, weight)
        twice, resumed = _steps(L, {}, once, optimizer.state_dict())
        assert resumed.param_groups[0]["lr"] == 0.1
        state[L] = twice, resumed.state_dict()["state"][0]
    assert state[jtorch][1]["step"] == 8
    for twice, _ in state.values():
        np.testing.assert_allclose(twice, state[jtorch][0], rtol=2e-6, atol=2e-7)


REFUSED = {
    "dense": lambda L, w, s: L.optim.SparseAdam([_with(w, L.ones(3))]).step(),
    "one of two is dense": lambda L, w, s: L.optim.SparseAdam(
        [_with(w, s), _with(L.ones(3, requires_grad=True), L.ones(3))]
    ).step(),
    "lr": lambda L, w, s: L.optim.SparseAdam([w], lr=0.0),
    "lr of two": lambda L, w, s: L.optim.SparseAdam([w], lr=L.ones(2)),
    "eps": lambda L, w, s: L.optim.SparseAdam([w], eps=0.0),
    "betas": lambda L, w, s: L.optim.SparseAdam([w], betas=(0.9, 1.0)),
    "complex": lambda L, w, s: L.optim.SparseAdam([L.ones(2, dtype=L.complex64)]),
    "another size": lambda L, w, s: _with(L.ones(4, requires_grad=True), s),
    "rows": lambda L, w, s: _with(L.ones(3, 1, requires_grad=True), L.ones(3, 1).to_sparse_csr()),
}


def _with(w, gradient):
    w.grad = gradient
    return w


def _said(L, case):
    w = L.ones(3, requires_grad=True)
    with pytest.raises((RuntimeError, ValueError)) as error:
        REFUSED[case](L, w, _sparse(L, [[1]], [2.0], (3,)))
    return type(error.value).__name__, str(error.value)


@needs_torch
@each("case", REFUSED)
def test_refuses_in_pytorch_s_words(case):
    assert _said(jtorch, case) == _said(torch, case)


def test_dense_gradients_are_refused():
    sentence = "SparseAdam does not support dense gradients, please consider Adam instead"
    assert _said(jtorch, "dense") == ("RuntimeError", sentence)


def test_nothing_is_updated_beside_a_dense_gradient():
    v, w = (jtorch.ones(3, requires_grad=True) for _ in range(2))
    v.grad, w.grad = _sparse(jtorch, [[1]], [2.0], (3,)), jtorch.ones(3)
    with pytest.raises(RuntimeError, match="dense gradients"):
        SparseAdam([v, w]).step()
    assert v.tolist() == w.tolist() == [1.0] * 3


def test_backward_adds_to_a_sparse_gradient():
    w = jtorch.ones(3, requires_grad=True)
    w.grad = _sparse(jtorch, [[1]], [5.0], (3,))
    (w * 2).sum().backward()
    assert w.grad.tolist() == [2.0, 7.0, 2.0]


def test_zero_grad_leaves_no_element():
    w = jtorch.ones(3, requires_grad=True)
    w.grad = _sparse(jtorch, [[1]], [5.0], (3,))
    optimizer = SparseAdam([w])
    optimizer.zero_grad(set_to_none=False)
    assert (w.grad._nnz(), w.grad.to_dense().tolist()) == (0, [0.0] * 3)
    optimizer.zero_grad()
    assert w.grad is None


def test_other_optimizers_say_who_takes_it():
    w = jtorch.ones(3, requires_grad=True)
    w.grad = _sparse(jtorch, [[1]], [5.0], (3,))
    with pytest.raises(RuntimeError, match="please consider SparseAdam instead"):
        jtorch.optim.Adam([w]).step()


@each("gives", [True, False])
def test_compiled_functions_run_eagerly(gives):
    w = jtorch.ones(3, requires_grad=True)
    optimizer = SparseAdam([w], lr=0.25)

    @jtorch.compile(fullgraph=False)
    def step(gradient):
        if gives:
            w.grad = gradient
        optimizer.step()

    w.grad = gradient = _sparse(jtorch, [[1]], [5.0], (3,))
    with pytest.warns(jtorch.errors.EagerWarning, match="sparse"):
        step(gradient)
    np.testing.assert_allclose(w.detach().numpy(), [1.0, 0.75, 1.0], rtol=1e-6)
