"""CUDA kernel source in, PTX out. Needs numba-cuda and libnvvm, but neither a driver nor a device.

The source's function becomes an inlined body; the kernel around it is written here in LLVM IR, in two forms:

    symbol(n0, x0, y0)       the arguments themselves
    symbol(table, phase)     row ``blockIdx.y`` of a table: one 8-byte word per argument, as in the CPU's
                             argument blocks, so that many steps are one launch

No contraction: libnvvm would fuse ``a * b + c`` into one rounding; then no result would equal the CPU's, and
the normal and exponential draws of ``philox`` would differ from eager's. Division and square root are
correctly rounded, denormals are kept.
"""

from __future__ import annotations

import functools
import importlib
import re
from dataclasses import dataclass
from typing import Any

import numpy as np

from jtorch.compile.codegen.cuda import CudaKernel
from jtorch.compile.codegen.cuda_launch import THREADS, Phase
from jtorch.native.build import KernelBuildError, symbol_name
from jtorch.native.intrinsics import POINTER_DTYPES

_OPTIONS = {"fastmath": False, "opt": 3, "fma": 0}
_VERSION = "8.0"  # of PTX: drivers from CUDA 12.0 on take it, and they refuse what NVVM writes, its own
_CC = (8, 0)  # a driver translates this for every device that is not older
_NUMBERED = re.compile(r"\b(?:_Z\w+|_cudapy_smem_\d+)")
_GLOBAL = 1  # NVVM's address space of device memory


def compile_ptx(kernel: CudaKernel, table: bool = False) -> str:
    """PTX of ``kernel`` with one entry, named ``entry_name(kernel, table)``, for all devices from 8.0 on.

    ``table`` makes it take ``(table: i64*, phase: i64)`` instead of the arguments themselves. The text is the
    same in every process. Raises KernelBuildError where numba-cuda cannot type or lower the source.
    """
    from numba.cuda.core.compiler_lock import global_compiler_lock

    symbol = entry_name(kernel, table)
    try:
        with global_compiler_lock:
            library = _library(kernel, symbol, table)
            (ptx,) = library.get_asm_strs(cc=_CC)
    except _numba_errors() as error:
        raise KernelBuildError(f"CUDA kernel {symbol}: numba-cuda cannot compile it.\n{error}") from error
    ptx = re.sub(r"^\.version .*$", f".version {_VERSION}", ptx, count=1, flags=re.M)
    # Numba's names count the functions compiled so far; these are the same in every process.
    numbered = sorted(set(_NUMBERED.findall(ptx)), key=ptx.index)
    names = {name: f"{symbol}_{k}" for k, name in enumerate(numbered)}
    return _NUMBERED.sub(lambda found: names[found.group()], ptx)


def entry_name(kernel: CudaKernel, table: bool = False) -> str:
    """The kernel's symbol: what it is, then what is in it."""
    return symbol_name(kernel.source, kernel.entry + ("_table" if table else ""))


def _library(kernel: CudaKernel, symbol: str, table: bool) -> Any:
    """The typed and lowered body with the kernel around it, not yet optimised."""
    namespace: dict[str, Any] = {"__name__": symbol}
    exec(compile(kernel.source, f"<{symbol}>", "exec"), namespace)
    known = _known_functions()
    namespace |= {n: known[v] for n, v in namespace.items() if callable(v) and v in known}
    kinds = namespace["ARGUMENTS"]
    result = _numba_cuda("compiler").compile_cuda(
        namespace[kernel.entry],
        _numba_cuda("types").void,
        [_numba_types()[k] for k in kinds],
        nvvm_options=dict(_OPTIONS),
        cc=_CC,
    )
    library = result.library
    body = library.get_function(result.fndesc.llvm_func_name)
    body.linkage = "internal"
    body.attributes.add("alwaysinline")
    for argument, kind in zip(body.args[1:], kinds, strict=True):
        if kind.endswith("*"):  # one parameter per piece of memory, unless it is only read
            argument.add_attribute("noalias")
    write = _table_kernel if table else _plain_kernel
    write(_Body(_target().target_context, body, result.fndesc, kernel.arguments, kinds), symbol)
    return library


@dataclass(frozen=True)
class _Body:
    """A lowered kernel body, to be called by the kernel around it."""

    context: Any
    function: Any
    fndesc: Any
    arguments: tuple[Any, ...]
    kinds: tuple[str, ...]

    def call(self, builder: Any, values: list[Any]) -> None:
        convention, fndesc = self.fndesc.call_conv, self.fndesc
        convention.call_function(builder, self.function, fndesc.restype, fndesc.argtypes, values)
        builder.ret_void()

    def value_type(self, kind: str) -> Any:
        return self.context.get_value_type(_numba_types()[kind])


def _plain_kernel(body: _Body, symbol: str) -> None:
    """``void symbol(arguments)``; a bool comes as a byte."""
    from llvmlite import ir

    given = [ir.IntType(8) if k == "bool" else body.value_type(k) for k in body.kinds]
    builder, arguments = _kernel(body.function.module, symbol, given)
    pairs = zip(arguments, body.kinds, strict=True)
    body.call(builder, [_truth(builder, a) if k == "bool" else a for a, k in pairs])


def _table_kernel(body: _Body, symbol: str) -> None:
    """``void symbol(int64* table, int64 phase)``"""
    from llvmlite import ir
    from numba.cuda import nvvmutils

    word = ir.IntType(64)
    builder, (table, phase) = _kernel(body.function.module, symbol, [word.as_pointer(), word])
    step = builder.zext(nvvmutils.call_sreg(builder, "ctaid.y"), word)
    row = builder.gep(table, [builder.mul(step, ir.Constant(word, len(body.kinds)))])
    values = [
        phase if isinstance(argument, Phase) else _unpack(builder, body.value_type(kind), row, k, kind)
        for k, (argument, kind) in enumerate(zip(body.arguments, body.kinds, strict=True))
    ]
    body.call(builder, values)


def _kernel(module: Any, symbol: str, types: list[Any]) -> tuple[Any, Any]:
    from llvmlite import ir

    nvvm = _numba_cuda("cudadrv.nvvm")
    function = ir.Function(module, ir.FunctionType(ir.VoidType(), types), symbol)
    nvvm.set_cuda_kernel(function)
    nvvm.set_launch_bounds(function, THREADS)
    return ir.IRBuilder(function.append_basic_block("entry")), function.args


def _unpack(builder: Any, wanted: Any, row: Any, index: int, kind: str) -> Any:
    """Word ``index`` of the row as a value of ``kind``, LLVM's type ``wanted``; floats are float64 bits."""
    from llvmlite import ir

    word = builder.load(builder.gep(row, [ir.Constant(ir.IntType(64), index)]))
    if kind.endswith("*"):  # said to be device memory, or NVVM would load with the slower generic ``ld``
        there = ir.PointerType(wanted.pointee, addrspace=_GLOBAL)
        return builder.addrspacecast(builder.inttoptr(word, there), wanted)
    if kind == "bool":
        return _truth(builder, word)
    if kind.startswith("f"):
        double = builder.bitcast(word, ir.DoubleType())
        return double if kind == "f64" else builder.fptrunc(double, wanted)
    return word if wanted.width == 64 else builder.trunc(word, wanted)


def _truth(builder: Any, value: Any) -> Any:
    from llvmlite import ir

    return builder.icmp_unsigned("!=", value, ir.Constant(value.type, 0))


def _numba_errors() -> tuple[type[Exception], ...]:
    """numba-cuda raises Numba's errors where Numba is installed, and its own copies of them."""
    from numba.core.errors import NumbaError

    return NumbaError, _numba_cuda("core.errors").NumbaError


@functools.cache
def _known_functions() -> dict[Any, Any]:
    """The functions that kernels use, as numba-cuda knows them; it has loaded them after this."""
    from jtorch.compile.codegen import cuda_names

    found = cuda_names.stand_ins()
    _target().typing_context.refresh()
    _target().target_context.refresh()
    return found


def _target() -> Any:
    return _numba_cuda("descriptor").cuda_target


def _numba_cuda(module: str) -> Any:
    """A module of numba-cuda: what they define at run time, type checkers do not see."""
    return importlib.import_module(f"numba.cuda.{module}")


@functools.cache
def _numba_types() -> dict[str, Any]:
    types, from_dtype = _numba_cuda("types"), _numba_cuda("np.numpy_support").from_dtype
    table = {kind: from_dtype(np.dtype(dtype)) for kind, dtype in POINTER_DTYPES.items()}
    pointers = {f"{kind}*": types.CPointer(dtype) for kind, dtype in table.items()}
    return table | pointers | {"bool*": types.CPointer(types.uint8)}  # the kernel's text says != 0
