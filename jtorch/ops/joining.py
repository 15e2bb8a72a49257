"""Tensors put beside each other (``cat``), between each other (``weave``), or inside a border of zeros
(``pad``): copies, with no strides."""

from __future__ import annotations

import itertools

from jtorch.core import dtypes as dt, index as ix
from jtorch.core.op import view
from jtorch.ops import axes as ax


def _pad_shape(x, low, high, interior):
    grown = (n + (n - 1) * i if n else 0 for n, i in zip(x, interior, strict=True))
    return tuple(lo + n + hi for lo, n, hi in zip(low, grown, high, strict=True))


def _pad_map(coordinates, shapes, low, high, interior):
    tests, places = [], []
    for c, n, lo, hi, i in zip(coordinates, shapes[0], low, high, interior, strict=True):
        if lo == hi == i == 0:
            places.append(c)
            continue
        test, place = ix.within(c, lo, n, i + 1)
        tests.append(test)
        places.append(place)
    read = ix.Read(0, tuple(places))
    return ix.Select(ix.every(tests), read, ix.Fill(0)) if tests else read


@view(shape=_pad_shape, index_map=_pad_map, aliases=False, public=None)
def pad(xp, x, *, low, high, interior):
    return xp.pad(x, low=low, high=high, interior=interior)


@pad.vjp
def _(xp, g, x_shape, low, interior):
    step = tuple(i + 1 for i in interior)
    stop = tuple(lo + (n - 1) * s + 1 if n else lo for lo, n, s in zip(low, x_shape, step, strict=True))
    return xp.slice(g, start=low, stop=stop, step=step)


def _cat_shape(*shapes, axis):
    total = sum(s[axis] for s in shapes)
    return shapes[0][:axis] + (total,) + shapes[0][axis + 1 :]


def _cat_map(coordinates, shapes, axis):
    starts = list(itertools.accumulate((s[axis] for s in shapes), initial=0))
    place = coordinates[axis]
    reads = [
        ix.Read(k, (*coordinates[:axis], place - start, *coordinates[axis + 1 :]))
        for k, start in enumerate(starts[:-1])
    ]
    return _one_of(reads, starts, place, 0, len(shapes))


def _one_of(reads, starts, place, first, last):
    """The one of ``reads[first:last]`` in which ``place`` lies, by halves."""
    if last - first == 1:
        return reads[first]
    middle = (first + last) // 2
    halves = (_one_of(reads, starts, place, *part) for part in ((first, middle), (middle, last)))
    return ix.Select(place < starts[middle], *halves)


@view(
    shape=_cat_shape,
    index_map=_cat_map,
    joins="axis",
    aliases=False,
    methods=(),
    autocast={"cpu": "promote"},
    axes=("axis",),
)
def cat(xp, *tensors, axis):
    """Tensors one after the other along ``dim``, where alone their sizes may differ."""
    return xp.cat(*tensors, axis=axis)


@cat.vjp
def _(xp, g, tensors_shape, axis):
    starts = list(itertools.accumulate((s[axis] for s in tensors_shape), initial=0))
    ones, zeros = (1,) * g.ndim, (0,) * g.ndim

    def part(k):
        start = zeros[:axis] + (starts[k],) + zeros[axis + 1 :]
        stop = g.shape[:axis] + (starts[k + 1],) + g.shape[axis + 1 :]
        return xp.slice(g, start=start, stop=stop, step=ones)

    return tuple(part(k) for k in range(len(tensors_shape)))


def _without_empty_vectors(tensors):
    """PyTorch joins an empty vector to anything; of it only the dtype counts."""
    kept = [t for t in tensors if t.ndim != 1 or t.shape[0]]
    if not kept or all(t.ndim == 1 for t in kept):
        return tensors
    wanted = dt.OF_NUMPY[dt.promote([(t.dtype.numpy, t.ndim) for t in tensors])]
    return tuple(t.to(wanted) for t in kept)


@cat.face
def _(tensors, dim=0):
    tensors = tuple(tensors)
    if not tensors:
        raise ValueError("torch.cat(): expected a non-empty list of Tensors")
    shapes = [t._data.shape for t in tensors]
    if (0,) in shapes:
        tensors = _without_empty_vectors(tensors)
        shapes = [t._data.shape for t in tensors]
    if () in shapes:
        raise RuntimeError(f"zero-dimensional tensor (at position {shapes.index(())}) cannot be concatenated")
    first = shapes[0]
    ndim = len(first)
    axis = ax.one(dim, ndim)
    rest = first[:axis], first[axis + 1 :]
    for k, shape in enumerate(shapes):
        if len(shape) != ndim:
            raise RuntimeError(f"Tensors must have same number of dimensions: got {ndim} and {len(shape)}")
        if (shape[:axis], shape[axis + 1 :]) != rest:
            a = next(a for a in range(ndim) if a != axis and shape[a] != first[a])
            raise RuntimeError(
                f"Sizes of tensors must match except in dimension {dim}. Expected size "
                f"{first[a]} but got size {shape[a]} for tensor number {k} in the list."
            )
    return tensors, {"axis": axis}


def _weave_shape(*shapes, kernel):
    first = len(shapes[0]) - len(kernel)
    return (*shapes[0][:first], *(n * k for n, k in zip(shapes[0][first:], kernel, strict=True)))


def _weave_places(ndim, kernel):
    """For each tensor (where its first element goes along each axis, how far it is to the next one)."""
    before, ones = (0,) * (ndim - len(kernel)), (1,) * (ndim - len(kernel))
    return [((*before, *place), (*ones, *kernel)) for place in itertools.product(*map(range, kernel))]


@view(shape=_weave_shape, woven=_weave_places, aliases=False, public=None)
def weave(xp, *tensors, kernel):
    """Blocks of the last axes, of size ``kernel``, of one element of each tensor, row by row."""
    return xp.weave(*tensors, kernel=kernel)


@weave.vjp
def _(xp, g, kernel):
    places = _weave_places(g.ndim, kernel)
    return tuple(xp.slice(g, start=start, stop=tuple(g.shape), step=step) for start, step in places)
