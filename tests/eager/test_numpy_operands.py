"""NumPy's scalars and arrays beside tensors: scalars are numbers, in eager mode and compiled."""

import numpy as np
import pytest

import jtorch

SCALARS = [np.float16(0.5), np.float32(0.5), np.float64(0.5), np.int8(3), np.int64(3)]
DTYPES = [jtorch.float16, jtorch.bfloat16, jtorch.float32, jtorch.float64, jtorch.int64]


@pytest.mark.slow
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


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:__array_wrap__:DeprecationWarning")  # of PyTorch
def test_the_dtype_beside_an_array_is_numpys():
    torch = pytest.importorskip("torch")
    kinds = ("?", "u1", "i1", "i2", "i4", "i8", "f2", "f4", "f8")
    arrays = [np.array(2), *(np.array([1, 1, 1], kind) for kind in kinds)]
    functions = {
        "*": lambda x, a: x * a, "+": lambda x, a: x + a, "/": lambda x, a: x / a, "//": lambda x, a: x // a,
        "**": lambda x, a: x**a,
    }  # fmt: skip
    failures = []
    for name in ("uint8", "int8", "int32", "int64", "float16", "float32", "float64"):
        x = jtorch.ones(3, dtype=getattr(jtorch, name))
        for array in arrays:
            for sign, function in functions.items():
                wanted = function(torch.ones(3, dtype=getattr(torch, name)), array)
                runs = (
                    [function, jtorch.compile(function)]
                    if sign in "*/" and array.dtype.itemsize > 1
                    else [function]
                )
                for found in (run(x, array) for run in runs):
                    if found.dtype.name != str(wanted.dtype)[6:] or found.tolist() != wanted.tolist():
                        failures.append(f"{name} {sign} {array!r}: {found}, want {wanted}")
            if (array * x).dtype is not (x * array).dtype:
                failures.append(f"{array!r} * {name}: {(array * x).dtype}")
    assert not failures, "\n".join(failures)

    x = jtorch.ones(3, requires_grad=True)
    (x * np.array([1, 2, 3])).sum().backward()
    assert x.grad.dtype is jtorch.float32
    assert x.grad.tolist() == [1, 2, 3]
