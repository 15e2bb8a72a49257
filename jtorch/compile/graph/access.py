"""Where an element lies: affine maps from loop positions to coordinates, and from there to addresses.

A view moves coordinates, so reading a variable through a chain of views is reading the variable at the
bottom (its *root*) at moved coordinates. As long as every view is affine, that is an offset and one stride
per loop axis.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass, field

from jtorch.compile.graph.ir import Eqn, Var
from jtorch.core.op import Kind
from jtorch.core.strides import contiguous_strides


@dataclass(frozen=True, slots=True)
class Affine:
    """``offset + sum(strides[k] * position of loop axis k)``

    ``inner`` is known of addresses that go along the last loop axis by few elements, whatever the sizes:
    how far, and how much of the offset is the first of these steps. Kernels have such numbers in their
    text, since the compiler makes vectors of what is read or written side by side so.
    """

    offset: int
    strides: tuple[int, ...]
    inner: tuple[int, int] | None = field(default=None, compare=False)


Coordinates = tuple[Affine, ...]  # one per axis of a variable


@functools.cache
def identity(ndim: int) -> Coordinates:
    """The coordinates of an array whose axes are the loop axes."""
    return tuple(Affine(0, tuple(int(k == n) for n in range(ndim))) for k in range(ndim))


def linear(coordinates: Coordinates, strides: tuple[int, ...], n_axes: int) -> Affine:
    """The address, in elements, of ``coordinates`` in memory with ``strides``."""
    offset: int = 0
    along = [0] * n_axes
    for c, s in zip(coordinates, strides, strict=True):
        offset += c.offset * s
        for k, step in enumerate(c.strides):
            if step.__class__ is not int or step:  # symbols are not asked
                along[k] += step * s
    return Affine(offset, tuple(along))


_FAR = 4  # steps along the last axis of which kernels are told by their text


def inner_steps(coordinates: Coordinates, strides: tuple[int, ...]) -> tuple[int, int] | None:
    """What ``Affine.inner`` is of ``coordinates`` in memory with ``strides``."""
    if not coordinates or not coordinates[-1].strides or type(strides[-1]) is not int or strides[-1] != 1:
        return None
    *outer, (first, (*_, step)) = ((c.offset, c.strides) for c in coordinates)
    if any(type(along[-1]) is not int or along[-1] for _, along in outer):
        return None
    if any(type(n) is not int for n in (first, step)) or not 1 < step <= _FAR or not 0 <= first < step:
        return None
    return step, first


def moved(eqn: Eqn, coordinates: Coordinates, n_axes: int) -> Coordinates | None:
    """The coordinates of a view's input for ``coordinates`` of its output; None for a relabelling.

    The view's ``affine`` rule is linear in strides, so unit strides tell how each axis moves.
    """
    assert eqn.op.affine is not None
    source = eqn.inputs[0]
    assert isinstance(source, Var)
    if eqn.op.relabels:  # not linear: coordinates get other radices
        return None
    found = []
    for k in range(len(source.shape)):
        unit = tuple(int(k == n) for n in range(len(source.shape)))
        offset, strides = eqn.op.affine(source.shape, unit, **eqn.statics)
        total = linear(coordinates, tuple(strides), n_axes)
        found.append(Affine(total.offset + offset, total.strides))
    return tuple(found)


def is_alias(eqn: Eqn) -> bool:
    """A view that costs nothing: strides over memory, or index arithmetic in a kernel."""
    return eqn.op.kind is Kind.VIEW and eqn.op.affine is not None


def is_stack(eqn: Eqn) -> bool:
    """Whether it copies its inputs below each other: along the first axis, since whether others have one
    position alone must decide nothing."""
    if eqn.op.joins is None or eqn.statics[eqn.op.joins] != 0:
        return False
    (out,) = eqn.outputs
    return all(isinstance(atom, Var) and atom.dtype == out.dtype for atom in eqn.inputs)


Find = Callable[[Var], "Eqn | None"]


def to_root(var: Var, coordinates: Coordinates, n_axes: int, find: Find) -> tuple[Var, Coordinates]:
    """The variable under a chain of affine views, and its coordinates."""
    eqn = find(var)
    while eqn is not None and is_alias(eqn):
        below = moved(eqn, coordinates, n_axes)
        if below is None:
            break
        coordinates = below
        source = eqn.inputs[0]
        assert isinstance(source, Var)
        var, eqn = source, find(source)
    return var, coordinates


def root_of(var: Var, find: Find) -> Var:
    """The variable under a chain of affine views."""
    return to_root(var, identity(len(var.shape)), len(var.shape), find)[0]


def strides_of(var: Var) -> tuple[int, ...]:
    """Strides, in elements, of a variable's own memory: always row-major."""
    return contiguous_strides(var.shape)


@dataclass(frozen=True, slots=True)
class Layout:
    """A variable as memory: the variable that owns it, and offset and strides in elements."""

    owner: Var
    offset: int
    strides: tuple[int, ...]


def layout_of(var: Var, find: Find) -> Layout | None:
    """Where a chain of views (relabellings included) puts ``var``; None where only a copy would do."""
    eqn = find(var)
    if eqn is None or not is_alias(eqn):
        return Layout(var, 0, strides_of(var))
    source = eqn.inputs[0]
    assert isinstance(source, Var) and eqn.op.affine is not None
    below = layout_of(source, find)
    if below is None:
        return None
    found = eqn.op.affine(source.shape, below.strides, **eqn.statics)
    return None if found is None else Layout(below.owner, below.offset + found[0], tuple(found[1]))


def keeps_all(var: Var, find: Find) -> bool:
    """Whether ``var`` surely is all elements of the variable that owns its memory, each once: a slice may
    happen to be, for some sizes."""
    eqn = find(var)
    while eqn is not None and is_alias(eqn):
        if not eqn.op.keeps_all:
            return False
        source = eqn.inputs[0]
        assert isinstance(source, Var)
        eqn = find(source)
    return True
