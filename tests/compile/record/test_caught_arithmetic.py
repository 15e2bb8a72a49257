"""Errors of Python's arithmetic that a function catches: the numbers that they came of count."""

import math

import pytest

import jtorch

STATE = [1.0]

RAISING = {
    "a list outside": lambda x, s: 1 / (STATE[0] - 1),
    "an argument": lambda x, s: 1 / (s - 1),
    "item()": lambda x, s: 1 / (x.sum().item() - 1),
    "a remainder": lambda x, s: 5 % (STATE[0] - 1),
    "divmod": lambda x, s: divmod(5, s - 1)[0],
    "a negative power": lambda x, s: (s - 1) ** -1,
    "a large power": lambda x, s: 10.0 ** (s * 100),
    "sqrt": lambda x, s: math.sqrt(STATE[0] - 2),
    "exp": lambda x, s: math.exp(s * 300),
}


@pytest.mark.filterwarnings("ignore::jtorch.errors.EagerWarning", "ignore::jtorch.errors.RetraceWarning")
@pytest.mark.parametrize("name", RAISING)
def test_a_caught_error_belongs_to_its_numbers(name):
    def f(x, s):
        try:
            found = RAISING[name](x, s)
        except (ArithmeticError, ValueError):
            return -x
        return x + 0 * found

    g = jtorch.compile(f, fullgraph=False)
    for number in (2.0, 3.0, 1.0, 4.0, 1.0, 5.0, 2.0, 1.0):
        STATE[0] = number
        x = jtorch.full((1,), number)
        assert g(x, number).item() == f(x, number).item(), number


def test_a_counter_to_the_power_of_minus_a_half():
    state = [2.5]

    @jtorch.compile
    def f(x):
        state[0] = state[0] ** -0.5
        return x * state[0]

    wanted = 2.5
    for _ in range(3):
        wanted **= -0.5
        assert f(jtorch.ones(1)).item() == pytest.approx(wanted)
