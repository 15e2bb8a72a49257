"""Integers among the arguments: read at each call where they are computed with, else symbols."""

from __future__ import annotations

import math

import numpy as np
import pytest

import jtorch
import jtorch.nn.functional as F
from jtorch import nn


def numbers(*shape):
    return jtorch.from_numpy(np.random.default_rng(sum(shape)).standard_normal(shape).astype("f4"))


def plans_of(f):
    return sum(map(len, f.plans.values()))


PROGRAMS = {  # and how many recordings all of 0 .. 60 may take
    "product": (lambda x, k: x * k, 2),
    "sum with integers": (lambda x, k: (x.long() + k) // 3, 2),
    "from the left": (lambda x, k: k - x, 2),
    "decay": (lambda x, k: x * 0.9**k, 2),
    "bias correction": (lambda x, k: x / (1 - 0.9 ** (k + 1)), 2),
    "quotient": (lambda x, k: x * (1 / (k + 1)), 2),
    "compared with elements": (lambda x, k: x * (jtorch.arange(12) == k), 2),
    "returned": (lambda x, k: (x + 1, k, k + 1), 2),
    "power": (lambda x, k: x**k, 3),
    "rest": (lambda x, k: x[k % 12], 3),
    "a size": (lambda x, k: jtorch.zeros(k + 1, 2) + x[0], 3),
    "a slice": (lambda x, k: x[:k] * 2, 4),
    "from the end": (lambda x, k: x[-(k % 12) - 1 :].sum(), 4),
    "rolled": (lambda x, k: x.roll(k, 0), 5),
    "counted": (lambda x, k: jtorch.arange(k) * 2, 4),
    "compared": (lambda x, k: x * 2 if k > 30 else x, 4),
    "rest compared": (lambda x, k: x * 2 if k % 4 == 0 else x + 1, 4),
    "compared with a float": (lambda x, k: x * 2 if k > 30.5 else x, 4),
    "index and factor": (lambda x, k: x[k % 3] * k, 3),
    "padding": (lambda x, k: F.pad(x, (k, 2)), 4),
    "narrow": (lambda x, k: x.narrow(0, k // 10, 3), 5),
    "moments": (lambda x, k: x * math.sqrt(k + 1), 4),
    "a key": (lambda x, k: x * {3: 5.0}.get(k, 2.0), 61),
    "a text": (lambda x, k: (x, f"{k}"), 61),
}


def outcome(f, k):
    try:
        return f(numbers(12), k)
    except Exception as error:
        return type(error).__name__


def same(a, b, exact):
    if isinstance(a, tuple):
        return len(a) == len(b) and all(same(p, q, exact) for p, q in zip(a, b, strict=True))
    if not isinstance(a, jtorch.Tensor):
        return type(a) is type(b) and a == b
    if a.shape != b.shape or a.dtype is not b.dtype:
        return False
    return a.numpy().tobytes() == b.numpy().tobytes() if exact else np.allclose(a, b, 1e-4, equal_nan=True)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("name", PROGRAMS)
def test_each_is_as_in_eager_mode_and_as_a_plan_of_its_own(name):
    program, recordings = PROGRAMS[name]
    f, exact = jtorch.compile(program), jtorch.compile(program, dynamic=False)
    for k in range(61):
        found = outcome(f, k)
        assert same(found, outcome(program, k), exact=False), k
        if k < 20:
            assert same(found, outcome(exact, k), exact=True), k
    assert plans_of(f) <= recordings
    for k in (-1, -5, -13, 2**31, 2**62, 2**70, -(2**70)):
        if abs(k) < 100 or name not in ("a size", "counted", "padding", "compared with elements"):
            assert same(outcome(f, k), outcome(program, k), exact=False), k


def test_an_integer_and_sizes_that_move_together():
    f = jtorch.compile(lambda x, k: x[: k // 2].sum() * k + x.shape[0])
    for k, n in ((4, 5), (6, 7), (8, 11), (10, 10), (12, 31), (100, 50), (7, 7), (3, 2)):
        x = numbers(n)
        expected = float(x[: k // 2].sum()) * k + n
        assert abs(float(f(x, k)) - expected) < 1e-3
    assert plans_of(f) <= 5


def test_integers_in_containers_and_keywords():
    f = jtorch.compile(lambda x, at, *, step=0: x[at["k"]] * step + at["pair"][1])
    for n in range(2, 20):
        found = f(jtorch.arange(40), {"k": n, "pair": (1, n + 3)}, step=n * 2)
        assert int(found) == n * n * 2 + n + 3
    assert plans_of(f) <= 3


def test_a_bool_is_no_integer():
    f = jtorch.compile(lambda x, k: x * 2 if k is True else x * k)
    x = jtorch.ones(2)
    for k in (3, 4, True, 5, 1, False, 0, True):
        assert f(x, k).tolist() == ([2.0, 2.0] if k is True else [float(k)] * 2)


@pytest.mark.slow
def test_a_training_step_that_is_told_its_number():
    def run(**options):
        jtorch.manual_seed(0)
        model = nn.Linear(4, 3)
        moment = [jtorch.zeros_like(p) for p in model.parameters()]

        @jtorch.compile(**options)
        def step(x, t):
            model.zero_grad()
            loss = model(x).square().mean()
            loss.backward()
            with jtorch.no_grad():
                for p, m in zip(model.parameters(), moment, strict=True):
                    m.mul_(0.9).add_(p.grad, alpha=0.1)
                    p.sub_(m / (1 - 0.9**t), alpha=0.05)
            return loss

        losses = [step(numbers(6, 4), t).detach() for t in range(1, 40)]
        return step, [a.numpy().tobytes() for a in (*losses, *(p.detach() for p in model.parameters()))]

    step, found = run()
    assert plans_of(step) == 2
    _, exact = run(dynamic=False)
    _, eager = run(disable=True)
    assert found == exact and len(eager) == len(found)


def test_what_is_told_of_them():
    f = jtorch.compile(lambda x, k: x * k)
    for k in range(5):
        f(jtorch.ones(2), k)
    (entry,) = f.retraces
    assert entry.changes[0][:3] == ("k", "0", "1")
    assert "read at each call from the second one on" in entry.changes[0].advice
    g = jtorch.compile(lambda x, k: x * math.gamma(k))
    for k in (3, 4):
        g(jtorch.ones(2), k)
    assert "its digits are needed at" in g.retraces[0].changes[0].advice


def test_the_same_tensor_as_argument_and_outside_at_any_size():
    """A tensor that is recorded as it is has no symbols."""
    w = jtorch.ones(4, 3)
    f = jtorch.compile(lambda x, y: x.sum(0) + w.sum(0) * 2 + y.sum(0), dynamic=True)
    for n in (5, 6, 7):
        assert f(w, jtorch.ones(n, 3)).tolist() == [12.0 + n] * 3
        assert f(jtorch.ones(n + 1, 3), w).tolist() == [n + 13.0] * 3


@pytest.mark.parametrize("threads", [1, 2])
def test_an_integer_that_is_asked_alone(threads):
    """``if batch_index % 10 == 0`` beside work that threads share: no word of the plan depends on it."""
    weight = jtorch.randn(300, 400, dtype=jtorch.float64)

    def program(k, x):
        y = (x @ weight.t()).relu()
        return (y * 2 if k % 10 == 0 else y).sum()

    before = jtorch.get_num_threads()
    jtorch.set_num_threads(threads)
    try:
        compiled, x = jtorch.compile(program), jtorch.randn(500, 400, dtype=jtorch.float64)
        for k in range(25):
            assert compiled(k, x).item() == pytest.approx(program(k, x).item(), rel=1e-12)
        assert len(compiled.retraces) <= 3
    finally:
        jtorch.set_num_threads(before)
