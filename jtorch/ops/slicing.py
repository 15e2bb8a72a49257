"""Views of parts: slices, single positions, sliding windows; and a slice written over."""

from __future__ import annotations

import itertools

from jtorch.core import index as ix
from jtorch.core.op import view

OVERLAPPING = (
    "unsupported operation: more than one element of the written-to tensor refers to a single memory "
    "location. Please clone() the tensor before performing the operation."
)


def _slice_shape(x, start, stop, step):
    return tuple(max(0, -(-(e - b) // s)) for b, e, s in zip(start, stop, step, strict=True))


def _slice_affine(shape, strides, start, stop, step):
    offset = sum(b * s for b, s in zip(start, strides, strict=True))
    return offset, tuple(s * k for s, k in zip(strides, step, strict=True))


@view(
    shape=_slice_shape,
    affine=_slice_affine,
    put=lambda xp, base, value, **where: xp.slice_put(base, value, **where),
    public=None,
)
def slice(xp, x, *, start, stop, step):
    return xp.slice(x, start=start, stop=stop, step=step)


@slice.vjp
def _(xp, g, x_shape, start, stop, step):
    counts = _slice_shape(x_shape, start, stop, step)
    high = tuple(
        n - (b + (c - 1) * s + 1) if c else n - b
        for n, b, c, s in zip(x_shape, start, counts, step, strict=True)
    )
    return xp.pad(g, low=start, high=high, interior=tuple(s - 1 for s in step))


def _slice_put_map(coordinates, shapes, start, stop, step):
    counts = _slice_shape(shapes[0], start, stop, step)
    tests, places = [], []
    for c, n, b, k, s in zip(coordinates, shapes[0], start, counts, step, strict=True):
        whole = b == 0 and k == n and s == 1
        test, place = (None, c) if whole else ix.within(c, b, k, s)
        tests.append(test)
        places.append(place)
    written = ix.Read(1, tuple(places))
    wanted = [t for t in tests if t is not None]
    if not wanted:
        return written
    return ix.Select(ix.every(wanted), written, ix.Read(0, tuple(coordinates)))


@view(shape=lambda x, value, **_: x, index_map=_slice_put_map, aliases=False, public=None)
def slice_put(xp, x, value, *, start, stop, step):
    return xp.slice_put(x, value, start=start, stop=stop, step=step)


@slice_put.vjp
def _(xp, g, value_shape, start, stop, step):
    hole = xp.full(0.0, shape=value_shape, dtype=g.dtype)
    where = {"start": start, "stop": stop, "step": step}
    return xp.slice_put(g, hole, **where), xp.slice(g, **where)


def _without(values, axis):
    return values[:axis] + values[axis + 1 :]


def _select_put(xp, base, value, axis, index):
    start = tuple(index if k == axis else 0 for k in range(base.ndim))
    stop = tuple(index + 1 if k == axis else n for k, n in enumerate(base.shape))
    value = xp.unsqueeze(value, axes=(axis,))
    return xp.slice_put(base, value, start=start, stop=stop, step=(1,) * base.ndim)


@view(
    shape=lambda x, axis, index: _without(x, axis),
    affine=lambda shape, strides, axis, index: (index * strides[axis], _without(strides, axis)),
    put=_select_put,
    public=None,
    axes=("axis",),
)
def select(xp, x, *, axis, index):
    """One position along ``axis``, which disappears."""
    return xp.select(x, axis=axis, index=index)


@select.vjp
def _(xp, g, x_shape, axis, index):
    low = tuple(index if k == axis else 0 for k in range(len(x_shape)))
    high = tuple(n - index - 1 if k == axis else 0 for k, n in enumerate(x_shape))
    return xp.pad(xp.unsqueeze(g, axes=(axis,)), low=low, high=high, interior=(0,) * len(x_shape))


def _windows_shape(x, kernel, stride, dilation):
    k = len(x) - len(kernel)
    outer = tuple(
        (n - d * (w - 1) - 1) // s + 1 for n, w, s, d in zip(x[k:], kernel, stride, dilation, strict=True)
    )
    return x[:k] + outer + kernel


def _windows_affine(shape, strides, kernel, stride, dilation):
    k = len(shape) - len(kernel)
    outer = tuple(b * s for b, s in zip(strides[k:], stride, strict=True))
    inner = tuple(b * d for b, d in zip(strides[k:], dilation, strict=True))
    return 0, strides[:k] + outer + inner


def _windows_put(xp, base, value, kernel, stride, dilation):
    """One strided slice for each place in a window; windows that share elements cannot be written."""
    k, r = base.ndim - len(kernel), len(kernel)
    for n, w, s, d in zip(value.shape[k : k + r], kernel, stride, dilation, strict=True):
        if len({i * s + j * d for i in range(n) for j in range(w)}) < n * w:
            raise RuntimeError(OVERLAPPING)
    for place in itertools.product(*map(range, kernel)):
        part = value
        for j in reversed(place):
            part = xp.select(part, axis=part.ndim - 1, index=j)
        low = tuple(j * d for j, d in zip(place, dilation, strict=True))
        start, step = (0,) * k + low, (1,) * k + tuple(stride)
        stop = tuple(b + (n - 1) * s + 1 if n else b for n, b, s in zip(part.shape, start, step, strict=True))
        base = xp.slice_put(base, part, start=start, stop=stop, step=step)
    return base


@view(shape=_windows_shape, affine=_windows_affine, put=_windows_put, public=None, leads=True)
def windows(xp, x, *, kernel, stride, dilation):
    return xp.windows(x, kernel=kernel, stride=stride, dilation=dilation)


@windows.vjp
def _(xp, g, x_shape, kernel, stride, dilation):
    return xp.fold(g, shape=x_shape, kernel=kernel, stride=stride, dilation=dilation)
