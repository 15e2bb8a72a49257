"""Teaches Numba the names that generated kernels use: primitives, scalar math, pointers.

Numba would compile each helper function on its own, at 30 to 80 ms apiece. Instead a helper such as
`exp_f32` is *run* here, once per call site, on `LLVMValue`s: every operator and primitive appends
one LLVM instruction to the kernel under construction. That costs well under a millisecond, and a
body that would mix float32 with float64 raises instead of being promoted silently.

Importing this module imports Numba, so only code that is about to compile imports it.
"""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable
from typing import Any

import numpy as np
from llvmlite import ir
from numba.core import cgutils, types
from numba.core.datamodel.models import PointerModel, register_default
from numba.core.errors import TypingError
from numba.core.imputils import lower_builtin
from numba.core.typing.templates import AbstractTemplate, infer_global, signature
from numba.np.numpy_support import from_dtype

from jtorch.core import philox
from jtorch.native import exact, halves, vecmath
from jtorch.native.intrinsics import POINTER_DTYPES, POINTERS, PRIMITIVES, STACKS
from jtorch.native.llvm_values import LLVM_TYPES, SCOPES, LLVMValue, mark_scope

_KINDS: dict[types.Type, str] = {
    types.float32: "f32", types.float64: "f64", types.int8: "i8", types.int16: "i16",
    types.int32: "i32", types.int64: "i64", types.uint8: "u8", types.uint16: "u16",
    types.uint32: "u32", types.uint64: "u64", types.boolean: "b1",
}  # fmt: skip
_TYPES = {kind: numba_type for numba_type, kind in _KINDS.items()}

# --- pointers ------------------------------------------------------------------------------------


class ScopedPointer(types.CPointer):
    """A pointer type that carries the number of its alias scope.

    Each load and store through it is marked with its own scope and as "aliases no other scope".
    Without scopes LLVM guards the vector loop with run-time overlap checks, a number quadratic in
    the pointers (measured with 16: 400 against 310 ns per call on 32 elements, 146 against 107 ms
    to compile), and above a limit it leaves the loop scalar. Numbers are per kernel: pointers that
    may overlap share one.
    """

    def __init__(self, dtype: types.Type, scope: int) -> None:
        super().__init__(dtype)
        self.scope = scope
        self.name = f"{dtype}*scope{scope}"

    @property
    def key(self) -> Any:
        return self.dtype, self.scope


def _element_address(builder: ir.IRBuilder, sig: Any, args: Any) -> ir.Value:
    pointer, index = args[:2]
    index_type = sig.args[1]
    if index_type.bitwidth < 64:
        index = (builder.sext if index_type.signed else builder.zext)(index, ir.IntType(64))
    return builder.gep(pointer, [index], inbounds=True)


def _load(context: Any, builder: ir.IRBuilder, sig: Any, args: Any) -> ir.Value:
    pointer_type = sig.args[0]
    loaded = builder.load(_element_address(builder, sig, args))
    mark_scope(builder, pointer_type.scope, loaded)
    return context.data_model_manager[pointer_type.dtype].from_data(builder, loaded)


def _store(context: Any, builder: ir.IRBuilder, sig: Any, args: Any) -> None:
    pointer_type, _, value_type = sig.args
    value = context.cast(builder, args[2], value_type, pointer_type.dtype)
    data = context.data_model_manager[pointer_type.dtype].as_data(builder, value)
    mark_scope(builder, pointer_type.scope, builder.store(data, _element_address(builder, sig, args)))


def _register_pointers() -> None:
    register_default(ScopedPointer)(PointerModel)
    lower_builtin(operator.getitem, ScopedPointer, types.Integer)(_load)
    lower_builtin(operator.setitem, ScopedPointer, types.Integer, types.Any)(_store)
    for suffix, dtype in POINTER_DTYPES.items():
        _register_as_pointer(POINTERS[suffix], from_dtype(np.dtype(dtype)))


def _register_as_pointer(function: Callable[..., Any], dtype: types.Type) -> None:
    def result(args: tuple[types.Type, ...]) -> types.Type:
        if not args or not isinstance(args[0], types.Integer):
            raise TypingError(f"{function.__name__} takes an int64 address")
        if len(args) == 1:
            return ScopedPointer(dtype, -1)
        if not isinstance(args[1], types.IntegerLiteral) or not 0 <= args[1].literal_value < SCOPES:
            raise TypingError(f"the scope of {function.__name__} is a literal from 0 to {SCOPES - 1}")
        return ScopedPointer(dtype, args[1].literal_value)

    def lower(context: Any, builder: ir.IRBuilder, sig: Any, args: Any) -> ir.Value:
        return builder.inttoptr(args[0], context.get_value_type(sig.return_type))

    _register(function, result, lower, literal=True)


def _register_stack(function: Callable[..., Any], dtype: types.Type) -> None:
    def result(args: tuple[types.Type, ...]) -> types.Type:
        if len(args) != 1 or not isinstance(args[0], types.IntegerLiteral):
            raise TypingError(f"{function.__name__} takes a literal number of items")
        return types.CPointer(dtype)

    def lower(context: Any, builder: ir.IRBuilder, sig: Any, args: Any) -> ir.Value:
        items = ir.ArrayType(context.get_data_type(dtype), sig.args[0].literal_value)
        memory = cgutils.alloca_once(builder, items)  # in the entry block: once per call of the kernel
        memory.align = 64  # a cache line: a vector across two of them costs twice
        return builder.bitcast(memory, context.get_value_type(sig.return_type))

    _register(function, result, lower, literal=True)


# --- registration --------------------------------------------------------------------------------


def _register(function: Callable[..., Any], result: Any, lower: Any, literal: bool = False) -> None:
    """Make `function` known to Numba: `result(argument types)` types a call, `lower` emits it."""

    def generic(self: Any, args: tuple[types.Type, ...], kws: dict[str, types.Type]) -> Any:
        if kws:
            raise TypingError(f"{function.__name__} takes positional arguments only")
        return signature(result(args), *args)

    namespace = {"key": function, "generic": generic, "prefer_literal": literal}
    template = type(f"Template_{function.__name__}", (AbstractTemplate,), namespace)
    infer_global(function, types.Function(template))
    for count in range(1, 5):
        lower_builtin(function, *[types.Any] * count)(lower)


def _register_math(function: Callable[..., Any]) -> None:
    @functools.cache
    def result_of(kinds: tuple[str, ...]) -> types.Type:
        scratch = ir.Function(
            ir.Module(), ir.FunctionType(ir.VoidType(), [LLVM_TYPES[k] for k in kinds]), "scratch"
        )
        builder = ir.IRBuilder(scratch.append_basic_block())
        values = [LLVMValue(builder, kind, arg) for kind, arg in zip(kinds, scratch.args, strict=True)]
        outcome = function(*values)
        if isinstance(outcome, tuple):
            return types.UniTuple(_TYPES[outcome[0].kind], len(outcome))
        return _TYPES[outcome.kind]

    def result(args: tuple[types.Type, ...]) -> types.Type:
        kinds = tuple(_KINDS.get(types.unliteral(arg), "") for arg in args)
        try:
            if "" in kinds:
                raise TypeError("every argument must be a real number or a bool")
            return result_of(kinds)
        except TypeError as error:
            given = ", ".join(str(arg) for arg in args)
            raise TypingError(f"{function.__name__}({given}): {error}") from error

    def lower(context: Any, builder: ir.IRBuilder, sig: Any, args: Any) -> ir.Value:
        kinds = [_KINDS[types.unliteral(arg)] for arg in sig.args]
        values = [LLVMValue(builder, kind, arg) for kind, arg in zip(kinds, args, strict=True)]
        outcome = function(*values)
        if isinstance(outcome, tuple):
            return context.make_tuple(builder, sig.return_type, [item.value for item in outcome])
        return outcome.value

    _register(function, result, lower)


@functools.cache
def register() -> None:
    """Make Numba know every primitive, pointer, math function and generator; idempotent."""
    _register_pointers()
    for name, function in STACKS.items():
        _register_stack(function, _TYPES[name.removeprefix("stack_")])
    for table in (PRIMITIVES, exact.FUNCTIONS, halves.FUNCTIONS, vecmath.FUNCTIONS, philox.KERNEL_FUNCTIONS):
        for function in table.values():
            _register_math(function)
