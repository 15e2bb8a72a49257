"""Disabled functions that do what no plan can follow: their callers run eagerly, and they run once a call."""

from __future__ import annotations

import random
import time
import types
import warnings

import numpy as np
import pytest

import jtorch
from jtorch.core.errors import CompileError

W = jtorch.ones(2, requires_grad=True)
disable = jtorch.compiler.disable
CASES = {
    "a number of NumPy": (lambda v: np.float64(v.sum().item()), lambda h, x: x * h(x)),
    "a write to its argument": (lambda v: v.add_(1), lambda h, x: (h(x), x * 2)),
    "a write to a list that it gets": (lambda v: v.append(1.0), lambda h, x: (h(a := [x]), len(a))),
    "a graph": (lambda v: v * W, lambda h, x: h(x).sum()),
    "its argument in a dict": (lambda v: {"a": [v]}, lambda h, x: h(x)["a"][0] + 1),
    "an object": (lambda v: types.SimpleNamespace(v=v * 1), lambda h, x: h(x).v * 2),
    "a text": (lambda v: str(v.sum().item()), lambda h, x: x * len(h(x))),
    "its argument, written later": (lambda v: v, lambda h, x: h(x).add_(1)),
    "a view, written later": (lambda v: v[:1], lambda h, x: (h(x).add_(1), x * 1)),
    "an argument with a graph": (lambda v: v * v, lambda h, x: h(x * W)),
    "draws after draws": (lambda v: v + jtorch.rand(2), lambda h, x: (jtorch.rand(1), h(x))),
    "draws before draws": (lambda v: v + jtorch.rand(2), lambda h, x: (h(x), jtorch.rand(1))),
    "a generator": (lambda v: (i for i in (1, 2)), lambda h, x: x * sum(h(x))),
}


def plain(value):
    if isinstance(value, jtorch.Tensor):
        return value.tolist(), value.requires_grad
    return [plain(part) for part in value] if isinstance(value, (list, tuple)) else value


@pytest.mark.parametrize("name", CASES)
def test_it_runs_once_a_call(name, monkeypatch):
    monkeypatch.delenv("JTORCH_FULLGRAPH", raising=False)
    does, program = CASES[name]

    def run(wrap):
        jtorch.manual_seed(3)
        calls, found = [], []

        @disable
        def callee(v):
            calls.append(1)
            return does(v)

        step = wrap(lambda x: program(callee, x))
        for n in (1, 2, 3, 1):
            found.append((plain(step(jtorch.ones(2) * n)), len(calls)))
        found.append((plain(step(jtorch.ones(1, 2))), len(calls)))
        return found, jtorch.rand(1).item(), step

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        *eager, _ = run(lambda f: f)
        *found, step = run(jtorch.compile)
    assert found == eager
    assert not any(step.plans.values())


def test_one_that_a_plan_can_have_is_in_the_plan_from_the_second_call_on(monkeypatch):
    monkeypatch.delenv("JTORCH_FULLGRAPH", raising=False)
    calls = []

    @disable
    def draw(v):
        calls.append(random.random())
        return v * 2, calls[-1]

    step = jtorch.compile(lambda x: draw(x * 3)[0] * draw(x)[1])
    for n in range(1, 6):
        found = step(jtorch.ones(2) * n).tolist()
        assert len(calls) == 2 * n and found == pytest.approx([6 * n * calls[-1]] * 2)
    assert sum(map(len, step.plans.values())) == 1


def branching(callee, x):
    count, ready = callee(x), callee(x * 2)
    if count > 3 and ready:
        return x * count
    return x - ready


def taking_elements(callee, x):
    noted = callee(x)
    return x * noted["n"] + noted["v"] + len(np.sort((x * 2).numpy())) + (noted["none"] is None)


def calling_three(callee, x):
    first = callee(x)
    second = callee(x) if first > 2 else 0
    return x * first + second * callee(x)


@pytest.mark.parametrize(
    ("does", "program"),
    [
        (lambda n, v: n, branching),
        (lambda n, v: {"n": n, "v": v * 1, "none": None}, taking_elements),
        (lambda n, v: float(n), calling_three),
        (lambda n, v: n % 2 == 0, calling_three),
    ],
    ids=["branches", "elements", "one called or not", "bools"],
)
def test_the_call_goes_on_from_what_they_gave_where_it_cannot_be_recorded(does, program, monkeypatch):
    monkeypatch.delenv("JTORCH_FULLGRAPH", raising=False)

    def run(wrap):
        calls, found = [], []

        @disable
        def callee(v):
            calls.append(v.sum().item())
            return does(len(calls), v)

        step = wrap(lambda x: program(callee, x))
        for n in (1, 2, 3, 1, 5):
            found.append((plain(step(jtorch.ones(2) * n)), list(calls)))
        found.append((plain(step(jtorch.ones(1, 2))), list(calls)))
        return found

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert run(jtorch.compile) == run(lambda f: f)


def test_what_python_draws_around_them_is_drawn_once(monkeypatch):
    monkeypatch.delenv("JTORCH_FULLGRAPH", raising=False)

    def run(wrap, program):
        calls, found = [], []
        random.seed(5)

        @disable
        def callee(v):
            calls.append(random.random())
            return len(calls)

        step = wrap(lambda x: program(callee, x))
        for _ in range(4):
            found.append((step(jtorch.ones(2)).tolist(), list(calls)))
        return found

    def before(callee, x):
        return x * random.random() if callee(x * random.random()) > 0 else x

    def after(callee, x):
        return x * random.random() if callee(x) > 0 else x

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for program in (before, after):
            assert run(jtorch.compile, program) == run(lambda f: f, program)


def test_an_exception_is_that_of_the_function(monkeypatch):
    monkeypatch.delenv("JTORCH_FULLGRAPH", raising=False)
    calls = []

    @disable
    def callee(v):
        calls.append(1)
        raise ValueError("none")

    step = jtorch.compile(lambda x: callee(x) + x)
    for n in range(1, 5):
        with pytest.raises(ValueError, match="none"):
            step(jtorch.ones(2))
        assert len(calls) == n


def test_an_exception_while_it_is_recorded_is_that_of_the_function(monkeypatch):
    monkeypatch.delenv("JTORCH_FULLGRAPH", raising=False)
    calls = []

    @disable
    def callee(v):
        calls.append(v.sum().item())
        if len(calls) in (2, 5):
            raise ValueError("none")
        return v * 2

    step = jtorch.compile(lambda x, k: callee(x) * k + x)
    for n in range(1, 9):
        x = jtorch.ones(2) * n
        if n in (2, 5):
            with pytest.raises(ValueError, match="none"):
                step(x, n)
        else:
            assert step(x, n).tolist() == [2 * n * n + n] * 2
        assert calls == [2.0 * k for k in range(1, n + 1)]


def test_one_that_changes_what_the_caller_reads_is_an_error_once(monkeypatch):
    monkeypatch.delenv("JTORCH_FULLGRAPH", raising=False)
    counts = [0]

    @disable
    def count(v):
        counts[0] += 1
        return v * counts[0]

    step, told = jtorch.compile(lambda x: (count(x), counts[0])), []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for n in range(1, 7):
            try:
                found, seen = step(jtorch.ones(1))
                assert seen == n and found.item() == n
            except CompileError as error:
                told.append(str(error))
            assert counts == [n]
    assert len(told) == 1 and "changes something that the compiled function reads" in told[0]


def test_a_clock_between_comparisons():
    @jtorch.compile(fullgraph=True)
    def f(x):
        now = time.time()
        return x * 2, now >= 0, now <= time.time()

    for _ in range(3):
        x, *tests = f(jtorch.ones(3))
        assert x.tolist() == [2, 2, 2] and tests == [True, True]


@pytest.mark.parametrize("whole", [True, False])
def test_clocks_around_a_disabled_function(whole):
    log = []

    @disable
    def slow(x):
        log.append(time.perf_counter())
        time.sleep(0.02)

    @jtorch.compile(fullgraph=whole)
    def f(x):
        y = x * 2
        start = time.perf_counter()
        slow(x)
        return y.sum() > 0, start, time.perf_counter() - start

    for _ in range(4):
        log.clear()
        _, start, took = f(jtorch.ones(2))
        assert len(log) == 1 and start <= log[0] and took >= 0.02


DECISIONS = (lambda y: bool(y.sum() > 0), lambda y: y[y > 0].shape[0], lambda y: y.sum().item() > 1)


@pytest.mark.parametrize("decides", DECISIONS)
def test_a_clock_before_a_decision(decides):
    @jtorch.compile(fullgraph=True)
    def f(x):
        y = x * 2
        now = time.time()
        return decides(y), y + 1, now > 0

    for n in (1.0, -1.0, 2.0):
        x = jtorch.ones(3) * n
        found, y, positive = f(x)
        assert found == decides(x * 2) and y.tolist() == (x * 2 + 1).tolist() and positive
