"""Without ``dynamic=``: the second size of an argument makes it a symbol, and nothing else does."""

from __future__ import annotations

import numpy as np
import pytest

import jtorch
import jtorch.nn.functional as F
from jtorch import nn


def plans_of(f):
    return sum(map(len, f.plans.values()))


def numbers(*shape):
    return jtorch.from_numpy(np.random.default_rng(sum(shape)).standard_normal(shape).astype("f4"))


def trained(sizes, **options):
    """The losses and the weights after steps over batches of these sizes."""
    jtorch.manual_seed(0)
    model = nn.Sequential(nn.Linear(6, 21), nn.Tanh(), nn.Linear(21, 3))
    optimizer = jtorch.optim.Adam(model.parameters(), lr=0.01)

    @jtorch.compile(**options)
    def step(x, y):
        optimizer.zero_grad()
        loss = F.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
        return loss

    losses = [step(numbers(n, 6), jtorch.arange(n) % 3).detach() for n in sizes]
    return step, [t.numpy().tobytes() for t in (*losses, *(p.detach() for p in model.parameters()))]


SIZES = (32, 32, 20, 7, 32, 11, 100, 9, 64, 20)


def test_the_second_size_is_recorded_and_serves_all_others():
    step, found = trained(SIZES)
    assert plans_of(step) == 2 and len(step.retraces) == 1
    _, exact = trained(SIZES, dynamic=False)
    assert found == exact


@pytest.mark.parametrize("first", [7, 20, 100])
def test_bits_do_not_tell_which_size_came_first(first):
    jtorch.manual_seed(0)
    w = numbers(13, 40)
    f = jtorch.compile(lambda x: F.gelu(x @ w).softmax(1) @ w.t())
    g = jtorch.compile(lambda x: F.gelu(x @ w).softmax(1) @ w.t(), dynamic=False)
    f(numbers(first, 13))
    for n in (5, 7, 20, 33, 64, 100, 300):
        x = numbers(n, 13)
        assert f(x).numpy().tobytes() == g(x).numpy().tobytes()


def test_a_size_that_stays_is_a_number():
    f = jtorch.compile(lambda x, y: x * y.shape[0] + y.sum())
    for n in (3, 4, 5):
        f(jtorch.ones(n, 7), jtorch.ones(9))
    assert len(f.retraces) == 1
    assert "f32[S0, 7]" in f.recording(jtorch.ones(6, 7), jtorch.ones(9))
    f(jtorch.ones(4, 8), jtorch.ones(9))
    f(jtorch.ones(4, 11), jtorch.ones(9))
    f(jtorch.ones(5, 12), jtorch.ones(9))
    assert len(f.retraces) == 2  # now the other axis moves, too


def test_sizes_of_0_and_1_are_numbers_and_make_the_next_one_a_symbol():
    f = jtorch.compile(lambda x: (x * 2).sum(0))
    for n in (1, 0, 5, 9, 1, 0, 7):
        assert f(jtorch.ones(n, 3)).tolist() == [2.0 * n] * 3
    assert plans_of(f) == 3


@pytest.mark.parametrize(
    ("function", "why"),
    [
        (lambda x: sum(x[k] for k in range(x.shape[0])), "the number itself is needed at"),
        (lambda x: x * (type(x.shape[0]) is int), "it asks for the type() of a size"),
    ],
    ids=["range", "type"],
)
def test_where_symbols_are_of_no_use_they_are_tried_twice(function, why):
    f = jtorch.compile(function)
    for n in (3, 4, 5, 6, 7):
        x = numbers(n, 9)
        np.testing.assert_allclose(f(x).numpy(), function(x).numpy(), rtol=1e-5)
    assert why in f.retraces[0].changes[0].advice
    made = [plan.capture.sizing is not None for plans in f.plans.values() for plan in plans]
    assert len(made) == 5 and sum(made) <= 2


def test_what_is_said_of_a_second_size():
    f = jtorch.compile(lambda x: x * 2)
    f(jtorch.ones(3))
    f(jtorch.ones(4))
    assert "serves all others" in f.retraces[0].changes[0].advice
    g = jtorch.compile(lambda x: x * 2, dynamic=False)
    g(jtorch.ones(3))
    g(jtorch.ones(4))
    assert "without dynamic=False" in g.retraces[0].changes[0].advice


def test_arguments_of_other_forms_are_told_apart():
    def f(xs, scale=2.0):
        return sum(x.sum() for x in xs) * scale

    step = jtorch.compile(f)
    for sizes in ((3, 4), (3, 5), (2, 6), (3,), (4,), (5,), (9, 9)):
        xs = [numbers(n) for n in sizes]
        np.testing.assert_allclose(step(xs).numpy(), f(xs).numpy(), rtol=1e-5, atol=1e-6)
    assert len(step.retraces) <= 4


def test_policies_hold_from_the_first_new_size_on():
    f = jtorch.compile(lambda x: x * 2, on_retrace="raise")
    f(jtorch.ones(3))
    with pytest.raises(jtorch.errors.RetraceError):
        f(jtorch.ones(4))
    assert plans_of(f) == 1


def test_reset_forgets_what_moved():
    f = jtorch.compile(lambda x: x * 2)
    for n in (3, 4):
        f(jtorch.ones(n))
    f.reset()
    f(jtorch.ones(5))
    assert "f32[5]" in f.recording(jtorch.ones(5))
