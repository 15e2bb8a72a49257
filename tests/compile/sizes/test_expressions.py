"""What a program computes from sizes, as numbers and within tensors, errors and the last bit included."""

from __future__ import annotations

import datetime
import decimal
import json
import math
import operator

import pytest

import jtorch

ELEVEN = 11


def numbers(n):
    return jtorch.arange(n * 3.0).reshape(n, 3)


def full(x, dtype=None):
    return jtorch.full((2,), x, dtype=dtype)


def caught(compute, error):
    """A program that catches what ``compute`` of the number of rows raises."""

    def program(x):
        try:
            k = compute(x.shape[0])
        except error:
            k = -1.0
        return x * 0 + k

    return program


# Of how many rows each may be recorded is the second number: what needs the number itself is, for each
INTEGERS = {
    "added to zeros": lambda x, n: jtorch.zeros(1, dtype=jtorch.int64) + n,
    "an index": lambda x, n: x[jtorch.full((1,), n) - 1],
    "times ones": lambda x, n: jtorch.ones(2, dtype=jtorch.int32) * n,
    "floor of a quotient": lambda x, n: full(n / 3).floor().long(),
    "maximum": lambda x, n: jtorch.maximum(full(n), full(12)),
    "in place": lambda x, n: jtorch.zeros((), dtype=jtorch.int64).add_(n),
    "bytes": lambda x, n: full(n % 200, jtorch.uint8) * 3,
    "bytes that wrap": lambda x, n: jtorch.zeros(1, dtype=jtorch.uint8) + n * 10,
    "to bytes": lambda x, n: full(n * 50).to(jtorch.uint8),
    "to short": lambda x, n: full(n * 5000).to(jtorch.int16),
    "power": lambda x, n: full(n) ** 2,
    "root": lambda x, n: full(n).double().sqrt(),
    "moved bits": lambda x, n: full(n) >> 1,
    "counted": lambda x, n: jtorch.arange(n) * n % 7,
    "last one": lambda x, n: jtorch.arange(n) == n - 1,
    "where": lambda x, n: jtorch.where(x > 3, n, 0),
    "compared": lambda x, n: jtorch.where(jtorch.full((), n) > 12, x, -x),
    "as bool": lambda x, n: full(n - 12, jtorch.bool),
    "not": lambda x, n: jtorch.logical_not(full(n - 12)),
    "nan": lambda x, n: jtorch.isnan(full(n / 4) * math.inf),
    "filled": lambda x, n: x.bool().fill_(n - 11),
    "new": lambda x, n: x.new_full((2,), n - 11, dtype=jtorch.bool),
    "a test": lambda x, n: jtorch.tensor(n > 10),
}
FLOATS = {
    "negative to a power": lambda n: (-1.0) ** n,
    "negative to another": lambda n: (-2.5) ** (n - 12),
    "sign of zero": lambda n: math.copysign(1.0, 0.0 * (10 - n)),
    "is nan": lambda n: 1 if math.isnan(n * math.nan) else 2,
    "powers": lambda n: n**-0.5 + n**0.5 + 1.5 ** (n % 7) + 0.9**n,
    "bits": lambda n: (n >> 1) + (n << 2) - (n & 3) + (n & 5),
    "negated": lambda n: -(n / 3) + abs(5 - n) * 1.5,
    "compared with a float": lambda n: (n > 10.5) + 2 * (n <= 20.0) + 4 * (n == 11.5) + 8 * (n < math.inf),
    "is": lambda n: (n is ELEVEN) + (n is not None) + operator.is_(n, 9),
    "quotient": caught(lambda n: 1 / (n - 5), ZeroDivisionError),
    "whole quotient": caught(lambda n: 20 // (n - 5), ZeroDivisionError),
    "rest": caught(lambda n: 20 % (n - 5), ZeroDivisionError),
    "inverse": caught(lambda n: (n - 5) ** -1, ZeroDivisionError),
    "too large": caught(lambda n: 2.0 ** (n * 100), OverflowError),
    "json": caught(lambda n: len(json.dumps({"n": n})), TypeError),
    "decimal": caught(lambda n: int(decimal.Decimal(n)), TypeError),
    "days": caught(lambda n: datetime.timedelta(days=n).days, TypeError),
    "unbound": caught(lambda n: int.__add__(n, 1), TypeError),
    "cancelled": lambda n: (n // 4 * 3) // (n // 4),
    "not used": lambda n: 2 + 0 * (n % (n - 5)),
}
SIZES = (10, 11, 12, 20, 30, 11, 6, 5, 3, 9, 64, 7, 2)


def outcome(f, n):
    try:
        found = f(numbers(n))
    except ArithmeticError as error:
        return type(error).__name__
    return [part.numpy().tobytes() for part in found]


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("dynamic", [None, True])
@pytest.mark.parametrize("name", [*INTEGERS, *FLOATS])
def test_each_size_is_as_in_eager_mode(name, dynamic):
    if name in INTEGERS:
        integers = INTEGERS[name]

        def program(x):
            return integers(x, x.shape[0]), x.mean()  # a float beside it
    else:
        compute = FLOATS[name]
        by_rows = compute if compute.__name__ == "program" else lambda x: x * 0 + compute(x.shape[0])

        def program(x):
            return (by_rows(x),)

    f, exact = jtorch.compile(program, dynamic=dynamic), jtorch.compile(program, dynamic=False)
    for n in SIZES:
        found = outcome(f, n)
        assert found == outcome(exact, n), n
        expected = outcome(program, n)
        assert type(found) is type(expected), n
        if isinstance(found, list):
            assert found[0] == expected[0], n
        else:
            assert found == expected, n


def found_by(f, n):
    """The elements of what it gives, or the class of its error."""
    try:
        return f(numbers(n)).tolist()
    except (RuntimeError, IndexError, ValueError) as error:
        assert not isinstance(error, jtorch.errors.InternalError)
        return type(error).__name__


BOUNDS = {
    "clamp of bytes": lambda x: jtorch.zeros(2, dtype=jtorch.int8).clamp(max=x.shape[0]),
    "an argument of bytes": lambda x: x[0].to(jtorch.int8).clamp(max=x.shape[0]),
    "classes": lambda x: jtorch.nn.functional.one_hot(full(x.shape[0]), 6),
    "an index": lambda x: x[jtorch.full((1,), x.shape[0] // 4)] * 2,
    "classes of a loss": lambda x: jtorch.nn.functional.cross_entropy(x[:2], full(x.shape[0] % 5)[: len(x)]),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", BOUNDS)
def test_numbers_out_of_range_are_errors_as_in_eager_mode(name):
    program = BOUNDS[name]

    f = jtorch.compile(program)
    for n in (5, 4, 6, 100, 128, 3, 200, 1, 2):
        assert str(found_by(f, n))[:5] == str(found_by(program, n))[:5], n


def test_an_index_that_is_known_to_be_beyond():
    f = jtorch.compile(lambda x: x[jtorch.full((1,), 7)])
    with pytest.raises(IndexError, match="out of bounds"):
        f(numbers(5))
    assert f(numbers(8)).tolist() == numbers(8)[7:].tolist()


def test_means_over_moving_sizes_with_backward_outside_are_one_plan():
    w = jtorch.ones(3, requires_grad=True)
    f = jtorch.compile(lambda x: (x * w).mean(1) * x.shape[0])
    for n in (5, 7, 4, 9, 11):
        w.grad = None
        f(numbers(n)).sum().backward()
        assert abs(float(w.grad.sum()) - float(numbers(n).sum() * n / 3)) < 1e-2 * n
    assert sum(map(len, f.plans.values())) == 2


ERRORS = {  # of some sizes alone
    "negative size": lambda x: jtorch.cat([x, jtorch.zeros(1, 3).expand(7 - x.shape[0], 3)]),
    "negative power": lambda x: jtorch.arange(4) ** (x.shape[0] - 4),
    "negative power of a size": lambda x: full(x.shape[0]) ** (x.shape[0] - 4),
    "float alpha": lambda x: jtorch.add(jtorch.arange(3), 1, alpha=x.shape[0] / 2),
    "rows of a table": lambda x: jtorch.ones(6, 3).index_select(0, jtorch.arange(x.shape[0])),
    "one row too many": lambda x: x[jtorch.arange(x.shape[0] + 1)],
    "rest of nothing": lambda x: jtorch.arange(x.shape[0]) % x.shape[0],
}


@pytest.mark.slow
@pytest.mark.parametrize("name", ERRORS)
def test_errors_at_some_sizes_are_those_of_eager_mode(name):
    program = ERRORS[name]

    f = jtorch.compile(program)
    for n in (5, 6, 4, 7, 12, 3, 8, 0, 3, 4):
        assert found_by(f, n) == found_by(program, n), n


def test_what_was_done_before_an_error_of_a_size_stays():
    done = {"k": 0}

    @jtorch.compile
    def f(x):
        done["k"] += 1
        try:
            return x.add_(1) * (10 // (x.shape[0] - 7))
        finally:
            x.mul_(2)

    for n in (5, 6, 8):
        f(numbers(n))
    x = numbers(7)
    with pytest.raises(ZeroDivisionError):
        f(x)
    assert done["k"] == 4 and x.tolist() == ((numbers(7) + 1) * 2).tolist()
