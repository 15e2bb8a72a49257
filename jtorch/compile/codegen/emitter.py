"""What the sources of CPU and CUDA kernels share: values as text, addresses, arguments, accumulators.

A target derives from ``Emitter``, writes the loops around the values, and says how a kernel reports an error.
Sizes, strides and numbers are arguments, so that one kernel serves every batch size; what shapes the text is
the dtypes, the rank left after merging axes, and for each array whether it moves along a loop by 0, by 1, or
by a stride.
"""

from __future__ import annotations

import functools
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from jtorch.compile.codegen.code import Same
from jtorch.compile.codegen.parts import chosen, parts_of
from jtorch.compile.codegen.writer import Writer
from jtorch.compile.graph.access import Affine
from jtorch.compile.graph.halves import bits_of
from jtorch.compile.graph.ir import Literal, Var, eqn_text, name_of, short
from jtorch.compile.plan.loops import (
    Arithmetic,
    Choose,
    Compute,
    Constant,
    Gather,
    Load,
    Nest,
    Position,
    Reduce,
    Store,
    Value,
)
from jtorch.compile.plan.order import Loop, loops_of, stride_along
from jtorch.core import philox
from jtorch.core.dim import is_symbolic
from jtorch.core.dtypes import HALVES
from jtorch.core.failure import Failure, FailureKind
from jtorch.native import exact, halves, intrinsics, vecmath


@dataclass(frozen=True, slots=True)
class Pointer:
    """An argument: the address of element ``offset`` of ``var``."""

    var: Var
    offset: int


@dataclass(frozen=True, slots=True)
class Number:
    """An argument: a size, a stride or a literal."""

    value: bool | int | float
    dtype: np.dtype


@dataclass(frozen=True, slots=True)
class Edge:
    """An argument: where the range of the divided loop begins, or ends, in the piece that the kernel runs."""

    last: bool


I64 = np.dtype(np.int64)
_SMALL_INTS = ("int8", "int16", "int32", "uint8", "uint16", "uint32")


@dataclass(eq=False)
class Emitter(ABC):
    """Writes the text of one nest; its state is that of one kernel."""

    nest: Nest
    same: Same
    names: dict[Any, str] = field(default_factory=dict)  # argument key -> parameter name
    types: dict[str, str] = field(default_factory=dict)  # parameter name -> its type
    fillers: dict[str, Any] = field(default_factory=dict)  # parameter name -> Pointer, Number...
    errors: dict[Value, Failure] = field(default_factory=dict)  # what may fail -> how
    counter: int = 0
    known: dict[Value, bool] = field(default_factory=dict)  # comparisons that are, in this part of a loop

    def __post_init__(self) -> None:
        self.loops = loops_of(self.nest)
        self.sizes = [self._end_of(k, loop) for k, loop in enumerate(self.loops)]
        self.writer = Writer()

    def _end_of(self, k: int, loop: Loop) -> str:
        """What a loop runs up to."""
        return self.number(loop.size, I64, ("size", k), f"n{k}")

    def _start_of(self, k: int) -> str:
        """What a loop begins with."""
        return "0"

    @abstractmethod
    def _fail(self, number: int) -> None:
        """Write what a kernel does where check ``number``, from 1 on, fails."""

    def _module(self, entry: str, body: list[str], extra_imports: Iterable[str] = ()) -> str:
        """The kernel's module: imports, ARGUMENTS, the entry."""
        kinds = ", ".join(repr(t) for t in self.types.values())
        arguments = f"ARGUMENTS = ({kinds}{',' * (len(self.types) == 1)})"
        head = [f"def {entry}({', '.join(self.types)}):", *_comment(self.nest)]
        return (
            "\n".join([*extra_imports, *imports("\n".join(body)), "", arguments, "", "", *head, *body]) + "\n"
        )

    def _pass(self, stage: int, scope: dict[Value, str]) -> None:
        """One pass over a row: what it needs, what it accumulates, what it stores."""
        reductions, stores = self.nest.sinks_of(stage)
        for value in self.nest.pass_values(stage):
            kept = self.nest.stored_before(value, stage)
            if kept is not None:
                scope[value] = self._assign(self._element(kept.var, kept.at))
            elif value.level == 2:
                self._emit([value], scope)
        for r in reductions:
            self._accumulate(r, scope)
        self._stores(stores, scope)

    def _loops(self, loops: list[Loop], body: Callable[[], None]) -> None:
        """``loops`` around ``body``, one inside the other."""
        if not loops:
            body()
            return
        k = self.loops.index(loops[0])
        start = self._start_of(k)
        along = self.sizes[k] if start == "0" else f"{start}, {self.sizes[k]}"
        with self.writer.block(f"for i{k} in range({along}):"):
            self._loops(loops[1:], body)

    def _outside(self, values: Iterable[Value]) -> list[Value]:
        return [v for v in values if v.level == 0 and not isinstance(v, (Constant, Reduce))]

    def _needed(self, wanted: list[Value]) -> list[Value]:
        """The values under ``wanted``, parts first."""
        order: dict[Value, None] = {}
        stack = [(value, False) for value in reversed(wanted)]
        while stack:
            value, ready = stack.pop()
            if value in order:
                continue
            if ready:
                order[value] = None
            else:
                stack.append((value, True))
                stack += [(part, False) for part in reversed(parts_of(value, self.known))]
        return list(order)

    # -- values -----------------------------------------------------------------------------------------

    def _emit(self, values: Iterable[Value], scope: dict[Value, str]) -> None:
        """Compute values, each in a line of its own unless it has a name already or is chosen lazily."""
        for value in values:
            if value not in scope and not isinstance(value, Reduce) and not self._is_lazy(value):
                self._name(value, scope)

    def _is_lazy(self, value: Value) -> bool:
        """Reads under a choice are written inside the conditional expression: they may be out of range."""
        return value in self._under_choices

    @property
    def _under_choices(self) -> set[Value]:
        if not hasattr(self, "_lazy"):
            self._lazy: set[Value] = set()
            for value in self.nest.values():
                if isinstance(value, Choose):
                    self._lazy |= {
                        v for v in (value.then, value.otherwise) if isinstance(v, (Gather, Choose))
                    }
        return self._lazy

    def _name(self, value: Value, scope: dict[Value, str]) -> str:
        if value not in scope:
            text = self._text(value, scope)
            simple = isinstance(value, (Constant, Position))
            scope[value] = text if simple else self._assign(text)
        return scope[value]

    def _assign(self, text: str) -> str:
        name = f"t{self.counter}"
        self.counter += 1
        self.writer(f"{name} = {text}")
        return name

    def _text(self, value: Value, scope: dict[Value, str]) -> str:
        if isinstance(value, Load):
            return self._read(self._element(value.var, value.at), value.dtype)
        if isinstance(value, Constant):
            return self._constant(value.literal)  # a parameter's name, or the number itself
        if isinstance(value, Position):
            return f"({self._position(value.at)})"
        if isinstance(value, Compute):
            return self._compute(value, scope)
        if isinstance(value, Arithmetic):
            left, right = self._name(value.left, scope), self._name(value.right, scope)
            return f"({left} {value.sign} {right})"
        if isinstance(value, Gather):
            return self._gather(value, scope)
        assert isinstance(value, Choose), "a sum is needed in the loop that makes it"
        return self._choose(value, scope)

    def _choose(self, value: Choose, scope: dict[Value, str]) -> str:
        branch = chosen(value, self.known)
        if branch is not None:
            return self._branch(branch, scope)
        condition = self._name(value.condition, scope)
        then, otherwise = (self._branch(v, scope) for v in (value.then, value.otherwise))
        return f"({then} if {condition} else {otherwise})"

    def _branch(self, value: Value, scope: dict[Value, str]) -> str:
        return self._text(value, scope) if self._is_lazy(value) else self._name(value, scope)

    def _compute(self, value: Compute, scope: dict[Value, str]) -> str:
        op = value.op
        if value.dtype in HALVES or any(v.dtype in HALVES for v in value.args):
            return self._moved_or_converted(value, scope)
        args = [self._name(v, scope) for v in value.args]
        kind = next((v.dtype for v in reversed(value.args)), value.dtype)
        is_of_bools = value.dtype.kind == kind.kind == "b" and op.dtype == "promote"
        if is_of_bools:
            args = list(map(self._number_of_bool, args))
        names = dict(zip(op.arrays, args, strict=True))
        names |= {k: self._name(v, scope) for k, v in value.named.items()}
        integer = kind.kind != "f"
        template = op.integer_text if integer and op.integer_text else op.text
        assert template is not None
        if op.check is not None and integer:
            names = self._checked(value, names)
        out = short(value.dtype)
        names |= {"t": short(kind), "to": out, "out": _cast_name(value.dtype), "kind": name_of(kind)}
        text = template.format(**names, convert=_conversion(kind, value.dtype))
        if is_of_bools:  # True + True is 2 here
            text = f"({text}) != 0"
        return f"{_cast_name(value.dtype)}({text})" if _cast_name(value.dtype) in _SMALL_INTS else text

    def _number_of_bool(self, text: str) -> str:
        """A bool as what operators and functions of numbers take."""
        return text

    def _moved_or_converted(self, value: Compute, scope: dict[Value, str]) -> str:
        """Floats of 16 bits are their bits here: see ``graph/halves.py``."""
        (arg,) = value.args
        if arg.dtype in HALVES and isinstance(arg, Compute) and value.dtype != arg.dtype:
            (source,) = arg.args
            if source in scope and source.dtype.itemsize == 4:  # float32 until now: one step, not two
                return f"round_{short(arg.dtype)}({scope[source]})"
        text = self._name(arg, scope)
        if arg.dtype == value.dtype:
            return text
        if arg.dtype in HALVES:
            return f"wide_{short(arg.dtype)}({text})"
        text = text if arg.dtype.itemsize == 4 else f"odd_f32({text})"
        return f"narrow_{short(value.dtype)}({text})"

    def _checked(self, value: Compute, names: dict[str, str]) -> dict[str, str]:
        """Report where the check of an op fails, and go on with a harmless operand."""
        assert value.op.check is not None
        test, failure = value.op.check
        culprit = re.findall(r"{(\w+)}", test)[0]
        safe = self._assign(names[culprit])
        eqn = next(e for e in self.nest.eqns if value.var in e.outputs)
        with self.writer.block(f"if {test.format(**{culprit: safe})}:"):
            self._fail(self._number_of(value, replace(failure, source=eqn.source)))
            self.writer(f"{safe} = {safe} + 1")
        return names | {culprit: safe}

    def _number_of(self, value: Value, failure: Failure) -> int:
        """The number of the check of ``value``, from 1 on."""
        self.errors.setdefault(value, failure)
        return list(self.errors).index(value) + 1

    def _gather(self, value: Gather, scope: dict[Value, str]) -> str:
        pointer = self.pointer(value.var, value.offset)
        read = self._read(f"{pointer}[{self._address_of(value.terms, scope)}]", value.dtype)
        if value.bound is None:
            return read
        place = self._assign(f"int64({read})")
        bound = self.number(value.bound, I64, (value, "bound"))
        with self.writer.block(f"if {place} < 0 or {place} >= {bound}:"):
            self._fail(self._number_of(value, Failure(FailureKind.INDEX, value.error, value.source)))
            self.writer(f"{place} = 0")
        return place

    def _address_of(self, terms: tuple[tuple[int, Value], ...], scope: dict[Value, str]) -> str:
        parts = []
        for k, (stride, value) in enumerate(terms):
            name = self._name(value, scope)
            last = k == len(terms) - 1 and stride == 1
            parts.append(name if last else f"{name} * {self.number(stride, I64, (terms, k))}")
        return " + ".join(parts) or "0"

    # -- addresses --------------------------------------------------------------------------------------

    def _element(self, var: Var, at: Affine, written: bool = False) -> str:
        by, first = self._inner(at)
        pointer = self.pointer(var, at.offset - first, written)
        more = f" + {first}" if first else ""
        return f"{pointer}[{self._steps(at, pointer, by)}{more}]"

    def _inner(self, at: Affine) -> tuple[int, int]:
        """How far it is to the next element along the innermost loop and how much of the offset is a step of
        that, as far as the text says so; else (1, 0)."""
        if at.inner is None or not self.loops or self.loops[-1].axes[-1] != len(at.strides) - 1:
            return 1, 0
        return at.inner

    def _steps(self, at: Affine, pointer: str, by: int = 1) -> str:
        """``i0 * s0 + i1``: the way along the loops from the start, by ``by`` along the innermost."""
        parts = []
        for k, loop in enumerate(self.loops):
            stride = stride_along(at, loop)
            innermost = k == len(self.loops) - 1
            if stride == 0:
                continue
            if innermost and stride in (1, by):
                parts.append(f"i{k}" if stride == 1 else f"i{k} * {by}")
            else:  # neighbours in steps of a few are told for such by what is the same in their addresses
                which = at if by == 1 else at.strides
                parts.append(f"i{k} * {self.number(stride, I64, (pointer, which, k))}")
        return " + ".join(parts) or "0"

    def _position(self, at: Affine) -> str:
        parts = []
        for k, loop in enumerate(self.loops):
            stride = stride_along(at, loop)
            if stride:
                scaled = f"i{k} * {self.number(stride, I64, (at, k))}" if stride != 1 else f"i{k}"
                parts.append(scaled)
        if at.offset:
            parts.append(self.number(at.offset, I64, (at, "offset")))
        return " + ".join(parts) or "0"

    def _read(self, element: str, dtype: np.dtype) -> str:
        return f"{element} != 0" if dtype.kind == "b" else element

    # -- reductions -------------------------------------------------------------------------------------

    def _start(self, r: Reduce) -> str:
        name = self._assign(self._identity(r))
        if r.index is not None:
            self.writer(f"{name}_at = 0")
        return f"{name}_at" if r.index is not None else name

    def _identity(self, r: Reduce) -> str:
        kind = r.arg.dtype if r.index is not None else r.dtype
        identity = r.op.identity
        lowest = r.op.combine == "argmax" or identity == "lowest"
        if r.index is not None or identity in ("lowest", "highest"):
            return self._extreme(kind, lowest)
        return self._typed_constant(identity, kind)

    def _extreme(self, dtype: np.dtype, lowest: bool) -> str:
        if dtype.kind == "f":
            return f"{dtype.name}({'-' if lowest else ''}inf)"
        if dtype.kind == "b":
            return "False" if lowest else "True"
        info = np.iinfo(dtype)
        return f"{dtype.name}({info.min if lowest else info.max})"

    def _accumulate(self, r: Reduce, scope: dict[Value, str]) -> None:
        value = scope[r.arg]
        if r.index is None:
            self.writer(f"{scope[r]} = {self._combined(r, scope[r], value)}")
            return
        place, best = scope[r], scope[r].removesuffix("_at")
        better = ">" if r.op.combine == "argmax" else "<"
        test = f"{value} {better} {best}"
        if r.arg.dtype.kind == "f":  # the first NaN wins
            test += f" or ({value} != {value} and {best} == {best})"
        with self.writer.block(f"if {test}:"):
            self.writer(f"{best} = {value}")
            self.writer(f"{place} = {self._name(r.index, scope)}")

    def _combined(self, r: Reduce, a: str, b: str) -> str:
        combine = r.op.combine or ""
        if r.dtype.kind == "b":  # the larger of two bools is whether any is true
            combine = {"maximum": "logical_or", "minimum": "logical_and"}.get(combine, combine)
        if combine in ("logical_or", "logical_and"):
            a = f"({a} != 0)" if "[" in a else a
            sign = "&" if combine == "logical_and" else "|"  # no branch: the loop shall use vectors
            return f"{a} {sign} ({b} != 0)"
        if r.dtype.kind == "f":
            short_name = {"maximum": "max", "minimum": "min"}.get(combine, combine)
            return f"{short_name}_reassoc({a}, {b})"
        text = {
            "add": f"{a} + {b}", "mul": f"{a} * {b}",
            "maximum": f"max({a}, {b})", "minimum": f"min({a}, {b})",
        }[combine]  # fmt: skip
        return f"{r.dtype.name}({text})"

    def _stores(self, stores: Iterable[Store], scope: dict[Value, str]) -> None:
        stores = list(stores)
        self._emit(self._needed([s.value for s in stores if s.value not in scope]), scope)
        for s in stores:
            name = self._name(s.value, scope)
            self.writer(f"{self._element(s.var, s.at, written=True)} = {name}")

    # -- arguments --------------------------------------------------------------------------------------

    def pointer(self, var: Var, offset: int, written: bool = False) -> str:
        key = ("pointer", self.same(var), offset)
        if key not in self.names:
            letter = "y" if written or var in self._written else "x"
            count = sum(1 for n in self.types if n[0] == letter)
            self._add(key, f"{letter}{count}", f"{_stored(var.dtype)}*", Pointer(var, offset))
        name = self.names[key]
        assert self.types[name] == f"{_stored(var.dtype)}*", f"{var} lies where another dtype is read"
        return name

    @property
    def _written(self) -> set[Var]:
        return {s.var for s in self.nest.stores} | {r.var for r in self.nest.reductions}

    def number(self, value: int | float, dtype: np.dtype, key: Any, name: str = "") -> str:
        """The parameter of a number. ``key`` says what it is: equal values of different things stay
        apart, because for another size they may differ."""
        key = ("number", key)
        if key not in self.names:
            count = sum(1 for n in self.types if n[0] == "c")
            self._add(key, name or f"c{count}", short(dtype), Number(value, dtype))
        return self.names[key]

    def _add(self, key: Any, name: str, type: str, filler: Any) -> None:
        self.names[key] = name
        self.types[name] = type
        self.fillers[name] = filler

    def _constant(self, literal: Literal) -> str:
        known = literal.static or literal.dtype.kind == "b" or literal.dtype in HALVES
        if not is_symbolic(literal.value) and known:
            return self._typed_constant(literal.value, literal.dtype)
        return self.number(literal.value, literal.dtype, id(literal))

    def _typed_constant(self, value: Any, dtype: np.dtype) -> str:
        if dtype in HALVES:
            return f"uint16({bits_of(value, dtype)})"
        if dtype.kind == "b":
            return str(bool(value))
        if dtype.kind == "f" and not np.isfinite(value):
            return f"{dtype.name}({'nan' if value != value else 'inf' if value > 0 else '-inf'})"
        return f"{dtype.name}({value!r})"


@functools.cache
def _stored(dtype: np.dtype) -> str:
    """What an element is in memory."""
    return "u16" if dtype in HALVES else short(dtype)


@functools.cache
def _cast_name(dtype: np.dtype) -> str:
    return "bool" if dtype.kind == "b" else name_of(dtype)


def _conversion(source: np.dtype, target: np.dtype) -> str:
    """What converts ``source`` to ``target``, or to something wider that ``target`` is cut from."""
    if source.kind != "f" or target.kind not in "iu":
        return _cast_name(target)
    name = name_of(target)
    wide = "u64" if name == "uint64" else "i64" if name in ("int64", "uint32") else "i32"
    return f"cut_{wide}_{short(source)}"


def _comment(nest: Nest) -> list[str]:
    """The equations a kernel came from, without names that would make equal kernels differ."""
    names: dict[Any, str] = {}

    def show(atom: Any) -> str:
        if isinstance(atom, Literal) and atom.static:
            return str(atom.value)
        return names.setdefault(atom if isinstance(atom, Var) else id(atom), f"v{len(names)}")

    lines = []
    for eqn in nest.eqns:
        shapeless = {k: v for k, v in eqn.statics.items() if k in ("axis", "axes", "keepdims", "dtype")}
        lines.append(f"    # {eqn_text(eqn.replace(statics=shapeless), show)}")
    return lines


_WORD = re.compile(r"[A-Za-z_]\w*")
_NUMPY_NAMES = (
    "float32", "float64", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64",
    "inf", "nan",
)  # fmt: skip
_MODULES: dict[str, Iterable[str]] = {
    "numpy": _NUMPY_NAMES,
    "jtorch.native.intrinsics": {**intrinsics.PRIMITIVES, **intrinsics.STACKS},
    "jtorch.native.exact": exact.FUNCTIONS,
    "jtorch.native.halves": halves.FUNCTIONS,
    "jtorch.native.vecmath": vecmath.FUNCTIONS,
    "jtorch.core.philox": philox.KERNEL_FUNCTIONS,
}
_HOMES = {name: module for module, names in _MODULES.items() for name in names}


def imports(body: str) -> list[str]:
    """The import lines for the names that ``body`` uses."""
    used: dict[str, list[str]] = {}
    for name in sorted(_HOMES.keys() & _WORD.findall(body)):
        used.setdefault(_HOMES[name], []).append(name)
    return [f"from {module} import {', '.join(used[module])}" for module in _MODULES if module in used]
