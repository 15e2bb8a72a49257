"""Which nests are cut into pieces that several threads may run, and where: a function of sizes alone.

A nest is cut along one of its loops, of which each turn stands for itself. What is worth cutting, and where
products are cut, says ``core/pieces.py``.
"""

from __future__ import annotations

from jtorch.compile.plan.fuse import Style
from jtorch.compile.plan.loops import Compute, Gather, Load, Nest, Position, Value
from jtorch.compile.plan.order import Loop, loops_of
from jtorch.core.pieces import Range, count, cut

LINE = 64  # elements: where the innermost loop is cut, at least so many go together

# What things take, in nanoseconds for an element: arithmetic runs in vector registers, memory is in a cache.
# Adam's update of 16,384 elements takes 10 us, gelu and its derivative of 131,072 take 220.
_ARITHMETIC, _ROOT, _COSTLY, _GATHERED, _PER_BYTE = 0.025, 0.15, 0.7, 0.8, 0.018


def divided(nest: Nest) -> Loop | None:
    """The loop whose turns are independent of each other, and outside of all others that are."""
    loops = loops_of(nest)
    if nest.style is Style.SCATTER:
        return next((loop for loop in loops if _adds_to_parts(nest, loop)), None)
    return next((loop for loop in loops if not loop.reduced), None)


def _adds_to_parts(nest: Nest, loop: Loop) -> bool:
    """Whether turn i of ``loop`` adds to part i of the result along its first axis, and to no other."""
    (scatter,) = nest.scatters
    if len(loop.axes) > 1 or not scatter.terms:
        return False
    (axis,) = loop.axes
    (_, first), *others = scatter.terms
    if not isinstance(first, Position) or first.at.offset or scatter.var.shape[0] != loop.size:
        return False
    alone = all(stride == (k == axis) for k, stride in enumerate(first.at.strides))
    return alone and not any(_moves(value, axis) for _, value in others)


def _moves(value: Value, axis: int) -> bool:
    """Whether a value of a nest differs from turn to turn along ``axis``."""
    if isinstance(value, (Load, Position)):
        return bool(value.at.strides[axis])
    return isinstance(value, Gather) or any(_moves(part, axis) for part in value.parts())


def pieces_of(nest: Nest) -> list[Range]:
    """Ranges of ``divided(nest)``, in order; one where it is not worth cutting."""
    loop = divided(nest)
    if loop is None:
        return []
    line = LINE if loop == loops_of(nest)[-1] else 1
    return cut(loop.size, count(nest_time(nest), loop.size // line), line)


def nest_time(nest: Nest) -> float:
    """Microseconds that one thread takes, about."""
    elements = 1.0
    for n in nest.sizes:
        elements *= n
    return elements * time_of_element(nest)


def time_of_element(nest: Nest) -> float:
    """Microseconds that one thread takes for one turn of all loops, about."""
    each = 0.0
    for value in nest.values():
        if value.level < 2:  # once for a kernel or for a row
            continue
        if isinstance(value, Load):
            each += _PER_BYTE * value.dtype.itemsize
        elif isinstance(value, Gather):
            each += _GATHERED
        elif isinstance(value, Compute):
            each += _ROOT if value.op.takes_root else _COSTLY if value.costly else _ARITHMETIC
    each += sum(_PER_BYTE * s.var.dtype.itemsize for s in nest.stores if s.level == 2)
    each += _GATHERED * len(nest.scatters)
    return each / 1000
