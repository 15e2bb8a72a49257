"""The packed product: every layout, every edge of its blocks, and the same bits however it is cut."""

from __future__ import annotations

import ctypes
import itertools
import math
import subprocess
import sys

import numpy as np
import pytest
from numpy.lib.stride_tricks import sliding_window_view

from jtorch.core.dtypes import BFLOAT16
from jtorch.core.products import Axis, Product
from jtorch.native import packed
from jtorch.native.packed import Way
from jtorch.native.packed.vectors import Registers
from tests.each import each

pytest.importorskip("llvmlite")

HALVES = {np.dtype(np.float16): "f16", BFLOAT16: "bf16"}
KIND = {np.dtype(np.float32): "f32", np.dtype(np.float64): "f64", **HALVES}
DTYPES = [np.float32, np.float64]


def seen(x, y, out, batch, rows, columns, inner):
    """The product of arrays of (batch, rows, inner), (batch, inner, columns) and (batch, rows, columns) axes,
    in bytes."""
    s, t, u = x.strides, y.strides, out.strides
    right = zip(y.shape[y.ndim - columns :], t[y.ndim - columns :], u[batch + rows :], strict=True)
    deep = zip(x.shape[x.ndim - inner :], s[x.ndim - inner :], t[batch : batch + inner], strict=True)
    return Product(
        tuple(Axis(x.shape[k], s[k], t[k], u[k]) for k in range(batch)),
        tuple(Axis(x.shape[k], s[k], 0, u[k]) for k in range(batch, batch + rows)),
        tuple(Axis(n, 0, at_y, at_out) for n, at_y, at_out in right),
        tuple(Axis(n, at_x, at_y, 0) for n, at_x, at_y in deep),
    )


@pytest.fixture(params=[*Way, "exchanged direct", "exchanged small"], ids=str, autouse=True)
def way(request, monkeypatch):
    """Which kernel computes a product here: the one that packs both factors, or one of those that read rows
    where they lie, those of x or those of the transposed product."""
    exchanged = isinstance(request.param, str)
    kernel = Way[request.param.split()[1].upper()] if exchanged else request.param
    monkeypatch.setitem(WAY, "kernel", kernel)
    monkeypatch.setitem(WAY, "exchanged", exchanged)


WAY = {"kernel": Way.PACKED, "exchanged": False}


def product(x, y, batch=0, rows=1, columns=1, inner=1, pieces=None, order=None, bias=None):
    """x (batch.., rows.., inner..) times y (batch.., inner.., columns..), with NaNs around the result, whose
    axes lie in memory as ``order`` says; as (batch, rows, columns)."""
    shape = (*x.shape[: batch + rows], *y.shape[y.ndim - columns :])
    order = order or tuple(range(len(shape)))
    room = np.full([shape[k] + 5 for k in order], np.nan, np.float32 if x.dtype in HALVES else x.dtype)
    inside = room[(slice(3, -2),) * room.ndim]
    out = inside.transpose(np.argsort(order))
    asked = seen(x, y, out, batch, rows, columns, inner)
    n, m, k, _ = asked.sizes
    asked = asked.exchanged() if WAY["exchanged"] else asked
    if WAY["kernel"] is Way.SMALL and not packed.fits_small(asked, room.itemsize):
        pytest.skip("for small matrices alone")
    what = np.array(packed.describe(asked, item=1, first=int(WAY["exchanged"])), np.int64)
    what[:3] = [a.__array_interface__["data"][0] for a in (x, y, out)]
    what[packed.BIAS] = 0 if bias is None else bias.__array_interface__["data"][0]
    kernel = packed.kernel(KIND[x.dtype], WAY["kernel"])
    run = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_void_p)(kernel)
    for piece in pieces or [(0, n, 0, m, 0, k)]:
        piece = (*piece[:2], *piece[4:], *piece[2:4]) if WAY["exchanged"] else piece
        block = np.array([what.ctypes.data, *piece], np.int64)
        status = run(block.ctypes.data)
        assert status == 0
    found = out.copy().reshape(n, m, k)
    inside[...] = np.nan
    assert np.isnan(room).all()  # nothing was written beside the result
    return found


def expected(x, y, batch=0, rows=1, columns=1, inner=1):
    n, m = (math.prod(part) for part in (x.shape[:batch], x.shape[batch : batch + rows]))
    k, c = math.prod(x.shape[x.ndim - inner :]), math.prod(y.shape[y.ndim - columns :])
    return np.matmul(x.astype(np.float64).reshape(n, m, k), y.astype(np.float64).reshape(n, k, c))


def close(x, y, order=None, **axes):
    found, right = product(x, y, order=order, **axes), expected(x, y, **axes)
    bound = expected(np.abs(x), np.abs(y), **axes)
    assert (np.abs(found - right) <= 8 * np.finfo(x.dtype).eps * bound).all()


@pytest.fixture(params=[None, Registers(32, 6), Registers(16, 6), Registers(64, 3)], ids=str)
def machine(request, monkeypatch):
    """This machine, and the registers of others: no wider than its own, which are what LLVM gives out."""
    if request.param is not None:
        if request.param.vector > packed.registers().vector:
            pytest.skip(f"this processor has no registers of {request.param.vector} bytes")
        monkeypatch.setattr(packed, "registers", lambda: request.param)


SIZES = [
    (1, 1, 1), (3, 5, 7), (12, 32, 256), (13, 33, 257), (6, 16, 128), (7, 17, 129), (100, 70, 600),
    (1, 100, 9), (300, 1, 40), (193, 31, 3), (5, 7, 0), (0, 3, 2), (3, 0, 2), (385, 2, 513),
]  # fmt: skip


@each("dtype", DTYPES)
@each("size", SIZES, ids=str)
@each("swapped", ["", "x", "y", "xy"])
def test_every_size_and_both_orders(machine, dtype, size, swapped):
    m, n, k = size
    rng = np.random.default_rng(m + n + k)
    x = rng.standard_normal((k, m) if "x" in swapped else (m, k)).astype(dtype)
    y = rng.standard_normal((n, k) if "y" in swapped else (k, n)).astype(dtype)
    close(x.T if "x" in swapped else x, y.T if "y" in swapped else y)


def alike(x, y, dtype, **axes):
    """Factors of 16 bits, in the same order in memory, give what they would give in float32, to the bit."""
    x, y = (np.copy(a.astype(dtype), "K") for a in (x, y))
    found, right = product(x, y, **axes), product(x.astype(np.float32), y.astype(np.float32), **axes)
    assert found.dtype == np.float32 and found.tobytes() == right.tobytes()


@each("dtype", HALVES)
@each("size", SIZES, ids=str)
@each("swapped", ["", "x", "y", "xy"])
def test_factors_of_16_bits_are_read_as_float32(machine, dtype, size, swapped):
    m, n, k = size
    rng = np.random.default_rng(m + n + k)
    x = rng.standard_normal((k, m) if "x" in swapped else (m, k))
    y = rng.standard_normal((n, k) if "y" in swapped else (k, n))
    alike(x.T if "x" in swapped else x, y.T if "y" in swapped else y, dtype)


@each("dtype", HALVES)
def test_every_float_of_16_bits_is_read(machine, dtype):
    x = np.arange(1 << 16, dtype=np.uint16).view(dtype).reshape(-1, 256)
    one = np.eye(1, dtype=dtype)
    for column in (x.reshape(-1, 1)[k : k + 256] for k in range(0, 1 << 16, 256)):
        found, right = product(column, one).ravel(), column.astype(np.float32).ravel()
        assert np.array_equal(found, right, equal_nan=True)
        found = product(one, column.T).ravel()  # read as columns
        assert np.array_equal(found, right, equal_nan=True)


@each("dtype", HALVES)
@each("width", [5, 9, 18, 34])
def test_windows_of_images_of_16_bits(machine, dtype, width):
    rng = np.random.default_rng(width)
    images = rng.standard_normal((3, 4, 7, width)).astype(dtype)
    weight = rng.standard_normal((5, 4, 3, 2)).astype(dtype)

    def both(images, weight):
        windows = sliding_window_view(images, (3, 2), (2, 3)).transpose(1, 4, 5, 0, 2, 3)
        flipped = weight.transpose(1, 2, 3, 0)[:, ::-1]
        turned = windows.transpose(3, 4, 5, 0, 1, 2)[..., ::-1, :]
        return [
            product(weight, windows, rows=1, columns=3, inner=3),
            product(turned, flipped, rows=3, inner=3),
        ]

    wide = both(images.astype(np.float32), weight.astype(np.float32))
    for found, right in zip(both(images, weight), wide, strict=True):
        assert found.tobytes() == right.tobytes()


@pytest.mark.slow
@each("dtype", DTYPES)
@each("width", [5, 9, 16, 18, 34])
def test_windows_of_images(machine, dtype, width):
    rng = np.random.default_rng(width)
    images = rng.standard_normal((3, 4, 7, width)).astype(dtype)
    weight = rng.standard_normal((5, 4, 3, 2)).astype(dtype)
    windows = sliding_window_view(images, (3, 2), (2, 3)).transpose(1, 4, 5, 0, 2, 3)
    close(weight, windows, rows=1, columns=3, inner=3)
    flipped = weight.transpose(1, 2, 3, 0)[:, ::-1]
    close(windows.transpose(3, 4, 5, 0, 1, 2)[..., ::-1, :], flipped, rows=3, inner=3)
    back = rng.standard_normal((5, 3, 5, width - 1)).astype(dtype)
    close(back, windows.transpose(3, 4, 5, 0, 1, 2), columns=3, inner=3)


@each("dtype", DTYPES)
@each("width", [2, 5, 9, 17, 33])
@each("order", [(1, 0, 2, 3), (1, 2, 3, 0), (3, 2, 1, 0)])
def test_results_in_any_order(machine, dtype, width, order):
    """Images first, as a convolution's; the rows of the product innermost; all of it backwards."""
    rng = np.random.default_rng(width)
    x = rng.standard_normal((14, 300)).astype(dtype)
    y = rng.standard_normal((300, 3, 4, width - 1)).astype(dtype)
    close(x, y, columns=3, order=order)


@each("dtype", DTYPES)
def test_a_batch_of_two_axes_and_repeated_factors(dtype):
    rng = np.random.default_rng(0)
    x = rng.standard_normal((2, 40, 3, 20)).astype(dtype).transpose(0, 2, 1, 3)
    y = rng.standard_normal((2, 33, 3, 20)).astype(dtype).transpose(0, 2, 3, 1)
    close(x, y, batch=2)
    one = np.broadcast_to(y[0, 0], y.shape)
    close(x, one, batch=2)


ORDER = (5, 1, 3, 0, 2, 4, 11, 7, 9, 6, 8, 10)


@each("dtype", DTYPES)
def test_six_axes_each(dtype):
    rng = np.random.default_rng(0)
    x = rng.standard_normal((2, 3, 2, 1, 2, 2, 3, 2, 2, 1, 2, 2)).astype(dtype).transpose(*ORDER)
    y = rng.standard_normal((3, 7, *x.shape[6:])).astype(dtype).transpose(*range(2, 8), 0, 1)
    close(x, y, rows=6, columns=2, inner=6)


@each("dtype", DTYPES)
@each("axis", ["rows", "columns", "batch"])
def test_pieces_give_the_bits_of_the_whole(dtype, axis):
    rng = np.random.default_rng(1)
    x, y = rng.standard_normal((3, 101, 700)).astype(dtype), rng.standard_normal((3, 700, 90)).astype(dtype)
    whole = product(x, y, batch=1)
    sizes = {"batch": 3, "rows": 101, "columns": 90}
    cuts = [0, 1, 2, sizes[axis]] if axis == "batch" else [0, 1, 14, 48, 80, sizes[axis]]
    pieces = []
    for first, last in itertools.pairwise(cuts):
        ends = {name: (0, size) for name, size in sizes.items()} | {axis: (first, last)}
        pieces.append([e for name in ("batch", "rows", "columns") for e in ends[name]])
    found = product(x, y, batch=1, pieces=pieces)
    assert found.tobytes() == whole.tobytes()


@each("dtype", DTYPES)
@each("size", [(13, 33, 257), (30, 100, 20), (5, 70, 0), (12, 7, 512)], ids=str)
@each("order", [(0, 1), (1, 0)], ids=str)
@pytest.mark.parametrize("way", [Way.PACKED], indirect=True)
def test_a_bias_is_added_to_each_column_once(machine, way, dtype, size, order):
    m, n, k = size
    rng = np.random.default_rng(0)
    x, y = rng.standard_normal((m, k)).astype(dtype), rng.standard_normal((k, n)).astype(dtype)
    room = np.full(n + 2, np.nan, dtype)
    bias = room[1:-1]
    bias[:] = rng.standard_normal(n)
    found, plain = product(x, y, order=order, bias=bias), product(x, y, order=order)
    assert (found == plain + bias).all()  # rounded as by an addition of its own
    halves = product(x, y, order=order, bias=bias, pieces=[(0, 1, 0, m, 0, n // 2), (0, 1, 0, m, n // 2, n)])
    assert halves.tobytes() == found.tobytes()


def test_what_is_not_finite_stays_in_its_row_and_column():
    x, y = np.ones((30, 41), np.float32), np.ones((41, 50), np.float32)
    x[7, 40], y[40, 11], y[3, 20] = np.nan, np.inf, -np.inf
    found = product(x, y)[0]
    odd = ~np.isfinite(found)
    assert np.isnan(found[7]).all() and np.isposinf(np.delete(found, 7, 0)[:, 11]).all()
    assert odd.sum() == 50 + 2 * 29 and np.isneginf(np.delete(found, 7, 0)[:, 20]).all()


def test_it_reads_no_byte_beyond_its_factors():
    """Factors that end where their memory does, before a page that nobody may read."""
    import mmap

    pages = mmap.mmap(-1, 3 * mmap.PAGESIZE)
    libc = ctypes.CDLL(None, use_errno=True)
    start = ctypes.addressof(ctypes.c_char.from_buffer(pages))
    assert libc.mprotect(ctypes.c_void_p(start + 2 * mmap.PAGESIZE), mmap.PAGESIZE, 0) == 0
    for m, n, k in [(5, 7, 9), (12, 32, 2), (1, 33, 17), (13, 16, 16)]:
        for order in ("x", "y"):
            shape = (m, k) if order == "x" else (k, n)
            size = shape[0] * shape[1]
            end = np.frombuffer(pages, np.float32, size, 2 * mmap.PAGESIZE - 4 * size).reshape(shape)
            other = np.ones((k, n) if order == "x" else (m, k), np.float32)
            product(*((end, other) if order == "x" else (other, end)))
            turned = np.ones(shape[::-1], np.float32)
            product(*((turned, end) if order == "x" else (end, turned)))


def test_no_memory_is_a_status(monkeypatch):
    never = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_size_t)(lambda size: None)
    monkeypatch.setattr(packed, "memory_functions", lambda: (ctypes.cast(never, ctypes.c_void_p).value, 0))
    with pytest.raises(AssertionError, match=f"assert {packed.NO_MEMORY} == 0"):
        product(np.ones((2, 2)), np.ones((2, 2)))


@pytest.mark.slow
@pytest.mark.parametrize("way", [Way.PACKED], indirect=True)
def test_a_small_stack_is_enough(way):
    program = """
import threading, jtorch
x, results = jtorch.randn(300, 300, dtype=jtorch.float64), []
multiply = jtorch.compile(lambda x: x @ x.t())
results.append(multiply(x))
threading.stack_size(128 * 1024)
thread = threading.Thread(target=lambda: results.append(multiply(x)))
thread.start()
thread.join()
print(jtorch.equal(*results))
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert (done.returncode, done.stdout.strip()) == (0, "True"), done.stderr


@pytest.mark.parametrize("way", [Way.PACKED], indirect=True)
def test_too_many_axes_are_refused(way):
    with pytest.raises(ValueError, match="at most 6 axes of rows, not 7"):
        packed.describe(Product((), (Axis(2, 1, 0, 1),) * 7, (), ()), item=4)
