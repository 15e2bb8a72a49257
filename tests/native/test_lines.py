"""Loops along lines give, to the bit, what NumPy gives: running sums, the places of the largest few."""

from __future__ import annotations

import numpy as np
import pytest

import jtorch
from jtorch.core import higher
from jtorch.native import lines, loops
from jtorch.ops import xp
from tests.machine_code import needs_kernels

pytestmark = needs_kernels


def _given(dtype, shape):
    """Plain numbers, ties, and NaN, infinities and zeros of both signs where the dtype has them."""
    rng = np.random.default_rng(0)
    plain = (rng.standard_normal(shape) * 3).astype(dtype)
    yield plain
    ties = np.round(plain)
    yield ties
    if np.dtype(dtype).kind == "f":
        odd = ties.copy()
        for share, value in ((0.2, np.nan), (0.2, np.inf), (0.2, -np.inf), (0.3, -0.0)):
            odd[rng.random(shape) < share] = value
        yield odd


SHAPES = ((5,), (1, 7), (8, 8), (64, 33), (3, 40, 5), (0, 4), (4, 0), (2, 0, 3))


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int64])
def test_as_numpy(dtype, monkeypatch):
    monkeypatch.setattr(loops, "WORTHWHILE", 0)
    monkeypatch.setattr(higher, "lines", None)  # what is expected
    compared = 0
    for shape in SHAPES:
        for x in _given(dtype, shape):
            for given in (x, x.T, x[::-1]):
                for axis in range(given.ndim):
                    with np.errstate(invalid="ignore"):
                        sums = xp.cumsum(given, axis=axis)
                    found = lines.cumsum(given, axis)
                    assert found.dtype == sums.dtype
                    np.testing.assert_array_equal(found, sums)
                    for k in range(1, min(given.shape[axis], 9) + 1):
                        for largest in (True, False):
                            places = xp.top_order(given, axis=axis, k=k, largest=largest)
                            best, found = lines.top(given, axis, k, largest)
                            np.testing.assert_array_equal(found, places)
                            np.testing.assert_array_equal(best, np.take_along_axis(given, places, axis))
                            compared += 1
    assert compared > 500


def test_what_is_small_or_of_another_kind_is_left_to_numpy():
    big = np.ones((32, 32), np.float32)
    assert lines.cumsum(big, 0) is not None
    assert lines.top(big, 1, 3, True) is not None
    assert lines.cumsum(big[:5, :6], 0) is None
    assert lines.cumsum(big.astype(np.int32), 0) is None
    assert lines.top(np.ones((4, 99), np.float32), 1, 33, True) is None
    assert lines.top(big, 1, 0, True) is None


def test_no_kernel_goes_by_way_of_numba(caplog):
    from jtorch.native import build

    makers = (lines._cumsum, lines._largest, lines._smallest)
    texts = [make(dtype) for make in makers for dtype in lines._NAMES]
    with caplog.at_level("INFO", logger="jtorch.cache"):
        for source, entry in texts:
            build.llvm_text(source, entry)
    assert len(texts) == 9 and not caplog.records


def test_their_gradients():
    x = jtorch.rand(20, 30, dtype=jtorch.float64, requires_grad=True)
    assert jtorch.autograd.gradcheck(lambda x: x.cumsum(0), (x,))
    assert jtorch.autograd.gradcheck(lambda x: x.topk(3)[0], (x,))
