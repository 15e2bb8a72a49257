"""The claimed subset of the array API standard: the same calls on tensors and on NumPy's arrays."""

from __future__ import annotations

import numpy as np
import pytest

import jtorch
from jtorch import array_api

X = np.array([[0.5, 1.5, 2.25], [3.0, 4.0, 0.25]])
I = np.array([[3, -1, 2], [7, 5, -4]])  # noqa: E741 - the formula's letter
B = np.array([[True, False, True], [True, True, True]])
UNARY_LOGICAL = ("logical_not",)
BINARY = (
    "add", "divide", "floor_divide", "multiply", "pow", "remainder", "subtract", "equal", "not_equal",
    "greater", "greater_equal", "less", "less_equal", "maximum", "minimum",
)  # fmt: skip
BINARY_LOGICAL = ("logical_and", "logical_or")
CALLS = {
    "sum": lambda xp, x, i, b: [
        xp.sum(x), xp.sum(i, axis=1), xp.sum(x, axis=(0, 1), keepdims=True), xp.sum(x, axis=()), xp.sum(b),
        xp.sum(xp.astype(i, xp.int8), axis=-1), xp.sum(x, dtype=xp.float32, axis=0),
    ],
    "prod": lambda xp, x, i, b: [xp.prod(x), xp.prod(i, axis=0), xp.prod(x, axis=(0, 1), keepdims=True)],
    "mean": lambda xp, x, i, b: [xp.mean(x), xp.mean(x, axis=0), xp.mean(x, axis=(0, 1), keepdims=True)],
    "var": lambda xp, x, i, b: [xp.var(x), xp.var(x, axis=1, correction=1), xp.std(x, axis=0, keepdims=True)],
    "max": lambda xp, x, i, b: [xp.max(x), xp.max(i, axis=(0,)), xp.min(i, axis=-1, keepdims=True)],
    "all": lambda xp, x, i, b: [
        xp.all(b), xp.all(b, axis=0), xp.any(x, axis=1), xp.any(b, axis=(0, 1), keepdims=True),
    ],
    "argmax": lambda xp, x, i, b: [xp.argmax(x), xp.argmax(i, axis=0), xp.argmin(x, axis=1, keepdims=True)],
    "sort": lambda xp, x, i, b: [xp.sort(x), xp.sort(i, axis=0), xp.argsort(x, axis=1)],
    "take": lambda xp, x, i, b: [xp.take(x, xp.asarray([2, 0]), axis=1), xp.where(b, x, xp.zeros_like(x))],
    "matmul": lambda xp, x, i, b: [
        xp.matmul(x, xp.matrix_transpose(x)), xp.vecdot(x, x), xp.matmul(x, xp.astype(xp.permute_dims(i, (1,
    0)), xp.float64)), ],
    "shapes": lambda xp, x, i, b: [
        xp.reshape(x, (3, 2)), xp.reshape(x, (-1,), copy=True), xp.reshape(x, (6,), copy=False), xp.flip(x),
        xp.flip(x, axis=1), xp.expand_dims(x, axis=-1), xp.squeeze(xp.expand_dims(x, axis=0), axis=0),
        xp.moveaxis(xp.broadcast_to(x, (4, 2, 3)), 0, -1), xp.permute_dims(x, (1, 0)), xp.tril(x), xp.triu(x,
        k=1), xp.moveaxis(xp.broadcast_to(x, (4, 2, 3)), (0, 2), (1, 0)),
    ],
    "several": lambda xp, x, i, b: [
        xp.concat([x, x], axis=1), xp.concat([x, x], axis=None), xp.stack([x, x], axis=2), *xp.unstack(x,
        axis=1), *xp.broadcast_arrays(x, xp.ones((1, 3))),
    ],
    "made": lambda xp, x, i, b: [
        xp.zeros((2, 3)), xp.ones(3, dtype=xp.int32), xp.full((2,), 3), xp.full(2, 2.5, dtype=xp.float64),
        xp.arange(5), xp.arange(1, 7, 2), xp.linspace(0, 1, 5, dtype=xp.float64), xp.linspace(0, 1, 4,
        endpoint=False, dtype=xp.float64), xp.eye(3), xp.eye(2, 4, k=1, dtype=xp.float64), xp.ones_like(i),
    xp.full_like(x, 2.0), xp.asarray([1, 2]), ],
    "casts": lambda xp, x, i, b: [xp.astype(i, xp.float64), xp.astype(x, xp.int32), xp.astype(b, xp.uint8)],
}  # fmt: skip


def compare(ours, theirs, types=True):
    assert tuple(ours.shape) == tuple(theirs.shape)
    if types and theirs.dtype not in (np.float64,):  # the default float is float32 here
        assert ours.dtype.numpy == theirs.dtype
    np.testing.assert_allclose(ours.numpy().astype(np.float64), np.asarray(theirs, np.float64), rtol=1e-6)


def test_the_namespace():
    assert jtorch.ones(1).__array_namespace__() is array_api
    assert jtorch.ones(1).__array_namespace__(api_version="2024.12") is array_api
    with pytest.raises(ValueError, match=r"unsupported version of the array API: '1999.1'"):
        jtorch.ones(1).__array_namespace__(api_version="1999.1")
    with pytest.raises(AttributeError):
        _ = array_api.linalg  # type: ignore[attr-defined]


@pytest.mark.parametrize("name", sorted(array_api.ELEMENTWISE))
def test_element_by_element(name):
    ours, theirs = getattr(array_api, name), getattr(np, name)
    binary = name in BINARY + BINARY_LOGICAL
    logical = name in BINARY_LOGICAL + UNARY_LOGICAL
    arrays = [B, ~B] if logical else [X, X[::-1].copy()]
    given = arrays if binary else arrays[:1]
    compare(ours(*map(jtorch.from_numpy, given)), theirs(*given))


@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
def test_calls(call):
    ours = call(array_api, *map(jtorch.from_numpy, (X, I, B)))
    theirs = call(np, X, I, B)
    assert len(ours) == len(theirs)
    for a, b in zip(ours, theirs, strict=True):
        compare(a, b)


def test_a_function_written_against_the_standard_keeps_gradients_and_compiles():
    def standardized(x):
        xp = x.__array_namespace__()
        centred = xp.subtract(x, xp.mean(x, axis=0, keepdims=True))
        return xp.divide(centred, xp.std(x, axis=0, keepdims=True))

    x = jtorch.from_numpy(X.copy()).requires_grad_()
    out = standardized(x)
    np.testing.assert_allclose(out.detach().numpy(), standardized(X), rtol=1e-12)
    assert jtorch.autograd.gradcheck(standardized, (x,))
    np.testing.assert_allclose(jtorch.compile(standardized)(x).detach().numpy(), standardized(X), rtol=1e-12)


def test_types():
    xp = array_api
    assert xp.result_type(xp.int32, xp.int64) is xp.int64 and xp.result_type(xp.float32, 1.5) is xp.float32
    assert xp.can_cast(xp.int32, xp.int64) and not xp.can_cast(xp.int64, xp.int32)
    assert xp.isdtype(xp.uint8, "integral") and xp.isdtype(xp.float32, ("bool", "real floating"))
    assert not xp.isdtype(xp.bool, "numeric") and xp.isdtype(xp.bool, xp.bool)
    with pytest.raises(ValueError, match="unknown kind 'number'"):
        xp.isdtype(xp.bool, "number")
    for name in ("float32", "float64"):
        ours, theirs = xp.finfo(getattr(xp, name)), np.finfo(name)
        assert (ours.bits, ours.eps, ours.max, ours.min) == (theirs.bits, theirs.eps, theirs.max, theirs.min)
    assert xp.iinfo(jtorch.ones(1).to(xp.int8))[:3] == (8, 127, -128)
    assert xp.astype(jtorch.ones(1), xp.float32).data_ptr() != 0


def test_errors():
    xp = array_api
    with pytest.raises(ValueError, match="squeeze: axis 1 has length 3"):
        xp.squeeze(jtorch.ones(2, 3), 1)
    with pytest.raises(ValueError, match="reshape: only a copy has the shape"):
        xp.reshape(jtorch.ones(2, 3).t(), (6,), copy=False)
    with pytest.raises(ValueError, match="axis is needed for 2 dimensions"):
        xp.take(jtorch.ones(2, 3), jtorch.tensor([0]))


def test_inspection():
    info = array_api.__array_namespace_info__()
    assert info.default_device() == jtorch.device("cpu") == info.devices()[0]
    assert info.default_dtypes()["integral"] is jtorch.int64
    assert list(info.dtypes(kind="real floating")) == ["float32", "float64"] and "bool" in info.dtypes()
    assert info.capabilities()["boolean indexing"]
