"""What an op does to tangents: one rule for each kind, made of its gradient.

A gradient is linear in ``g``. Where each element of the result depends on one element of each argument, it is
the derivative along ``g`` as well. What only moves and adds elements does so with tangents; a product takes
one factor's tangent at a time; and of all others the gradient is differentiated with respect to ``g``.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from jtorch.core import op as op_module
from jtorch.core.op import Context, Kind, Op
from jtorch.eager import duals
from jtorch.eager.binding import APPLY, TENSOR_XP
from jtorch.eager.differentiation import grad
from jtorch.eager.duals import fitted, note_how, tangent_of, zeros_like
from jtorch.eager.grad_mode import enable_grad
from jtorch.eager.tensor import Tensor


def with_tangents(op: Op, context: Context, arrays: tuple, statics: dict[str, Any]) -> Any:
    """``op`` of arguments that may have tangents, at a level: what it gives has its tangents."""
    tangents = [tangent_of(a) for a in arrays]
    apply = APPLY[op.name]
    with duals.beneath(context):
        out = apply(*arrays, **statics)
        if op.aliases and out._base is not None:
            note_how(out, op, arrays[0], statics)
        elif any(t is not None for t in tangents):
            _give_tangents(op, context, arrays, statics, tangents, out)
    return out


def _give_tangents(
    op: Op, context: Context, arrays: tuple, statics: dict[str, Any], tangents: list, out: Any
) -> None:
    outs = out if isinstance(out, tuple) else (out,)
    if all(o._data.dtype.kind not in "fcV" for o in outs):
        return
    if op.vjp_function is None:
        raise NotImplementedError(duals.NO_RULE.format(name=op.public or op.name))
    given = [None if t is None else fitted(t, a) for t, a in zip(tangents, arrays, strict=True)]
    found = _rule(op, arrays, tangents, out)(op, arrays, statics, given, out)
    for o, t in zip(outs, found, strict=True):
        if t is not None and o._data.dtype.kind in "fcV":
            context.level.give(o, t)
    if outs[0]._node is not None:
        _keep(context.level, outs[0]._node, tangents, outs)


def _keep(level: duals.Level, node: Any, tangents: list, outs: tuple) -> None:
    """Have a pass through ``node`` see the tangents of what it saved."""
    ins = {("in", k): level.cell(t) for k, t in enumerate(tangents) if t is not None}
    given = [(k, t.__dict__[duals.KEY].value) for k, t in enumerate(outs) if duals.KEY in t.__dict__]
    node.extend().tangents = ins | {("out", k): level.cell(t) for k, t in given}


def _is_real_of_complex(arrays: tuple, out: Tensor) -> bool:
    """Whether the derivative is of real and imaginary parts: the gradient is then no product with it."""
    return out._data.dtype.kind != "c" and any(isinstance(a, Tensor) and a.is_complex() for a in arrays)


def _is_product(op: Op, tangents: list) -> bool:
    """Whether it is linear in each of two factors, as the gradient of one is made of the other alone; and
    nothing else that is multiplied has a tangent."""
    factors = op.saved_for
    if not (len(factors) == 2 and all(factors.get(b) == a for a, b in factors.items())):
        return False
    saved = {name for name in op.save_list if name not in factors}
    return not any(name in saved and t is not None for name, t in zip(op.arrays, tangents, strict=True))


def _rule(op: Op, arrays: tuple, tangents: list, out: Any) -> Callable:
    by_element = op.kind is Kind.ELEMENTWISE and op.n_outputs == 1 and op.holomorphic
    if by_element and not _is_real_of_complex(arrays, out):
        return _diagonal
    saves = {name for name in op.save_list if name in (*op.arrays, "out")}
    moves = op.kind is Kind.VIEW or op.aliases or (op.kind is Kind.REDUCTION and not saves - {"indices"})
    if moves:
        return _linear
    return _product if _is_product(op, tangents) else _transposed


def _diagonal(op: Op, arrays: tuple, statics: dict[str, Any], tangents: list, out: Tensor) -> tuple:
    """Σ ∂f/∂x · t: what the gradient is of ``g`` = t."""
    saved = [_saved(op, name, arrays, statics, tangents, out) for name in op.save_list]
    total = None
    for k, t in enumerate(tangents):
        if t is None:
            continue
        t = t if t.shape == out.shape else APPLY["expand"](t, shape=tuple(out._data.shape))
        parts = op.vjp_function(TENSOR_XP, t, *saved)  # type: ignore[misc]
        part = parts[k] if isinstance(parts, tuple) else parts
        if part is not None:
            part = fitted(part, out)
            total = part if total is None else total + part
    return (zeros_like(out) if total is None else total,)


def _saved(op: Op, name: str, arrays: tuple, statics: dict[str, Any], tangents: list, out: Any) -> Any:
    """What the gradient of ``op`` asks for under this ``name``."""
    if name in op.arrays:
        return arrays[op.arrays.index(name)]
    if name == "out":
        return out
    if name == "needs":
        return tuple(t is not None for t in tangents)
    if name in statics:
        return statics[name]
    array, _, fact = name.rpartition("_")
    data = arrays[op.arrays.index(array)]._data
    return data.shape if fact == "shape" else data.dtype


def _linear(op: Op, arrays: tuple, statics: dict[str, Any], tangents: list, out: Tensor) -> tuple:
    """f(t): tangents in the arguments' stead, zeros where they have none."""
    given = [_or_zeros(a, t) for a, t in zip(arrays, tangents, strict=True)]
    return (APPLY[op.name](*given, **statics),)


def _or_zeros(array: Any, tangent: Tensor | None) -> Any:
    if tangent is not None:
        return tangent
    is_index = not isinstance(array, Tensor) or array._data.dtype.kind not in "fcV"
    return array if is_index else zeros_like(array)


def _product(op: Op, arrays: tuple, statics: dict[str, Any], tangents: list, out: Tensor) -> tuple:
    """f(t, y) + f(x, t); tangents of what is added to the product go with the first of these."""
    by_name = dict(zip(op.arrays, tangents, strict=True))
    turns = [name for name in op.saved_for if by_name[name] is not None]
    total = None
    for factor in turns or list(op.saved_for)[:1]:
        given = []
        for name, array in zip(op.arrays, arrays, strict=True):
            t = by_name[name]
            if name == factor:
                array = _or_zeros(array, t)
            elif name not in op.save_list and isinstance(array, Tensor):
                array = zeros_like(array) if t is None or total is not None else t
            given.append(array)
        part = APPLY[op.name](*given, **statics)
        total = part if total is None else total + part
    return (total,)


def _transposed(op: Op, arrays: tuple, statics: dict[str, Any], tangents: list, out: Any) -> tuple:
    """J t, as the derivative along t of u -> u J, which is linear: its value at u = 0 serves."""
    pairs = [(a, t) for a, t in zip(arrays, tangents, strict=True) if t is not None]
    followed = op_module.CONTEXT.get().grad and any(
        isinstance(t, Tensor) and t._requires_grad for t in (*arrays, *(t for _, t in pairs))
    )
    inside = [_inside(a, t is not None, followed) for a, t in zip(arrays, tangents, strict=True)]
    wanted = [i for i, t in zip(inside, tangents, strict=True) if t is not None]
    with enable_grad():
        again = APPLY[op.name](*inside, **statics)
        outs = again if isinstance(again, tuple) else (again,)
        there = [o for o in outs if o._requires_grad]
        if not there:
            return tuple(zeros_like(o) for o in outs)
        seeds = [zeros_like(o).requires_grad_() for o in there]
        pulled = grad(there, wanted, seeds, create_graph=True, allow_unused=True)
        ways = [(p, t) for p, (_, t) in zip(pulled, pairs, strict=True) if p is not None and p._requires_grad]
        if not ways:
            return tuple(zeros_like(o) for o in outs)
        found = grad(
            [p for p, _ in ways], seeds, [t for _, t in ways], create_graph=followed, allow_unused=True
        )
    by_place = iter(found)
    parts = [next(by_place) if o._requires_grad else None for o in outs]
    return tuple(zeros_like(o) if p is None else p for o, p in zip(outs, parts, strict=True))


def _inside(array: Any, is_dual: bool, followed: bool) -> Any:
    """An argument to differentiate by, on the tape outside only where somebody follows it there."""
    if not isinstance(array, Tensor):
        return array
    if followed and array._requires_grad:
        return array.view_as(array) if is_dual else array
    inside = array.detach()
    return inside.requires_grad_() if is_dual else inside
