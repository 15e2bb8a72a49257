"""Simplification, as rows of rules: op, what to match, what to put in its place.

A rule gets the equation and a function that finds the equation that made a variable; it answers
with an atom to use instead, with an equation to replace it (or several, the last of which makes its
outputs), or with None. Every rule is exact, bit for bit (so ``x + 0`` is not among them: it turns
-0.0 into 0.0). Apart from exponents numbers count only when they are part of the program's
structure (``Literal.static``): a 1/n that happens to be 1.0 for a batch of one must not make
another graph.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from jtorch.compile.graph.ir import Atom, Eqn, Literal, Type, Var, repeated
from jtorch.core.dtypes import HALVES
from jtorch.core.op import BY_NAME, TABLE, Kind
from jtorch.core.sizes import cast

Definition = Callable[[Atom], "Eqn | None"]
Rule = Callable[[Eqn, Definition], "Atom | Eqn | tuple[Eqn, ...] | None"]


def _is(atom: Atom, value: float) -> bool:
    return isinstance(atom, Literal) and atom.static and atom.value == value


def _made_by(atom: Atom, find: Definition, name: str) -> Eqn | None:
    eqn = find(atom)
    return eqn if eqn is not None and eqn.op.name == name else None


def _times_one(eqn: Eqn, find: Definition) -> Atom | None:
    x, y = eqn.inputs
    if _is(y, 1) and _same_type(x, eqn):
        return x
    return y if _is(x, 1) and _same_type(y, eqn) else None


def _over_one(eqn: Eqn, find: Definition) -> Atom | None:
    return eqn.inputs[0] if _is(eqn.inputs[1], 1) and _same_type(eqn.inputs[0], eqn) else None


def _squared(eqn: Eqn, find: Definition) -> Eqn | None:
    """x ** 2 as x x, which is what NumPy computes, too."""
    x, y = eqn.inputs
    if isinstance(y, Literal) and y.value == 2 and _same_type(x, eqn):
        return eqn.replace(op=BY_NAME["mul"], inputs=(x, x))
    return None


def _same_type(atom: Atom, eqn: Eqn) -> bool:
    return isinstance(atom, Var) and atom.type == eqn.outputs[0].type


def _unchanged(eqn: Eqn, find: Definition) -> Atom | None:
    return eqn.inputs[0] if _same_type(eqn.inputs[0], eqn) else None


def _inverse_of_itself(eqn: Eqn, find: Definition) -> Atom | None:
    inner = _made_by(eqn.inputs[0], find, eqn.op.name)
    return inner.inputs[0] if inner else None


def _reshape_of_reshape(eqn: Eqn, find: Definition) -> Eqn | Atom | None:
    if _same_type(eqn.inputs[0], eqn):
        return eqn.inputs[0]
    inner = _made_by(eqn.inputs[0], find, "reshape")
    return eqn.replace(inputs=inner.inputs) if inner else None


def _permute_of_permute(eqn: Eqn, find: Definition) -> Eqn | Atom | None:
    axes = eqn.statics["axes"]
    if axes == tuple(range(len(axes))):
        return eqn.inputs[0]
    inner = _made_by(eqn.inputs[0], find, "permute")
    if inner is None:
        return None
    combined = tuple(inner.statics["axes"][a] for a in axes)
    return eqn.replace(inputs=inner.inputs, statics={"axes": combined})


def _undone(by: str) -> Rule:
    def rule(eqn: Eqn, find: Definition) -> Atom | None:
        inner = _made_by(eqn.inputs[0], find, by)
        same = inner is not None and inner.statics["axes"] == eqn.statics["axes"]
        return inner.inputs[0] if same and inner is not None else None

    return rule


def _splat(eqn: Eqn, find: Definition) -> Eqn | None:
    """A view of one number repeated is that number repeated."""
    (x,) = eqn.inputs
    inner = _made_by(x, find, "full")
    if inner is None and not isinstance(x, Literal):
        return None
    return repeated(x if inner is None else inner.inputs[0], eqn.outputs[0], eqn.source)


def _cast_of_literal(eqn: Eqn, find: Definition) -> Atom | None:
    (x,) = eqn.inputs
    if isinstance(x, Literal) and not eqn.outputs[0].shape:
        return Literal(cast(eqn.outputs[0].dtype, x.value), eqn.outputs[0].dtype, x.static)
    return None


def _back_again(eqn: Eqn, find: Definition) -> Atom | None:
    wide = _made_by(eqn.inputs[0], find, "cast")
    if wide is None or wide.outputs[0].dtype != np.float32 or eqn.outputs[0].dtype not in HALVES:
        return None
    return wide.inputs[0] if _same_type(wide.inputs[0], eqn) else None


def _nothing_to_reduce(eqn: Eqn, find: Definition) -> Atom | tuple[Eqn, ...] | None:
    x = eqn.inputs[0]
    if not _same_type(x, eqn) or eqn.statics["axis"]:
        return None
    if x.dtype.kind != "f":
        return x
    zero = Literal(cast(x.dtype, 0.0), x.dtype, False)  # sums begin with 0.0: that of -0.0 is not -0.0
    return (Eqn(BY_NAME["add"], (x, zero), {}, eqn.outputs, eqn.source),)


def _before_new_axes(eqn: Eqn, find: Definition) -> tuple[Eqn, ...] | None:
    """What is computed of arrays with new axes is computed before the axes are there. So a mean
    that keeps its
    axis is worked on as what it is, one number a row, whatever the size of other axes."""
    makers = [_made_by(a, find, "unsqueeze") for a in eqn.inputs if isinstance(a, Var) and a.shape]
    if not makers or any(m is None or m.statics != makers[0].statics for m in makers):  # type: ignore[union-attr]
        return None
    below = iter(m.inputs[0] for m in makers if m is not None)
    inputs = tuple(next(below) if isinstance(a, Var) and a.shape else a for a in eqn.inputs)
    source = makers[0].inputs[0]  # type: ignore[union-attr]
    assert isinstance(source, Var)
    out = Var(Type(eqn.outputs[0].dtype, source.shape))
    made = eqn.replace(inputs=inputs, outputs=(out,))
    return made, makers[0].replace(inputs=(out,), outputs=eqn.outputs, source=eqn.source)  # type: ignore[union-attr]


def _of_merged_batches(eqn: Eqn, find: Definition) -> tuple[Eqn, ...] | None:
    """A product of batches that were merged into one axis is that of the batches as they were: merging
    axes that don't lie one in another would copy them."""
    found = [_before_merging(a, find) for a in eqn.inputs]
    (first, second) = found
    if first is None or second is None or first[0].shape[:-2] != second[0].shape[:-2]:
        return None
    made: list[Eqn] = []
    factors: list[Var] = []
    for source, swap in (first, second):
        factor = source
        if swap is not None:
            n = len(source.shape)
            factor = Var(Type(source.dtype, (*source.shape[:-2], source.shape[-1], source.shape[-2])))
            axes = (*range(n - 2), n - 1, n - 2)
            made.append(swap.replace(inputs=(source,), statics={"axes": axes}, outputs=(factor,)))
        factors.append(factor)
    a, b = factors
    out = Var(Type(eqn.outputs[0].dtype, (*a.shape[:-1], b.shape[-1])))
    made.append(eqn.replace(inputs=(a, b), outputs=(out,)))
    merged = Eqn(BY_NAME["reshape"], (out,), {"shape": eqn.outputs[0].shape}, eqn.outputs, eqn.source)
    return (*made, merged)


def _before_merging(atom: Atom, find: Definition) -> tuple[Var, Eqn | None] | None:
    """(the array of matrices before its leading axes were merged into one, the swap of rows and columns
    that came after)."""
    swap = _made_by(atom, find, "permute")
    if swap is not None:
        if swap.statics["axes"] != (0, 2, 1):
            return None
        atom = swap.inputs[0]
    merge = _made_by(atom, find, "reshape")
    source = merge.inputs[0] if merge is not None else None
    if not isinstance(source, Var) or not isinstance(atom, Var) or len(atom.shape) != 3:
        return None
    batch, matrix = source.shape[:-2], source.shape[-2:]
    # the count, too: matrices without elements can be as many as one likes
    merges = len(batch) > 1 and atom.shape == (math.prod(batch), *matrix)
    return (source, swap) if merges else None


def _of_all_axes(eqn: Eqn, find: Definition) -> tuple[Eqn, ...] | None:
    """The place among all elements is the one in a row of them."""
    x, axes = eqn.inputs[0], eqn.statics["axis"]
    if not isinstance(x, Var) or not 1 < len(axes) == len(x.shape):
        return None
    row = Var(Type(x.dtype, (x.type.size,)))
    flat = Eqn(BY_NAME["reshape"], (x,), {"shape": row.shape}, (row,), eqn.source)
    return flat, eqn.replace(inputs=(row,), statics=eqn.statics | {"axis": (0,)})


def _place_of(extreme: str) -> Rule:
    """The first place of the largest element of a row as the least of the places where it is, or a NaN: two
    loops that vectors go through, where one that carries a place along takes element by element."""

    def rule(eqn: Eqn, find: Definition) -> tuple[Eqn, ...] | None:
        x, axes = eqn.inputs[0], eqn.statics["axis"]
        if not isinstance(x, Var) or x.dtype.kind not in "fi" or len(axes) != 1:
            return None
        n = x.shape[axes[0]]
        dtype = np.dtype(np.int32 if n < _INT32 else np.int64)
        made: list[Eqn] = []

        def add(name: str, inputs: tuple[Atom, ...], type: Type, **statics: Any) -> Var:
            out = Var(type)
            made.append(Eqn(BY_NAME[name], inputs, statics, (out,), eqn.source))
            return out

        rows = tuple(size for k, size in enumerate(x.shape) if k != axes[0])
        kept = (*rows[: axes[0]], 1, *rows[axes[0] :])
        asked, placed = Type(_BOOL, x.shape), Type(dtype, x.shape)
        along = {"axis": axes, "keepdims": False}
        found: Atom = add(extreme, (x,), Type(x.dtype, rows), **along)
        found = add("unsqueeze", (found,), Type(x.dtype, kept), axes=axes)
        found = add("expand", (found,), x.type, shape=x.shape)
        is_there = add("eq", (x, found), asked)
        if x.dtype.kind == "f":
            is_nan = add("ne", (x, x), asked)
            is_there = add("logical_or", (is_there, is_nan), asked)
        place = add("iota", (), placed, shape=x.shape, axis=axes[0], dtype=dtype)
        nowhere = Literal(cast(dtype, n), dtype, False)
        place = add("where", (is_there, place, nowhere), placed)
        least = add("min", (place,), Type(dtype, rows), **along)
        last = Eqn(BY_NAME["cast"], (least,), {"dtype": np.dtype(np.int64)}, eqn.outputs, eqn.source)
        if dtype == np.int64:
            return (*made[:-1], made[-1].replace(outputs=eqn.outputs))
        return (*made, last)

    return rule


_BOOL, _INT32 = np.dtype(np.bool_), 2**31
RULES: tuple[tuple[str, Rule], ...] = (
    ("mul", _times_one),  # x 1 = x
    ("div", _over_one),  # x / 1 = x
    ("pow", _squared),  # x**2 = x x
    ("neg", _inverse_of_itself),  # --x = x
    ("cast", _unchanged),  # x as its own dtype
    ("cast", _cast_of_literal),
    ("cast", _back_again),  # 16 bits in float32, in 16 bits: what they were
    ("clone", _unchanged),  # copies are the memory plan's business
    ("expand", _unchanged),
    ("expand", _splat),
    ("reshape", _splat),
    ("reshape", _reshape_of_reshape),
    ("unsqueeze", _splat),
    ("squeeze", _splat),
    ("permute", _splat),
    ("permute", _permute_of_permute),  # transposes of transposes; what is left are strides of a product
    ("squeeze", _undone("unsqueeze")),
    ("unsqueeze", _undone("squeeze")),
    ("matmul", _of_merged_batches),
    ("argmax", _of_all_axes),
    ("argmin", _of_all_axes),
    ("argmax", _place_of("max")),
    ("argmin", _place_of("min")),
    ("sum", _nothing_to_reduce),  # over no axes at all
    # f(unsqueeze(x), unsqueeze(y)) = unsqueeze(f(x, y))
    *((op.name, _before_new_axes) for op in TABLE if op.kind is Kind.ELEMENTWISE),
)
