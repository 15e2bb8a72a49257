"""The IR: a pure, static graph of primitive ops that prints as Python.

A graph is a list of equations over variables, each assigned once. Shapes are part of a variable's type;
broadcasting is explicit (``expand``): an argument of an elementwise equation has its shape or no axes.

    def step(x: f32[32, 64], w: f32[10, 64]):
        a = permute(w, axes=(1, 0))        # f32[64, 10]    train.py:12 forward
        b = matmul(x, a)                   # f32[32, 10]    train.py:12 forward
        return (b,)
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from jtorch.core.dtypes import HALVES
from jtorch.core.errors import GraphError, Source
from jtorch.core.op import BY_NAME, Kind, Op, infer, output_dtypes
from jtorch.core.sizes import shape_of

_SHORT = {
    "float32": "f32", "float64": "f64", "float16": "f16", "bfloat16": "bf16",
    "int64": "i64", "int32": "i32", "int16": "i16",
    "int8": "i8", "uint8": "u8", "uint16": "u16", "uint32": "u32", "uint64": "u64", "bool": "bool",
}  # fmt: skip


# asking NumPy for names is slow
_SHORT_OF = {np.dtype(name): short for name, short in _SHORT.items()}
_NAME_OF = {np.dtype(name): name for name in _SHORT}


def short(dtype: np.dtype) -> str:
    """``f32`` for float32 and so on, as the IR and the kernels print it."""
    return _SHORT_OF.get(dtype) or dtype.name


def name_of(dtype: np.dtype) -> str:
    """``dtype.name``, without asking NumPy."""
    return _NAME_OF.get(dtype) or dtype.name


@dataclass(frozen=True, slots=True)
class Type:
    dtype: np.dtype
    shape: tuple[int, ...]
    _nbytes: int | None = field(default=None, init=False, repr=False, compare=False)

    @property
    def size(self) -> int:
        n = 1
        for k in self.shape:
            n *= k
        return n

    @property
    def nbytes(self) -> int:
        known = self._nbytes
        if known is None:  # asked for all the time, and a product of symbols takes its time
            known = self.size * self.dtype.itemsize
            object.__setattr__(self, "_nbytes", known)
        return known

    def __str__(self) -> str:
        return f"{short(self.dtype)}[{', '.join(map(str, self.shape))}]"


class Var:
    """A value with a name of its own: an input or the result of one equation."""

    __slots__ = ("dtype", "hint", "shape", "type")

    def __init__(self, type: Type, hint: str = "") -> None:
        self.type = type
        self.hint = hint
        self.dtype, self.shape = type.dtype, type.shape  # asked for all the time

    def __repr__(self) -> str:
        return f"<Var {self.hint} {self.type}>"


@dataclass(frozen=True, slots=True)
class Literal:
    """A number. ``static`` ones are part of the program's structure and may shape a kernel; others
    (1/n of a mean, say) may follow from a size, and stay arguments so that kernels serve all sizes."""

    value: bool | int | float
    dtype: np.dtype
    static: bool = False

    def __str__(self) -> str:
        return repr(self.value)


Atom = Var | Literal


@dataclass(frozen=True, slots=True, eq=False)
class Eqn:
    """``outputs = op(*inputs, **statics)``, written at ``source`` in the user's program."""

    op: Op
    inputs: tuple[Atom, ...]
    statics: dict[str, Any]
    outputs: tuple[Var, ...]
    source: Source | None = None

    def replace(self, **changes: Any) -> Eqn:
        facts = {k: getattr(self, k) for k in ("op", "inputs", "statics", "outputs", "source")}
        return Eqn(**(facts | changes))

    def with_inputs(self, new: dict[Var, Atom]) -> Eqn:
        """The same with ``new`` atoms in the place of variables; itself where it has none of them."""
        for atom in self.inputs:
            if atom.__class__ is Var and atom in new:
                inputs = tuple(new.get(a, a) if isinstance(a, Var) else a for a in self.inputs)
                return Eqn(self.op, inputs, self.statics, self.outputs, self.source)
        return self


def repeated(number: Atom, out: Var, source: Source | None = None) -> Eqn:
    """What makes ``out`` of one number, repeated to its shape."""
    return Eqn(BY_NAME["full"], (number,), {"shape": out.shape, "dtype": out.dtype}, (out,), source)


@dataclass(frozen=True, slots=True, eq=False)
class Graph:
    name: str
    inputs: tuple[Var, ...]
    eqns: tuple[Eqn, ...]
    outputs: tuple[Atom, ...]

    def replace(self, **changes: Any) -> Graph:
        facts = {k: getattr(self, k) for k in ("name", "inputs", "eqns", "outputs")}
        return Graph(**(facts | changes))

    def __str__(self) -> str:
        return text(self)


# -- printing ----------------------------------------------------------------------------------------------


def names_of(graph: Graph) -> dict[Var, str]:
    """A name for each variable: its hint where that is free, else a, b, c..."""
    names: dict[Var, str] = {}
    taken: set[str] = set()
    fresh = _letters()
    outputs = (v for e in graph.eqns for v in e.outputs)
    for var in itertools.chain(graph.inputs, outputs):
        name = var.hint
        if not name or name in taken:
            name = next(n for n in fresh if n not in taken) if not name else _numbered(name, taken)
        taken.add(name)
        names[var] = name
    return names


def _letters() -> Iterator[str]:
    letters = "abcdefghijklmnopqrstuvwxyz"
    for length in itertools.count(1):
        for combination in itertools.product(letters, repeat=length):
            name = "".join(combination)
            if name not in ("as", "if", "in", "is", "or", "and", "def", "for", "not"):
                yield name


def _numbered(name: str, taken: set[str]) -> str:
    return next(f"{name}_{k}" for k in itertools.count(2) if f"{name}_{k}" not in taken)


def text(graph: Graph, sources: bool = True) -> str:
    """The graph as Python, one equation a line, with types and the user's lines as comments.

    Without ``sources`` two recordings of one program are the same text, wherever they were called from.
    """
    names = names_of(graph)

    def show(atom: Atom) -> str:
        return names[atom] if isinstance(atom, Var) else str(atom)

    arguments = ", ".join(f"{names[v]}: {v.type}" for v in graph.inputs)
    rows = [(eqn_text(e, show), _comment(e, sources)) for e in graph.eqns]
    width = min(max((len(code) for code, _ in rows), default=0), 72)
    lines = [f"def {graph.name}({arguments}):"]
    lines += [f"    {code.ljust(width)}  # {comment}".rstrip() for code, comment in rows]
    returned = "".join(f"{show(a)}, " for a in graph.outputs).rstrip(" ")
    lines.append(f"    return ({returned})" if graph.outputs else "    return ()")
    return "\n".join(lines)


def eqn_text(eqn: Eqn, show: Any) -> str:
    parts = [show(a) for a in eqn.inputs]
    parts += [f"{k}={_static_text(v)}" for k, v in eqn.statics.items()]
    return f"{', '.join(show(v) for v in eqn.outputs)} = {eqn.op.name}({', '.join(parts)})"


def _static_text(value: Any) -> str:
    return short(value) if isinstance(value, np.dtype) else repr(value)


def _comment(eqn: Eqn, sources: bool = True) -> str:
    types = ", ".join(str(v.type) for v in eqn.outputs)
    if eqn.source is None or not sources:
        return types
    file = eqn.source.file.replace("\\", "/").rsplit("/", 1)[-1]
    return f"{types:<16} {file}:{eqn.source.line} {eqn.source.function}"


# -- checking ----------------------------------------------------------------------------------------------


def check(graph: Graph) -> None:
    """Raise GraphError, with the lines around the fault, unless the graph obeys the rules of the IR."""
    known: set[Var] = set(graph.inputs)
    for k, eqn in enumerate(graph.eqns):
        fault = _fault(eqn, known)
        if fault:
            raise GraphError(f"{graph.name}, equation {k}: {fault}\n{_around(graph, k)}")
        known.update(eqn.outputs)
    for atom in graph.outputs:
        if isinstance(atom, Var) and atom not in known:
            raise GraphError(f"{graph.name}: an output is not defined: {atom}\n{text_tail(graph)}")


def _fault(eqn: Eqn, known: set[Var]) -> str | None:
    if eqn.op.kind is Kind.COMPOSITE:
        return f"{eqn.op.name} is a composite and must not be in a graph"
    for atom in eqn.inputs:
        if isinstance(atom, Var) and atom not in known:
            return f"uses {atom} before it is defined"
    for var in eqn.outputs:
        if var in known:
            return f"assigns {var} a second time"
    if eqn.op.kind is Kind.ELEMENTWISE:
        shape = eqn.outputs[0].shape
        wrong = [a for a in eqn.inputs if isinstance(a, Var) and a.shape not in (shape, ())]
        if wrong:
            return f"{eqn.op.name} of shape {shape} has an argument that is not broadcast: {wrong[0]}"
    types = infer_types(eqn)
    for var, wanted in zip(eqn.outputs, types, strict=True):
        if var.type != wanted and not _is_unrounded(eqn, wanted):
            return f"{eqn.op.name} gives {wanted}, the variable says {var.type}"
    return None


def _is_unrounded(eqn: Eqn, wanted: Type) -> bool:
    """Whether it is a product of floats of 16 bits that gives its sums, in float32: see ``halves.py``."""
    if eqn.op.kind is not Kind.CONTRACTION or not all(a.dtype in HALVES for a in eqn.inputs):
        return False
    return eqn.outputs[0].type == Type(np.dtype(np.float32), wanted.shape)


def infer_types(eqn: Eqn) -> list[Type]:
    """The types an equation's outputs must have."""
    return types_of(eqn.op, eqn.inputs, eqn.statics)


def types_of(op: Op, inputs: Iterable[Atom], statics: dict[str, Any]) -> list[Type]:
    inputs = list(inputs)
    dtypes = [a.dtype for a in inputs]
    if op.kind is Kind.ELEMENTWISE:
        return [_type_beside(inputs, d, statics) for d in output_dtypes(op, dtypes, statics)]
    shapes = [a.shape if isinstance(a, Var) else () for a in inputs]
    return [Type(d, shape_of(s)) for d, s in infer(op, dtypes, shapes, statics)]


def _type_beside(inputs: list[Atom], dtype: np.dtype, statics: dict[str, Any]) -> Type:
    """The type of what an op computes element by element: that of an input, in most cases."""
    if "shape" in statics:
        return Type(dtype, shape_of(statics["shape"]))
    shape: tuple[int, ...] = ()
    for atom in inputs:
        if isinstance(atom, Var) and atom.shape:
            if atom.dtype is dtype:
                return atom.type
            shape = shape or atom.shape
    return Type(dtype, shape)


def _around(graph: Graph, k: int) -> str:
    lines = text(graph).splitlines() if _printable(graph) else []
    first = max(0, k + 1 - 5)
    return "\n".join(("> " if n == k + 1 else "  ") + lines[n] for n in range(first, min(len(lines), k + 6)))


def _printable(graph: Graph) -> bool:
    defined = set(graph.inputs).union(v for e in graph.eqns for v in e.outputs)
    used = (a for e in graph.eqns for a in e.inputs if isinstance(a, Var))
    return all(a in defined for a in used)


def text_tail(graph: Graph) -> str:
    return "\n".join(text(graph.replace(outputs=())).splitlines()[-10:])
