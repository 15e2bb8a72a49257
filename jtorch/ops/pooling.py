"""Pooling over any number of spatial axes: one strided slice of the images per position in the window.

NumPy combines such slices at full speed, and compiled they fuse into one loop. ``places`` is the number of
windows along each axis: the last may reach beyond the border, where PyTorch's ``ceil_mode`` wants it.
"""

from __future__ import annotations

import itertools
import math

import numpy as np

from jtorch.core.op import composite
from jtorch.ops.routines import direct


def _whole(sizes, places, kernel, stride, padding, dilation):
    """The sizes of images with a border that holds every window."""
    return tuple(
        max(p + n, (o - 1) * s + d * (k - 1) + 1)
        for n, o, k, s, p, d in zip(sizes, places, kernel, stride, padding, dilation, strict=True)
    )


def _bordered(xp, x, whole, padding, value):
    """``x`` in images of size ``whole`` that hold ``value`` elsewhere."""
    if tuple(x.shape[2:]) == whole:
        return x
    start = (0, 0, *padding)
    stop = (*x.shape[:2], *(p + n for p, n in zip(padding, x.shape[2:], strict=True)))
    if value == 0:
        high = tuple(w - p for w, p in zip((*x.shape[:2], *whole), stop, strict=True))
        return xp.pad(x, low=start, high=high, interior=(0,) * len(x.shape))
    border = xp.full(value, shape=(*x.shape[:2], *whole), dtype=x.dtype)
    return xp.slice_put(border, x, start=start, stop=stop, step=(1,) * len(x.shape))


def _parts(xp, x, places, kernel, stride, dilation):
    """One strided slice of the bordered images per position in the window, row by row."""
    lead = tuple(x.shape[:2])
    for position in itertools.product(*map(range, kernel)):
        start = tuple(i * d for i, d in zip(position, dilation, strict=True))
        stop = tuple(a + (o - 1) * s + 1 for a, o, s in zip(start, places, stride, strict=True))
        yield xp.slice(x, start=(0, 0, *start), stop=(*lead, *stop), step=(1, 1, *stride))


@composite(
    n_outputs=2,
    grad_name="MaxPool2DWithIndicesBackward0",
    dtype="as_is",
    public=None,
    fuses=False,
    ordered=True,
)
def max_pool(xp, x, *, kernel, stride, padding, dilation, places):
    """(the largest of each window, which position of the window it is at, row by row)

    Of equal elements the first counts, of NaNs the last, as in PyTorch.
    """
    found = direct(xp, "_pooling", "max_pool", x, places, kernel, stride, padding, dilation)
    if found is not None:
        return found
    whole = _whole(x.shape[2:], places, kernel, stride, padding, dilation)
    floats = np.dtype(x.dtype).kind in "fV"
    lowest = -math.inf if floats else -(2 ** (8 * np.dtype(x.dtype).itemsize - 1))
    parts = _parts(xp, _bordered(xp, x, whole, padding, lowest), places, kernel, stride, dilation)
    best = next(parts)
    small = np.dtype(np.int8 if math.prod(kernel) <= 127 else np.int64)
    place = _first_inside(xp, tuple(best.shape), small, kernel, stride, padding, dilation)
    if math.prod(kernel) == 1:
        return xp.clone(best), place
    for k, part in enumerate(parts, 1):
        larger = xp.gt(part, best)
        larger = xp.logical_or(larger, xp.isnan(part)) if floats else larger
        place = xp.where(larger, k, place)
        best = xp.where(larger, part, best)
    return best, place


def _first_inside(xp, shape, dtype, kernel, stride, padding, dilation):
    """Which position of each window is the first inside the images: it counts where all are -inf, as is the
    border."""
    if not any(padding):
        return xp.full(0, shape=shape, dtype=dtype)
    place = 0
    for axis, (k, s, p, d) in enumerate(zip(kernel, stride, padding, dilation, strict=True), 2):
        line = tuple(n if a == axis else 1 for a, n in enumerate(shape))
        before = p - xp.iota(shape=line, axis=axis, dtype=np.dtype(np.int64)) * s
        place = place * k + xp.clamp_min(xp.floor_divide(before + (d - 1), d), 0)
    return xp.expand(xp.cast(place, dtype=dtype), shape=shape)


@max_pool.vjp
def _(xp, g, x_shape, out1, kernel, stride, padding, dilation, places):
    g = g[0]
    found = direct(xp, "_pooling", "max_unpool", g, out1, x_shape, places, kernel, stride, padding, dilation)
    if found is not None:
        return found
    parts = [xp.where(xp.eq(out1, k), g, 0.0) for k in range(math.prod(kernel))]
    return _unpool(xp, parts, x_shape, kernel, stride, padding, dilation)


def _unpool(xp, parts, shape, kernel, stride, padding, dilation):
    """The adjoint of ``_parts``: images that hold the sum of what went into each position."""
    places = tuple(parts[0].shape[2:])
    sizes, rank = tuple(shape[2:]), len(kernel)
    tiled = tuple(o * k for o, k in zip(places, kernel, strict=True)) == sizes
    if kernel == stride and tiled and not any(padding) and max(dilation) == 1:
        return xp.weave(*parts, kernel=kernel) if len(parts) > 1 else parts[0]
    # side by side in front: each part stays in one piece, which is what ``fold`` adds up
    windows = xp.reshape(_stacked(xp, parts), shape=(*kernel, *shape[:2], *places))
    windows = xp.permute(windows, axes=(*range(rank, 2 * rank + 2), *range(rank)))
    whole = _whole(sizes, places, kernel, stride, padding, dilation)
    full = xp.fold(windows, shape=(*shape[:2], *whole), kernel=kernel, stride=stride, dilation=dilation)
    if whole == sizes:
        return full
    stop = (*shape[:2], *(p + n for p, n in zip(padding, sizes, strict=True)))
    return xp.slice(full, start=(0, 0, *padding), stop=stop, step=(1,) * len(shape))


def _stacked(xp, parts):
    """Arrays of one shape below each other along a new axis."""
    rows = [xp.unsqueeze(part, axes=(0,)) for part in parts]
    return xp.cat(*rows, axis=0) if len(rows) > 1 else rows[0]


@composite(grad_name="AvgPool2DBackward0", dtype="as_is", like_first=True, public=None)
def avg_pool(xp, x, *, kernel, stride, padding, places, count_borders, divisor):
    """Means of windows; a border of zeros counts where ``count_borders``; ``divisor`` 0 is the count."""
    whole = _whole(x.shape[2:], places, kernel, stride, padding, (1,) * len(kernel))
    sums = _window_sums(xp, _bordered(xp, x, whole, padding, 0), places, kernel, stride)
    return sums * _weights(xp, x.shape[2:], x.dtype, kernel, stride, padding, places, count_borders, divisor)


def _window_sums(xp, x, places, kernel, stride):
    ones = (1,) * len(kernel)
    if math.prod(kernel) > 16:  # a slice per position would be many passes over little data
        stop = tuple((o - 1) * s + k for o, s, k in zip(places, stride, kernel, strict=True))
        if stop != tuple(x.shape[2:]):
            x = xp.slice(x, start=(0,) * len(x.shape), stop=(*x.shape[:2], *stop), step=(1, 1, *ones))
        seen = xp.windows(x, kernel=kernel, stride=stride, dilation=ones)
        return xp.sum(seen, axis=tuple(range(2 + len(kernel), 2 + 2 * len(kernel))), keepdims=False)
    parts = _parts(xp, x, places, kernel, stride, ones)
    total = next(parts)
    for part in parts:
        total = total + part
    return total


def _weights(xp, sizes, dtype, kernel, stride, padding, places, count_borders, divisor):
    """What each window's sum is multiplied by: a number, or (OH, OW) where windows count differently."""
    if divisor:
        return 1.0 / divisor
    whole = _whole(sizes, places, kernel, stride, padding, (1,) * len(kernel))
    if all(
        w <= n + (2 * p if count_borders else p) and (count_borders or not p)
        for w, n, p in zip(whole, sizes, padding, strict=True)
    ):
        return 1.0 / math.prod(kernel)
    counts = 1.0
    for axis, (n, k, s, p) in enumerate(zip(sizes, kernel, stride, padding, strict=True)):
        shape = tuple(places[axis] if a == axis else 1 for a in range(len(places)))
        start = xp.iota(shape=shape, axis=axis, dtype=np.dtype(np.int64)) * s - p
        end = xp.minimum(
            start + k, xp.full(n + p if count_borders else n, shape=shape, dtype=np.dtype(np.int64))
        )
        begin = start if count_borders else xp.maximum(start, 0 * start)
        counts = xp.cast(end - begin, dtype=dtype) * counts
    return 1.0 / counts


@avg_pool.vjp
def _(xp, g, x_shape, kernel, stride, padding, places, count_borders, divisor):
    scaled = g * _weights(xp, x_shape[2:], g.dtype, kernel, stride, padding, places, count_borders, divisor)
    parts = [scaled] * math.prod(kernel)
    return _unpool(xp, parts, x_shape, kernel, stride, padding, (1,) * len(kernel))
