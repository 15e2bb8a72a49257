"""Functions of Python's that take nothing but a number, called with what stands for one."""

from __future__ import annotations

import builtins
import functools
import gc
import math
import operator
import sys

import numpy as np
import pytest

import jtorch
from jtorch.errors import CompileError

NAN, INF = float("nan"), float("inf")


def logged(x, log):
    loss = x.square().mean()
    log.append(float(loss))
    total = float(loss.item()) * 2 + float(x.sum())
    return x * float(loss), total, float(loss)


def counted(x, log):
    n = int((x > 0).sum())
    log.append(n)
    return x * n, int(n) + 1


def asked_of(x, log):
    loss = x.sum()
    if math.isnan(loss.item()):
        log.append("nan")
        return x * 0
    if math.isinf(loss.item()) or not math.isfinite(float(loss)):
        log.append("inf")
        return x - x
    log.append("fine")
    return x * float(loss)


def given(x, log):
    scale = jtorch.tensor(2.0)
    return x * float(scale), float(1), float("2.5"), int("3"), float(True), math.isnan(1.0)


def in_loops(x, log):
    log.extend([float(row.sum()) for row in x])
    return sum(float(v) for v in x.flatten())


def renamed(x, log):
    number = float
    return number(x.sum()), builtins.float(x.mean())


def checked(x, log):
    value = float(x.sum())
    return isinstance(value, float), value == x.sum().item(), value + 1


def halves(x, log):
    return float(x.half().sum()), float(x.double().sum())


def one_element(x, log):
    return float(x.sum(0, keepdim=True).sum(1, keepdim=True)), x


@pytest.mark.parametrize(
    "f",
    [logged, counted, asked_of, given, in_loops, renamed, checked, halves, one_element],
    ids=lambda f: f.__name__,
)
def test_they_give_the_numbers_of_each_call(f):
    fast = jtorch.compile(f, fullgraph=True)
    logs: tuple[list, list] = [], []
    for values in ([1.0, -2.0], [3.0, 4.0], [NAN, 1.0], [INF, 1.0], [-INF, 2.0], [0.5, 0.25], [1.0, -2.0]):
        results = [
            run(jtorch.tensor([values, values]), log) for run, log in zip((f, fast), logs, strict=True)
        ]
        eager, compiled = (result if isinstance(result, tuple) else (result,) for result in results)
        for a, b in zip(eager, compiled, strict=True):
            assert type(a) is type(b)
            np.testing.assert_array_equal(np.asarray(a), np.asarray(b))
    np.testing.assert_array_equal(*logs)
    assert fast.calls > 3


def test_a_number_of_the_tape_is_one_as_well():
    w = jtorch.ones(3, requires_grad=True)

    @jtorch.compile(fullgraph=True)
    def step(x):
        loss = (w * x).sum()
        loss.backward()
        return float(loss)

    assert [step(jtorch.ones(3) * k) for k in range(3)] == [0.0, 3.0, 6.0]
    assert w.grad.tolist() == [3.0] * 3


@pytest.mark.parametrize(
    "f",
    [
        lambda x: int(x.sum()),
        lambda x: math.floor(x.sum().item()),
        lambda x: float(x),
        lambda x: math.isnan(x.sum()),
        lambda x: list(map(float, x)),
        lambda x: float.__call__(x.sum()),
        lambda x: float(*[x.sum()]),
    ],
)
def test_others_are_refused_or_eager_mode_s(f):
    x = jtorch.tensor([1.5, 2.5])
    try:
        expected = f(x)
    except Exception as error:
        with pytest.raises((type(error), CompileError)):
            jtorch.compile(f, fullgraph=True)(x)
    else:
        with pytest.raises(CompileError):
            jtorch.compile(f, fullgraph=True)(x)
        with pytest.warns(jtorch.errors.EagerWarning):
            assert jtorch.compile(f, fullgraph=False)(x) == expected


@pytest.mark.slow
def test_what_is_put_on_the_stack_is_counted():
    def calls(n):
        for _ in range(n):
            jtorch.compile(lambda x: (float(x.sum()), math.isnan(x.sum().item())), fullgraph=True)(
                jtorch.ones(2)
            )
        gc.collect()
        return [sys.getrefcount(f) for f in (float, math.isnan)]

    before = calls(3)
    assert np.abs(np.subtract(calls(60), before)).max() < 20


# what makes an array of a list reads all of it: (what the function does, with a list from outside)
OF_LISTS = {
    "np.mean of what was appended to": lambda v, kept: (kept.append(v), np.mean(kept))[1],
    "np.array of it": lambda v, kept: (kept.append(v), np.array(kept).sum())[1],
    "its shape": lambda v, kept: (kept.append(v), np.array(kept).shape[0])[1],
    "an entry that was set": lambda v, kept: (operator.setitem(kept, 0, v), np.max(kept))[1],
    "a list beside a number": lambda v, kept: np.array([[v, 1.0], kept[:2]]).sum(),
    "the list itself": lambda v, kept: np.sum([[v, 1.0], kept]),
    "in a tuple": lambda v, kept: np.mean(([v, 1.0], kept)),
    "a large integer": lambda v, kept: np.array([10**19, v]).sum() + np.mean([v, *kept]),
}


@pytest.mark.filterwarnings("ignore::jtorch.errors.EagerWarning")
@pytest.mark.parametrize("name", OF_LISTS)
def test_lists_that_arrays_are_made_of_are_read(name):
    def results(wrap):
        kept = [10.0, 20.0]
        f = wrap(lambda x: OF_LISTS[name](x.sum().item(), kept))
        found = []
        for k in range(4):
            kept[1] = 20.0 + 3 * k
            found.append(float(f(jtorch.ones(2) * k)))
        return found, kept

    assert results(lambda f: jtorch.compile(f, fullgraph=False)) == results(lambda f: f)


METHODS = {
    "direct": lambda v, n: (1.0).__add__(v),
    "of the class": lambda v, n: float.__mul__(2.0, v),
    "of an int": lambda v, n: (2).__mul__(n),
    "a comparison": lambda v, n: bool((5.0).__gt__(v)),
    "map": lambda v, n: list(map((1.0).__add__, [v])),
    "filter": lambda v, n: list(filter((3.0).__gt__, [v, 1.0, 4.0])),
    "any": lambda v, n: any(map((3.0).__lt__, [v])),
    "methodcaller": lambda v, n: operator.methodcaller("__lt__", v)(3.0),
    "in a partial": lambda v, n: list(map(functools.partial((3).__lt__), [n])),
    "of a text": lambda v, n: list(map("a".__add__, ["b"])),
    "%*d": lambda v, n: "%*d|%.*f" % (n, 3, n, v),  # noqa: UP031
    "ragged": lambda v, n: str(_error_of(lambda: np.array([[n], [n, n]])))[:20],
}


def _error_of(function):
    try:
        return function()
    except ValueError as error:
        return error


@pytest.mark.filterwarnings("ignore::jtorch.errors.EagerWarning")
@pytest.mark.parametrize("name", METHODS)
def test_methods_that_look_at_the_class_of_what_they_get(name):
    def f(x):
        return METHODS[name](x.sum().item(), (x > 0).sum().item() + 2)

    def of_sizes(x):
        return METHODS[name](float(x.sum()), x.shape[0])

    for function in (f, of_sizes):
        g = jtorch.compile(function, fullgraph=False)
        for k in (1, 2, 3):
            x = jtorch.ones(k + 1) * k
            assert g(x) == function(x)
