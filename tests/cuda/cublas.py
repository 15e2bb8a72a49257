"""cuBLAS over a fake device. As the real one it may use its workspace, and more than one kernel for a
product."""

# ruff: noqa: N802 - the names of cuBLAS's functions

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np

from jtorch.core.dtypes import BFLOAT16
from tests.cuda.allocations import Fault
from tests.cuda.device import FakeDevice, Refusal, Stream, c_function

_F, _D = np.dtype(np.float32), np.dtype(np.float64)
_H, _B = np.dtype(np.float16), BFLOAT16
# CUDA_R_32F, CUDA_R_64F, CUDA_R_16F, CUDA_R_16BF: the types of A and B, that of C, and that of computation
# which goes with them, as the table of cublasGemmEx in NVIDIA's documentation has it
_KINDS = {
    (0, 0, 68): (_F, _F), (1, 1, 70): (_D, _D), (2, 2, 68): (_H, _H), (2, 0, 68): (_H, _F),
    (14, 14, 68): (_B, _B), (14, 0, 68): (_B, _F), (0, 0, 77): (_F, _F),
}  # fmt: skip
_MODES = {0: False, 16: True}  # CUBLAS_DEFAULT_MATH, and whether sums are kept in the type of computation
_TF32 = 77  # CUBLAS_COMPUTE_32F_FAST_TF32
_ALGORITHMS = {-1}  # CUBLAS_GEMM_DEFAULT
_INVALID, _INTERNAL, _UNSUPPORTED = 7, 14, 15


class Handle:
    stream = workspace = nbytes = 0
    whole_sums = False


class FakeBlas:
    def __init__(self, device: FakeDevice) -> None:
        self.device = device
        self.count = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self.device, name)  # what c_function asks

    @c_function
    def cublasCreate_v2(self, out: int) -> None:
        self.device.put(out, Handle())

    @c_function
    def cublasSetStream_v2(self, handle: int, stream: int) -> None:
        found = self.device.thing(handle, Handle)
        found.stream, found.workspace = stream, 0

    @c_function
    def cublasSetWorkspace_v2(self, handle: int, workspace: int, nbytes: int) -> None:
        if workspace % 256:
            raise Refusal(_INVALID, "a workspace that is not aligned to 256 bytes")
        found = self.device.thing(handle, Handle)
        found.workspace, found.nbytes = workspace, nbytes

    @c_function
    def cublasGemmStridedBatchedEx(
        self, handle: int, ta: int, tb: int, m: int, n: int, k: int, alpha: int, a: int, a_type: int, lda:
        int, sa: int, b: int, b_type: int, ldb: int, sb: int, beta: int, c: int, c_type: int, ldc: int, sc:
        int, batch: int, compute: int, algorithm: int,
    ) -> None:  # fmt: skip
        """Columns lie one after the other, as in Fortran."""
        device, found = self.device, self.device.thing(handle, Handle)
        dtypes = _KINDS.get((a_type, c_type, compute))
        if dtypes is None or a_type != b_type or algorithm not in _ALGORITHMS:
            told = f"types {a_type}, {b_type}, {c_type} computed as {compute} by algorithm {algorithm}"
            raise Refusal(_UNSUPPORTED, told)
        dtype, made = dtypes
        if lda < max(1, k if ta else m) or ldb < max(1, n if tb else k) or ldc < max(1, m):
            raise Refusal(_INVALID, f"leading dimensions {lda}, {ldb}, {ldc} of {m} x {n} x {k}")
        if min(m, n, k, batch) <= 0:
            raise Refusal(_INVALID, f"a product of {m} x {n} x {k}, {batch} times")
        if device.thing(found.stream, Stream).capture is not None and not found.workspace:
            raise Refusal(_INTERNAL, "memory for a workspace is wanted while the stream is captured")
        wide = _D if dtype is _D else _F
        scalar, whole = (ctypes.c_double if wide is _D else ctypes.c_float), found.whole_sums
        al, be = (scalar.from_address(p).value for p in (alpha, beta))
        seen = "tf32" if compute == _TF32 else dtype
        name = f"cuBLAS {m} x {n} x {k} of {seen} to {made}"
        self.count += 1
        token = np.frombuffer(self.count.to_bytes(8, "little"), np.uint8)

        def begin() -> None:
            device.memory.write(found.workspace, found.nbytes)[:8] = token

        def end() -> None:
            if (device.memory.read(found.workspace, found.nbytes)[:8] != token).any():
                raise Fault("another product has written over the workspace")
            for i in range(batch):
                x = self._matrix(a + dtype.itemsize * sa * i, dtype, m, k, lda, ta).astype(wide)
                y = self._matrix(b + dtype.itemsize * sb * i, dtype, k, n, ldb, tb).astype(wide)
                if compute == _TF32:
                    x, y = _rounded(x), _rounded(y)
                out = c + made.itemsize * sc * i
                before = self._matrix(out, made, m, n, ldc, 0).astype(wide) * wide.type(be) if be else 0
                product = x @ y if whole else _in_parts(x, y, made)
                with np.errstate(over="ignore"):  # what 16 bits have no room for is infinite
                    rounded = (wide.type(al) * product + before).astype(made)
                self._store(out, rounded, ldc)

        device._enqueue(found.stream, f"{name}, begun", begin)
        device._enqueue(found.stream, name, end)

    @c_function
    def cublasSetMathMode(self, handle: int, mode: int) -> None:
        if mode not in _MODES:
            raise Refusal(_INVALID, f"a mode {mode} that nobody here knows")
        self.device.thing(handle, Handle).whole_sums = _MODES[mode]

    def _matrix(
        self, at: int, dtype: np.dtype, rows: int, columns: int, leading: int, turned: int
    ) -> np.ndarray:
        """A copy."""
        rows, columns = (columns, rows) if turned else (rows, columns)
        found = np.empty((rows, columns), dtype, order="F")
        for j in range(columns):
            line = self.device.memory.read(at + dtype.itemsize * leading * j, dtype.itemsize * rows)
            found[:, j] = line.view(dtype)
        return found.T if turned else found

    def _store(self, at: int, values: np.ndarray, leading: int) -> None:
        for j in range(values.shape[1]):
            line = np.ascontiguousarray(values[:, j])
            self.device.memory.write(at + line.itemsize * leading * j, line.nbytes)[...] = line.view(np.uint8)


def _rounded(x: np.ndarray) -> np.ndarray:
    """float32 to TF32: to the nearest of 10 bits of fraction. NaN and infinities stay."""
    bits = np.ascontiguousarray(x).view(np.uint32)
    near = ((bits + np.uint32(1 << 12)) & np.uint32(0xFFFFE000)).view(np.float32)
    return np.where(np.isfinite(x), near, x)


def _in_parts(x: np.ndarray, y: np.ndarray, made: np.dtype) -> np.ndarray:
    """A product whose terms several blocks add up, each rounding its part to the type of the result."""
    half = x.shape[1] // 2
    parts = ((x[:, s] @ y[s]).astype(made).astype(x.dtype) for s in (slice(half), slice(half, None)))
    return sum(parts)
