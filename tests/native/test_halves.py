"""Floats of 16 bits as kernels convert them: every one of them widened, and roundings at all edges."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

import jtorch
from jtorch.core import dtypes as dt
from jtorch.native import halves

# NumPy says so of NaN and of what is infinite in 16 bits
pytestmark = pytest.mark.filterwarnings("ignore:invalid value", "ignore:overflow")

KINDS = {"f16": np.dtype(np.float16), "bf16": dt.BFLOAT16}
ALL = np.arange(1 << 16, dtype=np.uint16)


def _edges(dtype):
    """Every float of the dtype, the middles between neighbours, what is just beside, and some others."""
    exact = ALL.view(dtype).astype(np.float64)
    exact = np.sort(exact[np.isfinite(exact)])
    middles = (exact[1:] + exact[:-1]) / 2
    near = np.concatenate([exact, middles, [65519.996, 65520.0, 3.3895e38, 3.4e38, 1e-45, 1e-40]])
    special = np.array([np.inf, -np.inf, np.nan, 0.0, -0.0], np.float32)
    near = near.astype(np.float32)
    near = np.concatenate([near, np.nextafter(near, np.inf), np.nextafter(near, -np.inf)])
    rest = np.random.default_rng(0).integers(0, 1 << 32, 1 << 16, dtype=np.uint64).astype(np.uint32)
    return np.concatenate([near, -near, special, rest.view(np.float32)])


def _bits(values, dtype):
    """The bits, of NaN one of them."""
    narrow = values.astype(dtype)
    return np.where(np.isnan(values), 0x7FFF, narrow.view(np.uint16))


@pytest.mark.parametrize("kind", KINDS)
def test_every_half_is_widened_as_numpy_does(kind):
    found = getattr(halves, f"wide_{kind}")(ALL)
    expected = ALL.view(KINDS[kind]).astype(np.float32)
    assert found.dtype == np.float32
    numbers = ~np.isnan(expected)
    np.testing.assert_array_equal(found.view(np.int32)[numbers], expected.view(np.int32)[numbers])
    assert np.isnan(found[~numbers]).all()


@pytest.mark.parametrize("kind", KINDS)
def test_float32_is_rounded_as_numpy_does(kind):
    values = _edges(KINDS[kind])
    found = getattr(halves, f"narrow_{kind}")(values)
    with np.errstate(all="ignore"):
        expected = _bits(values, KINDS[kind])
    assert found.dtype == np.uint16
    np.testing.assert_array_equal(np.where(np.isnan(values), 0x7FFF, found), expected)
    assert np.isnan(found[np.isnan(values)].view(KINDS[kind]).astype(np.float32)).all()


@pytest.mark.parametrize("kind", KINDS)
def test_a_rounding_is_there_and_back(kind):
    values = _edges(KINDS[kind])
    back = getattr(halves, f"wide_{kind}")(getattr(halves, f"narrow_{kind}")(values))
    found = getattr(halves, f"round_{kind}")(values)
    assert found.dtype == np.float32
    np.testing.assert_array_equal(found.view(np.int32), back.view(np.int32))


def test_float64_is_rounded_to_float16_once():
    values = _edges(np.dtype(np.float16))
    values = values[np.isfinite(values)].astype(np.float64)
    values = np.concatenate([values, values * (1 + 2**-40), values * (1 - 2**-40), [1e300, -1e300, 1e-300]])
    found = halves.narrow_f16(halves.odd_f32(values))
    with np.errstate(all="ignore"):
        expected = _bits(values, np.dtype(np.float16))
    np.testing.assert_array_equal(np.where(np.isnan(values), 0x7FFF, found), expected)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_compiled_code_converts_as_eager_mode_does(dtype):
    half = getattr(jtorch, dtype)
    there = jtorch.compile(lambda x: x.to(half))
    back = jtorch.compile(lambda x: x.to(jtorch.float32))
    values = jtorch.from_numpy(_edges(half.numpy))
    narrow = there(values)
    assert narrow.dtype is half and there.plans
    with np.errstate(all="ignore"):
        expected = _bits(values.numpy(), half.numpy)
    kept = np.where(np.isnan(values.numpy()), 0x7FFF, narrow._data.view(np.uint16))
    np.testing.assert_array_equal(kept, expected)
    wide = back(narrow)
    np.testing.assert_array_equal(wide.numpy(), narrow._data.astype(np.float32))
    assert ml_dtypes.finfo(half.numpy).bits == 16
