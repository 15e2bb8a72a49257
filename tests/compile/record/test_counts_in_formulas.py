"""A number that a function counts on, in the formulas of schedules: powers and functions of ``math``."""

import math

import numpy as np
import pytest

import jtorch
from tests.each import each

# each of a count, as schedules have them
FORMULAS = {
    "root": lambda n: n**0.5,
    "inverse root": lambda n: n**-0.5,
    "power of a float": lambda n: n**-1.5,
    "inverse": lambda n: n**-1,
    "square": lambda n: n**2,
    "cube of a sum": lambda n: (n + 1) ** 3,
    "power of a quotient": lambda n: (n / 7) ** 2,
    "called": lambda n: pow(n, -0.5),
    "float": lambda n: float(n) ** -0.5,
    "sqrt": lambda n: math.sqrt(n),
    "warm-up": lambda n: 2.0 * 32**-0.5 * min(n**-0.5, n * 40**-1.5),
    "cosine": lambda n: 0.5 * (1 + math.cos(math.pi * n / 100)),
    "sine": lambda n: math.sin(n),
    "exponential": lambda n: math.exp(-n / 10),
    "logarithm": lambda n: math.log(n + 1),
    "logarithm of 2": lambda n: math.log2(n) + math.log10(n),
    "tanh": lambda n: math.tanh(n / 20),
    "decay": lambda n: 0.9 ** (n // 4),
    "decay by fractions": lambda n: 5e-4 * 0.1 ** (n / 50),
    "halves": lambda n: 2 ** -(n / 7),
    "a ramp": lambda n: np.exp(-5.0 * (1 - min(n / 10, 1)) ** 2),
    "numpy's cosine": lambda n: 0.5 * (1 + np.cos(np.pi * n / 100)),
    "numpy's roots": lambda n: 1 / np.sqrt(n),
    "numpy's logarithm": lambda n: np.log(n) + np.log10(n + 1.0),
    "numpy's least": lambda n: np.minimum(n / 40, 1.0) + np.maximum(0, n - 90),
}


class Counter:
    n = 0


def _counting(formula, wrap, start=0, scaled=True):
    """(the function, what it counts); the number scales a tensor, too, unless not ``scaled``"""
    counter = Counter()
    counter.n = start

    @wrap
    def step(x):
        counter.n += 1
        rate = formula(counter.n)
        return x * (rate if scaled else 2.0), rate

    return step, counter


@each("name", FORMULAS)
def test_no_recording_for_another_count(name):
    (eager, _), (compiled, counter) = (_counting(FORMULAS[name], w) for w in (lambda f: f, jtorch.compile))
    x = jtorch.ones(2, dtype=jtorch.float64)
    for _ in range(120):
        y, rate = compiled(x)
        expected, expected_rate = eager(x)
        assert type(rate) is type(expected_rate)
        assert rate == pytest.approx(expected_rate, rel=4e-16, abs=1e-16)
        jtorch.testing.assert_close(y, expected, rtol=1e-15, atol=1e-15)
    assert counter.n == 120
    most = 2 if name == "warm-up" else 1  # min() goes both ways
    assert len(compiled.retraces) <= most


# what Python raises an error for, or leaves the real numbers with, comes as in eager mode
EDGES = {
    "0 to a negative power": (lambda n: n**-0.5, -3),
    "a root of less than 0": (lambda n: n**0.5, -3),
    "an integer to a negative power": (lambda n: n**-2, -3),
    "a square of less than 0": (lambda n: n**2, -3),
    "a float to an even power": (lambda n: (n * 0.5) ** 2, -3),
    "overflow": (lambda n: (n * 1e100) ** 4, -3),
    "a large integer": (lambda n: (n * 10**6) ** 3, 10),
    "a power of 0": (lambda n: n**0, -3),
    "a power that overflows": (lambda n: 10.0 ** (n * 60.5), 3),
    "a power of infinity": (lambda n: 0.5 ** (n * 1e308) + 2 ** (n * -1e308), 3),
    "a power of less than 0": (lambda n: (-2.0) ** (n + 1), -3),
    "a root of a number less than 0": (lambda n: (-2.0) ** (n / 2), 3),
    "numpy's integers": (lambda n: np.minimum(n, 0) + np.abs(n), -3),
    "sqrt": (math.sqrt, -3),
    "log": (lambda n: math.log(n), -3),
    "exp": (lambda n: math.exp(n * 100), 3),
    "cos of infinity": (lambda n: math.cos(n * 1e308), -3),
    "an integer that is no float": (lambda n: math.sqrt(n), 2**53 - 2),
    "an integer that is no float, as one": (lambda n: float(n), 2**53 - 2),
}


@each("name", EDGES)
def test_what_python_does_at_the_edges(name):
    formula, start = EDGES[name]
    steps = [_counting(formula, wrap, start, False)[0] for wrap in (lambda f: f, jtorch.compile)]
    x = jtorch.ones(2, dtype=jtorch.float64)
    for _ in range(7):
        found = []
        for step in steps:
            try:
                found.append(step(x)[1])
            except (ArithmeticError, ValueError, TypeError, RuntimeError) as error:
                found.append((type(error), str(error).partition(" (at ")[0]))
        if type(found[0]) is float:
            assert type(found[1]) is float and found[1] == pytest.approx(found[0], rel=4e-16, abs=0)
        else:
            assert found[0] == found[1] and type(found[0]) is type(found[1])


def test_the_count_of_elements_as_a_float():
    def share(x):
        return x.sum() / float((x > 0).sum())

    compiled = jtorch.compile(share, fullgraph=True)
    for x in (jtorch.tensor([1.0, -2.0, 3.0]), jtorch.tensor([1.0, 2.0, 3.0])):
        assert compiled(x).item() == share(x).item()
    assert not compiled.retraces
