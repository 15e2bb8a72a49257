"""The numbers of a kernel's text as LLVM instructions: see ``front_end.py``, which writes its statements."""

from __future__ import annotations

import ast
import builtins
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from llvmlite import ir

from jtorch.core import philox
from jtorch.native import exact, halves, vecmath
from jtorch.native.intrinsics import PRIMITIVES, STACKS
from jtorch.native.llvm_values import LLVM_TYPES, LLVMValue, converted

I64 = LLVM_TYPES["i64"]
_MATH = {
    id(function): function
    for table in (PRIMITIVES, exact.FUNCTIONS, halves.FUNCTIONS, vecmath.FUNCTIONS, philox.KERNEL_FUNCTIONS)
    for function in table.values()
}
_STACK_KINDS = {id(function): name.removeprefix("stack_") for name, function in STACKS.items()}
_CASTS: dict[Any, str] = {
    np.float32: "f32", np.float64: "f64", np.int8: "i8", np.int16: "i16", np.int32: "i32", np.int64: "i64",
    np.uint8: "u8", np.uint16: "u16", np.uint32: "u32", np.uint64: "u64", bool: "b1",
}  # fmt: skip
_CONSTANTS: dict[type, str] = {
    cls: kind for cls, kind in _CASTS.items() if cls is not bool
} | {bool: "b1", int: "i64", float: "f64", np.bool_: "b1"}  # fmt: skip
SIGNED = ("i8", "i16", "i32", "i64", "u8", "u16", "u32")  # what int64 holds
_FLOAT_OPERATIONS = {ast.Add: "fadd", ast.Sub: "fsub", ast.Mult: "fmul", ast.Div: "fdiv"}
_INT_OPERATIONS = {
    ast.Add: "add", ast.Sub: "sub", ast.Mult: "mul", ast.BitAnd: "and_", ast.BitOr: "or_", ast.BitXor: "xor",
    ast.LShift: "shl", ast.RShift: "ashr",
}  # fmt: skip
_BIT_OPERATIONS = {ast.BitAnd: "and_", ast.BitOr: "or_", ast.BitXor: "xor"}
_COMPARISONS: dict[type[ast.cmpop], str] = {
    ast.Lt: "<", ast.LtE: "<=", ast.Gt: ">", ast.GtE: ">=", ast.Eq: "==", ast.NotEq: "!=",
}  # fmt: skip


class UnwrittenError(Exception):
    """The text holds what is not written here, and what Numba may compile."""


class Pointer:
    """Memory that the kernel was given, or its own on the stack."""

    def __init__(self, kind: str, value: ir.Value) -> None:
        self.kind, self.value = kind, value


class Expressions:
    """A function under construction: what gives values. ``names`` are the globals of the text."""

    def __init__(self, function: ir.Function, names: Mapping[str, Any]) -> None:
        self.function, self.names = function, names
        self._entry = function.append_basic_block("entry")
        self.start = function.append_basic_block("start")
        self.places = ir.IRBuilder(self._entry)  # writes what lies on the stack, once per call
        self.builder = ir.IRBuilder(self.start)
        self.locals: dict[str, tuple[str, ir.Value]] = {}
        self.pointers: dict[str, Pointer] = {}

    def blocks(self, *names: str) -> list[ir.Block]:
        return [self.function.append_basic_block(name) for name in names]

    def any(self, expression: ast.expr) -> Any:
        """A number, several of them, or memory."""
        write: Callable[[Any], Any] | None = getattr(
            self, f"_value_of_{type(expression).__name__.lower()}", None
        )
        if write is None:
            raise UnwrittenError(ast.unparse(expression))
        return write(expression)

    def value(self, expression: ast.expr) -> LLVMValue:
        value = self.any(expression)
        if not isinstance(value, LLVMValue):
            raise UnwrittenError(f"{ast.unparse(expression)} is no number")
        return value

    def integer(self, value: LLVMValue, expression: ast.expr) -> LLVMValue:
        """As int64."""
        if value.kind not in SIGNED:
            raise UnwrittenError(f"{ast.unparse(expression)} is {value.kind}")
        return value.of("i64", converted(value, "i64"))

    def condition(self, expression: ast.expr) -> ir.Value:
        return self._truth(self.value(expression)).value

    def _truth(self, value: LLVMValue) -> LLVMValue:
        if value.kind == "b1":
            return value
        zero = ir.Constant(LLVM_TYPES[value.kind], 0)
        compare = self.builder.fcmp_unordered if value.kind[0] == "f" else self.builder.icmp_unsigned
        return value.of("b1", compare("!=", value.value, zero))

    def converted(self, value: LLVMValue, kind: str) -> ir.Value:
        return self._truth(value).value if kind == "b1" else converted(value, kind)

    def literal(self, value: Any) -> LLVMValue:
        kind = _CONSTANTS.get(type(value))
        if kind is None or (kind == "i64" and not -(2**63) <= value < 2**63):
            raise UnwrittenError(f"the constant {value!r}")
        number = value.item() if isinstance(value, np.generic) else value
        return LLVMValue(self.builder, kind, ir.Constant(LLVM_TYPES[kind], number))

    def meant(self, expression: ast.expr) -> Any:
        """What a name that is no local stands for, or an attribute of it, such as np.float32."""
        if isinstance(expression, ast.Attribute):
            return getattr(self.meant(expression.value), expression.attr, None)
        if not isinstance(expression, ast.Name) or expression.id in self.locals:
            return None
        return self.names.get(expression.id, getattr(builtins, expression.id, None))

    def _value_of_constant(self, expression: ast.Constant) -> LLVMValue:
        return self.literal(expression.value)

    def _value_of_name(self, expression: ast.Name) -> Any:
        name = expression.id
        if name in self.pointers:
            return self.pointers[name]
        if name in self.locals:
            kind, place = self.locals[name]
            return LLVMValue(self.builder, kind, self.builder.load(place))
        return self.literal(self.meant(expression))

    def _value_of_attribute(self, expression: ast.Attribute) -> LLVMValue:
        return self.literal(self.meant(expression))

    def address(self, expression: ast.Subscript) -> tuple[str, ir.Value]:
        memory = self.any(expression.value)
        if not isinstance(memory, Pointer):
            raise UnwrittenError(ast.unparse(expression))
        index = self.integer(self.value(expression.slice), expression).value
        return memory.kind, self.builder.gep(memory.value, [index], inbounds=True)

    def _value_of_subscript(self, expression: ast.Subscript) -> LLVMValue:
        kind, address = self.address(expression)
        return LLVMValue(self.builder, kind, self.builder.load(address))

    def _value_of_unaryop(self, expression: ast.UnaryOp) -> LLVMValue:
        operand, operation = expression.operand, expression.op
        if isinstance(operation, ast.USub) and isinstance(operand, ast.Constant):
            return self.literal(-operand.value)  # type: ignore[operator]
        value = self.value(operand)
        if isinstance(operation, ast.Not):
            return ~self._truth(value)
        if value.kind[0] != "f":
            value = self.integer(value, expression)
        if isinstance(operation, ast.USub):
            return -value
        if isinstance(operation, ast.Invert) and value.kind == "i64":
            return ~value
        raise UnwrittenError(ast.unparse(expression))

    def _value_of_binop(self, expression: ast.BinOp) -> LLVMValue:
        a, b, how = self.value(expression.left), self.value(expression.right), type(expression.op)
        kind = self._common(a, b, expression)
        x, y = (converted(v, kind) for v in (a, b))
        if kind[0] == "f":
            name = _FLOAT_OPERATIONS.get(how)
        elif kind == "b1":
            name = _BIT_OPERATIONS.get(how)
        elif how in (ast.FloorDiv, ast.Mod) and kind == "i64":
            return a.of(kind, self._divided(x, y, how is ast.Mod))
        elif kind == "u64" and how is ast.RShift:
            name = "lshr"
        else:
            name = _INT_OPERATIONS.get(how)
        if name is None:
            raise UnwrittenError(f"{ast.unparse(expression)} of {kind}")
        return a.of(kind, getattr(self.builder, name)(x, y))

    def _common(self, a: LLVMValue, b: LLVMValue, expression: ast.expr) -> str:
        """The kind in which both are computed, as Numba chooses it."""
        if a.kind == b.kind and (a.kind[0] == "f" or a.kind in ("b1", "u64")):
            return a.kind
        if a.kind in SIGNED and b.kind in SIGNED and (a.kind[0] == "i" or b.kind[0] == "i"):
            return "i64"
        raise UnwrittenError(f"{ast.unparse(expression)} of {a.kind} and {b.kind}")

    def _divided(self, a: ir.Value, b: ir.Value, remainder: bool) -> ir.Value:
        """Rounded down; 0 where b is 0. The processor divides by neither 0 nor -1, which may overflow."""
        build, number = self.builder, lambda n: ir.Constant(I64, n)
        is_zero, is_minus = (build.icmp_signed("==", b, number(n)) for n in (0, -1))
        divisor = build.select(build.or_(is_zero, is_minus), number(1), b)
        rest = build.srem(a, divisor)
        unlike = build.icmp_signed("<", build.xor(rest, divisor), number(0))
        down = build.and_(unlike, build.icmp_signed("!=", rest, number(0)))
        if remainder:
            found = build.add(rest, build.select(down, divisor, number(0)))
            return build.select(is_minus, number(0), build.select(is_zero, number(0), found))
        found = build.sub(build.sdiv(a, divisor), build.zext(down, I64))
        return build.select(is_minus, build.neg(a), build.select(is_zero, number(0), found))

    def _value_of_compare(self, expression: ast.Compare) -> LLVMValue:
        if len(expression.ops) != 1 or type(expression.ops[0]) not in _COMPARISONS:
            raise UnwrittenError(ast.unparse(expression))
        a, b = self.value(expression.left), self.value(expression.comparators[0])
        whole = a.kind in SIGNED and b.kind in SIGNED
        kind = "i64" if whole else self._common(a, b, expression)
        x, y, symbol = converted(a, kind), converted(b, kind), _COMPARISONS[type(expression.ops[0])]
        if kind[0] == "f":  # NaN compares false, except under !=
            compare = self.builder.fcmp_unordered if symbol == "!=" else self.builder.fcmp_ordered
        else:
            compare = self.builder.icmp_signed if kind == "i64" else self.builder.icmp_unsigned
        return a.of("b1", compare(symbol, x, y))

    def _value_of_boolop(self, expression: ast.BoolOp) -> LLVMValue:
        """Of conditions; what decides nothing any more is not computed."""
        is_or = isinstance(expression.op, ast.Or)
        (after,) = self.blocks("decided")
        known: list[tuple[ir.Value, ir.Block]] = []
        for position, part in enumerate(expression.values):
            value = self.value(part)
            if value.kind != "b1":
                raise UnwrittenError(ast.unparse(expression))
            known.append((value.value, self.builder.block))
            if position == len(expression.values) - 1:
                self.builder.branch(after)
                break
            (undecided,) = self.blocks("undecided")
            ways = (after, undecided) if is_or else (undecided, after)
            self.builder.cbranch(value.value, *ways)
            self.builder.position_at_end(undecided)
        self.builder.position_at_end(after)
        return self._met("b1", known)

    def _value_of_ifexp(self, expression: ast.IfExp) -> LLVMValue:
        then, otherwise, after = self.blocks("then", "else", "chosen")
        self.builder.cbranch(self.condition(expression.test), then, otherwise)
        known: list[tuple[LLVMValue, ir.Block]] = []
        for block, part in ((then, expression.body), (otherwise, expression.orelse)):
            self.builder.position_at_end(block)
            value = self.value(part)
            known.append((value, self.builder.block))
        (a, _), (b, _) = known
        kind = a.kind if a.kind == b.kind else self._common(a, b, expression)
        if kind != a.kind or kind != b.kind:
            raise UnwrittenError(f"{ast.unparse(expression)} of {a.kind} and {b.kind}")
        for _, block in known:
            self.builder.position_at_end(block)
            self.builder.branch(after)
        self.builder.position_at_end(after)
        return self._met(kind, [(value.value, block) for value, block in known])

    def _met(self, kind: str, ways: list[tuple[ir.Value, ir.Block]]) -> LLVMValue:
        phi = self.builder.phi(LLVM_TYPES[kind])
        for value, block in ways:
            phi.add_incoming(value, block)
        return LLVMValue(self.builder, kind, phi)

    def _value_of_call(self, expression: ast.Call) -> Any:
        function = self.meant(expression.func)
        if expression.keywords or any(isinstance(a, ast.Starred) for a in expression.args):
            raise UnwrittenError(ast.unparse(expression))
        if id(function) in _STACK_KINDS:
            return self._stack(_STACK_KINDS[id(function)], ast.literal_eval(expression.args[0]))
        arguments = [self.value(a) for a in expression.args]
        if id(function) in _MATH:
            try:
                return function(*arguments)
            except TypeError as error:  # Numba tells it with the types
                raise UnwrittenError(str(error)) from error
        if isinstance(function, type) and function in _CASTS and len(arguments) == 1:
            kind = _CASTS[function]
            return arguments[0].of(kind, self.converted(arguments[0], kind))
        if function in (min, max) and len(arguments) == 2:
            return self._extremum(function is min, *(self.integer(a, expression) for a in arguments))
        if function is abs and len(arguments) == 1:
            return self._absolute(arguments[0], expression)
        raise UnwrittenError(ast.unparse(expression))

    def _extremum(self, least: bool, a: LLVMValue, b: LLVMValue) -> LLVMValue:
        first = self.builder.icmp_signed("<" if least else ">", a.value, b.value)
        return a.of("i64", self.builder.select(first, a.value, b.value))

    def _absolute(self, value: LLVMValue, expression: ast.expr) -> LLVMValue:
        if value.kind[0] == "f":
            return PRIMITIVES["fabs"](value)
        if value.kind != "i64":
            raise UnwrittenError(ast.unparse(expression))
        negative = self.builder.icmp_signed("<", value.value, ir.Constant(I64, 0))
        return value.of("i64", self.builder.select(negative, self.builder.neg(value.value), value.value))

    def _stack(self, kind: str, count: int) -> Pointer:
        """On a cache line: a vector across two of them costs twice."""
        memory = self.places.alloca(ir.ArrayType(LLVM_TYPES[kind], count))
        memory.align = 64
        return Pointer(kind, self.places.bitcast(memory, LLVM_TYPES[kind].as_pointer()))
