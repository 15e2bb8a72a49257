"""NumPy's scalars and arrays beside tensors: scalars are numbers, in eager mode and compiled."""

import numpy as np
import pytest

import jtorch

SCALARS = [np.float16(0.5), np.float32(0.5), np.float64(0.5), np.int8(3), np.int64(3)]
DTYPES = [jtorch.float16, jtorch.bfloat16, jtorch.float32, jtorch.float64, jtorch.int64]


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_a_scalar_is_the_number_that_it_is(dtype):
    x = jtorch.arange(1, 4).to(dtype)
    for scalar in SCALARS:
        for function in (lambda x, s: x * s, lambda x, s: x + s, lambda x, s: x / s, lambda x, s: x - s):
            expected = function(x, scalar.item())
            compiled = jtorch.compile(function)
            runs = [function] if dtype is jtorch.bfloat16 else [function, compiled, compiled]
            for run in runs:
                found = run(x, scalar)
                assert found.dtype == expected.dtype, (dtype, scalar)
                assert found.tolist() == expected.tolist(), (dtype, scalar)


def test_each_value_of_a_scalar_counts_in_compiled_code():
    f = jtorch.compile(lambda x, s: x * s)
    for cls in (np.float16, np.float32, np.int64):
        for value in (1, 2, 3):
            assert f(jtorch.ones(2), cls(value)).tolist() == [value] * 2


def test_an_array_of_16_bits():
    array = np.array([0.5, 1.5], np.float16)
    for dtype, expected in ((jtorch.float16, jtorch.float16), (jtorch.float32, jtorch.float32)):
        found = jtorch.ones(2, dtype=dtype) * array
        assert found.dtype == expected
        assert found.tolist() == [0.5, 1.5]
