"""Arithmetic that rounds nothing away: the twin, the compiled text, and what both should give."""

from __future__ import annotations

import math

import numpy as np
import pytest

from jtorch.native import exact
from tests.native.test_build import call

SUM = """
ARGUMENTS = ("f64*", "f64*", "i64")

def total(out, x, n):
    high = 0.0
    low = 0.0
    for i in range(n):
        high, low = add_with_rest(high, low, x[i])
    out[0] = with_rest(high, low)
"""
POWER = """
ARGUMENTS = ("i64*", "i64*", "i64*", "i64")

def power(out, x, y, n):
    for i in range(n):
        out[i] = integer_power(x[i], y[i])
"""


def compiled_sum(x: np.ndarray) -> float:
    out = np.empty(1)
    words = [out.ctypes.data, x.ctypes.data, x.size]
    assert call(SUM, "total", words, **exact.FUNCTIONS) == 0
    return float(out[0])


def twin_sum(x: np.ndarray) -> float:
    high, low = np.float64(0), np.float64(0)
    for value in x:
        high, low = exact.add_with_rest(high, low, value)
    return float(exact.with_rest(high, low))


@pytest.mark.parametrize("total", [compiled_sum, twin_sum])
def test_sums_keep_their_rest(total):
    x = np.random.default_rng(0).standard_normal(1000) * 10.0 ** np.arange(-10, 10).repeat(50)
    assert total(x) == math.fsum(x)
    assert total(np.array([1e16, 1.0, -1e16])) == 1.0


@pytest.mark.parametrize("total", [compiled_sum, twin_sum])
def test_sums_that_are_not_finite(total):
    inf, nan = math.inf, math.nan
    assert total(np.array([1.0, inf, 2.0])) == inf and total(np.array([1.0, -inf])) == -inf
    assert total(np.array([1e308, 1e308, 1e308])) == inf
    assert math.isnan(total(np.array([inf, -inf]))) and math.isnan(total(np.array([1.0, nan, 1.0])))


@pytest.mark.slow
def test_integer_powers():
    low, high = -(2**63), 2**63 - 1
    values = [0, 1, 2, 3, 7, -1, -2, -3, 10**9, low, low + 1, high]
    x, y = (np.array(v) for v in zip(*[(a, b) for a in values for b in values], strict=True))
    out = np.empty_like(x)
    words = [out.ctypes.data, x.ctypes.data, y.ctypes.data, x.size]
    assert call(POWER, "power", words, **exact.FUNCTIONS) == 0
    assert out.tolist() == [_power(int(a), int(b)) for a, b in zip(x, y, strict=True)]
    assert np.array_equal(exact.integer_power(x, y), out)


def _power(x: int, y: int) -> int:
    """In Python's integers, cut to 64 bits; with a negative exponent 1 / x**-y cut towards zero."""
    if y < 0:
        return {1: 1, -1: 1 - 2 * (y & 1)}.get(x, 0)
    found = pow(x, y, 2**64)
    return found - 2**64 if found >= 2**63 else found
