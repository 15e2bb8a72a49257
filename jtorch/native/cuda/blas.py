"""Products of matrices by cuBLAS, with a workspace of fixed memory: as a part of a graph it may ask for none.

Products that run at the same time would write one workspace, so whoever makes a graph runs them one after the
other (``workspace`` is memory that each of them writes). Floats of 16 bits are multiplied and summed in
float32 and rounded once; by default cuBLAS may add parts of a sum in 16 bits, which ``_WHOLE_SUMS`` forbids.
"""

from __future__ import annotations

import ctypes
from typing import NamedTuple

import numpy as np

from jtorch.core.dtypes import BFLOAT16
from jtorch.core.errors import CudaError
from jtorch.native.cuda.device import Device
from jtorch.native.cuda.memory import Buffer

_WORKSPACE = 32 << 20  # what cuBLAS itself takes on the newest devices
_DEFAULT_ALGORITHM = -1  # CUBLAS_GEMM_DEFAULT

_WHOLE_SUMS = 16  # CUBLAS_MATH_DISALLOW_REDUCED_PRECISION_REDUCTION, beside CUBLAS_DEFAULT_MATH, which is 0

# CUDA_R_32F and CUBLAS_COMPUTE_32F, which rounds no factor to fewer bits; CUDA_R_64F and CUBLAS_COMPUTE_64F;
# CUDA_R_16F and CUDA_R_16BF. CUBLAS_COMPUTE_32F_FAST_TF32 rounds factors to 10 bits of fraction
_FLOAT32, _FLOAT16 = np.dtype(np.float32), np.dtype(np.float16)
_KINDS = {_FLOAT32: (0, 68), np.dtype(np.float64): (1, 70), _FLOAT16: (2, 68), BFLOAT16: (14, 68)}

_TF32 = 77

DTYPES = frozenset((d, d) for d in _KINDS) | {(_FLOAT16, _FLOAT32), (BFLOAT16, _FLOAT32)}
"""What ``Blas.gemm`` multiplies, and what it gives."""


class Factor(NamedTuple):
    """A matrix as BLAS walks it: where it begins, elements between its lines and between those of a batch."""

    address: int
    transposed: bool
    leading: int
    apart: int


class Blas:
    """A handle of cuBLAS over a device's stream."""

    def __init__(self, device: Device) -> None:
        self.device, self.cublas = device, device.cublas
        handle = ctypes.c_void_p()
        self.cublas.cublasCreate_v2(ctypes.byref(handle))
        self.handle = handle.value or 0
        self.workspace: Buffer = device.allocate(_WORKSPACE)
        self.cublas.cublasSetMathMode(self.handle, _WHOLE_SUMS)
        self.cublas.cublasSetStream_v2(self.handle, device.stream)  # first: it resets the workspace
        self.cublas.cublasSetWorkspace_v2(self.handle, self.workspace.address, _WORKSPACE)

    def gemm(
        self, dtypes: tuple[np.dtype, np.dtype], sizes: tuple[int, int, int, int], x: Factor, y: Factor,
        out: Factor, add: bool, tf32: bool = False,
    ) -> None:  # fmt: skip
        """``out = x @ y``, or added to what is there: ``dtypes`` are those of the factors and of the result,
        ``sizes`` matrices, rows, columns, and terms of each element, in row-major order; ``tf32``: whether
        factors of float32 may be rounded to it. cuBLAS counts columns first, so the factors change
        places."""
        batch, rows, columns, terms = sizes
        if max(*sizes, x.leading, y.leading, out.leading) >= 1 << 31:
            raise CudaError(f"a product of {sizes}: cuBLAS takes sizes below 2^31")
        (kind, compute), (out_kind, _) = (_KINDS[dtype] for dtype in dtypes)
        if tf32 and dtypes[0] == _FLOAT32:
            compute = _TF32
        scalar = ctypes.c_double if dtypes[0] == np.float64 else ctypes.c_float
        one, before = scalar(1.0), scalar(float(add))
        self.cublas.cublasGemmStridedBatchedEx(
            self.handle, int(y.transposed), int(x.transposed), columns, rows, terms, ctypes.byref(one),
            y.address, kind, y.leading, y.apart, x.address, kind, x.leading, x.apart, ctypes.byref(before),
            out.address, out_kind, out.leading, out.apart, batch, compute, _DEFAULT_ALGORITHM,
        )  # fmt: skip
