"""Sizes that are symbols: what they compute, what they know, and what they note."""

from __future__ import annotations

import copy
import math
import operator
import pickle
import random

import numpy as np
import pytest

from jtorch.core.dim import Dim, DimFloat, is_symbolic, least, most, symbol, value_of
from jtorch.core.environment import Environment, Exact
from jtorch.core.sizes import (
    Shape,
    broadcast,
    cast,
    computed,
    count_of,
    real,
    settled,
    shape_of,
    slice_bounds,
)


@pytest.fixture
def env():
    return Environment()


def at(env, value, **sizes):
    """What ``value`` is for other sizes."""
    return eval(value.text, env.functions | sizes) if is_symbolic(value) else value


# -- arithmetic


def test_equal_polynomials_are_equal(env):
    n, m = symbol(env, "n", 30), symbol(env, "m", 7)
    assert (n + m) * (n - m) == n * n - m * m
    assert (n + 1) * 2 - 2 == n + n
    assert env.tests == []


def test_what_cancels_is_a_number(env):
    n = symbol(env, "n", 30)
    assert type(n - n) is int and type((n + 3) - n) is int and (n + 3) - n == 3
    assert type(0 * n) is int


@pytest.mark.parametrize(
    "quotient",
    [
        lambda n, m: (n * m) // m, lambda n, m: (4 * n + 8) // 4, lambda n, m: n // n,
        lambda n, m: (6 * n + 3 * m) // (2 * n + m), lambda n, m: (4 * n + 3) // 4,
    ],
)  # fmt: skip
def test_quotients_that_are_polynomials(env, quotient):
    n, m = symbol(env, "n", 30), symbol(env, "m", 7)
    found = quotient(n, m)
    assert "//" not in str(getattr(found, "text", ""))
    assert value_of(found) == quotient(30, 7)


def test_division_by_zero_is_an_error(env):
    n = symbol(env, "n", 30)
    with pytest.raises(ZeroDivisionError):
        n // (n - n)


OPERATORS = [operator.add, operator.sub, operator.mul, operator.floordiv, operator.mod, least, most]


@pytest.mark.parametrize("seed", range(60))
def test_random_expressions_are_those_of_integers(seed):
    """Each is right for the sizes at hand, and for others at which its guards hold."""
    r = random.Random(seed)
    env = Environment()
    names = {"a": r.randint(2, 40), "b": r.randint(2, 40)}
    dims = [symbol(env, name, value) for name, value in names.items()]
    plain = {name: [value, *(r.randint(2, 60) for _ in range(5))] for name, value in names.items()}
    pairs = [(d, plain[name]) for d, name in zip(dims, names, strict=True)]
    pairs += [(k, [k] * 6) for k in (1, 2, 3, 7)]
    for _ in range(12):
        (x, xs), (y, ys) = r.choice(pairs), r.choice(pairs)
        f = r.choice(OPERATORS)
        if f in (operator.floordiv, operator.mod) and 0 in ys:
            continue
        plainly = {least: min, most: max}.get(f, f)
        pairs.append((f(x, y), [plainly(a, b) for a, b in zip(xs, ys, strict=True)]))
    for found, expected in pairs:
        assert value_of(found) == expected[0]
        for k in range(6):
            sizes = {name: values[k] for name, values in plain.items()}
            assert at(env, found, **sizes) == expected[k], (getattr(found, "text", found), sizes)
    # answers: each is that of the integers wherever the guards noted with it hold
    for (x, xs), (y, ys) in zip(pairs[:6], reversed(pairs), strict=False):
        for test in (operator.lt, operator.le, operator.gt, operator.ge, operator.eq, operator.ne):
            answer = bool(test(x, y))
            assert answer == test(xs[0], ys[0])
            for k in range(6):
                sizes = {name: values[k] for name, values in plain.items()}
                if all(eval(text, env.functions | sizes) for text in env.tests):
                    assert answer == test(xs[k], ys[k]), (env.tests, sizes)


def test_bounds_answer_without_a_guard(env):
    n, m = symbol(env, "n", 30), symbol(env, "m", 7, low=4, high=16)
    assert n >= 2 and n > 1 and n != 0 and not n < 2
    assert n * m > m and n * m >= n and not n * m < n
    assert m <= 16 and not m > 16 and m != 3 and m + n > 5
    assert n // 2 >= 1 and least(n, m) >= 2 and most(n, m) >= 4
    assert env.tests == []


def test_other_answers_are_noted_with_the_line(env):
    n = symbol(env, "n", 30)
    assert not n > 64
    (guard,) = env.guards.values()
    assert guard.text == "not (n - 64) > 0" and not guard.pins
    assert guard.source.file == __file__


def test_a_question_is_noted_once(env):
    n = symbol(env, "n", 30)
    assert n < 64 and n < 64 and not n >= 64
    assert env.tests == ["(n - 64) < 0", "not (n - 64) >= 0"]


def test_what_is_equal_is_one_thing_afterwards(env):
    n, m = symbol(env, "n", 30), symbol(env, "m", 60)
    assert m == 2 * n
    assert m - n == n and m // n == 2
    assert env.tests == ["(2*n - m) == 0"]


def test_what_divides_is_known_afterwards(env):
    n = symbol(env, "n", 30)
    assert n % 3 == 0
    assert (n // 3) * 3 == n and n % 3 == 0
    assert len(env.tests) == 1


@pytest.mark.parametrize(
    "ask",
    [
        int, float, hash, str, repr, range, operator.index, lambda n: [0] * n, lambda n: {30: 1}.get(n), bin,
        lambda n: n & 5, lambda n: 1 << n, lambda n: n.bit_length(), lambda n: f"{n:>4}",
       
        lambda n: np.zeros(n), math.sqrt, complex, pickle.dumps, lambda n: 2**n, lambda n: round(n, -1),
        lambda n: n in {30: 1}, lambda n: [1, 2, 3][n - 29],
    ],
)  # fmt: skip
def test_what_needs_the_number_pins_it(env, ask):
    n = symbol(env, "n", 30)
    assert type(ask(n)) is type(ask(30))
    assert any(guard.pins for guard in env.guards.values())


def test_it_passes_for_an_int(env):
    n = symbol(env, "n", 30)
    assert isinstance(n, int) and n.__class__ is int and type(n) is Dim
    assert copy.deepcopy(n) is n and copy.copy(n) is n and math.floor(n) is n and round(n) is n
    assert sum([n, n]) == 2 * n and math.prod([n, 2]) == 2 * n
    with pytest.raises(AttributeError, match="'int' object has no attribute 'nothing'"):
        n.nothing  # noqa: B018


# -- floats


@pytest.mark.parametrize(
    "compute",
    [
        lambda n: n / 3, lambda n: 1 / n, lambda n: n * 0.1, lambda n: n**-0.5, lambda n: n - 0.5,
        lambda n: (n + 1) / (n - 1) * 2.0, lambda n: -(n / 7), lambda n: 0.5**2 * n, lambda n: abs(1.5 - n),
        lambda n: (n / 3) // 2, lambda n: (n / 3) % 2, lambda n: n**2.0,
    ],
)  # fmt: skip
def test_floats_of_sizes_have_the_bits_of_pythons(env, compute):
    n = symbol(env, "n", 30)
    found = compute(n)
    assert type(found) is DimFloat and isinstance(found, float) and env.tests == []
    for k in (30, 2, 3, 7, 1001):
        assert at(env, found, n=k) == compute(k)
        assert type(at(env, found, n=k)) is float


def test_floats_pin_and_are_compared(env):
    n = symbol(env, "n", 30)
    assert n / 4 > 7 and float(n / 4) == 7.5
    assert env.tests == ["((n / 4) > 7)", "same((n / 4), 7.5)"]


def test_numbers_of_a_dtype(env):
    n = symbol(env, "n", 30)
    f32, i64 = np.dtype(np.float32), np.dtype(np.int64)
    assert cast(i64, n) is n
    third = cast(f32, n / 3)
    assert at(env, third, n=10) == np.float32(10 / 3).item()
    both = computed(f32, lambda x, y: np.float32(x) * np.float32(y), [third, 0.1])
    assert at(env, both, n=10) == (np.float32(10 / 3) * np.float32(0.1)).item()
    assert at(env, real(n), n=3) == 3.0 and real(3) == 3.0
    assert cast(f32, 0.1) == np.float32(0.1).item()


# -- shapes


def test_shapes_compare_lengths_first(env):
    n = symbol(env, "n", 30)
    assert shape_of((n, 64)) != (128,) and shape_of((n, 64)) == (n, 64)
    assert type(shape_of((2, 3))) is tuple and type(shape_of((n,))) is Shape
    assert env.tests == []


def test_broadcasting(env):
    n = symbol(env, "n", 30)
    assert broadcast((n, 1), (4,)) == (n, 4) and broadcast((1, n), (n, 1)) == (n, n)
    assert broadcast((2, 1), (3,)) == (2, 3)
    assert env.tests == []
    with pytest.raises(ValueError, match="broadcast"):
        broadcast((n,), (4,))


@pytest.mark.parametrize("n", [0, 1, 2, 5, 30])
@pytest.mark.parametrize(
    "part", [slice(None), slice(2, None), slice(None, -2), slice(-3, 9), slice(50), slice(1, None, 2)]
)
def test_bounds_of_slices(part, n):
    env = Environment()
    size = symbol(env, "n", n) if n >= 2 else n
    start, stop, step = slice_bounds(part, size)
    begin, end, by = part.indices(n)
    assert (value_of(start), value_of(stop), step) == (begin, max(begin, end), by)


def test_counting():
    for start, end, step in [(0, 10, 3), (10, 0, -3), (0, 9, 3), (5, 6, 1)]:
        assert count_of(start, end, step) == len(range(start, end, step))


def test_keys_are_numbers(env):
    n = symbol(env, "n", 30)
    assert settled((n, "x", 2)) == (30, "x", 2) and type(settled((n,))[0]) is int
    assert env.tests == ["n == 30"]


# -- stages


def test_a_plan_takes_what_it_cannot_prove_for_different(env):
    n = symbol(env, "n", 30)
    env.planning = True
    assert n != 64 and hash(n + 1 - 1) == hash(n) and str(2 * n) == "(2*n)"
    (guard,) = env.guards.values()
    assert guard.text == "not (n - 64) == 0" and guard.source is None


def test_a_size_that_is_solved_is_its_number_to_a_dictionary(env):
    n, m = symbol(env, "n", 3), symbol(env, "m", 30)
    assert n == 3  # from now on it is
    env.planning = True
    assert {(m, 3): "found"}.get((m, n)) == "found" and {(m, n - 3): "zero"}.get((m, 0)) == "zero"


def test_a_plan_is_not_made_where_sizes_hide_what_is_so(env):
    n = symbol(env, "n", 64)
    env.planning = True
    with pytest.raises(Exact):
        assert n == 64


def test_nothing_asks_when_all_is_over(env):
    n = symbol(env, "n", 30)
    env.closed = True
    with pytest.raises(AssertionError, match="a recording that is over"):
        assert n > 64
    assert str(n) == "n" and n >= 2


def test_symbols_of_two_recordings_are_not_compared(env):
    n, other = symbol(env, "n", 30), symbol(Environment(), "n", 30)
    assert n != other
