"""The C functions of NVIDIA's driver and of cuBLAS that are called, as one table, bound by ctypes.

Each line of the table is a declaration of ``cuda.h`` or ``cublas_api.h`` under the symbol that the library
exports (tests compare it with the header). The same lines bind a real library and a test's device, so what
calls them is the same code. Every status is checked: a call that fails raises CudaError with the names of the
function and of the error. What differs from release to release is said by the symbol; ``_v3`` and
``_v2`` of the two functions about captures are of CUDA 12.3.

A process that was forked after ``cuInit`` cannot use the driver, in NVIDIA's words; there each function
refuses.
"""

from __future__ import annotations

import ctypes
import os
import re
import weakref
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from jtorch.core.errors import CudaError

LIBCUDA = """
cuInit(unsigned int Flags)
cuDriverGetVersion(int *driverVersion)
cuGetErrorName(CUresult error, const char **pStr)
cuGetErrorString(CUresult error, const char **pStr)
cuDeviceGet(CUdevice *device, int ordinal)
cuDeviceGetName(char *name, int len, CUdevice dev)
cuDeviceGetAttribute(int *pi, CUdevice_attribute attrib, CUdevice dev)
cuDevicePrimaryCtxRetain(CUcontext *pctx, CUdevice dev)
cuCtxSetCurrent(CUcontext ctx)
cuMemGetInfo_v2(size_t *free, size_t *total)
cuMemAlloc_v2(CUdeviceptr *dptr, size_t bytesize)
cuMemFree_v2(CUdeviceptr dptr)
cuMemHostAlloc(void **pp, size_t bytesize, unsigned int Flags)
cuMemFreeHost(void *p)
cuMemsetD8Async(CUdeviceptr dstDevice, unsigned char uc, size_t N, CUstream hStream)
cuMemcpyHtoDAsync_v2(CUdeviceptr dstDevice, const void *srcHost, size_t ByteCount, CUstream hStream)
cuMemcpyDtoHAsync_v2(void *dstHost, CUdeviceptr srcDevice, size_t ByteCount, CUstream hStream)
cuMemcpyDtoDAsync_v2(CUdeviceptr dstDevice, CUdeviceptr srcDevice, size_t ByteCount, CUstream hStream)
cuModuleLoadDataEx(
    CUmodule *module, const void *image, unsigned int numOptions, CUjit_option *options, void **optionValues
)
cuModuleGetFunction(CUfunction *hfunc, CUmodule hmod, const char *name)
cuLaunchKernel(
    CUfunction f, unsigned int gridDimX, unsigned int gridDimY, unsigned int gridDimZ,
    unsigned int blockDimX, unsigned int blockDimY, unsigned int blockDimZ, unsigned int sharedMemBytes,
    CUstream hStream, void **kernelParams, void **extra
)
cuStreamCreate(CUstream *phStream, unsigned int Flags)
cuStreamSynchronize(CUstream hStream)
cuEventCreate(CUevent *phEvent, unsigned int Flags)
cuEventRecord(CUevent hEvent, CUstream hStream)
cuEventQuery(CUevent hEvent)
cuEventSynchronize(CUevent hEvent)
cuEventElapsedTime(float *pMilliseconds, CUevent hStart, CUevent hEnd)
cuEventDestroy_v2(CUevent hEvent)
cuStreamBeginCapture_v2(CUstream hStream, CUstreamCaptureMode mode)
cuStreamGetCaptureInfo_v3(
    CUstream hStream, CUstreamCaptureStatus *captureStatus_out, cuuint64_t *id_out, CUgraph *graph_out,
    const CUgraphNode **dependencies_out, const CUgraphEdgeData **edgeData_out, size_t *numDependencies_out
)
cuStreamUpdateCaptureDependencies_v2(
    CUstream hStream, CUgraphNode *dependencies, const CUgraphEdgeData *dependencyData,
    size_t numDependencies, unsigned int flags
)
cuStreamEndCapture(CUstream hStream, CUgraph *phGraph)
cuGraphInstantiateWithFlags(CUgraphExec *phGraphExec, CUgraph hGraph, unsigned long long flags)
cuGraphDestroy(CUgraph hGraph)
cuGraphLaunch(CUgraphExec hGraphExec, CUstream hStream)
cuGraphExecDestroy(CUgraphExec hGraphExec)
"""

CUBLAS = """
cublasCreate_v2(cublasHandle_t *handle)
cublasSetMathMode(cublasHandle_t handle, cublasMath_t mode)
cublasSetStream_v2(cublasHandle_t handle, cudaStream_t streamId)
cublasSetWorkspace_v2(cublasHandle_t handle, void *workspace, size_t workspaceSizeInBytes)
cublasGemmStridedBatchedEx(
    cublasHandle_t handle, cublasOperation_t transa, cublasOperation_t transb, int m, int n, int k,
    const void *alpha, const void *A, cudaDataType Atype, int lda, long long int strideA, const void *B,
    cudaDataType Btype, int ldb, long long int strideB, const void *beta, void *C, cudaDataType Ctype,
    int ldc, long long int strideC, int batchCount, cublasComputeType_t computeType, cublasGemmAlgo_t algo
)
"""

_CTYPES = {
    ctypes.c_void_p: "CUcontext CUevent CUfunction CUgraph CUgraphExec CUmodule CUstream cublasHandle_t"
    " cudaStream_t",
    ctypes.c_int: "CUdevice CUdevice_attribute CUresult CUstreamCaptureMode cublasComputeType_t"
    " cublasGemmAlgo_t cublasMath_t cublasOperation_t cudaDataType int",
}
_TYPES: dict[str, Any] = {
    **{name: ctype for ctype, names in _CTYPES.items() for name in names.split()},
    "CUdeviceptr": ctypes.c_uint64,
    "long long int": ctypes.c_int64,
    "size_t": ctypes.c_size_t,
    "unsigned char": ctypes.c_ubyte,
    "unsigned int": ctypes.c_uint,
    "unsigned long long": ctypes.c_uint64,
    "const char *": ctypes.c_char_p,
}

_CUBLAS_ERRORS = {
    1: "NOT_INITIALIZED", 3: "ALLOC_FAILED", 7: "INVALID_VALUE", 8: "ARCH_MISMATCH", 11: "MAPPING_ERROR",
    13: "EXECUTION_FAILED", 14: "INTERNAL_ERROR", 15: "NOT_SUPPORTED", 16: "LICENSE_ERROR",
}  # fmt: skip


def prototypes(table: str) -> dict[str, tuple[str, ...]]:
    """The types of the parameters of each function, as C writes them."""
    declarations: list[tuple[str, str]] = re.findall(r"(\w+)\(([^)]*)\)", table)
    return {name: tuple(map(type_of, parameters.split(","))) for name, parameters in declarations}


def type_of(parameter: str) -> str:
    """``const void *`` for ``const void *srcHost``."""
    found = re.fullmatch(r"(.*?)\s*(\**)\s*\w+", " ".join(parameter.split()))
    assert found, parameter
    return f"{found[1]} {found[2]}".strip()


def ctype_of(text: str) -> Any:
    """What ctypes calls a type of C: anything that points is an address."""
    return _TYPES[text] if text in _TYPES or "*" not in text else ctypes.c_void_p


class Library:
    """Functions of C that raise CudaError where they return anything but 0. ``found`` is a ``ctypes.CDLL``,
    or has a method for each function, which is called through a C function of the same signature."""

    def __init__(self, table: str, found: Any, named: Callable[[int], str]) -> None:
        self._named = named
        self.raw: dict[str, Any] = {}  # the functions that give a status and raise nothing
        for name, types in prototypes(table).items():
            function = getattr(found, name, None)
            if function is None:
                raise CudaError(
                    f"the CUDA library that is installed has no {name}: jtorch needs CUDA 12.3 or newer"
                )
            arguments = tuple(map(ctype_of, types))
            if isinstance(found, ctypes.CDLL):
                function.argtypes, function.restype = arguments, ctypes.c_int
            else:
                function = ctypes.CFUNCTYPE(ctypes.c_int, *arguments)(function)
            self.raw[name] = function
            setattr(self, name, self._checked(name, function))
        _LIBRARIES.add(self)

    if TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any: ...

    def _checked(self, name: str, function: Any) -> Callable[..., None]:
        def call(*arguments: Any) -> None:
            status = function(*arguments)
            if status:
                raise self.error(name, status)

        return call

    def error(self, name: str, status: int) -> CudaError:
        """What a status of the function ``name`` other than 0 means."""
        return CudaError(f"{name}: {self._named(status)}", name, status)

    def refuse(self, reason: str) -> None:
        """Let each function raise from now on."""

        def refused(*arguments: Any) -> None:
            raise CudaError(reason)

        for name, value in list(vars(self).items()):
            if callable(value) and not name.startswith("_"):
                setattr(self, name, refused)


_LIBRARIES: weakref.WeakSet[Library] = weakref.WeakSet()

FORKED = (
    "Cannot re-initialize CUDA in forked subprocess. To use CUDA with multiprocessing, you must use the "
    "'spawn' start method"
)


def _refuse_in_child() -> None:
    for library in list(_LIBRARIES):
        library.refuse(FORKED)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_refuse_in_child)


def bind(found: Any) -> Library:
    """The functions of the driver, with its own names for what went wrong."""

    def text_of(function: Any, status: int) -> str:
        text = ctypes.c_char_p()
        function(status, ctypes.byref(text))
        return (text.value or b"").decode()

    def named(status: int) -> str:
        try:
            return f"{text_of(library.cuGetErrorName, status)} ({text_of(library.cuGetErrorString, status)})"
        except CudaError:
            return f"error {status}, which the driver has no name for"

    library = Library(LIBCUDA, found, named)
    return library


def bind_cublas(found: Any) -> Library:
    """The functions of cuBLAS."""

    def named(status: int) -> str:
        return f"CUBLAS_STATUS_{_CUBLAS_ERRORS[status]}" if status in _CUBLAS_ERRORS else f"error {status}"

    return Library(CUBLAS, found, named)


def load_driver() -> Library:
    """The driver of this machine. Raises CudaError where there is none."""
    found = _load("cuda", "libcuda.so.1")
    if found is None:
        raise CudaError(
            "no CUDA driver on this machine: libcuda.so.1, which comes with NVIDIA's driver, was not found"
        )
    return bind(found)


def load_cublas() -> Library:
    """The cuBLAS of this environment, or of the machine. Raises CudaError where there is none."""
    found = _load("cublas", "libcublas.so.13", "libcublas.so.12", "libcublas.so")
    if found is None:
        raise CudaError(
            "no cuBLAS on this machine, which computes products of matrices: pip install nvidia-cublas, or "
            "nvidia-cublas-cu12 for a driver of CUDA 12"
        )
    return bind_cublas(found)


def _load(name: str, *files: str) -> ctypes.CDLL | None:
    """A library as cuda-pathfinder finds it (in wheels, a toolkit, conda), else by what the loader knows."""
    try:
        from cuda import pathfinder

        path = pathfinder.load_nvidia_dynamic_lib(name).abs_path
        files = (path, *files) if path else files
    except (ImportError, AttributeError, RuntimeError, ValueError):
        pass  # not installed; or it has not found the library, or does not know it
    for file in files:
        try:
            return ctypes.CDLL(file)
        except OSError:
            continue
    return None
