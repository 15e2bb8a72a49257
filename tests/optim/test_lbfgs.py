"""L-BFGS against PyTorch on a curved valley, with and without line search."""

from __future__ import annotations

import importlib.util

import numpy as np
import pytest

import jtorch
from jtorch.core.errors import CompileError
from jtorch.optim import LBFGS

CASES = [
    {"lr": 1e-3},
    {"lr": 0.01, "history_size": 2, "max_iter": 5},
    {"line_search_fn": "strong_wolfe"},
    {"line_search_fn": "strong_wolfe", "history_size": 3, "max_iter": 7},
    {"line_search_fn": "strong_wolfe", "lr": 50.0, "max_eval": 4},
]


def start(lib):
    values = [-1.2, 1.0, 0.5], [[0.3], [0.2]], [1.0]
    return [lib.tensor(v, dtype=lib.float64, requires_grad=True) for v in values]


def minimise(lib, options, steps, params=None, state=None):
    x, y, _ = params = params or start(lib)
    optimizer = lib.optim.LBFGS(params, **options)
    if state is not None:
        optimizer.load_state_dict(state)

    def closure():
        optimizer.zero_grad()
        valley = ((1 - x[:-1]) ** 2).sum() + (100 * (x[1:] - x[:-1] ** 2) ** 2).sum()
        loss = valley + ((y - 0.3) ** 4).sum() + (y * y).sum() * x[0] * x[0]
        loss.backward()
        return loss

    losses = [optimizer.step(closure).item() for _ in range(steps)]
    return losses, [p.detach().numpy() for p in params], optimizer


@pytest.mark.slow
@pytest.mark.parametrize("options", CASES)
def test_steps_equal_pytorch(torch, options):
    ours, points, optimizer = minimise(jtorch, options, 5)
    theirs, their_points, other = minimise(torch, options, 5)
    # rounding grows along the valley
    np.testing.assert_allclose(ours, theirs, rtol=1e-8)
    for p, q in zip(points, their_points, strict=True):
        np.testing.assert_allclose(p, q, rtol=1e-7)
    a, b = optimizer.state_dict(), other.state_dict()
    assert a["param_groups"] == b["param_groups"] and repr(optimizer) == repr(other)
    assert sorted(a["state"][0]) == sorted(b["state"][0])
    for name in ("func_evals", "n_iter"):
        assert a["state"][0][name] == b["state"][0][name]
    assert len(a["state"][0]["old_dirs"]) == len(b["state"][0]["old_dirs"])


def convert(tree, kind, make):
    if isinstance(tree, kind):
        return make(np.array(tree.detach().numpy()))
    if isinstance(tree, dict):
        return {k: convert(v, kind, make) for k, v in tree.items()}
    return [convert(v, kind, make) for v in tree] if isinstance(tree, list) else tree


@pytest.mark.parametrize("options", CASES[1:4])
def test_state_dicts_are_interchangeable(torch, options):
    expected, _, _ = minimise(torch, options, 4)
    for first, second in ((jtorch, torch), (torch, jtorch)):
        losses, points, optimizer = minimise(first, options, 2)
        state = convert(optimizer.state_dict(), first.Tensor, second.from_numpy)
        params = [second.tensor(p, dtype=second.float64, requires_grad=True) for p in points]
        more, _, _ = minimise(second, options, 2, params, state)
        np.testing.assert_allclose(losses + more, expected, rtol=1e-8)


def test_finds_the_minimum():
    x = jtorch.zeros(3, dtype=jtorch.float64, requires_grad=True)
    target, weights = jtorch.tensor([3.0, -1.0, 0.5]).double(), jtorch.tensor([1.0, 50.0, 0.02]).double()
    optimizer = LBFGS([x], line_search_fn="strong_wolfe")

    def closure():
        optimizer.zero_grad()
        loss = (weights * (x - target) ** 2).sum()
        loss.backward()
        return loss

    optimizer.step(closure)
    np.testing.assert_allclose(x.tolist(), target.tolist(), atol=1e-5)


def test_stops_where_the_gradient_is_zero():
    p = jtorch.zeros(2, requires_grad=True)
    optimizer = LBFGS([p])

    def closure():
        optimizer.zero_grad()
        loss = (p * p).sum()
        loss.backward()
        return loss

    assert optimizer.step(closure).item() == 0.0
    assert optimizer.state_dict()["state"][0] == {"func_evals": 1, "n_iter": 0}


def test_errors():
    p = jtorch.ones(1, requires_grad=True)
    with pytest.raises(TypeError, match="closure"):
        LBFGS([p]).step()
    optimizer = LBFGS([p], line_search_fn="armijo")

    def closure():
        p.grad = jtorch.ones(1)
        return p.sum()

    with pytest.raises(RuntimeError, match="only 'strong_wolfe' is supported"):
        optimizer.step(closure)


@pytest.mark.skipif(
    importlib.util.find_spec("numba") is None, reason="compiling needs Numba, which is not installed"
)
def test_compiled_code_cannot_step_it():
    p = jtorch.ones(1, requires_grad=True)
    optimizer = LBFGS([p])
    with pytest.raises(CompileError, match="compile the closure"):
        jtorch.compile(lambda: optimizer.step(lambda: (p * p).sum()))()


@pytest.mark.skipif(
    importlib.util.find_spec("numba") is None, reason="compiling needs Numba, which is not installed"
)
def test_a_compiled_closure_that_clears_gradients_is_recorded_once():
    """What LBFGS counts in its state is nothing that ``zero_grad`` reads."""

    def run(wrap):
        jtorch.manual_seed(0)
        model = jtorch.nn.Linear(4, 1)
        optimizer = jtorch.optim.LBFGS(model.parameters(), lr=0.8, max_iter=5)
        x, y = jtorch.randn(32, 4), jtorch.randn(32, 1)

        def closure():
            optimizer.zero_grad()
            loss = (model(x) - y).square().mean() + (model.weight**4).sum()
            loss.backward()
            return loss

        closure = wrap(closure)
        return [optimizer.step(closure).item() for _ in range(4)], closure

    (losses, compiled), (expected, _) = run(jtorch.compile), run(lambda f: f)
    assert losses == pytest.approx(expected, rel=1e-5)
    assert len(compiled.retraces) <= 1
