"""Loops from and to floats of 16 bits give NumPy's and ml_dtypes' bits, and that of NaN is NaN."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

import jtorch
from jtorch.core import higher, threads
from jtorch.core.dtypes import BFLOAT16
from jtorch.native import loops, narrowing
from jtorch.ops import xp
from tests.machine_code import needs_kernels
from tests.native.test_halves import _edges

pytestmark = [needs_kernels, pytest.mark.filterwarnings("ignore:invalid value", "ignore:overflow")]

FLOAT32, HALVES = np.dtype(np.float32), (np.dtype(np.float16), BFLOAT16)
PAIRS = [(FLOAT32, HALVES[0]), (HALVES[0], FLOAT32), (FLOAT32, HALVES[1])]


def same(found, expected):
    assert (found.dtype, found.shape) == (expected.dtype, expected.shape)
    bits = np.dtype(f"u{found.itemsize}")
    numbers = ~np.isnan(expected.astype(np.float64))
    np.testing.assert_array_equal(found.view(bits)[numbers], expected.view(bits)[numbers])
    assert np.isnan(found[~numbers].astype(np.float64)).all()


def values(dtype):
    if dtype in HALVES:
        return np.arange(1 << 16, dtype=np.uint16).view(dtype)
    return np.concatenate([_edges(half) for half in HALVES])


@pytest.mark.parametrize("given, wanted", PAIRS, ids=str)
def test_every_float_and_all_edges(given, wanted):
    x = values(given)
    found = narrowing.converted(x, wanted)
    assert found is not None
    same(found, x.astype(wanted))
    same(xp.cast(x, dtype=wanted), x.astype(wanted))


@pytest.mark.parametrize("given, wanted", PAIRS, ids=str)
@pytest.mark.parametrize("count", [1, 2, 3])
def test_all_sizes_and_numbers_of_threads(given, wanted, count):
    before = threads.count()
    threads.set_count(count)
    loops.KNOWN.clear()
    try:
        for n in (1024, 1025, 1039, 100_000, 3_000_001):
            x = np.random.default_rng(n).standard_normal(n).astype(given)
            same(narrowing.converted(x, wanted), x.astype(wanted))
    finally:
        threads.set_count(before)
        loops.KNOWN.clear()


def test_few_numbers_and_other_orders():
    x = np.random.default_rng(0).standard_normal((64, 64)).astype(np.float32)
    assert narrowing.converted(x[:8, :8].copy(), BFLOAT16) is None, "few"
    assert narrowing.converted(x.astype(np.float64), BFLOAT16) is None
    assert narrowing.converted(x.astype(BFLOAT16), FLOAT32) is None, "a shift, which NumPy does in vectors"
    few = x[:8, :8], x[:0]
    ordered_otherwise = x.T, x[:, ::2], x[::-1].T, x[:, 1:], np.broadcast_to(x[:1], x.shape)
    for view, dtype in itertools.product((*few, *ordered_otherwise), HALVES):
        found, wanted = xp.cast(view, dtype=dtype), view.astype(dtype)
        same(found, wanted)
        same(xp.cast(found, dtype=FLOAT32), wanted.astype(np.float32))
        assert found.strides == wanted.strides and found.flags.writeable


def test_without_machine_code_numpy_converts(monkeypatch):
    monkeypatch.setattr(higher, "narrowing", None)
    x = jtorch.linspace(-3, 3, 5000)
    same(x.half().numpy(), x.numpy().astype(np.float16))
