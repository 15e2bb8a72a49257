"""The order of a nest's loops, and which of them can run as one.

Two neighbouring axes are one loop where every address moves along them as along one line of memory. So an
elementwise chain over contiguous arrays of any rank is one flat loop. The test looks at strides only; a
size that happens to be 1 changes none of its answers for row-major arrays.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from jtorch.compile.graph.access import Affine
from jtorch.compile.plan.fuse import Style
from jtorch.compile.plan.loops import Load, Nest, Position


@dataclass(frozen=True, slots=True)
class Loop:
    """One loop: its size, whether it is over reduced axes, and the domain's axes it runs over, which tell the
    loops of a nest apart."""

    size: int = field(compare=False)
    reduced: bool
    axes: tuple[int, ...]


def loops_of(nest: Nest) -> list[Loop]:
    """The loops of a nest, outermost first."""
    n = len(nest.sizes)
    axes = list(range(n))
    if nest.style == Style.ROW:  # kept axes outside, the reduced row inside
        axes.sort(key=lambda k: k in nest.reduced)
    elif nest.style == Style.SCATTER:  # along the memory that is read
        axes.sort(key=lambda k: -_read_stride(nest, k))
    streams = list(_streams(nest))
    loops: list[Loop] = []
    for k in axes:
        loop = Loop(nest.sizes[k], k in nest.reduced, (k,))
        if loops and loops[-1].reduced == loop.reduced and _one_line(streams, loops[-1], loop, nest):
            outer = loops.pop()
            loop = Loop(outer.size * loop.size, loop.reduced, outer.axes + loop.axes)
        loops.append(loop)
    return loops


def _read_stride(nest: Nest, axis: int) -> int:
    value = nest.scatters[0].value
    return abs(value.at.strides[axis]) if isinstance(value, Load) else -axis


def _streams(nest: Nest) -> Iterator[Affine]:
    for value in nest.values():
        if isinstance(value, (Load, Position)):
            yield value.at
    for store in nest.stores:
        yield store.at
    yield from nest.result_places()


def _one_line(streams: list[Affine], outer: Loop, inner: Loop, nest: Nest) -> bool:
    a, b = outer.axes[-1], inner.axes[0]
    return all(s.strides[a] == s.strides[b] * nest.sizes[b] for s in streams)


def stride_along(at: Affine, loop: Loop) -> int:
    """How far ``at`` moves with one turn of ``loop``."""
    return at.strides[loop.axes[-1]]
