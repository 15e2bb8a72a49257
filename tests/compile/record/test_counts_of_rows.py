"""Numbers that each call computes beside sizes that move: ``total += loss.item() * x.size(0)``."""

import warnings

import pytest

import jtorch
from tests.each import each


def averaged(state, x, y):
    state["right"] += (x.argmax(1) == y).sum().item()
    state["rows"] += y.size(0)
    state["loss"] += x.sum().item() * x.size(0)
    return state["loss"] / state["rows"], 100.0 * state["right"] / state["rows"]


COMPILED = {  # of x (n, 2), y (n), and a dict outside
    "averages": averaged,
    "a product": lambda state, x, y: x.sum().item() * len(x),
    "from the left": lambda state, x, y: len(x) * x.sum().item() + (0 - len(x)),
    "of integers": lambda state, x, y: (x > 3).sum().item() * len(x),
    "what is left": lambda state, x, y: len(x) - (x > 3).sum().item(),
    "a share": lambda state, x, y: (y == 1).sum().item() / len(y),
    "the inverse": lambda state, x, y: x.size(0) / (x.sum().item() + 1),
    "by a difference": lambda state, x, y: x.sum().item() / (x.size(0) - 3.5),
    "with floats of sizes": lambda state, x, y: (
        x.sum().item() * (len(x) / 3) + (len(x) * 0.5 - x.mean().item())
    ),
    "kept": lambda state, x, y: state["log"].append((x.mean().item() * x.size(0), len(x))),
    "added up": lambda state, x, y: sum([x.sum().item(), len(x), 0.5]),
    "a flag": lambda state, x, y: (x.sum() > 1).item() * len(x),
    "times a tensor": lambda state, x, y: x * (x.sum().item() * len(x)),
}
BRANCHES = {
    "more than rows": lambda state, x, y: 1 if (x > 3).sum().item() > len(x) else 2,
    "rows first": lambda state, x, y: 1 if len(x) <= (x > 3).sum().item() else 2,
    "all of them": lambda state, x, y: (y == 1).sum().item() == y.size(0),
    "half of them": lambda state, x, y: 1 if x.sum().item() > len(x) / 2 else 2,
    "the smaller": lambda state, x, y: min(x.sum().item(), len(x)),
}
EXACT = {  # beyond what is computed in int64 and float64 alike, or not computed by a replay
    "large": lambda state, x, y: (y == 1).sum().item() * (len(x) * 10**9),
    "larger": lambda state, x, y: (y == 1).sum().item() + (len(x) * 10**18),
    "quotient": lambda state, x, y: (y == 1).sum().item() / (len(x) * 10**17 + 1),
    "rest": lambda state, x, y: (y == 1).sum().item() % len(y),
    "power": lambda state, x, y: (y == 1).sum().item() ** len(y),
}


def plainly(value):
    if isinstance(value, jtorch.Tensor):
        return value.tolist()
    if isinstance(value, (list, tuple)):
        return [*map(plainly, value)]
    return type(value).__name__, pytest.approx(value, rel=1e-6) if isinstance(value, float) else value


def outcome(body, wrap, sizes):
    state = {"right": 0, "rows": 0, "loss": 0.0, "log": []}
    f, told = wrap(lambda x, y: body(state, x, y)), []
    for n in sizes:
        x = jtorch.arange(2.0 * n).reshape(n, 2) % 7
        told.append(plainly(f(x, jtorch.arange(n) % 2)))
        told.append(plainly([state["right"], state["rows"], state["loss"], [*state["log"]]]))
    return told, f


@each("name", {**COMPILED, **BRANCHES})
def test_few_recordings_serve_all_sizes(name):
    body, sizes = {**COMPILED, **BRANCHES}[name], (3, 4, 5, 9, 6, 12, 7, 3, 8)
    expected, _ = outcome(body, lambda f: f, sizes)
    found, f = outcome(body, jtorch.compile, sizes)
    assert found == expected
    assert len(f.retraces) <= (1 if name in COMPILED else 3)


@each("name", {**COMPILED, **BRANCHES, **EXACT})
def test_sizes_of_one_and_none(name):
    body = {**COMPILED, **BRANCHES, **EXACT}[name]
    sizes = (4, 1, 5, 6, 1, 2, 7)
    expected, _ = outcome(body, lambda f: f, sizes)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert outcome(body, lambda f: jtorch.compile(f, fullgraph=False), sizes)[0] == expected


def test_a_float_argument_beside_a_size():
    def f(x, a):
        return x * (a * len(x)), x * (len(x) - a) if a * len(x) > 2.0 else x

    compiled = jtorch.compile(f)
    for n, a in ((3, 0.1), (4, 0.2), (5, 1.5), (9, 0.7), (6, 0.01), (7, -3.0)):
        x = jtorch.ones(n)
        assert plainly(compiled(x, a)) == plainly(f(x, a))


DIGITS = {"float": float, "text": str, "key": lambda v: {0.5: 1.0}.get(v, v), "whole": lambda v: v // 1}


@each("form", DIGITS)
def test_where_digits_are_needed_the_size_counts_as_well(form):
    def f(x, a):
        return DIGITS[form](a * len(x) + 0.1), x * (a / len(x))

    compiled = jtorch.compile(f)
    for n, a in ((3, 0.1), (4, 0.1), (5, 0.1), (4, 0.2), (5, 0.2)):
        x = jtorch.ones(n)
        assert plainly(compiled(x, a)[1]) == plainly(f(x, a)[1])
        assert compiled(x, a)[0] == f(x, a)[0]


def test_few_recordings_of_floats_beside_sizes():
    compiled = jtorch.compile(lambda x, a: (x * (a * len(x)), a / len(x)))
    for n, a in ((3, 0.1), (4, 0.2), (5, 1.5), (9, 0.7), (6, 0.01), (7, -3.0)):
        compiled(jtorch.ones(n), a)
    assert len(compiled.retraces) == 1
