"""The last step before fusion: copies where memory needs them, made explicit.

After it each output of the graph is a variable of its own with memory of its own, each reshape
relabels memory in order, and each operand of a matrix product is something BLAS can walk.
"""

from __future__ import annotations

from jtorch.compile.graph.access import Layout, is_alias, layout_of
from jtorch.compile.graph.ir import Atom, Eqn, Graph, Literal, Type, Var, repeated
from jtorch.core.op import BY_NAME, Kind

_CLONE = BY_NAME["clone"]


def finalise(graph: Graph) -> Graph:
    """``graph`` with the copies that memory needs as equations of their own."""
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
        if eqn.op.relabels and _must_copy(eqn, made_by):
            add(eqn.replace(inputs=(copied(_var(eqn.inputs[0]), eqn),)))
        elif eqn.op.kind is Kind.CONTRACTION:
            operands = (_materialised(a, add) for a in eqn.inputs)
            fit = tuple(a if _walkable(a, made_by) else copied(a, eqn) for a in operands)
            add(eqn.replace(inputs=fit))
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


def _must_copy(eqn: Eqn, made_by: dict[Var, Eqn]) -> bool:
    """Whether a reshape's input is not in memory order.

    Asked of the strides alone: where an axis has size 1 by chance (a last batch of one) a copy would not be
    needed, but leaving it out would make other kernels. An axis that a view put in has stride 0.
    """
    source = layout_of(_var(eqn.inputs[0]), made_by.get)
    assert source is not None
    expected = 1
    for n, stride in zip(reversed(_var(eqn.inputs[0]).shape), reversed(source.strides), strict=True):
        if stride != expected and not (n == 1 and stride == 0):
            return True
        expected *= n
    return False


def _walkable(var: Var, made_by: dict[Var, Eqn]) -> bool:
    layout = layout_of(var, made_by.get)
    return layout is not None and blas_operand(var, layout) is not None


def blas_operand(var: Var, layout: Layout) -> tuple[bool, int, int] | None:
    """(transposed, leading dimension, batch stride) by which BLAS can walk a stack of matrices, or None."""
    *batch_shape, rows, columns = var.shape
    if 0 in var.shape:  # nothing to walk
        return False, max(columns, 1), 0
    *batch, row, column = layout.strides
    batch_stride = 0
    for k in range(len(batch) - 1, -1, -1):  # all batch axes must be one line of memory
        if k == len(batch) - 1:
            batch_stride = batch[k]
        elif batch[k] != batch[k + 1] * batch_shape[k + 1]:
            return None
    if column == 1 and row >= max(columns, 1):
        return False, row, batch_stride
    if row == 1 and column >= max(rows, 1):
        return True, column, batch_stride
    if columns == 1 and row >= 1:
        return False, row, batch_stride
    return None
