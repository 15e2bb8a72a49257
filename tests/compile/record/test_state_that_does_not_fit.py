"""State outside of other shapes, dtypes or memory than it had: eager mode's answer, or its error."""

from __future__ import annotations

import gc
import time
import types
import warnings

import numpy as np
import pytest

import jtorch
from jtorch import nn


def _as_eager(run):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = run(jtorch.compile(fullgraph=False))
    assert found == run(lambda f: f)


def _outcome(f, *args):
    try:
        return repr(f(*args))
    except Exception as error:
        return type(error).__name__


@pytest.mark.parametrize("kind", ["SGD", "Adam", "RMSprop", "Adagrad"])
def test_a_model_whose_dtype_changes_after_the_first_step(kind):
    def run(wrap):
        jtorch.manual_seed(0)
        model = nn.Linear(2, 1)
        momentum = {"momentum": 0.9} if kind == "SGD" else {}
        optimizer = getattr(jtorch.optim, kind)(model.parameters(), lr=0.1, **momentum)

        @wrap
        def step(x):
            optimizer.zero_grad()
            model(x).sum().backward()
            optimizer.step()

        told = [_outcome(step, jtorch.ones(1, 2))]
        model.double()
        told += [_outcome(step, jtorch.ones(1, 2).double()) for _ in range(2)]
        return told, [p.dtype for p in model.parameters()]

    _as_eager(run)


def test_an_average_of_another_shape():
    def run(wrap):
        w = nn.Parameter(jtorch.ones(3))
        optimizer = jtorch.optim.Adam([w], lr=0.1)

        @wrap
        def step(x):
            optimizer.zero_grad()
            (w * x).sum().backward()
            optimizer.step()

        step(jtorch.ones(3))
        optimizer.state[w]["exp_avg"] = jtorch.zeros(1)
        return [_outcome(step, jtorch.ones(3)) for _ in range(2)]

    _as_eager(run)


@pytest.mark.parametrize("first", [lambda: np.arange(3, dtype="f"), lambda: np.zeros(3, "f")])
def test_an_array_outside_that_comes_to_share_a_tensors_memory(first):
    def run(wrap):
        state = types.SimpleNamespace(h=jtorch.ones(3), a=first())

        @wrap
        def f(x):
            state.h[0] += 1
            return x * state.h + jtorch.from_numpy(state.a).sum()

        told = [f(jtorch.ones(3)).tolist() for _ in range(2)]
        for new in (state.h.numpy(), np.ones(3, "f"), state.h.numpy(), np.full(3, 2.0, "f")):
            state.a = new
            told += [f(jtorch.ones(3)).tolist() for _ in range(2)]
        return told, state.h.tolist()

    _as_eager(run)


def test_a_number_that_is_no_size():
    for f in (
        lambda x: jtorch.full((x.sum().item(),), 1.0),
        lambda x: jtorch.zeros(2, x.sum().item()),
        lambda x: jtorch.randint(0, 2, (x.sum().item(),)),
    ):
        said = []
        for g in (f, jtorch.compile(f, fullgraph=False)):
            with pytest.raises(
                TypeError, match="must be tuple of ints, but found element of type float"
            ) as e:
                g(jtorch.tensor([2.0]))
            said.append(str(e.value).partition(" (at")[0])
        assert said[0] == said[1]


def test_where_nan_are_told_apart_their_order_is_that_of_the_elements():
    nan = float("nan")
    x = jtorch.tensor([1.0, nan, 0.0, nan, -0.0, nan, 1.0, nan] * 6)
    f = jtorch.compile(lambda x: jtorch.unique(x, return_inverse=True, return_counts=True))
    for given in (x, x.reshape(6, 8).t(), x[:1].expand(5), x[:0]):
        for a, b in zip(f(given), jtorch.unique(given, return_inverse=True, return_counts=True), strict=True):
            assert a.numpy().tobytes() == b.numpy().tobytes()


@pytest.mark.slow
def test_an_error_that_holds_a_number_costs_no_look_at_all_objects():
    rows = [[k] for k in range(500_000)]
    state = types.SimpleNamespace(n=0, g=1)

    @jtorch.compile
    def f(x):
        y = x * state.g
        if state.n >= 5:
            raise AssertionError(state.n)
        return y.sum()

    for n, k in ((1, 2), (2, 2)):
        state.n = n
        f(jtorch.ones(k, 3))
    gc.collect()
    start = time.perf_counter()
    for n, k in ((5, 2), (5, 3), (6, 2)):
        state.n = n
        with pytest.raises(AssertionError) as error:
            f(jtorch.ones(k, 3))
        assert error.value.args == (n,)
    assert time.perf_counter() - start < 1.5 and rows
