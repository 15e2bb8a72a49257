"""Floats of 16 bits, computed in float32: what kernels, and products, do with them is to convert.

    c = add(a, b)                                # bf16[8]
becomes
    d = cast(a, dtype=float32)                   # f32[8]
    e = cast(b, dtype=float32)                   # f32[8]
    f = add(d, e)                                # f32[8]
    c = cast(f, dtype=bfloat16)                  # bf16[8]

Eager mode computes so, too: each op rounds its result, and once. So nothing is left out here, and what is
fused rounds as often. What no kernel computes stays as it is, and NumPy computes it. A target whose products
do all that by themselves gets them without the casts (``narrowed``).
"""

from __future__ import annotations

import enum
from typing import Any

import numpy as np

from jtorch.compile.graph.ir import Atom, Eqn, Graph, Literal, Type, Var
from jtorch.core import dtypes as dt
from jtorch.core.dim import is_symbolic
from jtorch.core.dtypes import HALVES
from jtorch.core.op import BY_NAME, Kind

_CAST, _CLONE = BY_NAME["cast"], BY_NAME["clone"]
_FLOAT32, _FLOAT64, _FLOAT16 = np.dtype(np.float32), np.dtype(np.float64), np.dtype(np.float16)


class Multiplies(enum.Enum):
    """What a target's products do with floats of 16 bits."""

    WIDE = "nothing"  # factors are made float32 in memory
    FACTORS = "factors"  # they take them, sum in float32, and give that
    ALL = "all"  # and they round the sums


def has_halves(eqn: Eqn) -> bool:
    return any(a.dtype in HALVES for a in (*eqn.inputs, *eqn.outputs))


def moves_or_converts(eqn: Eqn) -> bool:
    """Whether all that ``eqn`` does with floats of 16 bits is to move them, or to convert them in a way that
    kernels know."""
    if eqn.op is _CAST:
        source, target = eqn.inputs[0].dtype, eqn.outputs[0].dtype
        if isinstance(eqn.inputs[0], Literal):
            return False
        return {source, target} & {_FLOAT32} != set() or (source, target) == (_FLOAT64, _FLOAT16)
    return eqn.op is _CLONE or (eqn.op.kind is Kind.VIEW and all(isinstance(a, Var) for a in eqn.inputs))


def widens(eqn: Eqn) -> bool:
    """Whether it makes float32 of 16 bits."""
    if eqn.op is not _CAST or not isinstance(eqn.inputs[0], Var):
        return False
    return eqn.inputs[0].dtype in HALVES and eqn.outputs[0].dtype == _FLOAT32


def widened(eqn: Eqn, find: Any) -> tuple[Eqn, ...] | None:
    """The equations that compute ``eqn`` in float32; None where that is not to be, or not needed."""
    if not has_halves(eqn) or moves_or_converts(eqn) or not _is_computed(eqn):
        return None
    if eqn.op is _CAST:
        first = Var(Type(_FLOAT32, eqn.outputs[0].shape))
        return _cast(eqn.inputs[0], first, eqn), _cast(first, eqn.outputs[0], eqn)
    made: list[Eqn] = []
    inputs = tuple(_in_float32(a, eqn, made) for a in eqn.inputs)
    if eqn.op is BY_NAME["full"] and eqn.outputs[0].dtype in HALVES:
        inputs = (_rounded(eqn.inputs[0], eqn.outputs[0].dtype, eqn, made),)
    statics = {name: _FLOAT32 if value in _NAMED else value for name, value in _typed(eqn)}
    out = eqn.outputs[0]
    if out.dtype not in HALVES:
        return (*made, eqn.replace(inputs=inputs, statics=statics))
    wide = Var(Type(_FLOAT32, out.shape), out.hint)
    return (*made, eqn.replace(inputs=inputs, statics=statics, outputs=(wide,)), _cast(wide, out, eqn))


_NAMED = frozenset(HALVES)


def _typed(eqn: Eqn) -> list[tuple[str, Any]]:
    """The statics; what is no dtype can be asked for, too."""
    return [
        (name, np.dtype(v) if name == "dtype" and v is not None else v) for name, v in eqn.statics.items()
    ]


def _is_computed(eqn: Eqn) -> bool:
    """Whether a kernel, or a product, computes it in float32 to the same result."""
    op = eqn.op
    if any(isinstance(a, Literal) and a.dtype in HALVES and is_symbolic(a.value) for a in eqn.inputs):
        return False
    if op.kind is Kind.ELEMENTWISE:
        return op.text is not None and not op.draws
    if op.kind is Kind.REDUCTION:  # of products each one is rounded
        return op.scatter is None and op.combine != "mul"
    return op.kind is Kind.CONTRACTION


def _cast(source: Atom, target: Var, eqn: Eqn) -> Eqn:
    return Eqn(_CAST, (source,), {"dtype": target.dtype}, (target,), eqn.source)


def _in_float32(atom: Atom, eqn: Eqn, made: list[Eqn]) -> Atom:
    if atom.dtype not in HALVES:
        return atom
    if isinstance(atom, Literal):
        return Literal(float(atom.dtype.type(atom.value)), _FLOAT32, atom.static)
    wide = Var(Type(_FLOAT32, atom.shape))
    made.append(_cast(atom, wide, eqn))
    return wide


def _rounded(value: Atom, target: np.dtype, eqn: Eqn, made: list[Eqn]) -> Atom:
    """A number as what is repeated in 16 bits, in float32."""
    if isinstance(value, Literal):
        return Literal(float(target.type(value.value)), _FLOAT32, value.static)
    if value.dtype == _FLOAT64 and target == _FLOAT16:  # not by way of float32
        narrow = Var(Type(target, ()))
        made.append(_cast(value, narrow, eqn))
        return _in_float32(narrow, eqn, made)
    return value


def bits_of(value: Any, dtype: np.dtype) -> int:
    """A number as the bits of a float of 16 bits."""
    return int(np.asarray(value, dt.OF_NUMPY[dtype].numpy).view(np.uint16))


def narrowed(graph: Graph, by: Multiplies) -> Graph:
    """``graph`` without the casts around products, which a target's products do ``by`` themselves.

        d = cast(a, dtype=float32)                   # f32[8,8]
        e = cast(b, dtype=float32)                   # f32[8,8]
        f = mm(d, e)                                 # f32[8,8]
        c = cast(f, dtype=bfloat16)                  # bf16[8,8]
    becomes
        c = mm(a, b)                                 # bf16[8,8]

    Views in between go along. What others read in float32 as well stays so: ``f = mm(a, b)``.
    """
    if by is Multiplies.WIDE or not any(map(widens, graph.eqns)):
        return graph
    made_by = {out: eqn for eqn in graph.eqns for out in eqn.outputs}
    users = _users(graph)
    instead: dict[Eqn, tuple[Eqn, ...]] = {}
    for eqn in graph.eqns:
        if eqn.op.kind is Kind.CONTRACTION:
            views: list[Eqn] = []
            inputs = tuple([_narrow(a, made_by, views) for a in eqn.inputs])
            dtypes = {None if a is None else a.dtype for a in inputs}
            if len(dtypes) == 1 and None not in dtypes:
                product = eqn.replace(inputs=inputs)
                instead[eqn] = (*views, product)
                if by is Multiplies.ALL:
                    _narrow_result(product, eqn, users, instead)
    made = graph.replace(eqns=tuple(e for eqn in graph.eqns for e in instead.get(eqn, (eqn,))))
    return _without_unread(made)


def _users(graph: Graph) -> dict[Atom, list[Eqn | None]]:
    """What reads each variable; None for the graph itself, which gives it."""
    users: dict[Atom, list[Eqn | None]] = {out: [] for eqn in graph.eqns for out in eqn.outputs}
    for eqn in graph.eqns:
        for atom in eqn.inputs:
            if atom in users:
                users[atom].append(eqn)
    for atom in graph.outputs:
        if atom in users:
            users[atom].append(None)
    return users


def _narrow(atom: Atom, made_by: dict[Any, Eqn], views: list[Eqn]) -> Var | None:
    """What has the elements of ``atom`` in 16 bits, if it was made of that; ``views`` gets what makes it."""
    made = made_by.get(atom)
    if made is None or atom.dtype != _FLOAT32:
        return None
    source = made.inputs[0] if made.inputs else None
    if made.op is _CAST:
        return source if isinstance(source, Var) and source.dtype in HALVES else None
    if not is_view(made):
        return None
    inner = _narrow(made.inputs[0], made_by, views)
    if inner is None:
        return None
    (out,) = made.outputs
    views.append(made.replace(inputs=(inner,), outputs=(Var(Type(inner.dtype, out.shape)),)))
    return views[-1].outputs[0]


def is_view(eqn: Eqn) -> bool:
    return eqn.op.kind is Kind.VIEW and len(eqn.inputs) == 1 == len(eqn.outputs)


def _narrow_result(
    product: Eqn, eqn: Eqn, users: dict[Atom, list[Eqn | None]], instead: dict[Eqn, tuple[Eqn, ...]]
) -> None:
    """Have ``product``, which stands ``instead`` of ``eqn``, round its result where that is all it is for."""
    dtype, chain = product.inputs[0].dtype, [eqn]
    while True:
        (out,) = chain[-1].outputs
        user, *others = users[out] or [None]
        if user is None or others:
            return
        if user.op is _CAST:
            break
        if not is_view(user):
            return
        chain.append(user)
    if user.outputs[0].dtype != dtype:
        return
    atom: Atom = user.outputs[0] if len(chain) == 1 else Var(Type(dtype, eqn.outputs[0].shape))
    instead[eqn] = (*instead[eqn][:-1], product.replace(outputs=(atom,)))
    for view in chain[1:]:
        out = user.outputs[0] if view is chain[-1] else Var(Type(dtype, view.outputs[0].shape))
        instead[view] = (view.replace(inputs=(atom,), outputs=(out,)),)
        atom = out
    instead[user] = ()


def _without_unread(graph: Graph) -> Graph:
    """``graph`` without casts and views that nobody reads."""
    read, eqns = set(graph.outputs), []
    for eqn in reversed(graph.eqns):
        if (eqn.op is _CAST or is_view(eqn)) and read.isdisjoint(eqn.outputs):
            continue
        read.update(eqn.inputs)
        eqns.append(eqn)
    return graph.replace(eqns=tuple(reversed(eqns)))
