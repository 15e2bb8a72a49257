"""Products of arrays in the private BLAS, for every layout; what it cannot take it leaves alone."""

from __future__ import annotations

import itertools
import os
import threading

import numpy as np
import pytest

from jtorch.core import threads
from jtorch.native import products
from tests.core.test_threads import run

DTYPES = (np.float32, np.float64)
SIZES = (0, 1, 2, 3, 33)


@pytest.fixture(params=DTYPES, ids=lambda d: np.dtype(d).name)
def dtype(request):
    if products.runner(np.dtype(request.param)) is None:
        pytest.skip("no private BLAS, or no machine code, on this machine")
    return request.param


def layouts(x):
    """(how it lies in memory, an array with the values of ``x``)"""
    n, m = x.shape
    yield "rows", np.ascontiguousarray(x)
    yield "columns", np.asfortranarray(x)
    inside = np.zeros((n + 2, m + 3), x.dtype)[1:-1, 2:-1]
    inside[:] = x
    yield "part of rows", inside
    inside = np.zeros((m + 3, n + 2), x.dtype).T[1:-1, 2:-1]
    inside[:] = x
    yield "part of columns", inside
    apart = np.zeros((2 * n, 3 * m), x.dtype)[::2, ::3]
    apart[:] = x
    yield "steps in both axes", apart
    yield "rows backwards", np.ascontiguousarray(x[::-1])[::-1]
    yield "columns backwards", np.ascontiguousarray(x[:, ::-1])[:, ::-1]


PLAIN = ("rows", "columns", "part of rows", "part of columns")


@pytest.mark.parametrize("sizes", list(itertools.product(SIZES, repeat=3)), ids=str)
def test_layouts(dtype, sizes):
    m, k, n = sizes
    rng = np.random.default_rng(m + 10 * k + 100 * n)
    call = products.runner(np.dtype(dtype))
    x, y = rng.standard_normal((m, k)).astype(dtype), rng.standard_normal((k, n)).astype(dtype)
    expected = x.astype(float) @ y.astype(float)
    for (name, a), (other, b) in itertools.product(layouts(x), layouts(y)):
        for out in (np.full((m, n), np.nan, dtype), np.full((m, n + 2), np.nan, dtype)[:, 1:-1]):
            refused = call(a, b, out)
            if name in PLAIN and other in PLAIN and min(sizes) > 1:
                assert refused == 0, (name, other)
            if refused:
                assert np.isnan(out).all()
            else:
                np.testing.assert_allclose(out, expected, rtol=0, atol=1e-5 * np.sqrt(k + 1))


@pytest.mark.parametrize("of", [(3, 3), (3, 2), (2, 3)])
def test_batches(dtype, of):
    rng, call = np.random.default_rng(0), products.runner(np.dtype(dtype))
    x = rng.standard_normal((5, 4, 6)[3 - of[0] :]).astype(dtype)
    y = rng.standard_normal((5, 6, 7)[3 - of[1] :]).astype(dtype)
    expected = x @ y
    whole = np.full((5, 4, 20), np.nan, dtype)
    out = whole[:, :, 3:10]
    assert call(x, y, out) == 0
    np.testing.assert_allclose(out, expected, rtol=0, atol=1e-5)
    assert np.isnan(whole[:, :, :3]).all() and np.isnan(whole[:, :, 10:]).all()
    backwards = np.ascontiguousarray(x[::-1])[::-1] if of[0] == 3 else x
    assert call(backwards, y, out) == 0
    np.testing.assert_allclose(out, expected, rtol=0, atol=1e-5)


def test_what_does_not_fit_is_left_alone(dtype):
    call = products.runner(np.dtype(dtype))
    x, y, out = np.ones((3, 4), dtype), np.ones((4, 5), dtype), np.full((3, 5), np.nan, dtype)
    other = np.float64 if dtype is np.float32 else np.float32

    class Own(np.ndarray):
        pass

    wrong = [
        (x.astype(other), y, out), (x, y.astype(other), out), (x, y, out.astype(other)),
        (x.astype(x.dtype.newbyteorder()), y, out), (x.view(Own), y, out), (x, None, out), (3, y, out),
        (dtype(3), y, out), (x[0], y, out), (x[None, None], y, out), (x[:, :3], y, out), (x[:2], y, out),
        (x, y[:, :2], out), (x, y, np.full((3, 5), np.nan, dtype, order="F")),
        (np.ones((2, 3, 4), dtype), y, np.full((3, 3, 5), np.nan, dtype)),
        (np.ones((2, 3, 4), dtype), y, out),
        (np.broadcast_to(x[:1], (3, 4)), y, out), (np.broadcast_to(x[:, :1], (3, 4)), y, out),
    ]  # fmt: skip
    for a, b, c in wrong:
        assert call(a, b, c) == 1
        assert np.isnan(c).all()
    square = np.full((3, 3), np.nan, dtype)
    assert call(x, x.T, square) == 1  # NumPy has a routine for half of it
    assert np.isnan(square).all()


def test_other_dtypes_have_none():
    for dtype in (np.float16, np.int64, np.complex64, np.bool_):
        assert products.runner(np.dtype(dtype)) is None


def test_python_threads_multiply_at_once(dtype, number):
    threads.set_count(2)
    call = products.runner(np.dtype(dtype))
    wrong = []

    def work(n):
        rng = np.random.default_rng(n)
        x, y, out = rng.random((n, n), dtype), rng.random((n, n), dtype), np.empty((n, n), dtype)
        expected = x @ y
        for _ in range(10):
            if call(x, y, out) or not np.allclose(out, expected, rtol=1e-4):
                wrong.append(n)

    workers = [threading.Thread(target=work, args=(n,)) for n in (60, 300, 450, 450)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert not wrong


@pytest.mark.slow
@pytest.mark.parametrize("setting", ["JTORCH_JIT", "JTORCH_CACHE"])
def test_without_machine_code_numpy_multiplies(setting):
    """On our number of threads, which is NumPy's again afterwards."""
    program = """
import numpy as np, jtorch
from jtorch.core import library_threads
from jtorch.native import products
x, y = jtorch.randn(200, 300), jtorch.randn(300, 250)
np.testing.assert_allclose((x @ y).numpy(), x.numpy() @ y.numpy(), rtol=1e-5, atol=1e-4)
print(products.runner(np.dtype(np.float32)), {library.get() for library in library_threads.found(False)})
"""
    found = run(program, **{setting: "0"}, OPENBLAS_NUM_THREADS="2")
    assert found in ("None {2}", "None set()")


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this system")
def test_a_forked_child_multiplies():
    program = """
import os, warnings
import numpy as np, jtorch
warnings.simplefilter("ignore", DeprecationWarning)
jtorch.set_num_threads(3)
x = jtorch.randn(600, 600)
expected = (x @ x).numpy()
child = os.fork()
if not child:
    os._exit(0 if np.allclose((x @ x).numpy(), expected, atol=1e-3) else 1)
print(os.waitpid(child, 0)[1], np.allclose((x @ x).numpy(), expected, atol=1e-3))
"""
    assert run(program) == "0 True"
