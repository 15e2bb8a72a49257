"""Functions of Python's that take nothing but numbers, of sizes that move: expressions, no numbers."""

import math

import pytest

import jtorch
from tests.each import each


def numbers(n):
    return jtorch.arange(n * 2.0).reshape(n, 2)


COUNTS = {  # of n rows, as sizes and as bounds of slices
    "part": lambda n: int(n * 0.7),
    "half": lambda n: int(n / 2),
    "itself": lambda n: int(n),
    "nearest": lambda n: round(n * 0.7),
    "nearest even": lambda n: round(n / 2),
    "above": lambda n: math.ceil(n / 3),
    "below": lambda n: math.floor(n / 3),
    "cut": lambda n: math.trunc(n * 0.4),
    "multiple": lambda n: math.ceil(n / 4) * 4,
    "of a root": lambda n: int(math.sqrt(n)),
    "nested": lambda n: int(round(float(n) * 0.9) / 2),
    "from the end": lambda n: int(-n * 0.7),
    "below from the end": lambda n: math.floor(-n / 3),
}
FACTORS = {
    "float": lambda n: float(n),
    "root": lambda n: 1 / math.sqrt(n),
    "logarithms": lambda n: math.log(n) + math.log2(n) * math.log10(n) + math.log(n, 3),
    "exponential": lambda n: math.exp(-n / 10),
    "cosine": lambda n: 0.5 * (1 + math.cos(math.pi * n / 100)),
    "two numbers": lambda n: math.pow(n, 0.4) + math.atan2(n, 3) + math.hypot(n, 1, 2),
    "digits": lambda n: round(n / 7, 2) + round(n / 7, -1),
    "kept": lambda n: round(n, 2),
    "compared": lambda n: 1.0 if float(n) > 1.5 else 2.0,
    "kinds": lambda n: isinstance(int(n / 2), int) + 2.0 * isinstance(float(n), float),
}
RAISING = {  # at some sizes, or for all: in Python's words
    "a root": lambda n: math.sqrt(n - 6),
    "a logarithm": lambda n: math.log(n - 5),
    "a base": lambda n: math.log(n, n - 6),
    "an exponential": lambda n: math.exp(n * 100),
    "infinite": lambda n: int(n * math.inf),
    "no number": lambda n: round(n * math.nan),
    "divided": lambda n: int(1 / (n - 7)),
    "a second argument": lambda n: int(n, 10),
    "too many": lambda n: math.floor(n, 2),
}
SIZES = (8, 7, 9, 12, 5, 20, 6, 31, 11, 5)


def same(found, expected):
    if isinstance(expected, jtorch.Tensor):
        return found.shape == expected.shape and found.numpy().tobytes() == expected.numpy().tobytes()
    if isinstance(expected, tuple):
        return len(found) == len(expected) and all(map(same, found, expected))
    return type(found) is type(expected) and found == expected


@each("name", COUNTS)
def test_a_count_is_a_size_of_one_recording(name):
    count = COUNTS[name]

    def program(x):
        k = count(len(x))
        return x[:k] * 2, x.new_zeros(abs(k), 2), k

    f = jtorch.compile(program)
    for n in SIZES:
        assert same(f(numbers(n)), program(numbers(n))), n
    assert len(f.retraces) <= 2  # a size, then any; sizes that are equal by chance


@each("name", FACTORS)
def test_a_factor_of_one_recording(name):
    factor = FACTORS[name]

    def program(x):
        by = factor(x.shape[0])
        return x * by, by

    f = jtorch.compile(program)
    for n in SIZES:
        assert same(f(numbers(n)), program(numbers(n))), n
    assert len(f.retraces) == 1


@pytest.mark.filterwarnings("ignore::jtorch.errors.RetraceWarning", "ignore::jtorch.errors.EagerWarning")
@each("name", RAISING)
def test_what_raises_is_pythons_error(name):
    compute = RAISING[name]

    def program(x):
        try:
            return x * compute(x.shape[0])
        except (ArithmeticError, ValueError, TypeError) as error:
            return type(error).__name__, str(error)

    f = jtorch.compile(program)
    for n in SIZES:
        assert same(f(numbers(n)), program(numbers(n))), n


def test_integers_among_the_arguments():
    def program(x, k):
        return x[: int(k * 0.5)], round(k / 3, 1), x * math.sqrt(k + 1)

    f = jtorch.compile(program)
    for k in (8, 7, 9, 30, 12, 5, 100):
        assert same(f(numbers(40), k), program(numbers(40), k)), k
    assert len(f.retraces) <= 2


@pytest.mark.filterwarnings("ignore::jtorch.errors.RetraceWarning")
@pytest.mark.parametrize("k", [0, 1, -1, -8, 2**31 + 1, 2**62, 2**70, True])
def test_integers_of_any_size(k):
    def program(x, k):
        return x[: int(k * 0.5)], math.ceil(k / 3), int(k * 1e9)

    f = jtorch.compile(program)
    for n in (8, 7, k, 9, k):
        assert same(f(numbers(9), n), program(numbers(9), n)), n


def test_a_length_of_the_users_own():
    class Padded(jtorch.Tensor):
        def __len__(self):
            return 3

    def program(x):
        return x.sum() * len(x)

    f = jtorch.compile(program)
    for n in (4, 5, 6):
        x = numbers(n).as_subclass(Padded)
        assert f(x) == program(x)


def test_how_many_a_mask_names():
    def program(x):
        found = x[x > 4.5]
        return len(found), len(found) / len(x), found.sum() / max(len(found), 1), int(len(found) * 0.5)

    f = jtorch.compile(program)
    for n in (4, 5, 6, 7, 2, 9, 3):
        assert same(f(numbers(n)), program(numbers(n))), n


def test_where_digits_are_needed_each_is_recorded():
    def program(x):
        return {4: 1.0}.get(int(len(x) / 2), 2.0), f"{math.sqrt(len(x)):.2f}"

    f = jtorch.compile(program)
    for n in (8, 9, 10, 8):
        assert f(numbers(n)) == program(numbers(n))
