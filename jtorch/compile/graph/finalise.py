"""The last step before fusion: copies where memory needs them, made explicit.

After it each output of the graph is a variable of its own with memory of its own, each reshape
relabels memory in order, and each product of matrices has as many axes as a kernel takes. A factor that
many short products share lies in the order in which they read it fastest.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

import numpy as np

from jtorch.compile.graph.access import is_alias, layout_of
from jtorch.compile.graph.conversions import converted_where_read
from jtorch.compile.graph.halves import Multiplies, narrowed
from jtorch.compile.graph.ir import Atom, Eqn, Graph, Literal, Type, Var, repeated
from jtorch.compile.graph.passes import Fuel, optimise
from jtorch.compile.graph.products import product_of
from jtorch.core.op import BY_NAME, Kind
from jtorch.core.products import blas_matrices

_CLONE = BY_NAME["clone"]
# What gains by a copy in the other order. That takes 0.8 to 2.6 ns for each element, more of a large one, and
# a product of so many rows gains 0.2 to 0.4: one of 16 x 64 x 256 takes 8.5 us, and 4.8 then.
_USES, _LEAST_ROWS, _MOST_ROWS, _LARGEST = 12, 8, 64, 1 << 22


def through_passes(
    graph: Graph, fuel: Fuel, multiplies: Multiplies,
    observe: Callable[[str, Graph, float], None] | None = None,
) -> Graph:  # fmt: skip
    """``graph`` as it is fused, for a target whose products do so much with floats of 16 bits; ``observe`` is
    that of ``optimise``."""
    return finalise(converted_where_read(narrowed(optimise(graph, fuel, observe), multiplies)))


def finalise(graph: Graph) -> Graph:
    """``graph`` with the copies that memory needs, or that gain by it, as equations of their own."""
    return turned(with_copies(without_unread(graph)))


def without_unread(graph: Graph) -> Graph:
    """Loops without what nobody reads of their turns."""
    read = {*graph.outputs, *(atom for eqn in graph.eqns for atom in eqn.inputs)}
    eqns = []
    for eqn in graph.eqns:
        scan = eqn.op.scan
        kept = [k for k, var in enumerate(eqn.outputs) if var in read]
        if scan is not None and scan.like is not None and len(kept) < len(eqn.outputs):
            kept = sorted({*scan.carried, *scan.checked, *kept})
            turn = scan.graph.replace(outputs=tuple(scan.graph.outputs[k] for k in kept))
            eqn = eqn.replace(op=scan.like(turn), outputs=tuple(eqn.outputs[k] for k in kept))
        eqns.append(eqn)
    return graph.replace(eqns=tuple(eqns))


def turned(graph: Graph) -> Graph:
    """The factor of many short products of which the inner axis lies side by side, as the weights of a
    recurrence do, copied into the other order once."""
    made_by = {v: e for e in graph.eqns for v in e.outputs}
    uses = Counter(e.inputs[1] for e in graph.eqns if e.op.kind is Kind.CONTRACTION)
    copies: dict[Var, Var] = {}
    eqns: list[Eqn] = []
    for eqn in graph.eqns:
        if eqn.op.kind is Kind.CONTRACTION and uses[eqn.inputs[1]] >= _USES:
            x, y = map(_var, eqn.inputs)
            if y not in copies and _lies_crosswise(eqn, made_by):
                copies[y] = Var(y.type, y.hint)
                eqns.append(Eqn(_CLONE, (y,), {}, (copies[y],), eqn.source))
            eqn = eqn.replace(inputs=(x, copies.get(y, y)))
        eqns.append(eqn)
    return graph.replace(eqns=tuple(eqns))


def _lies_crosswise(product: Eqn, made_by: dict[Var, Eqn]) -> bool:
    """Whether the second factor is a matrix, and not a large one, whose columns, not rows, lie side by side,
    and the product one of few rows."""
    found, y = product_of(product, made_by.get), _var(product.inputs[1])
    if found is None or y.dtype not in (np.float32, np.float64) or y.type.nbytes > _LARGEST:
        return False
    matrices, (batch, rows, *_) = blas_matrices(found.product), found.product.sizes
    return matrices is not None and matrices.y.transposed and batch == 1 and _LEAST_ROWS <= rows <= _MOST_ROWS


def with_copies(graph: Graph) -> Graph:
    """``graph`` with the copies that memory needs."""
    made_by: dict[Var, Eqn] = {}
    eqns: list[Eqn] = []

    def add(eqn: Eqn) -> None:
        eqns.append(eqn)
        made_by.update((v, eqn) for v in eqn.outputs)

    def copied(var: Var, like: Eqn | None) -> Var:
        out = Var(var.type, var.hint)
        add(Eqn(_CLONE, (var,), {}, (out,), like.source if like else None))
        return out

    for eqn in graph.eqns:
        if eqn.op.relabels and not _lies_in_order(_var(eqn.inputs[0]), made_by):
            add(eqn.replace(inputs=(copied(_var(eqn.inputs[0]), eqn),)))
        elif eqn.op.kind is Kind.CONTRACTION:
            product = eqn.replace(inputs=tuple(_materialised(a, add) for a in eqn.inputs))
            if product_of(product, made_by.get) is None:
                product = product.replace(inputs=tuple(copied(_var(a), eqn) for a in product.inputs))
            add(product)
        elif eqn.op.kind is Kind.SCAN:  # each turn's part of it lies in one piece
            there = [_materialised(a, add) for a in eqn.inputs]
            add(eqn.replace(inputs=tuple(v if _lies_in_order(v, made_by) else copied(v, eqn) for v in there)))
        elif eqn.op.kind is not Kind.ELEMENTWISE:  # a number where an array is meant gets memory
            add(eqn.replace(inputs=tuple(_materialised(a, add) for a in eqn.inputs)))
        else:
            add(eqn)
    outputs: list[Var] = []
    for atom in graph.outputs:
        if isinstance(atom, Literal):
            outputs.append(_materialised(atom, add))
        elif atom in outputs or atom not in made_by or is_alias(made_by[atom]):
            outputs.append(copied(atom, made_by.get(atom)))
        else:
            outputs.append(atom)
    return graph.replace(eqns=tuple(eqns), outputs=tuple(outputs))


def _var(atom: Atom) -> Var:
    assert isinstance(atom, Var)
    return atom


def _materialised(atom: Atom, add: object) -> Var:
    if isinstance(atom, Var):
        return atom
    out = Var(Type(atom.dtype, ()))
    add(repeated(atom, out))  # type: ignore[operator]
    return out


def _lies_in_order(var: Var, made_by: dict[Var, Eqn]) -> bool:
    """Whether what is reshaped is in memory order.

    Asked of the strides alone: where an axis has size 1 by chance (a last batch of one) a copy would not be
    needed, but leaving it out would make other kernels. An axis that a view put in has stride 0.
    """
    source = layout_of(var, made_by.get)
    assert source is not None
    expected = 1
    for n, stride in zip(reversed(var.shape), reversed(source.strides), strict=True):
        if stride != expected and not (n == 1 and stride == 0):
            return False
        expected *= n
    return True
