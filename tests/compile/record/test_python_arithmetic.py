"""Numbers of the call are Python's: signs of zeros, what has no answer, and what leaves the real numbers."""

from __future__ import annotations

import copy
import math

import pytest

import jtorch
from tests.compile.numbers_of_the_call import assert_as_eager, of_a_counter, of_an_argument

inf, nan = math.inf, math.nan
FLOATS = (4.0, -4.0, -5.5, 0.0, -0.0, inf, -inf, nan)
COUNTED = (5, -4, 0), (-4.0, 5.5)
PROGRAMS = {
    "k % 2": lambda k: k % 2,
    "k % -2": lambda k: k % -2,
    "k // -2": lambda k: k // -2,
    "k % -2.0": lambda k: k % -2.0,
    "k % inf": lambda k: k % inf,
    "k % -inf": lambda k: k % -inf,
    "0.0 % k": lambda k: 0.0 % k,
    "-0.0 // k": lambda k: -0.0 // k,
    "k % 2k": lambda k: k % (k * 2),
    "3k % -2": lambda k: (k * 3) % -2,
    "divmod": lambda k: divmod(k, -2.0),
    "divmod by it": lambda k: divmod(7, k),
    "fmod": lambda k: math.fmod(k, 2),
    "remainder": lambda k: math.remainder(k, 4),
    "a root": lambda k: k**0.5,
    "one over it": lambda k: k**-0.5,
    "a root of 3k": lambda k: (k * 3) ** 0.5,
    "one over a root": lambda k: (k * k) ** -0.5,
    "a power of zero": lambda k: 0.0**k,
    "a power of -2": lambda k: (-2.0) ** k,
    "abs": lambda k: (abs(k), -k, +k, k * -1, 0 - k),
    "int": int,
    "round": lambda k: round(k),
    "rounded": lambda k: round(k, 1),
    "trunc": math.trunc,
    "floor": math.floor,
    "ceil": math.ceil,
    "sqrt": math.sqrt,
    "a copy": copy.copy,
    "a deep copy": copy.deepcopy,
}


def _bits(value):
    if isinstance(value, tuple):
        return tuple(map(_bits, value))
    return (float, value.hex()) if isinstance(value, float) else (type(value), value)


def _outcome(function, value):
    try:
        return _bits(function(value))
    except (ArithmeticError, ValueError) as error:
        return type(error), str(error)


@pytest.mark.slow
@pytest.mark.parametrize(("made_of", "series"), [(of_an_argument, (FLOATS,)), (of_a_counter, COUNTED)])
def test_numbers_are_those_of_python_to_the_bit(made_of, series):
    assert_as_eager(PROGRAMS, made_of, series, _outcome)


def test_kernels_give_a_zero_remainder_its_sign():
    compiled = jtorch.compile(lambda x, k: (x / (k % -2), x / (k % 2)))
    with jtorch.testing.assert_no_retrace(compiled):
        for k in (3.0, 4.0, -4.0, -3.0, 0.0, -0.0):
            expected = [1 / v if v else math.copysign(inf, v) for v in (k % -2, k % 2)]
            assert [part.item() for part in compiled(jtorch.ones(1), k)] == expected


def test_a_number_of_tensors_is_copied_as_what_it_is():
    compiled = jtorch.compile(lambda x: (copy.copy(x.item()), copy.deepcopy([x.item()])))
    for value in (1.5, -0.0, 3.0):
        assert repr(compiled(jtorch.tensor(value))) == repr((value, [value]))
