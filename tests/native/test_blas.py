"""The gemm kernels against NumPy, on both interfaces; the choice of kernels; threads; fork."""

from __future__ import annotations

import ctypes
import os
import platform
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pytest

from jtorch.core import threads
from jtorch.native import blas, loader, packed
from jtorch.native.executor import Executor

DTYPES = {"f32": np.float32, "f64": np.float64}
ROOT = str(Path(blas.__file__).parents[2])


@pytest.fixture(autouse=True)
def _private_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("JTORCH_CACHE", str(tmp_path / "cache"))


@pytest.fixture(params=["cblas", "fortran"])
def interface(request):
    """(kernels, addresses) of the private OpenBLAS, and of SciPy's exports."""
    if request.param == "fortran":
        pytest.importorskip("scipy.linalg.cython_blas")
        library = blas._scipy_exports()
    else:
        pytest.importorskip("scipy_openblas32")
        library = blas._private_openblas()
    assert library is not None
    return blas._kernels(library.fortran), library.gemm


def run_gemm(interface, dtype, a, b, c, sizes, *, transpose=(False, False), batch=1, strides=(0, 0, 0),
             leading=None, alpha=1.0, beta=0.0) -> int:  # fmt: skip
    kernels, addresses = interface
    flags = [blas.TRANSPOSE if t else blas.NO_TRANSPOSE for t in transpose]
    leading = leading or [x.strides[-2] // x.itemsize for x in (a, b, c)]
    words = [
        addresses[dtype],
        a.ctypes.data,
        b.ctypes.data,
        c.ctypes.data,
        batch,
        *strides,
        *flags,
        *sizes,
        *leading,
    ]
    block = np.array([*words, 0, 0], np.int64)
    # Spelled out: the bits of the *int* 1 are a denormal float, which float32 rounds to alpha = 0.
    block[16:] = np.array([alpha, beta], np.float64).view(np.int64)
    assert len(block) == blas.ARGUMENT_WORDS
    table = np.array([[kernels[f"jtorch_gemm_{dtype}"], block.ctypes.data, 1, 0, 0]], np.int64)
    return Executor(table, keepalive=[block]).run()


def random(rng, shape, dtype):
    return rng.standard_normal(shape).astype(DTYPES[dtype])


TOLERANCE = {"f32": 2e-5, "f64": 1e-13}


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("transpose", [(False, False), (True, False), (False, True), (True, True)])
@pytest.mark.parametrize(
    "sizes", [(1, 1, 1), (3, 4, 5), (32, 10, 64), (1, 64, 33), (70, 1, 9), (65, 63, 130)]
)
def test_against_numpy(interface, dtype, transpose, sizes):
    m, n, k = sizes
    rng = np.random.default_rng(m * n * k)
    a = random(rng, (k, m) if transpose[0] else (m, k), dtype)
    b = random(rng, (n, k) if transpose[1] else (k, n), dtype)
    c = random(rng, (m, n), dtype)
    product = (a.T if transpose[0] else a).astype(float) @ (b.T if transpose[1] else b).astype(float)
    expected = 1.5 * product - 0.25 * c
    assert run_gemm(interface, dtype, a, b, c, sizes, transpose=transpose, alpha=1.5, beta=-0.25) == 0
    np.testing.assert_allclose(c, expected, rtol=0, atol=TOLERANCE[dtype] * np.sqrt(k) * 10)


@pytest.mark.parametrize("dtype", DTYPES)
def test_batches_broadcast_with_stride_zero(interface, dtype):
    rng = np.random.default_rng(0)
    a, b, c = (random(rng, shape, dtype) for shape in ((5, 3, 4), (4, 2), (5, 3, 2)))
    strides = (a.strides[0], 0, c.strides[0])
    assert run_gemm(interface, dtype, a, b, c, (3, 2, 4), batch=5, strides=strides) == 0
    np.testing.assert_allclose(c, a @ b, rtol=0, atol=TOLERANCE[dtype])


def test_leading_dimensions_of_a_view_leave_the_rest_alone(interface):
    whole = np.full((6, 9), 7.0)
    a, b = np.arange(24.0).reshape(4, 6)[:, :3], np.arange(15.0).reshape(3, 5)[:, :2]
    assert run_gemm(interface, "f64", a, b, whole[1:5, 2:4], (4, 2, 3)) == 0
    np.testing.assert_array_equal(whole[1:5, 2:4], a @ b)
    whole[1:5, 2:4] = 7
    assert (whole == 7).all()


@pytest.mark.parametrize("sizes", [(0, 4, 5), (3, 0, 5), (0, 0, 0)])
@pytest.mark.parametrize("batch", [0, 1])
def test_empty_results_touch_nothing(interface, sizes, batch):
    m, n, k = sizes
    a, b, c = np.zeros((m, k)), np.zeros((k, n)), np.full((3, 4), np.nan)
    assert run_gemm(interface, "f64", a, b, c, sizes, batch=batch, leading=[k, n, n]) == 0
    assert np.isnan(c).all()


@pytest.mark.parametrize("dtype", DTYPES)
def test_inner_size_zero_scales_c_and_beta_zero_clears_nan(interface, dtype):
    c = np.full((3, 4), np.nan, DTYPES[dtype])
    a, b = np.zeros((3, 0), DTYPES[dtype]), np.zeros((0, 4), DTYPES[dtype])
    assert run_gemm(interface, dtype, a, b, c, (3, 4, 0), leading=[0, 4, 4]) == 0
    assert (c == 0).all()
    c[:] = 3
    run_gemm(interface, dtype, a, b, c, (3, 4, 0), leading=[0, 4, 4], beta=2.0)
    assert (c == 6).all()


@pytest.mark.parametrize("sizes", [(8, 8, 8), (32, 64, 64), (64, 10, 32)])
def test_nan_and_infinity_reach_the_result_and_old_nan_does_not(interface, sizes):
    m, n, k = sizes
    a, b, c = (
        np.ones((m, k), np.float32),
        np.ones((k, n), np.float32),
        np.full((m, n), np.nan, np.float32),
    )
    a[1, 2], a[3, 1], b[0, 4] = np.nan, np.inf, 0
    run_gemm(interface, "f32", a, b, c, sizes)
    with np.errstate(invalid="ignore"):
        np.testing.assert_array_equal(c, a @ b)


@pytest.mark.parametrize("place", range(6))
@pytest.mark.parametrize("value", [-1, 2**31, 2**40])
def test_sizes_beyond_32_bits_are_a_status(interface, place, value):
    numbers = [2, 2, 2, 2, 2, 2]
    numbers[place] = value
    c = np.full((2, 2), 5.0)
    status = run_gemm(interface, "f64", c, c, c, numbers[:3], leading=numbers[3:])
    assert Executor.decode(status) == (0, blas.TOO_LARGE)
    assert (c == 5).all()


def test_public_addresses_and_description():
    library = blas._library()
    assert {d: blas.gemm_address(d) for d in DTYPES} == library.gemm
    assert blas.gemm_kernel("f32") != blas.gemm_kernel("f64")
    assert "thread" in blas.describe() and library.core in blas.describe()


@pytest.mark.parametrize(
    ("flags", "user", "core"),
    [
        ("avx2 fma", "", ""),
        ("avx2 avx512f avx512bw avx512cd avx512dq avx512vl", "", "SkylakeX"),
        ("avx512f avx512cd", "", ""),
        ("avx2 avx512f avx512bw avx512cd avx512dq avx512vl", "Haswell", ""),
    ],
)
def test_core_follows_the_flags_unless_the_user_named_one(monkeypatch, flags, user, core):
    monkeypatch.setattr(blas, "cpu_flags", lambda: frozenset(flags.split()))
    monkeypatch.setenv("OPENBLAS_CORETYPE", user)
    assert blas.preferred_core() == core


@pytest.mark.skipif(platform.machine() not in ("x86_64", "AMD64"), reason="names x86-64's features")
def test_kernels_use_what_the_user_says_that_the_processor_has(monkeypatch):
    """By Numba's settings: the width of registers, the instructions, and no core that needs others."""
    monkeypatch.delenv("OPENBLAS_CORETYPE", raising=False)
    monkeypatch.setattr(blas, "cpu_flags", blas.cpu_flags.__wrapped__)
    text = "define <8 x i32> @f(<8 x i32> %a) {\n %b = mul <8 x i32> %a, %a\n ret <8 x i32> %b\n}"
    codes = set()
    for name, features, width in [
        ("nehalem", "+sse4.2", 16), ("haswell", "-avx512f,+avx2,+fma", 32), ("skx", "+avx2,+avx512f", 64)
    ]:  # fmt: skip
        monkeypatch.setenv("NUMBA_CPU_NAME", name)
        monkeypatch.setenv("NUMBA_CPU_FEATURES", features)
        assert packed.registers().vector == width
        assert blas.preferred_core() == ""
        codes.add(loader.compile_ir(text))
    assert len(codes) >= 2


def test_loading_leaves_the_environment_as_it_was(monkeypatch):
    monkeypatch.delenv("OPENBLAS_CORETYPE", raising=False)
    monkeypatch.setenv("OPENBLAS_NUM_THREADS", "5")
    blas._private_openblas()
    assert os.environ.get("OPENBLAS_NUM_THREADS") == "5" and "OPENBLAS_CORETYPE" not in os.environ


def test_two_threads_multiply_at_once():
    rng = np.random.default_rng(0)
    kernels = {"jtorch_gemm_f64": blas.gemm_kernel("f64")}
    failures: list[str] = []

    def work(n: int) -> None:
        a, b, c = rng.random((n, n)), rng.random((n, n)), np.zeros((n, n))
        for _ in range(20):
            c[:] = 0
            run_gemm((kernels, {"f64": blas.gemm_address("f64")}), "f64", a, b, c, (n, n, n))
            if not np.allclose(c, a @ b):
                failures.append(f"{n}")

    threads = [threading.Thread(target=work, args=(n,)) for n in (150, 200, 64)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this platform")
def test_a_forked_child_can_multiply(tmp_path):
    """OpenBLAS's threads do not exist in the child: a call there must neither hang nor be wrong."""
    program = f"""
import os, sys, time, warnings
sys.path.insert(0, {str(Path(__file__).parent)!r})
import numpy as np
from test_blas import blas, run_gemm
warnings.simplefilter("ignore", DeprecationWarning)
a = np.random.default_rng(0).random((400, 400))
interface = ({{"jtorch_gemm_f64": blas.gemm_kernel("f64")}}, {{"f64": blas.gemm_address("f64")}})
def right():
    c = np.zeros((400, 400))
    return run_gemm(interface, "f64", a, a, c, (400, 400, 400)) == 0 and np.allclose(c, a @ a)
assert right()
child = os.fork()
if not child:
    os._exit(0 if right() and right() else 1)
for _ in range(300):
    done, status = os.waitpid(child, os.WNOHANG)
    if done:
        break
    time.sleep(0.05)
else:
    os.kill(child, 9)
    sys.exit("the child hangs")
assert status == 0 and right()
print("fine")
"""
    environment = {**os.environ, "PYTHONPATH": ROOT}
    result = subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        env=environment,
        timeout=60,
    )
    assert result.stdout == "fine\n", result.stderr


def test_only_large_products_may_use_several_threads():
    small, no_words = blas.product_kernel("f32", threads.PARALLEL_FLOPS - 1)
    large, words = blas.product_kernel("f32", threads.PARALLEL_FLOPS)
    if blas.is_private():
        assert (small, no_words) == (blas.gemm_kernel("f32"), [])
        assert large != small and words[2:] == [ctypes.addressof(threads.count_cell), 1, small]
    assert len(words) in (0, blas.THREADED_WORDS - blas.ARGUMENT_WORDS)


def test_without_a_private_copy_scipys_is_set_and_set_back(monkeypatch):
    """Each product in SciPy's BLAS has our number of threads, which is read when it runs."""
    pytest.importorskip("scipy.linalg.cython_blas")
    monkeypatch.setattr(blas, "_library", lambda: exports)
    exports = blas._scipy_exports()
    scipy = blas._scipy_library()
    if scipy is None:
        pytest.skip("SciPy's BLAS has no threads that machine code could set")
    told = []
    note = ctypes.CFUNCTYPE(None, ctypes.c_int)(told.append)
    monkeypatch.setattr(blas, "_scipy_library", lambda: scipy._replace(set=note))
    x, before, resting = np.eye(2), threads.count(), scipy.get()
    kernel = blas.gemm_kernel("f64")
    try:
        for flops in (0, threads.PARALLEL_FLOPS):
            made, words = blas.product_kernel("f64", flops)
            for count in (3, 4):
                threads.set_count(count)
                c = np.zeros((2, 2))
                places = [array.ctypes.data for array in (x, x, c)]
                sizes = [1, 0, 0, 0, blas.NO_TRANSPOSE, blas.NO_TRANSPOSE, 2, 2, 2, 2, 2, 2]
                block = np.array([exports.gemm["f64"], *places, *sizes, 0, 0, *words], np.int64)
                block[16] = np.float64(1).view(np.int64)
                table = np.array([[made, block.ctypes.data, 1, 0, 0]], np.int64)
                assert made != kernel
                assert Executor(table, keepalive=[block]).run() == 0
                assert (c == x).all()
    finally:
        threads.set_count(before)
    assert told == [1, resting, 1, resting, 3, resting, 4, resting]


def test_a_large_product_through_a_plan():
    import jtorch

    x, y = jtorch.rand(300, 300), jtorch.rand(300, 300)
    product = jtorch.compile(lambda x, y: x @ y)(x, y)
    np.testing.assert_allclose(product.numpy(), x.numpy() @ y.numpy(), rtol=1e-4)
