"""Views, and what moves elements without computing."""

from __future__ import annotations

import builtins
import functools
from typing import Any

import numpy as np

from jtorch.core.strides import expanded_strides as _expanded_strides
from jtorch.ops.xp._rows import in_rows as _in_rows
from jtorch.ops.xp._views import as_strided as _as_strided
from jtorch.ops.xp._wide import in_float32 as _in_float32

Array = np.ndarray
Shape = tuple[int, ...]
_slice = builtins.slice  # this module's ``slice`` is the op


def reshape(x: Array, *, shape: Shape) -> Array:
    try:
        made = x.reshape(shape)
    except ValueError:
        raise RuntimeError(f"shape '{list(shape)}' is invalid for input of size {x.size}") from None
    if made.shape != shape and min(shape, default=0) < -1:  # NumPy takes any for the one that it is to find
        raise RuntimeError(f"invalid shape dimension {min(shape)}")
    return made


def unsqueeze(x: Array, *, axes: Shape) -> Array:
    shape = list(x.shape)
    for a in axes:
        shape.insert(a, 1)
    return x.reshape(shape)


def squeeze(x: Array, *, axes: Shape) -> Array:
    return x.squeeze(axes)


def flip(x: Array, *, axes: Shape) -> Array:
    return np.array(np.flip(x, axes), order="C")  # PyTorch has no negative strides: a copy


def permute(x: Array, *, axes: Shape) -> Array:
    return x.transpose(axes)


def expand(x: Array, *, shape: Shape) -> Array:
    if x.flags.c_contiguous:  # broadcast_to costs 2 us, the constructor of ndarray 0.5 us
        return np.ndarray(shape, x.dtype, x, 0, _expanded_strides(x.shape, x.strides, shape))
    return _as_strided(x, shape, _expanded_strides(x.shape, x.strides, shape))


def select(x: Array, *, axis: int, index: int) -> Array:
    """One position along ``axis``, which disappears."""
    return x[index, ...] if axis == 0 else x[(_slice(None),) * axis + (index, ...)]


def slice(x: Array, *, start: Shape, stop: Shape, step: Shape) -> Array:
    index: Any = (*map(_slice, start, stop, step), ...)  # with no axes it would be a scalar, not a view
    return x[index]


def slice_put(x: Array, value: Array, *, start: Shape, stop: Shape, step: Shape) -> Array:
    out = np.array(x, order="C")
    out[tuple(map(_slice, start, stop, step))] = value
    return out


def windows(x: Array, *, kernel: Shape, stride: Shape, dilation: Shape) -> Array:
    """Sliding windows over the last axes: (..., H, W) to (..., OH, OW, KH, KW), without a copy."""
    shape, strides, apart = _layout_of_windows(x.shape, x.strides, kernel, stride, dilation)
    return _as_strided(x, shape, strides, writeable=apart)


@functools.lru_cache(256)
def _layout_of_windows(
    shape: Shape, strides: Shape, kernel: Shape, stride: Shape, dilation: Shape
) -> tuple[Shape, Shape, bool]:
    """(their shape, their strides, whether no two of them have an element in common)"""
    k = len(shape) - len(kernel)
    outer = tuple(
        (n - d * (w - 1) - 1) // s + 1 for n, w, s, d in zip(shape[k:], kernel, stride, dilation, strict=True)
    )
    step = tuple(b * s for b, s in zip(strides[k:], stride, strict=True))
    inner = tuple(b * d for b, d in zip(strides[k:], dilation, strict=True))
    apart = all(s > d * (w - 1) for w, s, d in zip(kernel, stride, dilation, strict=True))
    return shape[:k] + outer + kernel, strides[:k] + step + inner, apart


def pad(x: Array, *, low: Shape, high: Shape, interior: Shape) -> Array:
    """Zeros before, after and between the elements of each axis (XLA's Pad, without negative widths)."""
    grown = (n + (n - 1) * i if n else 0 for n, i in zip(x.shape, interior, strict=True))
    shape = tuple(lo + n + hi for lo, n, hi in zip(low, grown, high, strict=True))
    out = np.zeros(shape, x.dtype)
    inside = tuple(
        _slice(lo, lo + (n - 1) * (i + 1) + 1 if n else lo, i + 1)
        for lo, n, i in zip(low, x.shape, interior, strict=True)
    )
    out[inside] = x
    return out


@_in_rows
def cat(*xs: Array, axis: int) -> Array:
    return np.concatenate(xs, axis)


def weave(*xs: Array, kernel: Shape) -> Array:
    """Arrays of one shape as the elements of blocks of the last axes, row by row."""
    first = xs[0].ndim - len(kernel)
    sizes = (n * k for n, k in zip(xs[0].shape[first:], kernel, strict=True))
    out = np.empty((*xs[0].shape[:first], *sizes), xs[0].dtype)
    for x, place in zip(xs, np.ndindex(*kernel), strict=True):
        index: Any = (..., *(_slice(start, None, step) for start, step in zip(place, kernel, strict=True)))
        out[index] = x
    return out


@_in_float32
def fold(g: Array, *, shape: Shape, kernel: Shape, stride: Shape, dilation: Shape) -> Array:
    """Overlapping windows added up where they came from: the adjoint of ``windows``."""
    out = np.zeros(shape, g.dtype)
    outer = g.shape[-2 * len(kernel) : -len(kernel)]
    for place in np.ndindex(*kernel):
        at = tuple(
            _slice(p * d, p * d + (n - 1) * s + 1, s)
            for p, d, n, s in zip(place, dilation, outer, stride, strict=True)
        )
        here: Any = (..., *at)
        out[here] += g[(..., *place)]
    return out
