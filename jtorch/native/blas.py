"""BLAS by address: a private OpenBLAS with the right kernels, and the two `gemm` kernels that call
it.

Source of the library, in order: the `scipy-openblas32` wheel, loaded here by path so that neither
NumPy's nor SciPy's copy matters; else the Fortran functions that `scipy.linalg.cython_blas`
exports. OpenBLAS reads `OPENBLAS_CORETYPE` when it loads; wheels have picked AVX2 kernels on
AVX-512 CPUs, so the core is named here unless the user named one. Measured on Zen 4 (one thread,
sgemm): SkylakeX against Haswell kernels 2.3 : 3.0 us for 32x64x64, 0.42 : 0.65 us for 32x64x10, 106
: 111 GFLOP/s for 1024^3. It loads with one thread, which `jtorch.core.threads` raises for large products.
"""

from __future__ import annotations

import contextlib
import ctypes
import functools
import importlib.util
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from jtorch.core import library_threads, threads
from jtorch.native import cache, llvm_files, loader

NO_TRANSPOSE, TRANSPOSE = 111, 112
TOO_LARGE = 1
"""Status of a gemm kernel whose sizes or leading dimensions are negative or do not fit 32 bits."""

ARGUMENT_WORDS = 18
THREADED_WORDS = ARGUMENT_WORDS + 5
_AVX512 = {"avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl"}


@dataclass(frozen=True)
class _Library:
    name: str
    handle: ctypes.CDLL | None
    gemm: dict[str, int]
    fortran: bool
    core: str


# ---- the library


@functools.cache
def _library() -> _Library:
    library = _private_openblas() or _scipy_exports()
    if library is None:
        raise RuntimeError(
            "no BLAS to call from compiled code: install scipy-openblas32 (preferred) or scipy; "
            "JTORCH_COMPILE=0 runs without compiling"
        )
    return library


def _private_openblas() -> _Library | None:
    spec = importlib.util.find_spec("scipy_openblas32")
    if spec is None or spec.origin is None:
        return None
    # By path, without importing the package: its import costs 17 ms.
    folder = Path(spec.origin).parent / "lib"
    files = sorted(p for p in folder.glob("*scipy_openblas*") if p.suffix in (".so", ".dylib", ".dll"))
    if not files:
        return None
    core = preferred_core()
    wanted = {"OPENBLAS_CORETYPE": core, "OPENBLAS_NUM_THREADS": "1", "OPENBLAS_THREAD_TIMEOUT": _PATIENCE}
    try:
        with _environment({name: value for name, value in wanted.items() if value}):
            handle = ctypes.CDLL(str(files[0]))
        gemm = {d: _address(getattr(handle, f"scipy_cblas_{d}gemm")) for d in "sd"}
        handle.scipy_openblas_get_corename.restype = ctypes.c_char_p
        handle.scipy_openblas_get_config.restype = ctypes.c_char_p
        version = " ".join(handle.scipy_openblas_get_config().decode().split()[:2])
        running = handle.scipy_openblas_get_corename().decode()
        handle.scipy_openblas_set_num_threads(1)  # the user's program may have loaded it before
    except (OSError, AttributeError):
        return None
    chosen = "chosen by CPU flags" if core else "OpenBLAS's own or the user's choice"
    by_dtype = {"f32": gemm["s"], "f64": gemm["d"]}
    return _Library(f"{version} (scipy-openblas32)", handle, by_dtype, False, f"{running}, {chosen}")


def _scipy_exports() -> _Library | None:
    try:
        from scipy.linalg import cython_blas
    except ImportError:
        return None
    get_name = ctypes.pythonapi.PyCapsule_GetName
    get_name.restype, get_name.argtypes = ctypes.c_char_p, [ctypes.py_object]
    get_pointer = ctypes.pythonapi.PyCapsule_GetPointer
    get_pointer.restype, get_pointer.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]

    def address(name: str) -> int:
        capsule = cython_blas.__pyx_capi__[name]
        return int(get_pointer(capsule, get_name(capsule)))

    gemm = {"f32": address("sgemm"), "f64": address("dgemm")}
    return _Library("SciPy's BLAS (scipy.linalg.cython_blas)", None, gemm, True, "SciPy's choice")


def _address(function: Any) -> int:
    return ctypes.cast(function, ctypes.c_void_p).value or 0


@contextlib.contextmanager
def _environment(values: dict[str, str]) -> Iterator[None]:
    previous = {name: os.environ.get(name) for name in values}
    os.environ.update(values)
    try:
        yield
    finally:
        for name, value in previous.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value


def preferred_core() -> str:
    """The OPENBLAS_CORETYPE to load with: SkylakeX where the CPU has its AVX-512; empty = leave it
    to OpenBLAS.
    """
    if os.environ.get("OPENBLAS_CORETYPE"):
        return ""
    return "SkylakeX" if cpu_flags() >= _AVX512 else ""


@functools.cache
def cpu_flags() -> frozenset[str]:
    """What the processor that kernels are made for can do: what the user names, else what Linux says of this
    one; empty where it does not say.
    """
    chosen = loader.chosen_features()
    if chosen:
        return frozenset(name[1:] for name in chosen.split(",") if name.startswith("+"))
    try:
        with Path("/proc/cpuinfo").open(encoding="utf-8", errors="replace") as file:
            return next((frozenset(line.split()) for line in file if line.startswith("flags")), frozenset())
    except OSError:
        return frozenset()


# ---- threads

# Its threads sleep 2^20 clock cycles (0.4 ms) after they had work last, and spin until then. By default it
# is 2^26, 30 ms: as long as several training steps, taken from whatever else runs.
_PATIENCE = "20"


def is_private() -> bool:
    """Whether it is a copy that nobody else calls."""
    return _library().handle is not None


SMALL_PRODUCT = 1_000_000
"""Products of numbers in one of matrices up to which OpenBLAS copies no factor, if its kernels know how."""


def reads_small_factors() -> bool:
    """Whether it computes small products from factors where they lie: OpenBLAS's kernels for AVX-512 do."""
    return is_private() and (preferred_core() or os.environ.get("OPENBLAS_CORETYPE", "")) == "SkylakeX"


def most_threads() -> int | None:
    """For how many threads our private copy was built: it takes no more, whatever it is told."""
    try:
        handle = _library().handle
    except RuntimeError:
        return None
    words = handle.scipy_openblas_get_config().decode().split() if handle is not None else []
    found = [word.partition("=")[2] for word in words if word.startswith("MAX_THREADS=")]
    return int(found[0]) if found and found[0].isdecimal() else None


class Functions(NamedTuple):
    """Addresses in our private copy, by the C interface with 32-bit sizes."""

    gemm: int
    gemv: int


def private_functions(dtype: str) -> Functions:
    """Those for "f32" or "f64". Raises RuntimeError where there is no private copy."""
    handle = _library().handle
    if handle is None:
        raise RuntimeError("scipy-openblas32 is not installed")
    letter = {"f32": "s", "f64": "d"}[dtype]
    names = (f"scipy_cblas_{letter}gemm", f"scipy_cblas_{letter}gemv")
    return Functions(*(_address(getattr(handle, name)) for name in names))


def describe() -> str:
    """One line: which BLAS, which kernels and why, the most threads a product runs on."""
    library = _library()
    known = library.handle or _scipy_library()
    return f"{library.name}, core {library.core}, {threads.count() if known else 'unknown number of'} threads"


# ---- the kernels

_LOAD = r"""
  %{name}_slot = getelementptr i64, ptr %args, i64 {index}
  %{name} = load i64, ptr %{name}_slot"""

# The argument block, one name per word, in order.
_WORDS = """
    function a b c batch a_stride b_stride c_stride trans_a trans_b m n k lda ldb ldc
    alpha_bits beta_bits
""".split()  # noqa: SIM905
_INTS = ("trans_a", "trans_b", "m", "n", "k", "lda", "ldb", "ldc")


_CBLAS_CALL = r"""
  call void %call_function(i32 101, i32 %trans_a_i, i32 %trans_b_i,
    i32 %m_i, i32 %n_i, i32 %k_i, {t} %alpha,
    ptr %a_ptr, i32 %lda_i, ptr %b_ptr, i32 %ldb_i, {t} %beta, ptr %c_ptr, i32 %ldc_i)"""

# Fortran is column-major: row-major C = A B is there C' = B' A', so the operands change places.
_FORTRAN_CALL = r"""
  call void %call_function(ptr %trans_b_at, ptr %trans_a_at,
    ptr %n_at, ptr %m_at, ptr %k_at, ptr %alpha_at,
    ptr %b_ptr, ptr %ldb_at, ptr %a_ptr, ptr %lda_at, ptr %beta_at, ptr %c_ptr, ptr %ldc_at)"""


def _gemm_ir(dtype: str, fortran: bool) -> str:
    """The text of `int64 jtorch_gemm_f32(int64* args)`, for the C or the Fortran interface."""
    kind = {"f32": "float", "f64": "double"}[dtype]
    scalars = ""
    for name in ("alpha", "beta"):
        # LLVM has no copy instruction; a select on true stands for one and vanishes.
        convert = (
            f"fptrunc double %{name}_double to float" if dtype == "f32"
            else f"select i1 true, double %{name}_double, double %{name}_double"
        )  # fmt: skip
        scalars += f"\n  %{name} = {convert}"
    for name in _INTS:
        value = name + "_least" if name.startswith("ld") else name
        scalars += f"\n  %{name}_i = trunc i64 %{value} to i32"
    places = stores = ""
    if fortran:
        for name in _INTS:
            places += f"\n  %{name}_at = alloca i32"
            if name.startswith("trans"):
                # 111 and 112 become the letters N (78) and T (84).
                stores += (
                    f"\n  %{name}_is_t = icmp eq i32 %{name}_i, {TRANSPOSE}"
                    f"\n  %{name}_letter = select i1 %{name}_is_t, i32 84, i32 78"
                    f"\n  store i32 %{name}_letter, ptr %{name}_at"
                )
            else:
                stores += f"\n  store i32 %{name}_i, ptr %{name}_at"
        for name in ("alpha", "beta"):
            places += f"\n  %{name}_at = alloca {kind}"
            stores += f"\n  store {kind} %{name}, ptr %{name}_at"
    gaps = {
        "DTYPE": dtype,
        "LOADS": "".join(_LOAD.format(name=name, index=index) for index, name in enumerate(_WORDS)),
        "TOO_LARGE": TOO_LARGE,
        "SCALARS": scalars,
        "PLACES": places,
        "STORES": stores,
        "CALL": (_FORTRAN_CALL if fortran else _CBLAS_CALL).format(t=kind),
    }
    return llvm_files.read("gemm", gaps)


@functools.cache
def _kernels(fortran: bool) -> dict[str, int]:
    text = "".join(_gemm_ir(dtype, fortran) for dtype in ("f32", "f64"))
    text += "\ndeclare i64 @llvm.umax.i64(i64, i64)\n"
    return cache.get_or_build_ir(text, "gemm_fortran" if fortran else "gemm")


def gemm_kernel(dtype: str) -> int:
    """Address of the kernel `c = alpha * op(a) op(b) + beta * c` for "f32" or "f64", row-major,
    over a batch.

    Its argument words: 0 `gemm_address(dtype)`; 1-3 addresses of a, b, c; 4 batch count; 5-7 batch
    strides in bytes of a, b, c (0 repeats one matrix); 8, 9 transpose a, b (111 no, 112 yes); 10-12
    M, N, K; 13-15 leading dimensions in elements; 16, 17 alpha, beta as float64 bits. Empty sizes
    are fine (K = 0 scales c by beta). Status TOO_LARGE where a size does not fit.
    """
    return _kernels(_library().fortran)[f"jtorch_gemm_{dtype}"]


_THREADED = """
define i64 @jtorch_threaded_gemm(ptr %args) {
  %set_slot = getelementptr i64, ptr %args, i64 18
  %get_slot = getelementptr i64, ptr %args, i64 19
  %count_slot = getelementptr i64, ptr %args, i64 20
  %rest_slot = getelementptr i64, ptr %args, i64 21
  %gemm_slot = getelementptr i64, ptr %args, i64 22
  %set = load ptr, ptr %set_slot
  %get = load ptr, ptr %get_slot
  %cell = load ptr, ptr %count_slot
  %rest = load i64, ptr %rest_slot
  %gemm = load ptr, ptr %gemm_slot
  %count = load i64, ptr %cell
  %threads = trunc i64 %count to i32
  %given = trunc i64 %rest to i32
  %none_given = icmp eq i32 %given, 0
  %before = call i32 %get()
  call void %set(i32 %threads)
  %status = call i64 %gemm(ptr %args)
  %after = select i1 %none_given, i32 %before, i32 %given
  call void %set(i32 %after)
  ret i64 %status
}
"""
_one = ctypes.c_int64(1)


def product_kernel(dtype: str, flops: int) -> tuple[int, list[int]]:
    """(kernel, the argument words after the first ARGUMENT_WORDS) for products of so many operations.

    A large one asks `jtorch.core.threads` each time it runs how many threads there are now, and our private
    copy has one thread again afterwards. SciPy's copy is set for small products, too, and set back.
    """
    handle = _library().handle
    if handle:
        if flops < threads.PARALLEL_FLOPS:
            return gemm_kernel(dtype), []
        rest = 1
        functions: tuple[Any, Any] = (
            handle.scipy_openblas_set_num_threads, handle.scipy_openblas_get_num_threads
        )  # fmt: skip
    else:
        scipy = _scipy_library()
        if scipy is None:
            return gemm_kernel(dtype), []
        functions, rest = (scipy.set, scipy.get), 0  # 0: the number from before
    threads.count()  # the cell holds it from now on
    cell = threads.count_cell if flops >= threads.PARALLEL_FLOPS else _one
    kernel = cache.get_or_build_ir(_THREADED, "threaded_gemm")["jtorch_threaded_gemm"]
    return kernel, [*map(_address, functions), ctypes.addressof(cell), rest, gemm_kernel(dtype)]


@functools.cache
def _scipy_library() -> library_threads.Library | None:
    """SciPy's OpenBLAS, where there is one whose number of threads can be set from machine code."""
    loaded = library_threads.found(with_scipy=True)
    return next((b for b in loaded if b.direct and "scipy" in b.path), None)


def gemm_address(dtype: str) -> int:
    """Address of the library's own gemm for "f32" or "f64": word 0 of the kernel's block."""
    return _library().gemm[dtype]
