"""Which kernel computes a product, what it is told, and what comes of it."""

from __future__ import annotations

import os
import threading

import numpy as np
import pytest

from jtorch.core import threads
from jtorch.core.pieces import Piece
from jtorch.core.products import Axis, Product, dot_general_axes, matmul_axes
from jtorch.native import blas, contraction
from jtorch.native.contraction import call_of
from jtorch.native.packed import Way

F4 = np.dtype(np.float32)


@pytest.fixture
def number():
    """Our number of threads afterwards is that from before."""
    before = threads.count()
    yield
    threads.set_count(before)


def product(batch, rows, columns, inner):
    """Of row-major factors."""
    return Product(
        (Axis(batch, rows * inner, inner * columns, rows * columns),) if batch > 1 else (),
        (Axis(rows, inner, 0, columns),), (Axis(columns, 0, 1, 1),), (Axis(inner, 1, columns, 0),),
    )  # fmt: skip


@pytest.mark.parametrize(
    ("sizes", "own"),
    [
        ((1, 256, 256, 256), True), ((50, 200, 200, 200), True), ((1, 64, 512, 512), True),
        # thin ones, and many small ones: BLAS takes a half to a tenth of the time
        ((1, 64, 64, 64), False), ((1, 32, 512, 512), False), ((20000, 2, 2, 3), False),
        ((5000, 8, 8, 8), False),
        ((1, 100000, 4, 4), False), ((1, 1000000, 1, 4), False), ((1, 4, 4, 1000000), False),
        ((1, 1500, 1, 1500), False), ((1, 1500, 4, 1500), False), ((1, 1, 1500, 1500), False),
        ((64, 1, 256, 256), False),
    ],
)  # fmt: skip
def test_our_own_kernel_is_for_matrices_that_are_large_and_not_thin(sizes, own):
    if not blas.is_private():
        pytest.skip("SciPy's BLAS computes all that it can walk")
    assert (call_of(product(*sizes), F4).shared is not None) is own


def test_what_blas_cannot_walk_is_our_own():
    thin = product(1, 1500, 1, 1500)
    apart = thin.rows[0]._replace(in_x=0)
    repeated = Product((), (apart,), thin.columns, thin.inner)
    assert call_of(repeated, F4).shared is not None


def test_windows_are_read_where_they_lie():
    """For the gradient of a convolution's weight, whichever factor they are; not for few products."""
    images, places = 32 * 32, 30 * 30
    windows = (Axis(3, 32, 0, 3), Axis(3, 1, 0, 1))
    inner = (Axis(64, images, places, 0), Axis(30, 32, 30, 0), Axis(30, 1, 1, 0))
    found = Product((), windows, (Axis(32, 0, 64 * places, 9),), inner)
    for asked in (found, found.exchanged()):
        call = call_of(asked, F4)
        assert call.way is Way.DIRECT and call.product == found and not call.adds_bias
    short = Product((), windows, found.columns, inner[1:])
    thin = Product((), windows, (Axis(3, 0, 64 * places, 9),), inner)
    many = Product((), (*windows, Axis(1000, 0, 0, 1)), found.columns, inner)
    assert not any(call_of(product, F4).way is Way.DIRECT for product in (short, thin, many))


@pytest.mark.parametrize(
    ("sizes", "chunks"),
    [
        ((10, 800, 200), 2), ((10, 200, 800), 2), ((64, 256, 160), 4), ((1, 4096, 512), 4), ((4, 64, 64), 1),
        ((7, 613, 900), 1), ((50, 64, 2000), 1), ((65, 300, 200), 1),  # no divisor, narrow, many rows
    ],
)  # fmt: skip
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_thin_products_come_in_chunks_that_are_small(sizes, chunks, dtype, monkeypatch):
    monkeypatch.setattr(blas, "reads_small_factors", lambda: True)
    rows, columns, inner = sizes
    generator = np.random.default_rng(0)
    x = generator.standard_normal((rows, inner)).astype(dtype)
    y = generator.standard_normal((inner, columns)).astype(dtype)
    call = call_of(product(1, rows, columns, inner), np.dtype(dtype))
    assert call.shared is None
    batch = call.words(Piece("batch", (0, 1)))[4]
    assert batch == chunks
    contraction._plan.cache_clear()
    found, expected = contraction.contract(matmul_axes(2, 2), x, y), x.astype(np.float64) @ y
    if found is None:
        pytest.skip("there is no private BLAS, or no kernel")
    np.testing.assert_allclose(found, expected, rtol=0, atol=100 * np.finfo(dtype).eps * np.sqrt(inner))


def test_many_small_matrices_that_blas_cannot_walk_are_walked_together():
    """Heads of attention: (batch, head, place, element) of factors in (batch, place, head, element) order."""
    heads = (Axis(32, 16 * 192, 16 * 192, 4 * 256), Axis(4, 16, 16, 256))
    rows, columns, inner = (Axis(16, 192, 0, 16),), (Axis(16, 0, 192, 1),), (Axis(16, 1, 1, 0),)
    assert call_of(Product(heads, rows, columns, inner), F4).way is Way.SMALL
    assert call_of(product(128, 16, 16, 16), F4).shared is None  # BLAS walks them
    long = (Axis(1000, 1, 1, 0),)
    assert call_of(Product(heads, rows, columns, long), F4).way is Way.PACKED


needs_contract = pytest.mark.skipif(not contraction._has_kernel("f32"), reason="no machine code here")
CASES = [  # axes of x and y, shapes
    (matmul_axes(2, 2), (300, 200), (200, 150)), (matmul_axes(2, 2), (1, 3000), (3000, 900)),
    (matmul_axes(2, 2), (900, 3000), (3000, 1)), (matmul_axes(2, 2), (2, 3), (3, 4)),
    (matmul_axes(3, 2), (6, 50, 40), (40, 70)), (matmul_axes(3, 3), (40, 30, 50), (40, 50, 20)),
    (matmul_axes(2, 3), (30, 50), (7, 50, 20)), (matmul_axes(4, 4), (3, 4, 9, 50), (3, 4, 50, 20)),
    (dot_general_axes(3, 4, ((0,), (1,)), ((1,), (3,)), (0, 3, 1, 2)), (5, 60, 70), (80, 5, 9, 60)),
]  # fmt: skip


def _letters(axes, x_ndim, y_ndim):
    """The same product for einsum."""
    names = iter("abcdefghijklmnop")
    of_x, of_y, out = [""] * x_ndim, [""] * y_ndim, []
    for pairs, kept in ((axes.batch, True), (axes.inner, False)):
        for k, n in pairs:
            name = next(names)
            if k is not None:
                of_x[k] = name
            if n is not None:
                of_y[n] = name
            out += [name] * kept
        if kept:
            for part, of in ((axes.rows, of_x), (axes.columns, of_y)):
                for k in part:
                    of[k] = next(names)
                    out.append(of[k])
    return f"{''.join(of_x)},{''.join(of_y)}->{''.join(out[k] for k in axes.out)}"


def _layouts(array):
    """Arrays that equal it: as it is, in reversed order, a part of a larger one, turned around."""
    yield array
    yield np.asfortranarray(array)
    yield np.pad(array, [(1, 2)] * array.ndim)[tuple(slice(1, n + 1) for n in array.shape)]
    yield np.flip(np.flip(array).copy())


@needs_contract
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("case", CASES, ids=str)
def test_products_of_arrays(case, dtype, number):
    axes, x_shape, y_shape = case
    rng = np.random.default_rng(0)
    x, y = rng.standard_normal(x_shape).astype(dtype), rng.standard_normal(y_shape).astype(dtype)
    expected = np.einsum(_letters(axes, x.ndim, y.ndim), x.astype(float), y.astype(float))
    for a in _layouts(x):
        for b in _layouts(y):
            threads.set_count(1)
            found = contraction.contract(axes, a, b)
            assert found.dtype == dtype and found.flags.c_contiguous and found.shape == expected.shape
            close = 2e-3 if dtype == np.float32 else 1e-9
            np.testing.assert_allclose(found, expected, rtol=1e-4, atol=close)
            for count in (2, 3, 7):
                threads.set_count(count)
                again = contraction.contract(axes, a, b)
                assert (again == found).all()  # to the last bit


@needs_contract
def test_what_has_no_kernel():
    axes, x = matmul_axes(2, 2), np.ones((4, 4), np.float32)
    for dtype in (np.int64, np.float16, np.float64, x.dtype.newbyteorder()):
        assert contraction.contract(axes, x, x.astype(dtype)) is None
    fields = np.zeros(12, [("byte", "i1"), ("value", "f4")])["value"].reshape(3, 4)  # 5 bytes apart
    assert contraction.contract(axes, fields, x) is None
    assert contraction.contract(axes, x[:0], x) is None
    assert contraction.contract(axes, x, x[:3]) is None and contraction.contract(axes, x[:, 1:], x) is None
    assert contraction.contract(matmul_axes(3, 3), np.stack([x] * 3), np.stack([x] * 2)) is None
    assert contraction.contract(axes, x[:, :0], x[:0]) is None


FOR_MANY_THREADS = {  # axes of x and y, shapes
    Way.PACKED: (matmul_axes(2, 2), [((130, 500), (500, 517)), ((517, 300), (300, 131))]),
    Way.SMALL: (
        dot_general_axes(4, 4, ((0, 2), (0, 2)), ((3,), (3,)), (0, 1, 2, 3)),
        [((32, 16, 4, 16), (32, 16, 4, 16)), ((9, 33, 5, 20), (9, 31, 5, 20))],
    ),
    Way.DIRECT: (  # images and what comes back for them; of the first the windows are one factor
        dot_general_axes(6, 4, ((), ()), ((0, 2, 3), (0, 2, 3)), (3, 0, 1, 2)),
        [((9, 5, 20, 17), (9, 32, 18, 15)), ((4, 30, 26, 26), (4, 128, 24, 24))],
    ),
}


@needs_contract
@pytest.mark.parametrize("way", FOR_MANY_THREADS)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_pieces_for_many_threads_change_no_bit(way, dtype, monkeypatch):
    """Each element of our own kernels is the same sum wherever it is cut."""
    rng = np.random.default_rng(0)
    axes, shapes = FOR_MANY_THREADS[way]
    finer = []
    for both in shapes:
        x, y = (rng.standard_normal(shape).astype(dtype) for shape in both)
        if way is Way.DIRECT:
            x = np.lib.stride_tricks.sliding_window_view(x, (3, 3), (2, 3))
        found, pieces = [], []
        for many in (1, 8, 16, 64):
            monkeypatch.setattr(threads, "at_first", lambda many=many: many)
            contraction._plan.cache_clear()
            found.append(contraction.contract(axes, x, y))
            call = contraction._plan(axes, x.dtype, x.shape, x.strides, y.shape, y.strides).call
            pieces.append(len(call.pieces))
            assert call.way is way
        assert all((other == found[0]).all() for other in found[1:])
        finer.append(pieces[-1] > pieces[0])
    contraction._plan.cache_clear()
    assert any(finer) or way is Way.SMALL


@needs_contract
def test_python_threads_are_in_one_product_at_once(number):
    threads.set_count(2)
    axes, wrong = matmul_axes(2, 2), []

    def work(seed):
        rng = np.random.default_rng(seed)
        x, y = rng.random((256, 256), np.float32), rng.random((256, 256), np.float32)
        expected = contraction.contract(axes, x, y)
        for _ in range(50):
            if (contraction.contract(axes, x, y) != expected).any():
                wrong.append(seed)

    workers = [threading.Thread(target=work, args=(seed,)) for seed in range(4)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert not wrong


@needs_contract
@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this system")
def test_a_child_that_is_forked_meanwhile_has_locks_of_its_own():
    axes, x = matmul_axes(2, 2), np.ones((64, 64), np.float32)
    contraction.contract(axes, x, x)
    plan = contraction._plan(axes, x.dtype, x.shape, x.strides, x.shape, x.strides)
    with plan.alone:
        child = os.fork()
        if not child:
            again = contraction._plan(axes, x.dtype, x.shape, x.strides, x.shape, x.strides)
            right = (contraction.contract(axes, x, x) == 64).all()
            os._exit(0 if right and not again.alone.locked() else 1)
    assert os.waitpid(child, 0)[1] == 0


@needs_contract
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("outer", ["windows", "images"])
def test_gradients_of_a_convolutions_weight(dtype, outer, number):
    """Windows as either factor, so many that they are read where they lie."""
    rng = np.random.default_rng(0)
    x, g = (rng.standard_normal(shape).astype(dtype) for shape in ((9, 5, 20, 17), (9, 32, 18, 15)))
    seen = np.lib.stride_tricks.sliding_window_view(x, (3, 3), (2, 3))
    if outer == "windows":
        axes, factors = dot_general_axes(6, 4, ((), ()), ((0, 2, 3), (0, 2, 3)), (3, 0, 1, 2)), (seen, g)
    else:
        axes, factors = dot_general_axes(4, 6, ((), ()), ((0, 2, 3), (0, 2, 3)), (0, 1, 2, 3)), (g, seen)
    expected = np.einsum("nchwij,nohw->ocij", seen.astype(float), g.astype(float))
    found = contraction.contract(axes, *factors)
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=2e-3 if dtype == np.float32 else 1e-9)
    for count in (1, 2, 3, 7):
        threads.set_count(count)
        assert (contraction.contract(axes, *factors) == found).all()


@needs_contract
def test_a_bias_comes_with_the_product_or_not_at_all():
    rng = np.random.default_rng(0)
    x, y, bias = (rng.standard_normal(s).astype(np.float32) for s in ((300, 200), (200, 150), (300,)))
    axes = matmul_axes(2, 2)
    found = contraction.contract(axes, x, y, bias[:150])
    if found is None:
        pytest.skip("SciPy's BLAS computes all that it can walk")
    np.testing.assert_allclose(found, x.astype(float) @ y + bias[:150], rtol=1e-4, atol=2e-3)
    for wrong in (bias[::2], bias, bias[:150].astype(float), bias[:1], bias[:150][None]):
        assert contraction.contract(axes, x, y, wrong) is None
    assert contraction.contract(axes, x[:3], y, bias[:150]) is None  # BLAS's
    turned = dot_general_axes(2, 2, ((), ()), ((1,), (0,)), (1, 0))
    assert contraction.contract(turned, x, y[:, :150], bias) is None  # its columns are not the last axis
    several = dot_general_axes(2, 3, ((), ()), ((1,), (0,)), (0, 1, 2))
    assert contraction.contract(several, x, np.zeros((200, 70, 256), np.float32), x.reshape(-1)[:256]) is None
    plain = contraction.contract(axes, x, y)  # after one with a bias
    np.testing.assert_allclose(plain, x.astype(float) @ y, rtol=1e-4, atol=2e-3)
