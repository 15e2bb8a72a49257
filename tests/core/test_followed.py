"""Functions of numbers that are followed: their results where all answers are the same, none elsewhere."""

from __future__ import annotations

import math
import random

import pytest

from jtorch.core.followed import Ways, followed, one_step


def log(x):
    return int(math.log2(x))


def branches(given):
    a, b, c = given
    out = [a + 0, 0 + b, a * 1, c * 0, -a, abs(b), 7 - a, 7 // (b * b + 1), a % (c * c + 3), (a - b) / 4]
    if a < b <= c:
        out.append(a * b // 2)
    elif a == c or not b:
        out.append(max(a, b, c) - 2.5)
    for k in range(one_step(log, a * a + 1) if a > 3 else int(c % 3)):
        out.append(k * b)
    names = {0: "none", 1: "one"}
    return names.get(b, "many"), out


def test_ways_give_what_the_function_gives():
    draw = random.Random(0)
    ways = Ways(branches)
    for _ in range(3000):
        given = [draw.randint(-3, 6) for _ in range(3)]
        beside, numbers = ways(given)
        assert (beside, numbers) == branches(given), given
        assert [type(n) for n in numbers] == [type(n) for n in branches(given)[1]]
    assert ways.served > 100
    assert 1 < len(ways.known) <= Ways.MOST


@pytest.mark.parametrize(
    ("f", "first", "alike", "other"),
    [
        (lambda g: (None, [g[0] + 1]), [3], [4], None),
        (lambda g: (None, [1 if g[0] > 2 else 0]), [3], [9], [2]),
        (lambda g: (None, [int(g[0])]), [3], [3], [4]),  # a number of Python is a guard
        (lambda g: ({g[0]: "x"}, []), [3], [3], [4]),
        (lambda g: (None, [[5, 6, 7][g[0]]]), [1], [1], [2]),
        (lambda g: (None, [10 // g[0] if g[0] else -1]), [2], [5], [0]),
        (lambda g: (None, [one_step(min, *g) + 1]), [2, 3], [5, 4], None),
        (lambda g: (None, [int(one_step(log, g[0]))]), [9], [15], [16]),
        (lambda g: (None, [0 if g[0] == g[1] else g[0]]), [2, 3], [2, 9], [4, 4]),
    ],
)  # fmt: skip
def test_where_the_answers_differ_there_is_no_result(f, first, alike, other):
    way, _ = followed(f, first)
    for given in (first, alike):
        assert (way.beside, way.numbers(given)) == f(given)
    if other is not None:
        assert way.numbers(other) is None


def test_what_is_zero_is_a_number_like_others():
    """It was once taken for one that is not known, and two numbers had one name then."""

    def f(given):
        a, b = given
        zero = a - b
        return None, [zero + a, zero + a, a * zero, (a - b) + 5]

    way, _ = followed(f, [4, 4])
    assert way.numbers([9, 2]) == f([9, 2])[1]


def test_a_product_with_zero_is_no_number_of_the_way():
    way, _ = followed(lambda g: (None, [g[0] * 0, 0 * g[0]]), [4])
    assert way.numbers([9]) == [0, 0]


def test_what_cannot_be_noted_is_asked_itself():
    def f(given):
        return None, [math.log2(given[0])]

    with pytest.raises(TypeError, match="float"):
        followed(f, [8.0])
    ways = Ways(f)
    assert [ways([2.0**k])[1] for k in range(12)] == [[float(k)] for k in range(12)]
    assert not ways.known


def test_a_float_is_no_index():
    with pytest.raises(TypeError, match="step alone"):
        followed(lambda g: (None, [int(g[0] / 2)]), [8])


def test_one_step_of_plain_numbers_is_the_function():
    assert one_step(log, 9) == 3


def test_functions_of_one_name_are_told_apart():
    def make(k):
        def added(n):
            return n + k

        return added

    one, two = make(1), make(2)
    way, _ = followed(lambda g: (None, [one_step(one, g[0]), one_step(two, g[0])]), [1])
    assert way.numbers([10]) == [11, 12]


def test_what_no_guard_lets_pass_may_be_undefined():
    ways = Ways(lambda g: (None, [6 // g[0]]))
    for n in (1, 2, 3, 4):
        assert ways([n]) == (None, [6 // n])
    with pytest.raises(ZeroDivisionError):
        ways([0])


def test_ways_that_do_not_serve_are_not_followed_forever():
    ways = Ways(lambda g: (None, [int(g[0])]))
    for n in range(100):
        assert ways([n]) == (None, [n])
    assert len(ways.known) == Ways.UNUSED
