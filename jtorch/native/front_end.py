"""From a kernel's text to LLVM IR, for what the generator writes: the short way past Numba.

Kernels are Numba functions, and Numba can compile each of them: it infers types, lowers general Python and
takes 0.13 s for one, on average. But a generated kernel is a few kinds of statement over numbers whose kinds
its ``ARGUMENTS`` tell, so one walk over its syntax tree writes the instructions, in a few milliseconds.

Numbers mean what they mean to Numba: whole numbers are computed in 64 bits, a literal is int64 or float64,
`//` and `%` round down and give 0 for a divisor of 0. What would mix kinds in a way that Numba promotes, and
all else that no generated kernel has, is `UnwrittenError`: `build.py` gives such a text to Numba.

A local is a place on the stack of one kind, that of its first value; LLVM moves it into a register.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping
from typing import Any

from llvmlite import ir

from jtorch.native import vecmath
from jtorch.native.front_end_values import I64, SIGNED, Expressions, Pointer, UnwrittenError
from jtorch.native.llvm_values import LLVM_TYPES, LLVMValue, converted


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
    body = _Body(module, f"{symbol}_body", kinds, names, tree)
    body.write()
    _write_shim(module, symbol, body.function, arguments)
    return module


_VECTOR, _TOGETHER = 16, 64  # elements of a vector, and of four, at most
# four turns, or four vectors of turns, side by side
_INTERLEAVED = "llvm.loop.interleave.count", ir.Constant(ir.IntType(32), 4)
# all turns by vectors, the last with a mask
_MASKED = "llvm.loop.vectorize.predicate.enable", ir.Constant(ir.IntType(1), 1)


def _told(module: ir.Module, fact: tuple[str, ir.Constant]) -> ir.MDValue:
    """What LLVM is told of a loop."""
    hint = module.add_metadata([*fact])
    loop = ir.MDValue(module, (hint,), name=str(len(module.metadata)))
    loop.operands = (loop, hint)  # itself first: no other loop has it
    return loop


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


class _Body(Expressions):
    """One function under construction: what its statements do."""

    def __init__(
        self, module: ir.Module, name: str, kinds: Mapping[str, str], names: Mapping[str, Any],
        tree: ast.FunctionDef,
    ) -> None:  # fmt: skip
        function = ir.Function(module, ir.FunctionType(I64, [_type_of(k) for k in kinds.values()]), name)
        function.linkage = "internal"
        function.attributes.add("noinline")  # so that what `noalias` says holds for its whole length
        function.attributes.add("nounwind")
        super().__init__(function, names)
        self._tree, strides = tree, self._strides_of_functions(tree)
        self._loops: list[tuple[ir.Block, ir.Block]] = []  # where `continue` and `break` go
        for (name, kind), argument in zip(kinds.items(), self.function.args, strict=True):
            if kind.endswith("*"):
                argument.add_attribute("noalias")
                self.pointers[name] = Pointer(_memory_kind(kind), argument)
            else:
                value = self._unguessed(argument) if name in strides else argument
                self._assign_value(name, LLVMValue(self.builder, _scalar_kind(kind), value))

    def write(self) -> None:
        self._statements(self._tree.body)
        if not self.builder.block.is_terminated:
            self.builder.ret(ir.Constant(I64, 0))
        self.places.branch(self.start)

    def _statements(self, statements: list[ast.stmt]) -> None:
        for statement in statements:
            if self.builder.block.is_terminated:
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
            self._assign_to(target, self.any(value))
            return
        values = [self.value(v) for v in value.elts] if isinstance(value, ast.Tuple) else self.any(value)
        if not isinstance(values, (list, tuple)) or len(values) != len(target.elts):
            raise UnwrittenError(ast.unparse(statement))
        for part, given in zip(target.elts, values, strict=True):
            self._assign_to(part, given)

    def _augassign(self, statement: ast.AugAssign) -> None:
        if not isinstance(statement.target, ast.Name):
            raise UnwrittenError(ast.unparse(statement))
        read = ast.Name(statement.target.id, ast.Load())
        self._assign_to(statement.target, self.value(ast.BinOp(read, statement.op, statement.value)))

    def _assign_to(self, target: ast.expr, value: Any) -> None:
        if isinstance(target, ast.Name) and isinstance(value, Pointer):
            if target.id in self.pointers or target.id in self.locals:
                raise UnwrittenError(f"{target.id} is assigned twice")
            self.pointers[target.id] = value
        elif isinstance(target, ast.Name) and isinstance(value, LLVMValue):
            self._assign_value(target.id, value)
        elif isinstance(target, ast.Subscript) and isinstance(value, LLVMValue):
            kind, address = self.address(target)
            self.builder.store(self.converted(value, kind), address)
        else:
            raise UnwrittenError(ast.unparse(target))

    def _assign_value(self, name: str, value: LLVMValue) -> None:
        if name in self.pointers:
            raise UnwrittenError(f"{name} is a pointer and a number")
        if name not in self.locals:
            self.locals[name] = value.kind, self.places.alloca(LLVM_TYPES[value.kind], name=name)
        kind, place = self.locals[name]
        if value.kind != kind:
            if kind != "i64" or value.kind not in SIGNED:
                raise UnwrittenError(f"{name} is {kind} and {value.kind}")
            value = value.of("i64", converted(value, "i64"))
        self.builder.store(value.value, place)

    def _return(self, statement: ast.Return) -> None:
        value = statement.value
        status = LLVMValue(self.builder, "i64", ir.Constant(I64, 0)) if value is None else self.value(value)
        if status.kind not in SIGNED:
            raise UnwrittenError(ast.unparse(statement))
        self.builder.ret(converted(status, "i64"))

    def _if(self, statement: ast.If) -> None:
        then, otherwise, after = self.blocks("then", "else", "after")
        self.builder.cbranch(self.condition(statement.test), then, otherwise)
        for block, statements in ((then, statement.body), (otherwise, statement.orelse)):
            self.builder.position_at_end(block)
            self._statements(statements)
            self._go(after)
        self.builder.position_at_end(after)

    def _while(self, statement: ast.While) -> None:
        if statement.orelse:
            raise UnwrittenError("else of a loop")
        test, body, after = self.blocks("test", "turn", "after")
        self.builder.branch(test)
        self.builder.position_at_end(test)
        self.builder.cbranch(self.condition(statement.test), body, after)
        self.builder.position_at_end(body)
        self._loops.append((test, after))
        self._statements(statement.body)
        self._loops.pop()
        self._go(test)
        self.builder.position_at_end(after)

    def _for(self, statement: ast.For) -> None:
        """Over a range. The text may assign the loop's variable: turns are counted beside it."""
        first, last, step = self._range(statement)
        if not isinstance(statement.target, ast.Name) or statement.orelse:
            raise UnwrittenError("a loop other than over a range")
        calls, waits = self._chain(statement.body) if step == 1 else (0, False)
        fact = _INTERLEAVED if calls > 1 and not waits else None
        if self._loops and calls:
            together = _TOGETHER if fact else 2 * _VECTOR if waits else _VECTOR
            middle = first.of("i64", self._multiple(first.value, last.value, together))
            self._turns(statement, first, middle, step, fact)
            self._turns(statement, middle, last, step, _MASKED)
        else:
            self._turns(statement, first, last, step, fact)

    def _multiple(self, first: ir.Value, last: ir.Value, together: int) -> ir.Value:
        """Where the last whole ``together`` turns from ``first`` on end."""
        count, zero = self.builder.sub(last, first), ir.Constant(I64, 0)
        count = self.builder.select(self.builder.icmp_signed(">", count, zero), count, zero)
        return self.builder.add(first, self.builder.and_(count, ir.Constant(I64, -together)))

    def _turns(self, statement: ast.For, first: LLVMValue, last: LLVMValue, step: int, fact: Any) -> None:
        """Those from ``first`` to ``last``; LLVM is told the ``fact``, if it is one."""
        assert isinstance(statement.target, ast.Name)
        turn = self.places.alloca(I64)
        self.builder.store(first.value, turn)
        test, body, following, after = self.blocks("test", "turn", "next", "after")
        self.builder.branch(test)
        self.builder.position_at_end(test)
        compare = "<" if step > 0 else ">"
        at = self.builder.load(turn)
        self.builder.cbranch(self.builder.icmp_signed(compare, at, last.value), body, after)
        self.builder.position_at_end(body)
        self._assign_value(statement.target.id, first.of("i64", at))
        self._loops.append((following, after))
        self._statements(statement.body)
        self._loops.pop()
        self._go(following)
        self.builder.position_at_end(following)
        # no wrap: a step of 1 towards `last` stays below it
        flags = ("nsw",) if abs(step) == 1 else ()
        self.builder.store(self.builder.add(at, ir.Constant(I64, step), flags=flags), turn)
        back = self.builder.branch(test)
        if fact is not None:
            back.set_metadata("llvm.loop", _told(self.function.module, fact))
        self.builder.position_at_end(after)

    def _strides_of_functions(self, tree: ast.FunctionDef) -> set[str]:
        """The names by which indices are multiplied, in a kernel that calls vector functions."""
        nodes = list(ast.walk(tree))
        if not any(self._calls_vector_function(node) for node in nodes):
            return set()
        products = [n for n in nodes if isinstance(n, ast.BinOp) and isinstance(n.op, ast.Mult)]
        return {side.id for n in products for side in (n.left, n.right) if isinstance(side, ast.Name)}

    def _unguessed(self, stride: ir.Value) -> ir.Value:
        """A stride, as a term that LLVM does not guess the value of. That of an argument it guesses to be 1,
        and makes vectors for that case alone: rows whose elements lie apart went one by one, through vector
        functions, too, which took 3 to 7 times as long. Without such functions, gathering is no faster."""
        if stride.type != I64:
            return stride
        kind = ir.FunctionType(I64, [I64, I64])
        smax = self.function.module.declare_intrinsic("llvm.smax", [I64], kind)
        return self.builder.call(smax, [stride, ir.Constant(I64, -(2**62))])

    def _calls_vector_function(self, node: ast.AST) -> bool:
        if not isinstance(node, ast.Call):
            return False
        module = getattr(self.meant(node.func), "__module__", None) or ""
        return module.startswith(vecmath.__name__)

    def _chain(self, body: list[ast.stmt]) -> tuple[int, bool]:
        """How many vector functions a turn calls, and whether it waits for the one before, as that of a sum
        does; none of one that holds another loop.

        Two and more are a long chain of instructions, each waiting for the one before. LLVM takes such a turn
        to be long enough to go by itself, but the processor looks ahead less far than one; four at a time
        took half as long. Not of one alone: AVX2 has too few registers for that. What is left of a row goes
        by one vector of which a part is masked; one by one that took as long as 64 elements.
        """
        assigned: set[str] = set()
        loads: set[str] = set()
        calls = 0
        for statement in body:
            if not isinstance(statement, ast.Assign):
                return 0, False
            for node in ast.walk(statement.value):
                if isinstance(node, ast.Name):
                    loads |= {node.id} - assigned
                calls += self._calls_vector_function(node)
            assigned |= {target.id for target in statement.targets if isinstance(target, ast.Name)}
        return calls, bool(loads & assigned)

    def _range(self, statement: ast.For) -> tuple[LLVMValue, LLVMValue, int]:
        call = statement.iter
        if not isinstance(call, ast.Call) or self.meant(call.func) is not range or call.keywords:
            raise UnwrittenError("a loop other than over a range")
        bounds = [self.integer(self.value(a), a) for a in call.args[:2]]
        if len(bounds) == 1:
            bounds.insert(0, self.literal(0))
        step = ast.literal_eval(call.args[2]) if len(call.args) == 3 else 1
        return bounds[0], bounds[1], step

    def _break(self, statement: ast.Break) -> None:
        self.builder.branch(self._loops[-1][1])

    def _continue(self, statement: ast.Continue) -> None:
        self.builder.branch(self._loops[-1][0])

    def _go(self, block: ir.Block) -> None:
        if not self.builder.block.is_terminated:
            self.builder.branch(block)
