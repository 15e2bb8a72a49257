"""The array dialect that bodies and gradients are written in: a closed list of functions.

Each public function here carries the name of a primitive op and computes it with NumPy. The tracer and
the Tensors offer the same names, so one body serves all three. NumPy itself is no safe dialect (``exp``
of int64 gives float64, float32 times a 0-d float64 too), so arguments arrive cast and promoted, axes are
tuples of non-negative ints, shapes are tuples, and dtypes are NumPy's.
"""

from __future__ import annotations

import builtins
import functools
import math
import warnings
from typing import Any

import numpy as np
from numpy.lib.stride_tricks import as_strided as _as_strided

from jtorch import philox

# Division by zero and overflow give inf and NaN without a word, as in PyTorch. The filter is limited to
# this package, because NumPy's own switch (seterr) would also change the user's NumPy code.
warnings.filterwarnings("ignore", category=RuntimeWarning, module=r"jtorch\.")

Array = np.ndarray
Shape = tuple[int, ...]
_slice = builtins.slice  # this module's ``slice`` is the op

# elementwise
add, sub, mul, div = np.add, np.subtract, np.multiply, np.true_divide
neg, abs = np.negative, np.abs
exp, log, sqrt, tanh, sin, cos = np.exp, np.log, np.sqrt, np.tanh, np.sin, np.cos
log1p, expm1, floor, ceil, trunc = np.log1p, np.expm1, np.floor, np.ceil, np.trunc
maximum, minimum = np.maximum, np.minimum
clamp_min, clamp_max = np.maximum, np.minimum
eq, ne, lt, le, gt, ge = (
    np.equal, np.not_equal, np.less, np.less_equal, np.greater, np.greater_equal,
)  # fmt: skip
logical_not, logical_and, logical_or = np.logical_not, np.logical_and, np.logical_or
isnan, isfinite = np.isnan, np.isfinite


def floor_divide(x: Array, y: Array) -> Array:
    _check_divisor(x, y)
    return np.floor_divide(x, y)


def remainder(x: Array, y: Array) -> Array:
    _check_divisor(x, y)
    return np.remainder(x, y)


def _check_divisor(x: Array, y: Array) -> None:
    """NumPy gives 0 for an integer divided by 0; PyTorch, and compiled code, raise."""
    if np.asarray(x).dtype.kind in "iu" and np.asarray(y).dtype.kind in "iub" and not np.all(y):
        raise RuntimeError("ZeroDivisionError: integer division by zero")


def sigmoid(x: Array) -> Array:
    from scipy import special  # here, because importing it takes 0.2 s and most programs never need it

    return special.expit(x)


def erf(x: Array) -> Array:
    from scipy import special

    return special.erf(x)


def sign(x: Array) -> Array:
    return np.subtract(x > 0, x < 0, dtype=x.dtype)  # 0 for NaN, as in PyTorch


def pow(x: Any, y: Any) -> Array:
    return x**y  # where np.power would call pow(x, 2.0) for each element, the operator squares


def round(x: Array) -> Array:
    """To the nearest, halves to even; integers stay as they are, where NumPy would make floats of them."""
    return np.rint(x) if x.dtype.kind == "f" else clone(x)


def rsqrt(x: Array) -> Array:
    return 1.0 / np.sqrt(x)


def relu(x: Array) -> Array:
    return np.maximum(x, _zero(x.dtype))


@functools.cache
def _zero(dtype: np.dtype) -> Array:
    return np.zeros((), dtype)  # as an array it starts 0.25 us sooner than as a Python number


def where(condition: Array, x: Any, y: Any) -> Array:
    """``x`` where ``condition`` holds, else ``y``; either may be a number.

    ``np.where`` branches for each element: 1 ms for 221,184 random choices, where selecting by masks of
    bits takes 0.05 (y = 0) to 0.15 ms. Bits also keep NaN, inf and -0.0 as they are.
    """
    dtype: Any = getattr(x, "dtype", None) or getattr(y, "dtype", None)
    integer = _INTEGER.get(dtype) if condition.size > 512 else None
    if integer is None:
        return np.where(condition, x, y)
    mask = np.negative(condition.view(np.int8).astype(integer, copy=False))
    if _is_zero(y):
        return _into(mask, np.bitwise_and, _bits(x, dtype, integer)).view(dtype)
    y = _bits(y, dtype, integer)
    differ = np.bitwise_xor(_bits(x, dtype, integer), y)
    return _into(_into(mask, np.bitwise_and, differ), np.bitwise_xor, y).view(dtype)


_INTEGER = {
    np.dtype(kind): np.dtype(f"i{kind[1]}") for kind in ("f2", "f4", "f8", "i1", "i2", "i4", "i8")
}


def _is_zero(value: Any) -> bool:
    return value.__class__ in (int, float) and value == 0 and math.copysign(1.0, value) > 0


def _bits(value: Any, dtype: np.dtype, integer: np.dtype) -> Array:
    return (np.array(value, dtype) if isinstance(value, (int, float)) else value).view(integer)


def _into(mask: Array, function: Any, other: Array) -> Array:
    """``function(mask, other)`` in the memory of ``mask`` where it fits there."""
    return function(mask, other, mask if other.shape in ((), mask.shape) else None)


def cast(x: Array, *, dtype: np.dtype) -> Array:
    return x.astype(dtype, copy=False)


def clone(x: Array) -> Array:
    return np.array(x, order="C")


# reduction: axis is a tuple, possibly empty

_add_up: Any = np.add.reduce
_multiply_up: Any = np.multiply.reduce
_largest: Any = np.maximum.reduce
_smallest: Any = np.minimum.reduce
_some: Any = np.logical_or.reduce
_every: Any = np.logical_and.reduce


def sum(x: Array, *, axis: Shape, keepdims: bool) -> Array:
    return _add_up(x, axis, x.dtype, None, keepdims)


def prod(x: Array, *, axis: Shape, keepdims: bool) -> Array:
    return _multiply_up(x, axis, x.dtype, None, keepdims)


def max(x: Array, *, axis: Shape, keepdims: bool) -> Array:
    return _largest(x, axis, None, None, keepdims)


def min(x: Array, *, axis: Shape, keepdims: bool) -> Array:
    return _smallest(x, axis, None, None, keepdims)


def any(x: Array, *, axis: Shape, keepdims: bool) -> Array:
    return _some(x, axis, None, None, keepdims)


def all(x: Array, *, axis: Shape, keepdims: bool) -> Array:
    return _every(x, axis, None, None, keepdims)


def argmax(x: Array, *, axis: Shape, keepdims: bool) -> Array:
    return _arg(np.argmax, x, axis, keepdims)


def argmin(x: Array, *, axis: Shape, keepdims: bool) -> Array:
    return _arg(np.argmin, x, axis, keepdims)


def _arg(function: Any, x: Array, axis: Shape, keepdims: bool) -> Array:
    if len(axis) == 1:
        return function(x, axis=axis[0], keepdims=keepdims)
    assert len(axis) == x.ndim  # over all axes: the position in the flattened array
    found = function(x)
    return np.reshape(found, (1,) * x.ndim) if keepdims else np.asarray(found)


# view


def reshape(x: Array, *, shape: Shape) -> Array:
    return x.reshape(shape)


def unsqueeze(x: Array, *, axes: Shape) -> Array:
    shape = list(x.shape)
    for a in axes:
        shape.insert(a, 1)
    return x.reshape(shape)


def squeeze(x: Array, *, axes: Shape) -> Array:
    return x.squeeze(axes)


def flip(x: Array, *, axes: Shape) -> Array:
    return np.flip(x, axes)


def permute(x: Array, *, axes: Shape) -> Array:
    return x.transpose(axes)


def expand(x: Array, *, shape: Shape) -> Array:
    if not x.flags.c_contiguous:
        return np.broadcast_to(x, shape)
    # broadcast_to costs 2 us, the constructor of ndarray 0.5 us
    if x.ndim == 0:
        return np.ndarray(shape, x.dtype, x, 0, (0,) * len(shape))
    new = len(shape) - x.ndim
    strides = [
        0 if n == 1 and m != 1 else s for n, m, s in zip(x.shape, shape[new:], x.strides, strict=True)
    ]
    return np.ndarray(shape, x.dtype, x, 0, (0,) * new + tuple(strides))


def select(x: Array, *, axis: int, index: int) -> Array:
    """One position along ``axis``, which disappears."""
    return x[index, ...] if axis == 0 else x[(_slice(None),) * axis + (index, ...)]


def slice(x: Array, *, start: Shape, stop: Shape, step: Shape) -> Array:
    return x[tuple(map(_slice, start, stop, step))]


def slice_put(x: Array, value: Array, *, start: Shape, stop: Shape, step: Shape) -> Array:
    out = np.array(x, order="C")
    out[tuple(map(_slice, start, stop, step))] = value
    return out


def windows(x: Array, *, kernel: Shape, stride: Shape, dilation: Shape) -> Array:
    """Sliding windows over the last axes: (..., H, W) to (..., OH, OW, KH, KW), without a copy."""
    k = x.ndim - len(kernel)
    outer = tuple(
        (n - d * (w - 1) - 1) // s + 1
        for n, w, s, d in zip(x.shape[k:], kernel, stride, dilation, strict=True)
    )
    step = tuple(b * s for b, s in zip(x.strides[k:], stride, strict=True))
    inner = tuple(b * d for b, d in zip(x.strides[k:], dilation, strict=True))
    return _as_strided(x, x.shape[:k] + outer + kernel, x.strides[:k] + step + inner, writeable=False)


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


def cat(*xs: Array, axis: int) -> Array:
    return np.concatenate(xs, axis)


def index(x: Array, *indices: Array, axes: Shape) -> Array:
    """``x`` at integer ``indices`` of one common shape, which replaces the adjacent ``axes``."""
    return x[(_slice(None),) * axes[0] + indices]


def fold(
    g: Array, *, shape: Shape, kernel: Shape, stride: Shape, dilation: Shape
) -> Array:
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


# contraction


def matmul(x: Array, y: Array) -> Array:
    # two matrices: dot calls the same BLAS and starts 0.5 us sooner
    return x.dot(y) if x.ndim == 2 == y.ndim else np.matmul(x, y)


# scatter and library calls


def index_add(g: Array, *indices: Array, axes: Shape, shape: Shape) -> Array:
    """Zeros of ``shape`` with ``g`` added at ``indices``: what ``index`` read from, repeats summed."""
    flat = np.ravel_multi_index(indices, tuple(shape[a] for a in axes)).ravel()
    count = flat.size
    before = int(np.prod(shape[: axes[0]]))
    rows = int(np.prod([shape[a] for a in axes]))
    after = int(np.prod(shape[axes[-1] + 1 :]))
    out = np.zeros((before, rows, after), g.dtype)
    every: Any = (_slice(None), flat)
    np.add.at(out, every, g.reshape(before, count, after))
    return out.reshape(shape)


def index_put(x: Array, value: Array, *indices: Array, axes: Shape) -> Array:
    out = np.array(x, order="C")
    out[(_slice(None),) * axes[0] + indices] = value
    return out


def sort_order(x: Array, *, axis: int) -> Array:
    return np.argsort(x, axis, kind="stable")


# creation and random numbers


def full(value: Any, *, shape: Shape, dtype: np.dtype) -> Array:
    return np.full(shape, value, dtype)


def iota(*, shape: Shape, axis: int, dtype: np.dtype) -> Array:
    """The position along ``axis``, as an array of ``shape``."""
    line = np.arange(shape[axis], dtype=dtype)
    if len(shape) == 1:
        return line
    return np.broadcast_to(line.reshape([-1 if k == axis else 1 for k in range(len(shape))]), shape)


def random_bits(seed: int, call: int, *, shape: Shape, dtype: Any) -> Array:
    return philox.raw_bits(seed, call, math.prod(shape)).reshape(shape)


def uniform(bits: Array, *, dtype: np.dtype) -> Array:
    return philox.uniform(bits, dtype)


def normal(bits: Array, *, dtype: np.dtype) -> Array:
    return philox.normal(bits, dtype)


def bounded(bits: Array, low: int, high: int) -> Array:
    """Integers in [low, high) from random bits."""
    return philox.bounded(bits, low, high)
