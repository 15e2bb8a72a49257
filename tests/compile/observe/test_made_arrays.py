"""NumPy arrays that a compiled function makes, computes with and changes."""

import numpy as np
import pytest

import jtorch
from jtorch.core.errors import CompileError


def zeros():
    return np.zeros(2, np.float32)


def _beside(x, t):
    y = x + t
    t[:] = 5
    return y


def _in_place(x, t):
    y = x * t
    t += 5
    return y


def _over_it(x, t):
    y = x + jtorch.from_numpy(t)
    np.copyto(t, 5)
    return y


def _in_a_list(x, t):
    y = jtorch.stack([x, jtorch.as_tensor(t)])
    t.fill(5)
    return y


def _put_back(x, t):
    y = x + t
    t[:] = 5
    y = y + t
    t[:] = 0
    return y


@pytest.mark.parametrize("function", [_beside, _in_place, _over_it, _in_a_list, _put_back])
def test_a_change_after_it_met_a_tensor_is_an_error_with_its_line(function):
    line = function.__code__.co_firstlineno + 1
    compiled = jtorch.compile(lambda x: function(x, zeros()))
    with pytest.raises(CompileError, match=rf"test_made_arrays.py:{line} .*a NumPy array that it made"):
        compiled(jtorch.ones(2))


def _before(x):
    t = zeros()
    t[0] = 3
    return x + t, jtorch.from_numpy(t) * 2


def _copied(x):
    t = zeros()
    y = x + jtorch.tensor(t)
    t[:] = 5
    z = t + x  # NumPy's operator: the tensor's, with a copy
    t[:] = 7
    return y, z


def _of_nan(x):
    t = zeros() * np.nan
    return x + t, t - x


@pytest.mark.parametrize("function", [_before, _copied, _of_nan])
def test_others_are_computed_with(function):
    compiled, x = jtorch.compile(function), jtorch.ones(2)
    for _ in range(2):
        for got, want in zip(compiled(x), function(x), strict=True):
            np.testing.assert_array_equal(got.numpy(), want.numpy())
    assert not compiled.retraces
