"""Products on the threads that are said, whichever way they go."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from jtorch.core import higher
from jtorch.ops.xp import _products

SIZES = (1, 2, 60, 300)


@pytest.fixture(params=["private", "NumPy's"])
def way(request, monkeypatch):
    """Where large products go."""
    if request.param == "NumPy's":
        monkeypatch.setattr(higher, "products", None)
    monkeypatch.setattr(_products, "_runners", {})
    monkeypatch.setattr(_products, "_asked", set())
    return request.param


@pytest.mark.parametrize("sizes", list(itertools.product(SIZES, repeat=3)), ids=str)
def test_dot(way, sizes):
    m, k, n = sizes
    rng = np.random.default_rng(m + k + n)
    for dtype in (np.float32, np.float64, np.complex64, np.int64):
        x, y = (rng.integers(-5, 6, s).astype(dtype) for s in ((m, k), (k, n)))
        for a, b in ((x, y), (np.asfortranarray(x), y[:, ::-1])):
            found = _products.dot(a, b)
            assert found.dtype == dtype and found.flags.c_contiguous
            np.testing.assert_array_equal(found, a @ b)  # small integers: exact in any order


LEADING = (((3,), (3,)), ((3,), ()), ((), (3,)), ((2, 3), (2, 3)), ((2, 3), ()), ((1,), (3,)))


@pytest.mark.parametrize("leading", LEADING, ids=str)
@pytest.mark.parametrize("n", [5, 70])
def test_batches(way, leading, n):
    rng = np.random.default_rng(n)
    x, y = (rng.integers(-5, 6, (*axes, n, n)).astype(np.float32) for axes in leading)
    expected = np.matmul(x, y)
    np.testing.assert_array_equal(_products.matmul(x, y), expected)
    turned = np.ascontiguousarray(np.swapaxes(x, -2, -1))
    np.testing.assert_array_equal(_products.matmul(np.swapaxes(turned, -2, -1), y), expected)


@pytest.mark.parametrize("sizes", [(3, 4), (200, 70), (1, 20_000), (20_000, 1)], ids=str)
def test_vectors(way, sizes):
    n, m = sizes
    x = np.random.default_rng(0).integers(-5, 6, sizes).astype(np.float32)
    left, right = np.arange(n, dtype=np.float32) % 7, np.arange(m, dtype=np.float32) % 5
    np.testing.assert_array_equal(_products.vector_dot(left, x), left @ x)
    np.testing.assert_array_equal(_products.vector_dot(x, right), x @ right)


@pytest.mark.parametrize("n", [0, 1, 8192, 8193, 100_003])
@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.complex128])
def test_inner(n, dtype):
    rng = np.random.default_rng(n)
    x, y = rng.random(n).astype(dtype), rng.random(n).astype(dtype)
    found = _products.inner(x, y)
    assert found.shape == () and found.dtype == dtype
    exact = np.dot(x.astype(np.clongdouble), y.astype(np.clongdouble))
    assert abs(found - exact) <= 4 * np.finfo(dtype).eps * max(abs(exact), 1)


LENGTHS = (1, 2, 100, 300, 9216, 10_000, 16_384)
MATRICES = [s for s in itertools.product(LENGTHS, repeat=2) if s[0] * s[1] <= 20_000]


def _outcome(function, *arrays):
    """A product's shape, or None where the sizes are refused."""
    try:
        return function(*arrays).shape
    except ValueError:
        return None


@pytest.mark.slow
@pytest.mark.parametrize("dtype", [np.float32, np.int64])
def test_sizes_that_do_not_match_are_refused_as_by_numpy(way, dtype):
    """All pairs of shapes: each of them fits few others."""
    arrays = {s: np.ones(s, dtype) for s in [*MATRICES, *((n,) for n in LENGTHS)]}
    for a, b in itertools.product(arrays, repeat=2):
        if len(a) == 2 == len(b) and a[0] * b[0] * b[1] > 2e7:  # slow in integers
            continue
        function = (_products.inner, _products.vector_dot, _products.dot)[len(a) + len(b) - 2]
        x, y = arrays[a], arrays[b]
        assert _outcome(function, x, y) == _outcome(np.dot, x, y), (a, b)
        if len(a) == 2 == len(b):
            assert _outcome(_products.matmul, x, y) == _outcome(np.matmul, x, y), (a, b)
            batches = (np.broadcast_to(x, (2, *a)), y) if a[0] * a[1] < b[0] * b[1] else (x, y[None])
            assert _outcome(_products.matmul, *batches) == _outcome(np.matmul, *batches), (a, b)


def test_an_interrupted_search_for_the_private_copy_is_made_again(monkeypatch):
    answers = [KeyboardInterrupt, None]

    class Products:
        @staticmethod
        def runner(dtype):
            answer = answers.pop(0)
            if answer is not None:
                raise answer
            return answer

    monkeypatch.setattr(higher, "products", lambda: Products)
    monkeypatch.setattr(_products, "_runners", {})
    monkeypatch.setattr(_products, "_asked", set())
    x = np.ones((130, 130))
    with pytest.raises(KeyboardInterrupt):
        _products.dot(x, x)
    for _ in range(2):  # asked again, and then no more
        assert (_products.dot(x, x) == 130).all()
    assert not answers
