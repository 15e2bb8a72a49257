"""Functions of Python's that take nothing but a number, called with what stands for one."""

from __future__ import annotations

import builtins
import gc
import math
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
        lambda x: float((x > 0).sum()),
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
