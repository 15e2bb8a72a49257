"""Teaches numba-cuda the names that generated kernels use: primitives, scalar math, random numbers.

The texts are those of the CPU (`vecmath`, `philox`): each call runs the helper on symbolic values, which
write LLVM instructions into the kernel. With contraction off (`cuda_build`) a CUDA kernel so rounds exactly
where the CPU's kernel does.

Importing this module imports numba-cuda, so only code that is about to compile for CUDA imports it.
"""

from __future__ import annotations

import functools
import hashlib
from collections.abc import Callable
from typing import Any

import numpy as np
from llvmlite import ir
from numba import cuda
from numba.cuda.core.errors import TypingError
from numba.cuda.cudadecl import registry as typing_registry
from numba.cuda.cudaimpl import registry as lowering_registry
from numba.cuda.typing.templates import AbstractTemplate, signature

from jtorch.core import philox
from jtorch.native import exact, halves, vecmath
from jtorch.native.intrinsics import PRIMITIVES
from jtorch.native.llvm_values import LLVM_TYPES, LLVMValue

types: Any = cuda.types
_KINDS: dict[Any, str] = {
    types.float32: "f32", types.float64: "f64", types.int8: "i8", types.int16: "i16",
    types.int32: "i32", types.int64: "i64", types.uint8: "u8", types.uint16: "u16",
    types.uint32: "u32", types.uint64: "u64", types.boolean: "b1",
}  # fmt: skip
_TYPES = {kind: numba_type for numba_type, kind in _KINDS.items()}
_GLOBAL = 1  # NVVM's address space of device memory


class CudaValue(LLVMValue):
    """A symbolic value that writes what NVVM accepts where that differs from the CPU's LLVM."""

    __slots__ = ()

    def of(self, kind: str, value: ir.Value) -> CudaValue:
        return CudaValue(self.builder, kind, value)

    def __neg__(self) -> CudaValue:
        if self.kind[0] != "f":
            return self.of(self.kind, self.builder.neg(self.value))
        zero = ir.Constant(self.value.type, -0.0)  # libnvvm's dialect is older than ``fneg``
        return self.of(self.kind, self.builder.fsub(zero, self.value))

    def emit(self, name: str, args: tuple[Any, ...]) -> Any:
        emitter = _EMITTERS.get(name)
        if emitter is None:
            return super().emit(name, args)
        return emitter(*[self.lift(a) for a in args])


def _libdevice(name: str) -> Callable[..., CudaValue]:
    """A primitive that is a function of NVIDIA's libdevice: ``__nv_rintf`` for float32, ``__nv_rint`` for
    float64."""

    def emitter(*args: CudaValue) -> CudaValue:
        first = args[0]
        for other in args[1:]:
            if other.kind != first.kind:
                raise TypeError(f"{name} mixes {first.kind} and {other.kind}")
        if first.kind not in ("f32", "f64"):
            raise TypeError(f"{name} is not defined for {first.kind}")
        full_name = f"__nv_{name}{'f' if first.kind == 'f32' else ''}"
        module, llvm_type = first.builder.module, LLVM_TYPES[first.kind]
        function = module.globals.get(full_name)
        if function is None:
            function = ir.Function(module, ir.FunctionType(llvm_type, [llvm_type] * len(args)), full_name)
        return first.of(first.kind, first.builder.call(function, [a.value for a in args]))

    return emitter


def _extreme(larger: bool) -> Callable[[Any, Any], CudaValue]:
    """NaN if either is NaN; of two zeros the one that no order of combining could change: +0.0 as the
    larger, -0.0 as the smaller. So the AND (the OR) of the bits decides between equal values."""

    def emitter(a: Any, b: Any) -> CudaValue:
        builder, wide = a.builder, LLVM_TYPES["i" + a.kind[1:]]
        x, y = (builder.bitcast(v.value, wide) for v in (a, b))
        bits = builder.and_(x, y) if larger else builder.or_(x, y)
        tie = a.of(a.kind, builder.bitcast(bits, LLVM_TYPES[a.kind]))
        best = ((a > b) if larger else (a < b)).where(a, b)
        best = (a == b).where(tie, best)
        best = (b != b).where(b, best)
        return (a != a).where(a, best)

    return emitter


def _in_order(sign: str) -> Callable[[Any, Any], CudaValue]:
    """Each thread accumulates in order; what is reordered, the kernel's text says."""

    def emitter(a: Any, b: Any) -> CudaValue:
        return a + b if sign == "+" else a * b

    return emitter


def _lookup(table: np.ndarray, index: CudaValue) -> CudaValue:
    """A constant table lies in device memory, which NVVM wants said by the address space."""
    builder, module = index.builder, index.builder.module
    array_type = ir.ArrayType(LLVM_TYPES["f64"], len(table))
    name = f"jtorch_table_{hashlib.sha256(table.tobytes()).hexdigest()[:16]}"
    variable = module.globals.get(name)
    if variable is None:
        variable = ir.GlobalVariable(module, array_type, name, addrspace=_GLOBAL)
        variable.linkage, variable.global_constant = "internal", True
        values = [ir.Constant(LLVM_TYPES["f64"], float(v)) for v in table]
        variable.initializer = ir.Constant(array_type, values)
    place = builder.gep(variable, [ir.Constant(LLVM_TYPES["i64"], 0), index.value], inbounds=True)
    return index.of("f64", builder.load(place))


_EMITTERS: dict[str, Callable[..., Any]] = {
    "rint": _libdevice("rint"), "floor": _libdevice("floor"), "ceil": _libdevice("ceil"),
    "trunc": _libdevice("trunc"), "fabs": _libdevice("fabs"), "copysign": _libdevice("copysign"),
    "fmod": _libdevice("fmod"), "sqrt": _libdevice("sqrt"), "fma": _libdevice("fma"),
    "max_reassoc": _extreme(True), "min_reassoc": _extreme(False),
    "add_reassoc": _in_order("+"), "mul_reassoc": _in_order("*"), "lookup": _lookup,
}  # fmt: skip


def _register(function: Callable[..., Any], result: Callable[..., Any], lower: Callable[..., Any]) -> Any:
    """A stand-in for ``function`` that numba-cuda knows: ``result(argument types)`` types a call, ``lower``
    writes it.

    A stand-in, because numba-cuda looks into Numba's own tables too: once a CPU kernel was compiled it would
    find ``function`` there, with LLVM instructions that NVVM rejects.
    """

    @functools.wraps(function)
    def stand_in(*args: Any) -> Any:
        return function(*args)

    def generic(self: Any, args: tuple[Any, ...], kws: dict[str, Any]) -> Any:
        if kws:
            raise TypingError(f"{function.__name__} takes positional arguments only")
        return signature(result(args), *args)

    namespace = {"key": stand_in, "generic": generic}
    template = type(f"Template_{function.__name__}", (AbstractTemplate,), namespace)
    typing_registry.register_global(stand_in, types.Function(template))
    for count in range(1, 5):
        lowering_registry.lower(stand_in, *[types.Any] * count)(lower)
    return stand_in


def _stand_in(function: Callable[..., Any]) -> Any:
    @functools.cache
    def result_of(kinds: tuple[str, ...]) -> Any:
        """The type of a call, found by writing it into a function that nobody compiles."""
        llvm_types = [LLVM_TYPES[k] for k in kinds]
        scratch = ir.Function(ir.Module(), ir.FunctionType(ir.VoidType(), llvm_types), "scratch")
        builder = ir.IRBuilder(scratch.append_basic_block())
        outcome = function(*(CudaValue(builder, k, a) for k, a in zip(kinds, scratch.args, strict=True)))
        if isinstance(outcome, tuple):
            return types.UniTuple(_TYPES[outcome[0].kind], len(outcome))
        return _TYPES[outcome.kind]

    def result(args: tuple[Any, ...]) -> Any:
        kinds = tuple(_KINDS.get(types.unliteral(a), "") for a in args)
        given = ", ".join(map(str, args))
        if "" in kinds:
            raise TypingError(f"{function.__name__}({given}): every argument must be a real number or a bool")
        try:
            return result_of(kinds)
        except TypeError as error:
            raise TypingError(f"{function.__name__}({given}): {error}") from error

    def lower(context: Any, builder: ir.IRBuilder, sig: Any, args: Any) -> ir.Value:
        kinds = [_KINDS[types.unliteral(a)] for a in sig.args]
        outcome = function(*(CudaValue(builder, k, a) for k, a in zip(kinds, args, strict=True)))
        if isinstance(outcome, tuple):
            return context.make_tuple(builder, sig.return_type, [item.value for item in outcome])
        return outcome.value

    return _register(function, result, lower)


@functools.cache
def stand_ins() -> dict[Callable[..., Any], Callable[..., Any]]:
    """What a kernel's module must have in place of every primitive, math function and generator."""
    tables = (PRIMITIVES, exact.FUNCTIONS, halves.FUNCTIONS, vecmath.FUNCTIONS, philox.KERNEL_FUNCTIONS)
    return {f: _stand_in(f) for f in dict.fromkeys(f for table in tables for f in table.values())}
