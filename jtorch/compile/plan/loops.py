"""The loop nest of a group: values, where each is computed, and what is stored.

This is what the code generators print, for CPU and CUDA alike. A value has a *level*: 0 needs no loop, 1
changes with the kept axes (once per row), 2 with every position. In a row kernel it also has a *stage*:
what depends on a row's reduction is computed in a later pass over that row.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from jtorch.compile.graph.access import (
    Affine,
    Coordinates,
    identity,
    inner_steps,
    keeps_all,
    layout_of,
    linear,
    strides_of,
    to_root,
)
from jtorch.compile.graph.ir import Atom, Eqn, Literal, Var
from jtorch.compile.graph.reads import coordinates_of, is_known_anywhere, is_repeated, place_of
from jtorch.compile.plan.fuse import Fused, Group, Step, Style
from jtorch.core import index as ix
from jtorch.core.dtypes import HALVES
from jtorch.core.errors import FailedCheck, Source
from jtorch.core.op import Kind, Op
from jtorch.core.strides import contiguous_strides

_I64 = np.dtype(np.int64)


@dataclass(frozen=True, eq=False)
class Value:
    """Something computed in a kernel."""

    dtype: np.dtype
    level: int
    stage: int

    def parts(self) -> tuple[Value, ...]:
        """The values it is computed from."""
        return ()


@dataclass(frozen=True, eq=False)
class Load(Value):
    """An element of an array at an affine address."""

    var: Var  # the owner of the memory
    at: Affine
    is_all: bool  # what is read is all of that memory, whatever the sizes


@dataclass(frozen=True, eq=False)
class Constant(Value):
    literal: Literal


@dataclass(frozen=True, eq=False)
class Position(Value):
    """An affine function of the loop positions: a coordinate, or the index of a random number."""

    at: Affine


@dataclass(frozen=True, eq=False)
class Compute(Value):
    """``op`` of other values. ``named`` are further values its text may use: position, index."""

    op: Op
    args: tuple[Value, ...]
    named: dict[str, Value] = field(default_factory=dict)
    var: Var | None = None

    def parts(self) -> tuple[Value, ...]:
        return (*self.args, *self.named.values())

    @property
    def costly(self) -> bool:
        """Worth keeping in memory instead of computing it again."""
        return self.op.costly


@dataclass(frozen=True, eq=False)
class Arithmetic(Value):
    """Integer arithmetic of an index expression."""

    sign: str
    left: Value
    right: Value

    def parts(self) -> tuple[Value, ...]:
        return (self.left, self.right)


@dataclass(frozen=True, eq=False)
class Gather(Value):
    """An element of an array at a computed address; checked against ``bound`` where there is one."""

    var: Var
    offset: int
    terms: tuple[tuple[int, Value], ...]  # (stride in elements, coordinate)
    sizes: tuple[int, ...]  # of the axes that the coordinates belong to
    bound: int | None = None
    error: str = ""
    source: Source | None = None  # the user's line, for the error

    def parts(self) -> tuple[Value, ...]:
        return tuple(v for _, v in self.terms)


@dataclass(frozen=True, eq=False)
class Choose(Value):
    """``then if condition else otherwise``, evaluating only the one chosen."""

    condition: Value
    then: Value
    otherwise: Value

    def parts(self) -> tuple[Value, ...]:
        return (self.condition, self.then, self.otherwise)


@dataclass(frozen=True, eq=False)
class Reduce(Value):
    """The reduction of ``arg`` over the reduced axes. ``level`` is 1: one result per row."""

    op: Op
    arg: Value
    var: Var
    index: Value | None = None  # the position to remember, for argmax and argmin

    def parts(self) -> tuple[Value, ...]:
        return ()  # computed by a loop of its own, not where it is used

    def inner(self) -> tuple[Value, ...]:
        """What its loop computes."""
        return (self.arg,) if self.index is None else (self.arg, self.index)


@dataclass(frozen=True, eq=False)
class Store:
    """Write ``value`` into the memory of ``var``. ``level`` says in which loop."""

    var: Var
    at: Affine
    value: Value
    level: int


@dataclass(frozen=True, eq=False)
class Scatter:
    """Add ``value`` into ``var`` at a computed address."""

    var: Var
    value: Value
    terms: tuple[tuple[int, Value], ...]


@dataclass(frozen=True, eq=False)
class Nest:
    """A group as loops. ``sizes`` are the domain's; the loop order is the code generator's."""

    sizes: tuple[int, ...]
    reduced: tuple[int, ...]
    style: Style
    reductions: tuple[Reduce, ...]
    stores: tuple[Store, ...]
    scatters: tuple[Scatter, ...]
    eqns: tuple[Eqn, ...]
    _known: dict[int | None, list[Value]] = field(default_factory=dict, init=False)  # by pass; all by None
    _reads: dict[Var, list[Load | Gather]] = field(default_factory=dict, init=False)

    @property
    def name(self) -> str:
        """What is inside: the style and the first ops."""
        ops = [e.op.name for e in self.eqns]
        shown = ops if len(ops) <= 5 else [*ops[:3], f"{len(ops) - 4}_more", ops[-1]]
        return "_".join([self.style, *shown])

    @property
    def likeness(self) -> Hashable:
        """Equal for nests that are probably one kernel, with other sizes and strides."""
        return self.style, *((e.op.name, *(v.dtype for v in e.outputs)) for e in self.eqns)

    @property
    def last_stage(self) -> int:
        return max((s.value.stage for s in self.stores), default=0)

    def result_places(self) -> list[Affine]:
        """Where each reduction's result lies in the memory of its variable."""
        places = []
        for r in self.reductions:
            place = coordinates_of(r.var.shape, self.sizes, self.reduced)
            assert place is not None
            places.append(linear(place, strides_of(r.var), len(self.sizes)))
        return places

    def sinks_of(self, stage: int) -> tuple[list[Reduce], list[Store]]:
        """What pass ``stage`` over a row accumulates and stores."""
        reductions = [r for r in self.reductions if r.arg.stage == stage]
        return reductions, [s for s in self.stores if s.level == 2 and s.value.stage == stage]

    def pass_values(self, stage: int) -> list[Value]:
        """The values that pass ``stage`` needs, parts before wholes. A costly one that an earlier pass
        stored is there without its parts: it is read back."""
        found = self._known.get(stage)
        if found is None:
            found = self._known[stage] = self._values_of(stage)
        return found

    def _values_of(self, stage: int) -> list[Value]:
        reductions, stores = self.sinks_of(stage)
        wanted = [v for r in reductions for v in r.inner()] + [s.value for s in stores]
        seen: set[Value] = set()
        found: list[Value] = []
        for value in wanted:
            found += _walk(value, seen, lambda v: self.stored_before(v, stage) is not None)
        return found

    def stored_before(self, value: Value, stage: int) -> Store | None:
        """The store by which an earlier pass kept a costly value."""
        if not (isinstance(value, Compute) and value.costly and value.level == 2 and value.stage < stage):
            return None
        return next((s for s in self.stores if s.value is value and s.level == 2), None)

    def values(self) -> list[Value]:
        """Every value of the nest, parts before wholes."""
        found = self._known.get(None)
        if found is None:
            found = self._known[None] = self._values()
        return found

    def reads_of(self, var: Var) -> list[Load | Gather]:
        """The values that are read from the memory of ``var``."""
        if not self._reads:
            for value in self.values():
                if isinstance(value, (Load, Gather)):
                    self._reads.setdefault(value.var, []).append(value)
        return self._reads.get(var, [])

    def _values(self) -> list[Value]:
        seen: set[Value] = set()
        sinks = [v for r in self.reductions for v in r.inner()] + [s.value for s in self.stores]
        for s in self.scatters:
            sinks += [s.value, *(v for _, v in s.terms)]
        sinks += self.reductions
        return [v for sink in sinks for v in _walk(sink, seen)]


def _walk(
    value: Value, seen: set[Value], is_leaf: Callable[[Value], bool] = lambda v: False
) -> Iterator[Value]:
    """``value`` and everything under it that is not in ``seen``, parts first."""
    stack: list[tuple[Value, bool]] = [(value, False)]
    while stack:
        v, ready = stack.pop()
        if v in seen:
            continue
        if ready:
            seen.add(v)
            yield v
        else:
            stack.append((v, True))
            stack += [(p, False) for p in (() if is_leaf(v) else v.parts())]


def _latest(*parts: Value) -> tuple[int, int]:
    """(level, stage) of what is computed from these."""
    return max((v.level for v in parts), default=0), max((v.stage for v in parts), default=0)


def build_nest(step: Step, fused: Fused) -> Nest:
    """The loop nest of a loop step."""
    assert step.group is not None
    return _Builder(step.group, fused).build()


class _Builder:
    def __init__(self, group: Group, fused: Fused) -> None:
        self.group = group
        self.fused = fused
        self.n = len(group.domain)
        self.own = {v for e in group.eqns for v in e.outputs}
        self.reduced = frozenset(group.reduced or ())
        self.memo: dict[Any, Value] = {}

    def build(self) -> Nest:
        reductions: list[Reduce] = []
        stores: list[Store] = []
        scatters: list[Scatter] = []
        for eqn in self.group.eqns:
            if eqn.op.scatter is not None:
                scatters.append(self._scatter(eqn))
                continue
            if eqn.op.woven is not None:
                stores += self._woven(eqn)
                continue
            for var in eqn.outputs:
                value = self._computed(eqn, var)
                if isinstance(value, Reduce):
                    reductions.append(value)
                    if self.group.style == Style.COLUMN:
                        continue  # accumulated in its memory already
                if var in self.fused.stored:
                    stores.append(self._store(var, value))
        g = self.group
        if scatters and stores:  # which its kernel would not write
            raise AssertionError(f"a scattering kernel is to store {stores[0].var}")
        reduced = tuple(sorted(self.reduced)) if g.style != Style.SCATTER else ()
        nest = Nest(
            g.domain, reduced, g.style, tuple(reductions), tuple(stores), tuple(scatters), tuple(g.eqns)
        )
        return replace(nest, stores=nest.stores + tuple(self._spills(nest)))

    def _spills(self, nest: Nest) -> Iterator[Store]:
        """Stores of costly values that a later pass over the row would compute again."""
        used: dict[Value, set[int]] = {}
        for stage in range(nest.last_stage + 1):
            for value in nest.pass_values(stage):
                used.setdefault(value, set()).add(stage)
        stored = {s.value for s in nest.stores}
        for value, stages in used.items():
            if not isinstance(value, Compute) or value.var is None or value in stored:
                continue
            costly = value.costly and value.level == 2 and value.var.shape == nest.sizes
            if costly and len(stages) > 1:
                yield self._store(value.var, value)

    def _store(self, var: Var, value: Value) -> Store:
        place = coordinates_of(var.shape, self.group.domain, self.group.reduced)
        assert place is not None
        at = linear(place, strides_of(var), self.n)
        whole = var.shape == self.group.domain
        return Store(var, at, value, 2 if whole else max(1, value.level))

    def _woven(self, eqn: Eqn) -> Iterator[Store]:
        """The stores of inputs that go into every so manyth place of the output."""
        assert eqn.op.woven is not None
        (out,), here = eqn.outputs, identity(self.n)
        strides = strides_of(out)
        for atom, (starts, steps) in zip(eqn.inputs, eqn.op.woven(self.n, **eqn.statics), strict=True):
            there = tuple(
                Affine(start, tuple(s * step for s in axis.strides))
                for axis, start, step in zip(here, starts, steps, strict=True)
            )
            at = linear(there, strides, self.n)
            at = Affine(at.offset, at.strides, inner_steps(there, strides))
            yield Store(out, at, self.value(atom, here), 2)

    # -- values ------------------------------------------------------------------------------------------

    def _level(self, at: Affine) -> int:
        if any(s for k, s in enumerate(at.strides) if k in self.reduced or self.group.reduced is None):
            return 2
        return 1 if any(at.strides) else 0

    def value(self, atom: Atom, coordinates: Coordinates) -> Value:
        """What ``atom`` is at ``coordinates`` of its own."""
        if isinstance(atom, Literal):
            return self._once(id(atom), lambda: Constant(atom.dtype, 0, 0, atom))
        root, at = to_root(atom, coordinates, self.n, self.fused.find)
        maker = self.fused.find(root)
        if maker is not None and root in self.own and at == self._place(root):
            return self._computed(maker, root)
        if maker is not None and is_repeated(maker) and maker not in self.group.eqns:
            return self._once((root, at), lambda: self._elementwise(maker, root, at))
        return self._load(root, at, keeps_all(atom, self.fused.find))

    def _place(self, var: Var) -> Coordinates | None:
        return coordinates_of(var.shape, self.group.domain, self.group.reduced)

    def _once(self, key: Any, make: Any) -> Any:
        if key not in self.memo:
            self.memo[key] = make()
        return self.memo[key]

    def _load(self, root: Var, at: Coordinates, is_all: bool) -> Value:
        layout = layout_of(root, self.fused.find)
        assert layout is not None, f"{root} has no layout"
        address = linear(at, layout.strides, self.n)
        address = Affine(address.offset + layout.offset, address.strides, inner_steps(at, layout.strides))
        level = self._level(address)
        load = Load(root.dtype, level, 0, layout.owner, address, is_all)
        return self._once((layout.owner, address, is_all), lambda: load)

    def _computed(self, eqn: Eqn, var: Var) -> Value:
        place = place_of(eqn, self.group.domain, self.group.reduced)
        if place is None:  # a number or pattern with a step of its own
            place = identity(self.n)
        if eqn.op.kind is Kind.REDUCTION:
            return self._once((var, "reduce"), lambda: self._reduction(eqn, var, place))
        if eqn.op.index_map is not None:
            return self._once((var, place), lambda: self._mapped(eqn, place))
        return self._once((var, place), lambda: self._elementwise(eqn, var, place))

    def _reduction(self, eqn: Eqn, var: Var, place: Coordinates) -> Reduce:
        arg = self.value(eqn.inputs[0], place)
        index = None
        if eqn.op.identity is None:
            axes = eqn.statics["axis"]
            inner = tuple(eqn.inputs[0].shape[a] for a in axes)  # type: ignore[union-attr]
            along = tuple(place[a] for a in axes)
            index = self._position(linear(along, contiguous_strides(inner), self.n))
        return Reduce(var.dtype, 1, arg.stage + 1, eqn.op, arg, var, index)

    def _elementwise(self, eqn: Eqn, var: Var, place: Coordinates) -> Value:
        args = tuple(self.value(a, place if _has_axes(a) else ()) for a in eqn.inputs)
        named = {}
        text = eqn.op.text or ""
        if "{position}" in text:
            named["position"] = self._position(place[eqn.statics["axis"]])
        if "{index}" in text:
            named["index"] = self._position(linear(place, strides_of(var), self.n))
        level, stage = _latest(*args, *named.values())
        return Compute(var.dtype, level, stage, eqn.op, args, named, var)

    def _position(self, at: Affine) -> Value:
        return self._once(("position", at), lambda: Position(_I64, self._level(at), 0, at))

    # -- index programs ------------------------------------------------------------------------------------

    def _mapped(self, eqn: Eqn, place: Coordinates) -> Value:
        assert eqn.op.index_map is not None
        shapes = [a.shape for a in eqn.inputs if isinstance(a, Var)]
        coordinates = [ix.Coordinate(k) for k in range(len(place))]
        tree = eqn.op.index_map(coordinates, shapes, **eqn.statics)
        return self._choice(tree, eqn, place)

    def _choice(self, tree: ix.Choice, eqn: Eqn, place: Coordinates) -> Value:
        if isinstance(tree, ix.Read):
            return self._gather(eqn.inputs[tree.source], tree.at, eqn, place)
        if isinstance(tree, ix.Fill):
            dtype = eqn.outputs[0].dtype
            number = dtype.type(tree.value)
            plain = float(number) if dtype in HALVES else number.item()
            return Constant(dtype, 0, 0, Literal(plain, dtype, True))
        assert isinstance(tree, ix.Select)
        condition = self._index_value(tree.condition, eqn, place)
        then, otherwise = (self._choice(t, eqn, place) for t in (tree.then, tree.otherwise))
        level, stage = _latest(condition, then, otherwise)
        return Choose(eqn.outputs[0].dtype, level, stage, condition, then, otherwise)

    def _gather(
        self, atom: Atom, at: tuple[ix.Expr, ...], eqn: Eqn, place: Coordinates,
        bound: int | None = None, error: str = "",
    ) -> Value:  # fmt: skip
        if isinstance(atom, Literal):
            return self.value(atom, ())
        maker = self.fused.find(atom)
        if maker is not None and is_known_anywhere(maker):
            return self._pattern(maker, at, eqn, place, bound)
        layout = layout_of(atom, self.fused.find)
        assert layout is not None, f"{atom} has no layout"
        axes = [
            (n, s, e)
            for n, s, e in zip(atom.shape, layout.strides, at, strict=True)
            if s or ix.is_loaded(e)  # along an expanded axis, too, an index has to be in range
        ]
        terms = tuple((s, self._index_value(e, eqn, place)) for _, s, e in axes)
        sizes = tuple(n for n, _, _ in axes)
        level, stage = _latest(*(v for _, v in terms))
        return Gather(
            atom.dtype, level, stage, layout.owner, layout.offset, terms, sizes, bound, error, eqn.source
        )

    def _pattern(
        self, maker: Eqn, at: tuple[ix.Expr, ...], eqn: Eqn, place: Coordinates, bound: int | None
    ) -> Value:
        """A pattern (``full``, ``iota``) read at computed coordinates."""
        named: dict[str, Value] = {}
        args = tuple(self.value(a, ()) for a in maker.inputs)
        largest = args[0].literal.value if args and isinstance(args[0], Constant) else 0
        if not args:
            axis = maker.statics["axis"]
            named["position"] = self._index_value(at[axis], eqn, place)
            largest = maker.outputs[0].shape[axis] - 1
        for k, expr in enumerate(at):  # what does not count for the element has to be in range all the same
            if ix.is_loaded(expr):
                named[f"at{k}"] = self._index_value(expr, eqn, place)
        if bound is not None and not -1 < largest < bound and maker.outputs[0].type.size:
            found = f"index {largest} is out of bounds for dimension with size {bound} (at {eqn.source})"
            raise FailedCheck(IndexError(found))
        level, stage = _latest(*args, *named.values())
        return Compute(maker.outputs[0].dtype, level, stage, maker.op, args, named, maker.outputs[0])

    def _index_value(self, expr: ix.Expr, eqn: Eqn, place: Coordinates) -> Value:
        if isinstance(expr, ix.Coordinate):
            return self._position(place[expr.axis])
        if isinstance(expr, (ix.Size, ix.Step)):
            return Constant(_I64, 0, 0, Literal(expr.value, _I64, isinstance(expr, ix.Step)))
        if isinstance(expr, ix.Loaded):
            return self._gather(eqn.inputs[expr.source], expr.at, eqn, place, expr.bound, expr.error)
        assert isinstance(expr, ix.Binary)
        left, right = (self._index_value(e, eqn, place) for e in (expr.left, expr.right))
        return Arithmetic(_I64, *_latest(left, right), expr.sign, left, right)

    def _scatter(self, eqn: Eqn) -> Scatter:
        assert eqn.op.scatter is not None
        place = identity(self.n)
        out = eqn.outputs[0]
        shapes = [a.shape for a in eqn.inputs if isinstance(a, Var)]
        coordinates = [ix.Coordinate(k) for k in range(self.n)]
        target = eqn.op.scatter(coordinates, shapes, **eqn.statics)
        terms = tuple(
            (s, self._index_value(ix.wrap(e), eqn, place))
            for s, e in zip(strides_of(out), target, strict=True)
        )
        return Scatter(out, self.value(eqn.inputs[0], place), terms)


def _has_axes(atom: Atom) -> bool:
    return isinstance(atom, Var) and bool(atom.shape)
