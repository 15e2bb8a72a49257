"""cuBLAS over a fake device. As the real one it may use its workspace, and more than one kernel for a
product."""

# ruff: noqa: N802 - the names of cuBLAS's functions

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np

from tests.cuda.allocations import Fault
from tests.cuda.device import FakeDevice, Refusal, Stream, c_function

_KINDS = {
    (0, 68): np.dtype(np.float32),
    (1, 70): np.dtype(np.float64),
}  # CUDA_R_32F with CUBLAS_COMPUTE_32F, ...
_INVALID, _INTERNAL, _UNSUPPORTED = 7, 14, 15


class Handle:
    stream = workspace = nbytes = 0


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
        dtype = _KINDS.get((c_type, compute))
        if dtype is None or {a_type, b_type} != {c_type}:
            raise Refusal(_UNSUPPORTED, f"types {a_type}, {b_type}, {c_type} computed as {compute}")
        if lda < max(1, k if ta else m) or ldb < max(1, n if tb else k) or ldc < max(1, m):
            raise Refusal(_INVALID, f"leading dimensions {lda}, {ldb}, {ldc} of {m} x {n} x {k}")
        if min(m, n, k, batch) <= 0:
            raise Refusal(_INVALID, f"a product of {m} x {n} x {k}, {batch} times")
        if device.thing(found.stream, Stream).capture is not None and not found.workspace:
            raise Refusal(_INTERNAL, "memory for a workspace is wanted while the stream is captured")
        scalar = ctypes.c_float if dtype.itemsize == 4 else ctypes.c_double
        al, be = (scalar.from_address(p).value for p in (alpha, beta))
        name = f"cuBLAS {m} x {n} x {k}"
        self.count += 1
        token = np.frombuffer(self.count.to_bytes(8, "little"), np.uint8)

        def begin() -> None:
            device.memory.write(found.workspace, found.nbytes)[:8] = token

        def end() -> None:
            if (device.memory.read(found.workspace, found.nbytes)[:8] != token).any():
                raise Fault("another product has written over the workspace")
            for i in range(batch):
                x = self._matrix(a + dtype.itemsize * sa * i, dtype, m, k, lda, ta)
                y = self._matrix(b + dtype.itemsize * sb * i, dtype, k, n, ldb, tb)
                out = c + dtype.itemsize * sc * i
                before = self._matrix(out, dtype, m, n, ldc, 0) * dtype.type(be) if be else 0
                self._store(out, (dtype.type(al) * (x @ y) + before).astype(dtype), ldc)

        device._enqueue(found.stream, f"{name}, begun", begin)
        device._enqueue(found.stream, name, end)

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
