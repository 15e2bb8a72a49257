"""From a loop nest to the source of a CPU kernel: readable Python that Numba compiles.

    ARGUMENTS = ("i64", "i64", "i64", "f32*", "f32*", "f32*")

    def row_max_sub_exp(first, last, n1, x0, y0, y1):
        for i0 in range(first, last):
            a0 = float32(-inf)
            for i1 in range(n1):
                t0 = x0[i0 * n1 + i1]
                ...

The range of the outermost loop that is not reduced is an argument, so that threads may share the turns (see
``plan/pieces.py``). The same text runs unjitted over flat NumPy arrays.
"""

from __future__ import annotations

from dataclasses import dataclass

from jtorch.compile.codegen import parts
from jtorch.compile.codegen.code import Code, Same, written
from jtorch.compile.codegen.cpu_reduce import ReductionEmitter
from jtorch.compile.codegen.emitter import I64, Edge, Number, Pointer
from jtorch.compile.plan.fuse import Style
from jtorch.compile.plan.loops import Arithmetic, Constant, Nest, Position, Scatter, Value
from jtorch.compile.plan.order import Loop, stride_along
from jtorch.compile.plan.pieces import divided
from jtorch.compile.plan.plan import Plan
from jtorch.core.failure import Failure

__all__ = ["Kernel", "Number", "Pointer", "emit", "write_kernel"]


@dataclass(frozen=True, eq=False)
class Kernel:
    """The text of a kernel and what to put into its argument block, word by word."""

    entry: str
    source: str
    arguments: tuple[Pointer | Number | Edge, ...]
    errors: tuple[Failure, ...] = ()  # what status 1, 2... mean

    def __repr__(self) -> str:
        return f"<kernel {self.entry}>"


def emit(plan: Plan) -> Code:
    """The CPU kernels of a plan."""
    return written(plan, write_kernel)


def write_kernel(nest: Nest, same: Same) -> Kernel:
    """The CPU kernel of a nest. ``same`` tells which variables share memory (in-place updates)."""
    return _CpuEmitter(nest, same).kernel()


class _CpuEmitter(ReductionEmitter):
    """A status is the kernel's result; of several errors the last one stays."""

    def __post_init__(self) -> None:
        self.divided = divided(self.nest)
        super().__post_init__()

    def _end_of(self, k: int, loop: Loop) -> str:
        if loop != self.divided:
            return super()._end_of(k, loop)
        for name in ("first", "last"):
            self._add(name, name, "i64", Edge(name == "last"))
        return "last"

    def _start_of(self, k: int) -> str:
        return "first" if self.loops[k] == self.divided else "0"

    def kernel(self) -> Kernel:
        write = {
            Style.MAP: self._map, Style.ROW: self._row, Style.COLUMN: self._column,
            Style.SCATTER: self._scatter,
        }  # fmt: skip
        write[self.nest.style]()
        body = self.writer.lines
        if self.errors:
            body = ["    status = 0", *body, "    return status"]
        entry = self.nest.name
        arguments, errors = tuple(self.fillers.values()), tuple(self.errors.values())
        return Kernel(entry, self._module(entry, body), arguments, errors)

    def _fail(self, number: int) -> None:
        self.writer(f"status = {number}")

    def _map(self) -> None:
        scope: dict[Value, str] = {}
        self._emit(self._outside(self.nest.values()), scope)
        if not self.loops or not parts.pay(self.nest, self._is_cut):
            self._loops(self.loops, lambda: self._stores(self.nest.stores, dict(scope)))
        else:
            k = len(self.loops) - 1
            self._loops(self.loops[:-1], lambda: self._in_parts(self._start_of(k), self.sizes[k], scope))

    def _in_parts(self, start: str, end: str, scope: dict[Value, str]) -> None:
        """The innermost loop from ``start`` to ``end``, cut wherever a choice depends on its position."""
        comparison = parts.next_comparison(self.nest.stores, self.known, self._is_cut)
        if comparison is None:
            along = end if start == "0" else f"{start}, {end}"
            with self.writer.block(f"for i{len(self.loops) - 1} in range({along}):"):
                self._stores(self.nest.stores, dict(scope))
            return
        middle = self._assign(f"min(max({self._cut_at(comparison)}, {start}), {end})")
        below = comparison.sign == "<"
        for holds, edges in ((below, (start, middle)), (not below, (middle, end))):
            self.known[comparison] = holds
            self._in_parts(*edges, scope)
            del self.known[comparison]

    def _is_cut(self, value: Value) -> bool:
        """Whether it compares the position in the innermost loop with a number."""
        if not isinstance(value, Arithmetic) or value.sign not in ("<", ">="):
            return False
        position, *numbers = _flat(value)
        if not isinstance(position, Position) or position.at.offset:
            return False
        *outer, inner = (stride_along(position.at, loop) for loop in self.loops)
        return inner == 1 and not any(outer) and all(isinstance(n, Constant) for n in numbers)

    def _cut_at(self, comparison: Arithmetic) -> str:
        """The first position on the other side."""
        _, *shifts, number = (self._name(v, {}) for v in _flat(comparison))
        return " + ".join([number, *shifts])

    def _scatter(self) -> None:
        (target,) = self.nest.scatters
        out = self.pointer(target.var, 0, written=True)
        if self.divided is None:
            whole = self.number(target.var.type.size, I64, "total", "total")
        else:  # each piece its own part
            part = self.number(target.terms[0][0], I64, "part", "part")
            whole = f"first * {part}, last * {part}"
        with self.writer.block(f"for i in range({whole}):"):
            self.writer(f"{out}[i] = {self._typed_constant(0, target.var.dtype)}")
        self._loops(self.loops, lambda: self._add_at(target, out))

    def _add_at(self, target: Scatter, out: str) -> None:
        scope: dict[Value, str] = {}
        self._emit(self._needed([target.value, *(v for _, v in target.terms)]), scope)
        place = self._address_of(target.terms, scope)
        self.writer(f"{out}[{place}] = {out}[{place}] + {scope[target.value]}")


def _flat(comparison: Arithmetic) -> tuple[Value, ...]:
    """x, a, b of x - a < b; x, b of x < b."""
    left = comparison.left
    if isinstance(left, Arithmetic) and left.sign == "-":
        return left.left, left.right, comparison.right
    return left, comparison.right
