"""Products of 16-bit factors by BLAS: to the bit those of the same factors in float32."""

from __future__ import annotations

import ctypes
import itertools

import numpy as np
import pytest

import jtorch  # noqa: F401 - threads, and the private BLAS
from jtorch.core.dtypes import BFLOAT16
from jtorch.core.op import ContractionAxes
from jtorch.core.products import product_of_layouts
from jtorch.core.strides import contiguous_strides
from jtorch.native import contraction, converted, packed
from jtorch.native.executor import Executor
from tests.each import each
from tests.machine_code import needs_kernels

pytestmark = needs_kernels

FLOAT32 = np.dtype(np.float32)
HALVES = [np.dtype(np.float16), BFLOAT16]
SIZES = [(1, 1, 1), (7, 13, 5), (16, 64, 32), (33, 48, 48), (64, 200, 31), (1, 300, 9), (40, 1, 8), (3, 5, 0)]


def product(x, y):
    """The product of arrays of (batch.., m, k) and (batch.., k, n), and its call."""
    n = x.ndim - 2
    axes = ContractionAxes(
        batch=tuple((k, k) for k in range(n)), rows=(n,), columns=(n + 1,), inner=((n + 1, n),),
        out=tuple(range(n + 2)),
    )  # fmt: skip
    shape = (*x.shape[:-1], y.shape[-1])
    strides = [[s // a.itemsize for s in a.strides] for a in (x, y)]
    found = product_of_layouts(axes, (x.shape, strides[0]), (y.shape, strides[1]), contiguous_strides(shape))
    call = contraction.call_of(found, x.dtype)
    out = np.full(shape, np.nan, np.float32)
    plan = contraction._Plan(call, shape, False)
    if status := plan.run(x, y, out, None):
        raise RefusedError(status)
    return out, call


def laid_out(array, transposed, dtype):
    array = array.astype(dtype)
    return np.ascontiguousarray(array.swapaxes(-1, -2)).swapaxes(-1, -2) if transposed else array


@each("dtype", HALVES, ids=str)
@each("size", SIZES, ids=str)
@each("batch", [(), (5,)], ids=str)
def test_the_bits_are_those_of_float32(dtype, size, batch):
    m, k, n = size
    rng = np.random.default_rng(m + k + n)
    for turned in itertools.product((False, True), repeat=2):
        x, y = rng.standard_normal((*batch, m, k)), rng.standard_normal((*batch, k, n))
        x, y = (laid_out(a, t, dtype) for a, t in zip((x, y), turned, strict=True))
        wide = [np.copy(a.astype(np.float32), "K") for a in (x, y)]
        for a, w in zip((x, y), wide, strict=True):
            assert [s // a.itemsize for s in a.strides] == [s // 4 for s in w.strides]
        found, call = product(x, y)
        expected, by_float32 = product(*wide)
        assert found.tobytes() == expected.tobytes()
        assert (call.shared is None) == (by_float32.shared is None)
        assert (call.kernel == converted.kernel(contraction.HALVES[dtype])) == (call.shared is None)


@pytest.mark.parametrize("dtype", HALVES, ids=str)
def test_parts_of_larger_matrices(dtype):
    rng = np.random.default_rng(0)
    x, y = rng.standard_normal((40, 144)).astype(dtype), rng.standard_normal((48, 90)).astype(dtype)
    wide = x.astype(np.float32), y.astype(np.float32)
    for first in (0, 48, 96):
        part = slice(first, first + 48)
        found, _ = product(x[:, part], y[:, 5:36])
        expected, _ = product(wide[0][:, part], wide[1][:, 5:36])
        assert found.tobytes() == expected.tobytes()


@pytest.mark.parametrize("dtype", HALVES, ids=str)
def test_axes_that_go_the_other_way(dtype):
    """A batch backwards has elements before its first one."""
    rng = np.random.default_rng(0)
    x, y = rng.standard_normal((6, 5, 7)).astype(dtype), rng.standard_normal((6, 7, 4)).astype(dtype)
    flips = [(slice(None, None, step), ...) for step in (1, -1)]
    flips += [(slice(None), slice(None, None, -1)), (..., slice(None, None, -1))]
    for of_x, of_y in itertools.product(flips, repeat=2):
        found, _ = product(x[of_x], y[of_y])
        expected = x[of_x].astype(np.float32) @ y[of_y].astype(np.float32)
        np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("dtype", HALVES, ids=str)
def test_a_few_columns_of_a_wide_matrix_are_not_converted_with_all_of_it(dtype):
    """As the last of many steps of each sequence: memory for all of them would be needed."""
    rng = np.random.default_rng(0)
    x, y = rng.standard_normal((24, 300, 8)).astype(dtype), rng.standard_normal((8, 5)).astype(dtype)
    found, call = product(x[:, -1], y)
    np.testing.assert_allclose(
        found, x[:, -1].astype(np.float32) @ y.astype(np.float32), rtol=1e-5, atol=1e-5
    )
    assert call.shared is not None
    _, call = product(x[:, -1].copy(), y)
    assert call.shared is None


def test_no_memory_is_a_status(monkeypatch):
    none = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_size_t)(lambda size: None)
    address = ctypes.cast(none, ctypes.c_void_p).value
    monkeypatch.setattr(converted, "memory_functions", lambda: (address, 0))
    x = np.ones((16, 16), np.float16)
    with pytest.raises(RefusedError) as why:
        product(x, x)
    assert Executor.decode(why.value.args[0])[1] == packed.NO_MEMORY


class RefusedError(Exception):
    """With the status."""
