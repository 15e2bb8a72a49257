"""The parts of the dialect that are more than a NumPy function under another name."""

from __future__ import annotations

import numpy as np
import pytest

from jtorch.core.dtypes import bfloat16
from jtorch.ops import xp

SPECIAL = [np.nan, np.inf, -np.inf, 0.0, -0.0, 1e-40, 1.5]


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64, np.int8, np.int32, np.int64, np.bool_])
@pytest.mark.parametrize(
    "shapes", [((40, 50), (40, 50), (40, 50)), ((40, 50), (50,), (40, 1)), ((1, 600), (3, 1), ())]
)
def test_where_is_numpys(dtype, shapes):
    rng = np.random.default_rng(0)
    condition = rng.random(shapes[0]) < 0.5
    x, y = (np.asarray(rng.integers(0, 5, s)).astype(dtype) for s in shapes[1:])
    for a, b in ((x, y), (x, 0), (0, y)):
        found, expected = xp.where(condition, a, b), np.where(condition, a, b)
        assert found.dtype == expected.dtype
        np.testing.assert_array_equal(found, expected)


def test_where_keeps_the_bits_of_special_values():
    x = np.array(SPECIAL * 100, np.float32)
    condition = np.random.default_rng(0).random(x.size) < 0.5
    for a, b in ((x, -x), (x, 0.0), (x, -0.0), (-0.0, x), (np.nan, x)):
        found = xp.where(condition, a, b)
        expected = np.where(condition, a, b).astype(np.float32)
        np.testing.assert_array_equal(found, expected)
        np.testing.assert_array_equal(np.signbit(found), np.signbit(expected))


@pytest.mark.parametrize("dtype", [*map(np.dtype, ("f2", "f4", "f8", "i4", "i8", "u1")), bfloat16.numpy])
@pytest.mark.parametrize("size", [3, 600])
def test_a_number_takes_the_dtype_of_what_it_stands_beside(dtype, size):
    condition = np.arange(size) % 2 == 0
    x = np.arange(size).astype(np.int8).astype(dtype)
    for found, expected in (
        (xp.where(condition, x, 0), np.where(condition, x.astype("f8"), 0)),
        (xp.where(condition, 1, x), np.where(condition, 1, x.astype("f8"))),
    ):
        assert found.dtype == dtype
        np.testing.assert_array_equal(found.astype("f8"), expected)


def test_where_changes_none_of_its_arguments():
    condition, x, y = np.ones(600, bool), np.ones(600), np.zeros(600)
    condition[::2] = False
    kept = condition.copy()
    xp.where(condition, x, y)
    np.testing.assert_array_equal(condition, kept)
    flags = condition.view(np.int8)
    found = xp.where(condition, flags, np.int8(5))
    np.testing.assert_array_equal(condition, kept)
    assert found.dtype == np.int8


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("shape", [(1 << 17,), (70_001,), (300, 301, 2)])
def test_variance_of_large_arrays(dtype, shape):
    import jtorch

    x = (np.random.default_rng(0).standard_normal(shape) + 3).astype(dtype)
    exact = x.astype(np.float64).var(ddof=1)
    for keepdims in (False, True):
        found = jtorch.from_numpy(x).var(dim=tuple(range(x.ndim)), keepdim=keepdims).numpy()
        assert found.shape == (x.var(keepdims=keepdims).shape) and found.dtype == dtype
        np.testing.assert_allclose(found.item(), exact, rtol=1e-6 if dtype is np.float32 else 1e-13)
    rows = jtorch.from_numpy(x.reshape(1, -1))
    assert rows.var(1).shape == (1,) and rows.std(1).shape == (1,)  # an axis of one element stays
    np.testing.assert_allclose(rows.var(1).item(), exact, rtol=1e-6 if dtype is np.float32 else 1e-13)
    x[shape[0] // 2] = np.nan
    assert np.isnan(jtorch.from_numpy(x).var().item())


def test_fold_is_the_adjoint_of_windows():
    rng = np.random.default_rng(0)
    x = rng.standard_normal((2, 7, 8))
    facts = {"kernel": (3, 2), "stride": (2, 1), "dilation": (1, 2)}
    seen = xp.windows(x, **facts)
    g = rng.standard_normal(seen.shape)
    np.testing.assert_allclose((seen * g).sum(), (x * xp.fold(g, shape=x.shape, **facts)).sum())


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_third_powers_multiply_whatever_the_three_is(dtype):
    """A number of the program is Python's, and NumPy's once it is a constant of a graph: the same bits."""
    x = np.random.default_rng(0).standard_normal(1000).astype(dtype)
    for three in (3.0, dtype(3)):
        np.testing.assert_array_equal(xp.pow(x, three), x * x * x)


@pytest.mark.parametrize("value", SPECIAL)
def test_sign(value):
    expected = 0.0 if np.isnan(value) else np.sign(value)
    assert xp.sign(np.array([value], np.float32))[0] == expected


def test_expand_of_any_layout():
    x = np.arange(6.0).reshape(2, 3)
    for view in (x, x.T, x[:, ::2], x[:, :1], np.asarray(2.0)):
        shape = (4, *view.shape)
        np.testing.assert_array_equal(xp.expand(view, shape=shape), np.broadcast_to(view, shape))
