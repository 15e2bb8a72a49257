"""Factors beside tensors of several dtypes: promoted first, then multiplied, as in PyTorch."""

from __future__ import annotations

import itertools

import pytest

import jtorch

DTYPES = (
    "bool", "uint8", "int8", "int16", "int32", "int64", "float16", "bfloat16", "float32", "float64",
    "complex64",
)  # fmt: skip
# name: program of (library, tensors x, y, z, factor)
TWO = {
    "add": lambda T, x, y, k: T.add(x, y, alpha=k),
    "sub": lambda T, x, y, k: T.sub(x, y, alpha=k),
    "rsub": lambda T, x, y, k: T.rsub(x, y, alpha=k),
    "x.add": lambda T, x, y, k: x.add(y, alpha=k),
    "add_": lambda T, x, y, k: x.add_(y, alpha=k),
    "sub_": lambda T, x, y, k: x.sub_(y, alpha=k),
    "out=": lambda T, x, y, k: T.add(x, y, alpha=k, out=T.empty(6, dtype=T.result_type(x, y))),
    "add to one": lambda T, x, y, k: T.add(x[0], y, alpha=k),
    "subtract one": lambda T, x, y, k: T.sub(x, y[0], alpha=k),
    "index_add": lambda T, x, y, k: x.index_add(0, T.tensor([0, 0, 1, 2, 3, 4]), y, alpha=k),
}
THREE = {
    "addcmul": lambda T, x, y, z, k: T.addcmul(x, y, z, value=k),
    "addcdiv": lambda T, x, y, z, k: T.addcdiv(x, y, z, value=k),
    "addr": lambda T, x, y, z, k: T.addr(x[:1], y, z, beta=k, alpha=k),
}
X = [3.25, 7.7, 1 / 3, -100.0, 20.0, 5.0]
Y = [1 / 3, 1.7, 7.3, -100.0, 100.0, 100.0]
Z = [2.0, 4 / 3, 100.0, 3.0, -7.0, 1.0]
TOLERANCES = {"float16": 4e-3, "bfloat16": 3e-2, "float32": 5e-6, "float64": 5e-13, "complex64": 5e-6}


def _outcome(library, function, values, dtypes, k):
    tensors = [library.tensor(v).to(getattr(library, d)) for v, d in zip(values, dtypes, strict=True)]
    try:
        found = function(library, *tensors, k)
    except (RuntimeError, TypeError) as error:
        return type(error).__name__
    return str(found.dtype).rpartition(".")[2], tuple(found.shape), found.flatten().tolist()


def _agree(want, got):
    if isinstance(want, str) or isinstance(got, str) or want[:2] != got[:2]:
        return want == got
    tolerance = TOLERANCES.get(want[0], 0)
    return got[2] == pytest.approx(want[2], rel=tolerance, abs=50 * tolerance, nan_ok=True)


def _failures(function, values, kinds, numbers):
    torch = pytest.importorskip("torch")
    for dtypes in itertools.product(kinds, repeat=len(values)):
        for k in numbers:
            want, got = (_outcome(library, function, values, dtypes, k) for library in (torch, jtorch))
            if "complex32" not in want and not _agree(want, got):  # which is no dtype here
                yield dtypes, k, want, got


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", TWO)
def test_a_factor_beside_two_dtypes(name):
    numbers = (2, -3, True, 0.1, 100, 1000, 60000.5)
    assert not list(_failures(TWO[name], (X, Y), DTYPES, numbers))


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", THREE)
def test_a_factor_beside_three_dtypes(name):
    kinds = ("bool", "uint8", "int8", "int64", "float16", "float32", "float64")
    assert not list(_failures(THREE[name], (X, Y, Z), kinds, (-3, True, 0.1, 70000.5)))


# name: x, y, factor, x + factor y
SUMS = {
    "bytes below 0": (([0.25], "float32"), ([-100], "int8"), 2, [-199.75]),
    "what float32 cannot hold": (([0.0], "float64"), ([2.0**127], "float32"), 100, [100 * 2.0**127]),
    "a third": (([0.0], "float64"), ([0.25], "float32"), 0.1, [0.025]),
    "a byte without dims": (([1], "int64"), (200, "uint8"), 2, [401]),
    "bools": (([200, 3], "uint8"), ([True, False], "bool"), 100, [44, 3]),
}


@pytest.mark.parametrize("compiled", [False, True])
@pytest.mark.parametrize("name", SUMS)
def test_sums_of_two_dtypes(name, compiled):
    *given, k, want = SUMS[name]
    x, y = (jtorch.tensor(v, dtype=getattr(jtorch, d)) for v, d in given)

    def step(x, y):
        return x.add(y, alpha=k), x.clone().add_(y, alpha=k), jtorch.rsub(y, x, alpha=-k)

    if x.dtype is jtorch.uint8:  # of bools there is no difference
        step = lambda x, y: (x.add(y, alpha=k),)  # noqa: E731
    for found in (jtorch.compile(step) if compiled else step)(x, y):
        assert found.dtype is x.dtype
        assert found.tolist() == want


def test_the_gradient_of_what_is_promoted():
    x, y = jtorch.ones(2, dtype=jtorch.float64, requires_grad=True), jtorch.ones(2, requires_grad=True)
    out = jtorch.sub(x, y, alpha=3)
    assert out.grad_fn.name() == "SubBackward0"
    out.sum().backward()
    assert y.grad.dtype is jtorch.float32
    assert y.grad.tolist() == [-3.0, -3.0]
