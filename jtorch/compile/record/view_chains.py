"""Writes through chains of views.

``v = windows(x); v[1] = y`` writes into a view of a view. Where elements of the one in between lie at one
place of memory, as those of overlapping windows and expanded tensors do, it can't be written back as a whole:
an element that was not written would overwrite one that was. The chain is then one view with its own strides.
"""

from __future__ import annotations

from typing import Any

from jtorch.compile.graph.ir import Type, Var, types_of
from jtorch.core.errors import CompileError, user_source
from jtorch.core.op import BY_NAME, Op
from jtorch.core.strides import contiguous_strides, is_crowded
from jtorch.ops.slicing import OVERLAPPING

Chain = tuple[tuple[Op, dict[str, Any]], ...]


def direct(type: Type, chain: Chain) -> Chain:
    """``chain``, over memory of ``type``, without views whose elements share places before its last one."""
    if len(chain) < 2:  # a view of the memory itself
        return chain
    first, shape, strides, offset = 0, type.shape, contiguous_strides(type.shape), 0
    begin = shape  # of what the views from ``first`` on are taken of
    crowded = False
    for k, (op, statics) in enumerate(chain):
        crowded = crowded or is_crowded(shape, strides)
        assert op.affine is not None
        moved = op.affine(shape, strides, **statics)
        shape = types_of(op, [Var(Type(type.dtype, shape))], statics)[0].shape
        if moved is not None:
            strides, offset = tuple(moved[1]), offset + int(moved[0])
        elif not crowded:  # a reshape of axes in another order: the next ones are taken of what it gives
            first, begin, strides, offset = k + 1, shape, contiguous_strides(shape), 0
        else:
            raise CompileError(
                f"{user_source()}: a view of a view whose elements share memory is written, and a recording "
                "can't tell their places: write to a .clone(), or by index_put_()."
            )
    if not crowded:
        return chain
    if is_crowded(shape, strides):  # itself, not only what it is a part of
        raise RuntimeError(OVERLAPPING)
    where = {"size": shape, "steps": strides, "start": offset}
    return (*chain[:first], *by_strides(Type(type.dtype, begin).size, where))


def by_strides(size: int, where: dict[str, Any]) -> Chain:
    """The views that make of ``size`` elements, row by row, those that ``where`` tells ``strided``."""
    return (BY_NAME["reshape"], {"shape": (size,)}), (BY_NAME["strided"], where)
