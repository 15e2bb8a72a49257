"""Symbolic values that write LLVM IR: the compiler's half of the primitives.

Running `exp_f32` on an `LLVMValue` appends its instructions to the kernel under construction. Every
operation wants one kind of number on both sides, so a double that sneaks into float32 code is an
error here.
"""

from __future__ import annotations

import hashlib
import weakref
from collections.abc import Callable
from typing import Any

import numpy as np
from llvmlite import ir

from jtorch.native.intrinsics import Symbolic

_FLOATS: dict[str, ir.Type] = {"f32": ir.FloatType(), "f64": ir.DoubleType()}
LLVM_TYPES: dict[str, ir.Type] = _FLOATS | {
    kind: ir.IntType(int(kind[1:])) for kind in ("i8", "i16", "i32", "i64", "u8", "u16", "u32", "u64", "b1")
}
_CONSTANT_KINDS: dict[type, str] = {
    np.float32: "f32", np.float64: "f64", np.int32: "i32", np.int64: "i64", np.uint32: "u32",
    np.uint64: "u64", np.bool_: "b1",
}  # fmt: skip


class LLVMValue(Symbolic):
    """One LLVM value of a kernel under construction, with its kind ("f32", "u64", "b1", ...)."""

    __slots__ = ("builder", "kind", "value")

    def __init__(self, builder: ir.IRBuilder, kind: str, value: ir.Value) -> None:
        self.builder, self.kind, self.value = builder, kind, value

    def of(self, kind: str, value: ir.Value) -> LLVMValue:
        return LLVMValue(self.builder, kind, value)

    def lift(self, other: Any) -> Any:
        """`other` as a value: a NumPy scalar becomes a constant of its own dtype."""
        if isinstance(other, (LLVMValue, np.ndarray)):  # an array is the constant table of `lookup`
            return other
        kind = _CONSTANT_KINDS.get(type(other))
        if kind is None:
            raise TypeError(
                f"a literal in kernel math must be a NumPy scalar such as np.float32(2.0), "
                f"not {other!r} of type {type(other).__name__}"
            )
        return self.of(kind, ir.Constant(LLVM_TYPES[kind], other.item()))

    # The four methods of NumPy values that `jtorch.core.philox` uses
    def astype(self, dtype: type) -> LLVMValue:
        return self.of(_CONSTANT_KINDS[dtype], converted(self, _CONSTANT_KINDS[dtype]))

    def view(self, dtype: type) -> LLVMValue:
        kind = _CONSTANT_KINDS[dtype]
        return self.of(kind, self.builder.bitcast(self.value, LLVM_TYPES[kind]))

    def where(self, a: Any, b: Any) -> LLVMValue:
        return self.emit("select", (self, a, b))

    def sqrt(self) -> LLVMValue:
        return self.emit("sqrt", (self,))

    def __neg__(self) -> LLVMValue:
        op = self.builder.fneg if self.kind[0] == "f" else self.builder.neg
        return self.of(self.kind, op(self.value))

    def __invert__(self) -> LLVMValue:
        return self.of(self.kind, self.builder.not_(self.value))

    def __bool__(self) -> bool:
        raise TypeError("kernel math has no branches: use select(condition, a, b), and & | ~ on conditions")

    def emit(self, name: str, args: tuple[Any, ...]) -> LLVMValue:
        emitter = _EMITTERS.get(name)
        if emitter is None:
            raise TypeError(f"the primitive {name} has no LLVM form")
        return emitter(*[self.lift(arg) for arg in args])


def _same_kind(name: str, a: LLVMValue, b: LLVMValue) -> str:
    if a.kind != b.kind:
        raise TypeError(f"{name} mixes {a.kind} and {b.kind}; convert one of them with to_{a.kind}(...)")
    return a.kind


def _arithmetic(name: str, float_op: str, signed_op: str, unsigned_op: str, reflected: bool) -> Any:
    def method(self: LLVMValue, other: Any) -> LLVMValue:
        a, b = self, self.lift(other)
        if reflected:
            a, b = b, a
        kind = _same_kind(name, a, b)
        op = float_op if kind[0] == "f" else signed_op if kind[0] == "i" else unsigned_op
        if not op:
            raise TypeError(f"{name} is not defined for {kind}")
        return a.of(kind, getattr(a.builder, op)(a.value, b.value))

    return method


def _comparison(symbol: str) -> Any:
    def method(self: LLVMValue, other: Any) -> LLVMValue:
        b = self.lift(other)
        kind, builder = _same_kind(symbol, self, b), self.builder
        if kind[0] == "f":  # NaN compares false, except under !=
            compare = builder.fcmp_unordered if symbol == "!=" else builder.fcmp_ordered
        else:
            compare = builder.icmp_signed if kind[0] == "i" else builder.icmp_unsigned
        return self.of("b1", compare(symbol, self.value, b.value))

    return method


for _name, _ops in {
    "add": ("fadd", "add", "add"), "sub": ("fsub", "sub", "sub"), "mul": ("fmul", "mul", "mul"),
    "truediv": ("fdiv", "", ""), "and": ("", "and_", "and_"), "or": ("", "or_", "or_"),
    "xor": ("", "xor", "xor"), "lshift": ("", "shl", "shl"), "rshift": ("", "ashr", "lshr"),
}.items():  # fmt: skip
    setattr(LLVMValue, f"__{_name}__", _arithmetic(_name, *_ops, reflected=False))
    setattr(LLVMValue, f"__r{_name}__", _arithmetic(_name, *_ops, reflected=True))
_SYMBOLS = {"lt": "<", "le": "<=", "gt": ">", "ge": ">=", "eq": "==", "ne": "!="}
for _name, _symbol in _SYMBOLS.items():
    setattr(LLVMValue, f"__{_name}__", _comparison(_symbol))


# --- primitives ----------------------------------------------------------------------------------


def _call(llvm_name: str, kinds: str = "f") -> Callable[..., LLVMValue]:
    """A primitive that is one LLVM intrinsic over arguments of one kind."""

    def emitter(*args: LLVMValue) -> LLVMValue:
        first = args[0]
        for other in args[1:]:
            _same_kind(llvm_name, first, other)
        if first.kind[0] not in kinds:
            raise TypeError(f"{llvm_name} is not defined for {first.kind}")
        llvm_type = LLVM_TYPES[first.kind]
        fnty = ir.FunctionType(llvm_type, [llvm_type] * len(args))
        function = first.builder.module.declare_intrinsic(llvm_name, [llvm_type], fnty)
        return first.of(first.kind, first.builder.call(function, [arg.value for arg in args]))

    return emitter


def _bitcast(source: str, target: str) -> Callable[[LLVMValue], LLVMValue]:
    def emitter(x: LLVMValue) -> LLVMValue:
        if x.kind != source:
            raise TypeError(f"a bit cast to {target} takes {source}, not {x.kind}")
        return x.of(target, x.builder.bitcast(x.value, LLVM_TYPES[target]))

    return emitter


def _convert(target: str) -> Callable[[LLVMValue], LLVMValue]:
    return lambda x: x.of(target, converted(x, target))


def converted(x: LLVMValue, target: str) -> ir.Value:
    builder, llvm_type = x.builder, LLVM_TYPES[target]
    if x.kind == target:
        return x.value
    if x.kind[0] == "f" and target[0] == "f":
        return (builder.fpext if target == "f64" else builder.fptrunc)(x.value, llvm_type)
    if x.kind[0] == "f":
        return (builder.fptosi if target[0] == "i" else builder.fptoui)(x.value, llvm_type)
    if target[0] == "f":
        return (builder.sitofp if x.kind[0] == "i" else builder.uitofp)(x.value, llvm_type)
    if int(x.kind[1:]) > int(target[1:]):
        return builder.trunc(x.value, llvm_type)
    if int(x.kind[1:]) == int(target[1:]):
        return x.value
    return (builder.sext if x.kind[0] == "i" else builder.zext)(x.value, llvm_type)


def _select(condition: LLVMValue, a: LLVMValue, b: LLVMValue) -> LLVMValue:
    kind = _same_kind("select", a, b)
    if condition.kind != "b1":
        raise TypeError(f"select takes a condition, not {condition.kind}")
    return a.of(kind, a.builder.select(condition.value, a.value, b.value))


def _reassociated(op: str) -> Callable[[LLVMValue, LLVMValue], LLVMValue]:
    def emitter(a: LLVMValue, b: LLVMValue) -> LLVMValue:
        kind = _same_kind(op, a, b)
        if kind[0] == "f":
            return a.of(kind, getattr(a.builder, "f" + op)(a.value, b.value, flags=("reassoc",)))
        return a.of(kind, getattr(a.builder, op)(a.value, b.value))

    return emitter


def _extremum(symbol: str) -> Callable[[LLVMValue, LLVMValue], LLVMValue]:
    """Compares and selects: x86 has the first pair as one instruction; llvm.maximum takes seven."""

    def emitter(a: LLVMValue, b: LLVMValue) -> LLVMValue:
        larger = _select(_comparison(symbol)(a, b), a, b)
        return _select(_comparison("!=")(a, a), a, larger)

    return emitter


def _fmod(x: LLVMValue, y: LLVMValue) -> LLVMValue:
    return x.of(_same_kind("fmod", x, y), x.builder.frem(x.value, y.value))


def _mulhi_u64(a: LLVMValue, b: LLVMValue) -> LLVMValue:
    if a.kind != "u64" or b.kind != "u64":
        raise TypeError(f"mulhi_u64 takes two u64, not {a.kind} and {b.kind}")
    wide, builder = ir.IntType(128), a.builder
    product = builder.mul(builder.zext(a.value, wide), builder.zext(b.value, wide))
    return a.of("u64", builder.trunc(builder.lshr(product, ir.Constant(wide, 64)), LLVM_TYPES["u64"]))


def _lookup(table: np.ndarray, index: LLVMValue) -> LLVMValue:
    if index.kind != "i64":
        raise TypeError(f"lookup takes an i64 index, not {index.kind}")
    builder, module = index.builder, index.builder.module
    array_type = ir.ArrayType(LLVM_TYPES["f64"], len(table))
    name = f"jtorch.table.{hashlib.sha256(table.tobytes()).hexdigest()[:16]}"
    variable = module.globals.get(name)
    if variable is None:
        variable = ir.GlobalVariable(module, array_type, name)
        variable.linkage, variable.global_constant = "internal", True
        variable.initializer = ir.Constant(
            array_type, [ir.Constant(LLVM_TYPES["f64"], float(v)) for v in table]
        )
    zero = ir.Constant(LLVM_TYPES["i64"], 0)
    loaded = builder.load(builder.gep(variable, [zero, index.value], inbounds=True))
    mark_scope(builder, TABLE_SCOPE, loaded)  # else the vectoriser fears that stores reach the table
    return index.of("f64", loaded)


_EMITTERS: dict[str, Callable[..., LLVMValue]] = {
    "bits_i32": _bitcast("f32", "i32"), "float_from_i32": _bitcast("i32", "f32"),
    "bits_i64": _bitcast("f64", "i64"), "float_from_i64": _bitcast("i64", "f64"),
    "to_f32": _convert("f32"), "to_f64": _convert("f64"), "to_i32": _convert("i32"),
    "to_i64": _convert("i64"), "to_u16": _convert("u16"), "to_u32": _convert("u32"),
    "to_u64": _convert("u64"),
    "fma": _call("llvm.fma"), "rint": _call("llvm.roundeven"), "floor": _call("llvm.floor"),
    "ceil": _call("llvm.ceil"), "trunc": _call("llvm.trunc"), "sqrt": _call("llvm.sqrt"),
    "fabs": _call("llvm.fabs"), "copysign": _call("llvm.copysign"),
    "maximum": _extremum(">"), "minimum": _extremum("<"),
    "max_reassoc": _call("llvm.maximum"), "min_reassoc": _call("llvm.minimum"),
    "add_reassoc": _reassociated("add"), "mul_reassoc": _reassociated("mul"),
    "fmod": _fmod, "select": _select, "mulhi_u64": _mulhi_u64, "lookup": _lookup,
}  # fmt: skip

# --- alias scopes --------------------------------------------------------------------------------

SCOPES = 64  # highest number of distinct pointers in one kernel
TABLE_SCOPE = SCOPES  # one more for constant tables
_SCOPE_MARKS: weakref.WeakKeyDictionary[ir.Module, dict[int, Any]] = weakref.WeakKeyDictionary()


def mark_scope(builder: ir.IRBuilder, scope: int, instruction: ir.Instruction) -> None:
    """Mark a load or store as reaching `scope` and no other; no scope (-1) leaves it unmarked."""
    if scope < 0:
        return
    marks = _SCOPE_MARKS.setdefault(builder.module, {})
    if scope not in marks:
        module = builder.module
        domain = module.add_metadata(["jtorch kernel"])
        scopes = [module.add_metadata([f"jtorch pointer {k}", domain]) for k in range(SCOPES + 1)]
        others = module.add_metadata(scopes[:scope] + scopes[scope + 1 :])
        marks[scope] = module.add_metadata([scopes[scope]]), others
    own, others = marks[scope]
    instruction.set_metadata("alias.scope", own)
    instruction.set_metadata("noalias", others)
