"""The table of C functions: against NVIDIA's header, and what a call that fails says."""

from __future__ import annotations

import ctypes
import re
import subprocess
import sys
from importlib import metadata
from pathlib import Path

import numpy as np
import pytest

from jtorch.core.dtypes import BFLOAT16
from jtorch.core.errors import CudaError
from jtorch.cuda import properties
from jtorch.native.cuda import blas, device, driver, events, graph, memory
from tests.cuda.device import NAMES, FakeDevice

_WHEELS = {  # of NVIDIA's headers
    "cuda.h": "nvidia-cuda-runtime",
    "cublas_api.h": "nvidia-cublas",
    "library_types.h": "nvidia-cuda-runtime",
}


def header(name: str = "cuda.h") -> str:
    """A header without comments, from its wheel."""
    wheel = _WHEELS[name]
    for package in (wheel, f"{wheel}-cu12"):
        try:
            files = metadata.files(package) or []
        except metadata.PackageNotFoundError:
            continue
        for file in files:
            path = Path(str(file.locate()))
            if file.name == name and path.exists():
                return re.sub(r"/\*.*?\*/|//[^\n]*", "", path.read_text(), flags=re.S)
    pytest.skip(f"{name} is not installed (the wheel {wheel})")


def differences(table: str, text: str) -> list[str]:
    """What the header declares otherwise. Its macros say which symbol a name of the API stands for; what
    stands for none any more is declared once more at its end, for programs of before."""
    symbols, now = dict[str, str](), dict[str, str]()
    for name, symbol in re.findall(r"#define\s+(cu\w+)\s+(?:__CUDA_API_PT[DS]S?Z?\()?(cu\w+)\)?", text):
        symbols.setdefault(symbol, name)
        now.setdefault(name, symbol)
    found = []
    for symbol, types in driver.prototypes(table).items():
        name = symbols.get(symbol, symbol)
        declared = re.findall(
            rf"\b(?:CUresult\s+CUDAAPI|cublasStatus_t\s+CUBLASWINAPI)\s+{name}\s*\(([^)]*)\)", text
        )
        if not declared:
            found.append(f"{symbol}: not declared")
            continue
        is_old = now.get(name, symbol) != symbol
        theirs = tuple(driver.type_of(p) for p in declared[-1 if is_old else 0].split(","))
        if theirs != types:
            found.append(f"{symbol}: {types}, in the header {theirs}")
    return found


def test_the_table_is_what_the_header_declares():
    assert differences(driver.LIBCUDA, header()) == []


def test_the_table_of_cublas_is_what_its_header_declares():
    assert differences(driver.CUBLAS, header("cublas_api.h")) == []
    wrong = driver.CUBLAS.replace("int lda, long long int strideA", "int lda, int strideA")
    (found,) = differences(wrong, header("cublas_api.h"))
    assert found.startswith("cublasGemmStridedBatchedEx")


def test_a_symbol_of_before_is_not_mistaken_for_its_successor():
    of_before = (
        "cuStreamGetCaptureInfo(CUstream s, CUstreamCaptureStatus *captureStatus_out, cuuint64_t *id_out)"
    )
    assert differences(of_before, header()) == []
    (declared,) = re.findall(r"cuStreamGetCaptureInfo_v3(\([^)]*\))", driver.LIBCUDA)
    (found,) = differences("cuStreamGetCaptureInfo" + declared, header())
    assert found.startswith("cuStreamGetCaptureInfo: ")


_ATTRIBUTES = {  # of CUdevice_attribute, behind CU_DEVICE_ATTRIBUTE_
    "warp_size": "WARP_SIZE", "clock_rate": "CLOCK_RATE", "multi_processor_count": "MULTIPROCESSOR_COUNT",
    "is_integrated": "INTEGRATED", "pci_bus_id": "PCI_BUS_ID", "pci_device_id": "PCI_DEVICE_ID",
    "pci_domain_id": "PCI_DOMAIN_ID", "L2_cache_size": "L2_CACHE_SIZE",
    "max_threads_per_multi_processor": "MAX_THREADS_PER_MULTIPROCESSOR",
    "max_threads_per_block": "MAX_THREADS_PER_BLOCK",
    "shared_memory_per_block": "MAX_SHARED_MEMORY_PER_BLOCK",
    "shared_memory_per_multiprocessor": "MAX_SHARED_MEMORY_PER_MULTIPROCESSOR",
    "regs_per_multiprocessor": "MAX_REGISTERS_PER_MULTIPROCESSOR", "is_multi_gpu_board": "MULTI_GPU_BOARD",
    "shared_memory_per_block_optin": "MAX_SHARED_MEMORY_PER_BLOCK_OPTIN",
}  # fmt: skip

# number in the source, what it is called in C, and where
NUMBERS = {
    "cuda.h": {
        "CU_STREAM_NON_BLOCKING": device._NON_BLOCKING,
        "CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR": device._MAJOR,
        "CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR": device._MINOR,
        "CU_JIT_ERROR_LOG_BUFFER": device._ERROR_LOG,
        "CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES": device._ERROR_LOG_SIZE,
        "CU_STREAM_CAPTURE_MODE_RELAXED": graph._RELAXED,
        "CU_STREAM_SET_CAPTURE_DEPENDENCIES": graph._SET,
        "CU_EVENT_BLOCKING_SYNC": events._BLOCKING_SYNC,
        "CU_EVENT_DISABLE_TIMING": events._DISABLE_TIMING,
        "CUDA_ERROR_NOT_READY": events._NOT_READY,
        "CUDA_ERROR_OUT_OF_MEMORY": memory.OUT_OF_MEMORY,
        **{
            f"CU_DEVICE_ATTRIBUTE_{_ATTRIBUTES[name]}": number
            for name, number in properties._ATTRIBUTES.items()
        },
    },
    "cublas_api.h": {
        "CUBLAS_COMPUTE_32F": blas._KINDS[np.dtype(np.float32)][1],
        "CUBLAS_COMPUTE_64F": blas._KINDS[np.dtype(np.float64)][1],
        "CUBLAS_GEMM_DEFAULT": blas._DEFAULT_ALGORITHM,
        "CUBLAS_DEFAULT_MATH": 0,
        "CUBLAS_MATH_DISALLOW_REDUCED_PRECISION_REDUCTION": blas._WHOLE_SUMS,
        "CUBLAS_OP_N": 0,  # a bool is the number
        "CUBLAS_OP_T": 1,
        **{f"CUBLAS_STATUS_{name}": number for number, name in driver._CUBLAS_ERRORS.items()},
    },
    "library_types.h": {
        "CUDA_R_32F": blas._KINDS[np.dtype(np.float32)][0],
        "CUDA_R_64F": blas._KINDS[np.dtype(np.float64)][0],
        "CUDA_R_16F": blas._KINDS[np.dtype(np.float16)][0],
        "CUDA_R_16BF": blas._KINDS[BFLOAT16][0],
    },
}


@pytest.mark.parametrize("file", NUMBERS)
def test_numbers_are_those_of_the_header(file):
    text = header(file)
    for name, number in NUMBERS[file].items():
        (found,) = re.findall(rf"\b{name}\s*=\s*(-?\w+)", text)
        assert int(found, 0) == number, name


@pytest.mark.parametrize("name", ["CUDA_ERROR_" + name for name in NAMES.values()])
def test_statuses_of_the_tests_device_are_those_of_the_header(name):
    (found,) = re.findall(rf"\b{name}\s*=\s*(\d+)", header())
    assert NAMES[int(found)] == name.removeprefix("CUDA_ERROR_")


def test_the_symbols_are_exported_by_the_cublas_that_is_installed():
    try:
        found = driver.load_cublas()
    except CudaError as error:
        pytest.skip(str(error))
    assert found.raw.keys() == driver.prototypes(driver.CUBLAS).keys()


@pytest.mark.parametrize(
    ("right", "wrong"),
    [
        (
            "cuMemAlloc_v2(CUdeviceptr *dptr, size_t bytesize)",
            "cuMemAlloc_v2(CUdeviceptr *dptr, unsigned int n)",
        ),
        ("cuMemFree_v2(CUdeviceptr dptr)", "cuMemFree_v2(CUdevice dptr)"),
        ("cuGraphDestroy(CUgraph hGraph)", "cuGraphDestroys(CUgraph hGraph)"),
    ],
    ids=["width", "type", "name"],
)
def test_a_wrong_declaration_is_named(right, wrong):
    assert right in driver.LIBCUDA
    (found,) = differences(driver.LIBCUDA.replace(right, wrong), header())
    assert found.startswith(wrong.partition("(")[0])


def test_types_of_c_have_their_width():
    widths = {
        text: ctypes.sizeof(driver.ctype_of(text))
        for text in ("CUdeviceptr", "size_t", "CUdevice", "unsigned char")
    }
    assert widths == {"CUdeviceptr": 8, "size_t": 8, "CUdevice": 4, "unsigned char": 1}
    for types in driver.prototypes(driver.CUBLAS).values():
        assert all(ctypes.sizeof(driver.ctype_of(t)) == (8 if "*" in t or t in _EIGHT else 4) for t in types)


_EIGHT = {"cublasHandle_t", "cudaStream_t", "long long int", "size_t"}


def test_an_error_names_the_function_and_what_cuda_calls_it():
    cuda = driver.bind(FakeDevice())
    with pytest.raises(
        CudaError, match=r"^cuDeviceGet: CUDA_ERROR_NOT_INITIALIZED \(cuDeviceGet before cuInit\)$"
    ) as e:
        cuda.cuDeviceGet(ctypes.byref(ctypes.c_int()), 0)
    assert (e.value.function, e.value.status) == ("cuDeviceGet", 3)


def test_a_library_that_lacks_a_function_is_too_old():
    class Old(FakeDevice):
        cuStreamGetCaptureInfo_v3 = None  # noqa: N815 - its name

    with pytest.raises(CudaError, match=r"has no cuStreamGetCaptureInfo_v3: jtorch needs CUDA 12.3 or newer"):
        driver.bind(Old())


def test_a_machine_without_a_driver_is_told_in_one_sentence(monkeypatch):
    monkeypatch.setattr(driver, "_load", lambda *names: None)
    with pytest.raises(CudaError, match=r"no CUDA driver on this machine: libcuda.so.1, which comes with"):
        driver.load_driver()
    with pytest.raises(CudaError, match="no cuBLAS on this machine"):
        driver.load_cublas()


def test_libraries_are_looked_for_where_nvidia_puts_them():
    """Whatever this machine has, looking for what nobody has finds nothing, and raises nothing."""
    assert driver._load("no_such_library", "libno_such_library.so") is None


def test_importing_jtorch_binds_no_driver():
    program = (
        "import sys, jtorch\n"
        "import jtorch.compile.run.targets\n"
        "print(sorted(m for m in sys.modules if m.startswith(('jtorch.native.cuda', 'cuda'))))"
    )
    found = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout
    assert found.strip() == "[]"
