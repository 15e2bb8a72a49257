"""From a kernel's text to LLVM IR, for what the generator writes: the short way past Numba.

Kernels are Numba functions, and Numba can compile each of them: it infers types, lowers general Python and
takes 0.1 to 0.5 s for one. But a generated kernel is a few kinds of statement over numbers whose kinds its
``ARGUMENTS`` tell, so one walk over its syntax tree writes the instructions, in a few milliseconds.

Numbers mean what they mean to Numba: whole numbers are computed in 64 bits, a literal is int64 or float64,
`//` and `%` round down and give 0 for a divisor of 0. What would mix kinds in a way that Numba promotes, and
all else that no generated kernel has, is `UnwrittenError`: `build.py` gives such a text to Numba.

A local is a place on the stack of one kind, that of its first value; LLVM moves it into a register.
"""

from __future__ import annotations

import ast
import builtins
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from llvmlite import ir

from jtorch.core import philox
from jtorch.native import exact, vecmath
from jtorch.native.intrinsics import PRIMITIVES, STACKS
from jtorch.native.llvm_values import LLVM_TYPES, LLVMValue, converted

I64 = LLVM_TYPES["i64"]
_MATH = {
    id(function): function
    for table in (PRIMITIVES, exact.FUNCTIONS, vecmath.FUNCTIONS, philox.KERNEL_FUNCTIONS)
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
_SIGNED = ("i8", "i16", "i32", "i64", "u8", "u16", "u32")  # what int64 holds
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


def kernel_module(
    source: str, entry: str, arguments: tuple[str, ...], names: Mapping[str, Any], symbol: str
) -> ir.Module:
    """The module with `int64 symbol(int64* args)`, which unpacks its words and calls ``symbol_body``.

    `names` are the globals of the text, which has been run. Raises UnwrittenError.
    """
    tree = next(n for n in ast.parse(source).body if isinstance(n, ast.FunctionDef) and n.name == entry)
    parameters = tree.args
    if len(parameters.args) != len(arguments) or parameters.vararg or parameters.kwonlyargs:
        raise UnwrittenError("its parameters are not those that ARGUMENTS tells")
    module = ir.Module(symbol)
    kinds = {p.arg: kind for p, kind in zip(parameters.args, arguments, strict=True)}
    body = _Body(module, f"{symbol}_body", kinds, names)
    body.write(tree)
    _write_shim(module, symbol, body.function, arguments)
    return module


def _scalar_kind(kind: str) -> str:
    return "b1" if kind == "bool" else kind


def _memory_kind(kind: str) -> str:
    """Of a pointer's elements: a bool is a byte in memory."""
    name = kind.removesuffix("*")
    return "u8" if name == "bool" else name


def _type_of(kind: str) -> ir.Type:
    return (
        LLVM_TYPES[_memory_kind(kind)].as_pointer() if kind.endswith("*") else LLVM_TYPES[_scalar_kind(kind)]
    )


def _write_shim(module: ir.Module, symbol: str, body: ir.Function, arguments: tuple[str, ...]) -> None:
    """For ("f32*", "i64", "f32") it is ``body(inttoptr(args[0]), args[1], fptrunc(as_double(args[2])))``."""
    shim = ir.Function(module, ir.FunctionType(I64, [I64.as_pointer()]), symbol)
    builder = ir.IRBuilder(shim.append_basic_block("entry"))
    values = [unpacked(builder, shim.args[0], index, kind) for index, kind in enumerate(arguments)]
    builder.ret(builder.call(body, values))


def unpacked(builder: ir.IRBuilder, block: ir.Value, index: int, kind: str) -> ir.Value:
    """The value of kind `kind` that word `index` of the block holds (floats: the bits of a float64)."""
    slot, target = builder.gep(block, [ir.Constant(I64, index)]), _type_of(kind)
    if kind.startswith("f") and not kind.endswith("*"):
        double = builder.load(builder.bitcast(slot, ir.DoubleType().as_pointer()))
        return double if kind == "f64" else builder.fptrunc(double, target)
    word = builder.load(slot)
    if kind.endswith("*"):
        return builder.inttoptr(word, target)
    if kind == "bool":
        return builder.icmp_unsigned("!=", word, ir.Constant(I64, 0))
    return word if target.width == 64 else builder.trunc(word, target)


class _Pointer:
    """Memory that the kernel was given, or its own on the stack."""

    def __init__(self, kind: str, value: ir.Value) -> None:
        self.kind, self.value = kind, value


class _Body:
    """One function under construction."""

    def __init__(
        self, module: ir.Module, name: str, kinds: Mapping[str, str], names: Mapping[str, Any]
    ) -> None:
        self.function = ir.Function(module, ir.FunctionType(I64, [_type_of(k) for k in kinds.values()]), name)
        self.function.linkage = "internal"
        self.function.attributes.add("noinline")  # so that what `noalias` says holds for its whole length
        self.function.attributes.add("nounwind")
        self._entry = self.function.append_basic_block("entry")
        start = self.function.append_basic_block("start")
        self._places = ir.IRBuilder(self._entry)  # writes what lies on the stack, once per call
        self._builder = ir.IRBuilder(start)
        self._start = start
        self._names = names
        self._locals: dict[str, tuple[str, ir.Value]] = {}
        self._pointers: dict[str, _Pointer] = {}
        self._loops: list[tuple[ir.Block, ir.Block]] = []  # where `continue` and `break` go
        for (name, kind), argument in zip(kinds.items(), self.function.args, strict=True):
            if kind.endswith("*"):
                argument.add_attribute("noalias")
                self._pointers[name] = _Pointer(_memory_kind(kind), argument)
            else:
                self._assign_value(name, LLVMValue(self._builder, _scalar_kind(kind), argument))

    def write(self, tree: ast.FunctionDef) -> None:
        self._statements(tree.body)
        if not self._builder.block.is_terminated:
            self._builder.ret(ir.Constant(I64, 0))
        self._places.branch(self._start)

    # -- statements -----------------------------------------------------------------------------------

    def _statements(self, statements: list[ast.stmt]) -> None:
        for statement in statements:
            if self._builder.block.is_terminated:
                return  # nothing runs after `break`
            write: Callable[[Any], None] | None = getattr(self, f"_{type(statement).__name__.lower()}", None)
            if write is None:
                raise UnwrittenError(ast.unparse(statement))
            write(statement)

    def _pass(self, statement: ast.Pass) -> None:
        pass

    def _expr(self, statement: ast.Expr) -> None:
        if not isinstance(statement.value, ast.Constant):  # a docstring
            raise UnwrittenError(ast.unparse(statement))

    def _assign(self, statement: ast.Assign) -> None:
        if len(statement.targets) != 1:
            raise UnwrittenError(ast.unparse(statement))
        (target,), value = statement.targets, statement.value
        if not isinstance(target, ast.Tuple):
            self._assign_to(target, self._any(value))
            return
        values = [self._value(v) for v in value.elts] if isinstance(value, ast.Tuple) else self._any(value)
        if not isinstance(values, (list, tuple)) or len(values) != len(target.elts):
            raise UnwrittenError(ast.unparse(statement))
        for part, given in zip(target.elts, values, strict=True):
            self._assign_to(part, given)

    def _augassign(self, statement: ast.AugAssign) -> None:
        if not isinstance(statement.target, ast.Name):
            raise UnwrittenError(ast.unparse(statement))
        read = ast.Name(statement.target.id, ast.Load())
        self._assign_to(statement.target, self._value(ast.BinOp(read, statement.op, statement.value)))

    def _assign_to(self, target: ast.expr, value: Any) -> None:
        if isinstance(target, ast.Name) and isinstance(value, _Pointer):
            if target.id in self._pointers or target.id in self._locals:
                raise UnwrittenError(f"{target.id} is assigned twice")
            self._pointers[target.id] = value
        elif isinstance(target, ast.Name) and isinstance(value, LLVMValue):
            self._assign_value(target.id, value)
        elif isinstance(target, ast.Subscript) and isinstance(value, LLVMValue):
            kind, address = self._address(target)
            self._builder.store(self._converted(value, kind), address)
        else:
            raise UnwrittenError(ast.unparse(target))

    def _assign_value(self, name: str, value: LLVMValue) -> None:
        if name in self._pointers:
            raise UnwrittenError(f"{name} is a pointer and a number")
        if name not in self._locals:
            self._locals[name] = value.kind, self._places.alloca(LLVM_TYPES[value.kind], name=name)
        kind, place = self._locals[name]
        if value.kind != kind:
            if kind != "i64" or value.kind not in _SIGNED:
                raise UnwrittenError(f"{name} is {kind} and {value.kind}")
            value = value.of("i64", converted(value, "i64"))
        self._builder.store(value.value, place)

    def _return(self, statement: ast.Return) -> None:
        value = statement.value
        status = LLVMValue(self._builder, "i64", ir.Constant(I64, 0)) if value is None else self._value(value)
        if status.kind not in _SIGNED:
            raise UnwrittenError(ast.unparse(statement))
        self._builder.ret(converted(status, "i64"))

    def _if(self, statement: ast.If) -> None:
        then, otherwise, after = self._blocks("then", "else", "after")
        self._builder.cbranch(self._condition(statement.test), then, otherwise)
        for block, statements in ((then, statement.body), (otherwise, statement.orelse)):
            self._builder.position_at_end(block)
            self._statements(statements)
            self._go(after)
        self._builder.position_at_end(after)

    def _while(self, statement: ast.While) -> None:
        if statement.orelse:
            raise UnwrittenError("else of a loop")
        test, body, after = self._blocks("test", "turn", "after")
        self._builder.branch(test)
        self._builder.position_at_end(test)
        self._builder.cbranch(self._condition(statement.test), body, after)
        self._builder.position_at_end(body)
        self._loops.append((test, after))
        self._statements(statement.body)
        self._loops.pop()
        self._go(test)
        self._builder.position_at_end(after)

    def _for(self, statement: ast.For) -> None:
        """Over a range. The text may assign the loop's variable: turns are counted beside it."""
        first, last, step = self._range(statement)
        if not isinstance(statement.target, ast.Name) or statement.orelse:
            raise UnwrittenError("a loop other than over a range")
        turn = self._places.alloca(I64)
        self._builder.store(first.value, turn)
        test, body, following, after = self._blocks("test", "turn", "next", "after")
        self._builder.branch(test)
        self._builder.position_at_end(test)
        compare = "<" if step > 0 else ">"
        at = self._builder.load(turn)
        self._builder.cbranch(self._builder.icmp_signed(compare, at, last.value), body, after)
        self._builder.position_at_end(body)
        self._assign_value(statement.target.id, first.of("i64", at))
        self._loops.append((following, after))
        self._statements(statement.body)
        self._loops.pop()
        self._go(following)
        self._builder.position_at_end(following)
        # no wrap: a step of 1 towards `last` stays below it
        flags = ("nsw",) if abs(step) == 1 else ()
        self._builder.store(self._builder.add(at, ir.Constant(I64, step), flags=flags), turn)
        self._builder.branch(test)
        self._builder.position_at_end(after)

    def _range(self, statement: ast.For) -> tuple[LLVMValue, LLVMValue, int]:
        call = statement.iter
        if not isinstance(call, ast.Call) or self._global(call.func) is not range or call.keywords:
            raise UnwrittenError("a loop other than over a range")
        bounds = [self._integer(self._value(a), a) for a in call.args[:2]]
        if len(bounds) == 1:
            bounds.insert(0, self._literal(0))
        step = ast.literal_eval(call.args[2]) if len(call.args) == 3 else 1
        return bounds[0], bounds[1], step

    def _break(self, statement: ast.Break) -> None:
        self._builder.branch(self._loops[-1][1])

    def _continue(self, statement: ast.Continue) -> None:
        self._builder.branch(self._loops[-1][0])

    def _blocks(self, *names: str) -> list[ir.Block]:
        return [self.function.append_basic_block(name) for name in names]

    def _go(self, block: ir.Block) -> None:
        if not self._builder.block.is_terminated:
            self._builder.branch(block)

    # -- expressions ----------------------------------------------------------------------------------

    def _any(self, expression: ast.expr) -> Any:
        """A number, several of them, or memory."""
        write: Callable[[Any], Any] | None = getattr(
            self, f"_value_of_{type(expression).__name__.lower()}", None
        )
        if write is None:
            raise UnwrittenError(ast.unparse(expression))
        return write(expression)

    def _value(self, expression: ast.expr) -> LLVMValue:
        value = self._any(expression)
        if not isinstance(value, LLVMValue):
            raise UnwrittenError(f"{ast.unparse(expression)} is no number")
        return value

    def _integer(self, value: LLVMValue, expression: ast.expr) -> LLVMValue:
        """As int64."""
        if value.kind not in _SIGNED:
            raise UnwrittenError(f"{ast.unparse(expression)} is {value.kind}")
        return value.of("i64", converted(value, "i64"))

    def _condition(self, expression: ast.expr) -> ir.Value:
        return self._truth(self._value(expression)).value

    def _truth(self, value: LLVMValue) -> LLVMValue:
        if value.kind == "b1":
            return value
        zero = ir.Constant(LLVM_TYPES[value.kind], 0)
        compare = self._builder.fcmp_unordered if value.kind[0] == "f" else self._builder.icmp_unsigned
        return value.of("b1", compare("!=", value.value, zero))

    def _converted(self, value: LLVMValue, kind: str) -> ir.Value:
        return self._truth(value).value if kind == "b1" else converted(value, kind)

    def _literal(self, value: Any) -> LLVMValue:
        kind = _CONSTANTS.get(type(value))
        if kind is None or (kind == "i64" and not -(2**63) <= value < 2**63):
            raise UnwrittenError(f"the constant {value!r}")
        number = value.item() if isinstance(value, np.generic) else value
        return LLVMValue(self._builder, kind, ir.Constant(LLVM_TYPES[kind], number))

    def _global(self, expression: ast.expr) -> Any:
        """What a name that is no local stands for, or an attribute of it, such as np.float32."""
        if isinstance(expression, ast.Attribute):
            return getattr(self._global(expression.value), expression.attr, None)
        if not isinstance(expression, ast.Name) or expression.id in self._locals:
            return None
        return self._names.get(expression.id, getattr(builtins, expression.id, None))

    def _value_of_constant(self, expression: ast.Constant) -> LLVMValue:
        return self._literal(expression.value)

    def _value_of_name(self, expression: ast.Name) -> Any:
        name = expression.id
        if name in self._pointers:
            return self._pointers[name]
        if name in self._locals:
            kind, place = self._locals[name]
            return LLVMValue(self._builder, kind, self._builder.load(place))
        return self._literal(self._global(expression))

    def _value_of_attribute(self, expression: ast.Attribute) -> LLVMValue:
        return self._literal(self._global(expression))

    def _address(self, expression: ast.Subscript) -> tuple[str, ir.Value]:
        memory = self._any(expression.value)
        if not isinstance(memory, _Pointer):
            raise UnwrittenError(ast.unparse(expression))
        index = self._integer(self._value(expression.slice), expression).value
        return memory.kind, self._builder.gep(memory.value, [index], inbounds=True)

    def _value_of_subscript(self, expression: ast.Subscript) -> LLVMValue:
        kind, address = self._address(expression)
        return LLVMValue(self._builder, kind, self._builder.load(address))

    def _value_of_unaryop(self, expression: ast.UnaryOp) -> LLVMValue:
        operand, operation = expression.operand, expression.op
        if isinstance(operation, ast.USub) and isinstance(operand, ast.Constant):
            return self._literal(-operand.value)  # type: ignore[operator]
        value = self._value(operand)
        if isinstance(operation, ast.Not):
            return ~self._truth(value)
        if value.kind[0] != "f":
            value = self._integer(value, expression)
        if isinstance(operation, ast.USub):
            return -value
        if isinstance(operation, ast.Invert) and value.kind == "i64":
            return ~value
        raise UnwrittenError(ast.unparse(expression))

    def _value_of_binop(self, expression: ast.BinOp) -> LLVMValue:
        a, b, how = self._value(expression.left), self._value(expression.right), type(expression.op)
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
        return a.of(kind, getattr(self._builder, name)(x, y))

    def _common(self, a: LLVMValue, b: LLVMValue, expression: ast.expr) -> str:
        """The kind in which both are computed, as Numba chooses it."""
        if a.kind == b.kind and (a.kind[0] == "f" or a.kind in ("b1", "u64")):
            return a.kind
        if a.kind in _SIGNED and b.kind in _SIGNED and (a.kind[0] == "i" or b.kind[0] == "i"):
            return "i64"
        raise UnwrittenError(f"{ast.unparse(expression)} of {a.kind} and {b.kind}")

    def _divided(self, a: ir.Value, b: ir.Value, remainder: bool) -> ir.Value:
        """Rounded down; 0 where b is 0. The processor divides by neither 0 nor -1, which may overflow."""
        build, number = self._builder, lambda n: ir.Constant(I64, n)
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
        a, b = self._value(expression.left), self._value(expression.comparators[0])
        whole = a.kind in _SIGNED and b.kind in _SIGNED
        kind = "i64" if whole else self._common(a, b, expression)
        x, y, symbol = converted(a, kind), converted(b, kind), _COMPARISONS[type(expression.ops[0])]
        if kind[0] == "f":  # NaN compares false, except under !=
            compare = self._builder.fcmp_unordered if symbol == "!=" else self._builder.fcmp_ordered
        else:
            compare = self._builder.icmp_signed if kind == "i64" else self._builder.icmp_unsigned
        return a.of("b1", compare(symbol, x, y))

    def _value_of_boolop(self, expression: ast.BoolOp) -> LLVMValue:
        """Of conditions; what decides nothing any more is not computed."""
        is_or = isinstance(expression.op, ast.Or)
        (after,) = self._blocks("decided")
        known: list[tuple[ir.Value, ir.Block]] = []
        for position, part in enumerate(expression.values):
            value = self._value(part)
            if value.kind != "b1":
                raise UnwrittenError(ast.unparse(expression))
            known.append((value.value, self._builder.block))
            if position == len(expression.values) - 1:
                self._builder.branch(after)
                break
            (undecided,) = self._blocks("undecided")
            ways = (after, undecided) if is_or else (undecided, after)
            self._builder.cbranch(value.value, *ways)
            self._builder.position_at_end(undecided)
        self._builder.position_at_end(after)
        return self._met("b1", known)

    def _value_of_ifexp(self, expression: ast.IfExp) -> LLVMValue:
        then, otherwise, after = self._blocks("then", "else", "chosen")
        self._builder.cbranch(self._condition(expression.test), then, otherwise)
        known: list[tuple[LLVMValue, ir.Block]] = []
        for block, part in ((then, expression.body), (otherwise, expression.orelse)):
            self._builder.position_at_end(block)
            value = self._value(part)
            known.append((value, self._builder.block))
        (a, _), (b, _) = known
        kind = a.kind if a.kind == b.kind else self._common(a, b, expression)
        if kind != a.kind or kind != b.kind:
            raise UnwrittenError(f"{ast.unparse(expression)} of {a.kind} and {b.kind}")
        for _, block in known:
            self._builder.position_at_end(block)
            self._builder.branch(after)
        self._builder.position_at_end(after)
        return self._met(kind, [(value.value, block) for value, block in known])

    def _met(self, kind: str, ways: list[tuple[ir.Value, ir.Block]]) -> LLVMValue:
        phi = self._builder.phi(LLVM_TYPES[kind])
        for value, block in ways:
            phi.add_incoming(value, block)
        return LLVMValue(self._builder, kind, phi)

    def _value_of_call(self, expression: ast.Call) -> Any:
        function = self._global(expression.func)
        if expression.keywords or any(isinstance(a, ast.Starred) for a in expression.args):
            raise UnwrittenError(ast.unparse(expression))
        if id(function) in _STACK_KINDS:
            return self._stack(_STACK_KINDS[id(function)], ast.literal_eval(expression.args[0]))
        arguments = [self._value(a) for a in expression.args]
        if id(function) in _MATH:
            try:
                return function(*arguments)
            except TypeError as error:  # Numba tells it with the types
                raise UnwrittenError(str(error)) from error
        if isinstance(function, type) and function in _CASTS and len(arguments) == 1:
            kind = _CASTS[function]
            return arguments[0].of(kind, self._converted(arguments[0], kind))
        if function in (min, max) and len(arguments) == 2:
            return self._extremum(function is min, *(self._integer(a, expression) for a in arguments))
        if function is abs and len(arguments) == 1:
            return self._absolute(arguments[0], expression)
        raise UnwrittenError(ast.unparse(expression))

    def _extremum(self, least: bool, a: LLVMValue, b: LLVMValue) -> LLVMValue:
        first = self._builder.icmp_signed("<" if least else ">", a.value, b.value)
        return a.of("i64", self._builder.select(first, a.value, b.value))

    def _absolute(self, value: LLVMValue, expression: ast.expr) -> LLVMValue:
        if value.kind[0] == "f":
            return PRIMITIVES["fabs"](value)
        if value.kind != "i64":
            raise UnwrittenError(ast.unparse(expression))
        negative = self._builder.icmp_signed("<", value.value, ir.Constant(I64, 0))
        return value.of("i64", self._builder.select(negative, self._builder.neg(value.value), value.value))

    def _stack(self, kind: str, count: int) -> _Pointer:
        """On a cache line: a vector across two of them costs twice."""
        memory = self._places.alloca(ir.ArrayType(LLVM_TYPES[kind], count))
        memory.align = 64
        return _Pointer(kind, self._places.bitcast(memory, LLVM_TYPES[kind].as_pointer()))
