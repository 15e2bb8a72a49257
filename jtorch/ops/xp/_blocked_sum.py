"""Sums of many terms over any axes, whose error does not grow with their number.

NumPy adds neighbours in pairs, but rows one after the other: 10^6 rows of 4 are off by 99 units in the last
place, and 2 * 10^7 ones by a sixth. Here rows are added in partials (``jtorch.core.partials`` says why) by
products with ones, and the partials in float64. On one core (us, NumPy / here; PyTorch):

    rows and columns
    (2048, 64)               51 / 8             11
    (10000, 1000)          4250 / 2900        2200
    (2500000, 4)          38500 / 3100        5500
"""

from __future__ import annotations

import math

import numpy as np

from jtorch.core import partials
from jtorch.ops.xp._products import ALWAYS_SERIAL, matmul, vector_dot
from jtorch.ops.xp._wide import converted

Array = np.ndarray
Shape = tuple[int, ...]

_FLOAT32, _FLOAT64 = np.dtype(np.float32), np.dtype(np.float64)
_MOST = 2048  # terms that one product with ones adds up: neighbours, in 16 to 64 lanes, or some rows
# So many rows are no worse as one partial where the columns are a multiple of four: OpenBLAS adds four rows
# to each other before it adds to the sums, but row by row in the columns that are left over.
DIRECT = 8 * partials.ROWS
_FEWER = 16  # times fewer elements than there were
_WIDE = 512  # elements of a row from which on BLAS is at its best
ONES = {d: np.ones(_MOST, d) for d in (_FLOAT32, _FLOAT64)}


def total(x: Array, axis: Shape, keepdims: bool) -> Array:
    """The sum of floats over ``axis``, whatever their layout; bfloat16 and float16 are added in float32."""
    dtype = x.dtype
    shape = [1 if k in axis else n for k, n in enumerate(x.shape) if keepdims or k not in axis]
    if not x.size:
        return np.zeros(shape, dtype)
    out = _in_order(x if dtype.itemsize > 2 else converted(x, _FLOAT32), axis)
    return np.asarray(out.reshape(shape).astype(dtype, copy=False))


def _in_order(x: Array, axis: Shape) -> Array:
    """The sum without ``axis``, by way of axes that follow each other as in memory."""
    strides, shape = x.strides, x.shape
    same = [a for a in axis if strides[a] == 0 and shape[a] > 1]
    if same:  # expanded: n times one element
        one = x[tuple(slice(0, 1) if a in same else slice(None) for a in range(x.ndim))]
        return _in_order(one, axis) * x.dtype.type(math.prod(shape[a] for a in same))
    if x.flags.c_contiguous:
        return _contiguous(x, axis)
    order = sorted(range(x.ndim), key=lambda a: -abs(strides[a]))
    moved = np.ascontiguousarray(x.transpose(order))
    out = _contiguous(moved, tuple(k for k, a in enumerate(order) if a in axis))
    kept = [a for a in order if a not in axis]
    return out.transpose(sorted(range(len(kept)), key=kept.__getitem__))


def _contiguous(x: Array, axis: Shape) -> Array:
    """The sum over one run of axes after the other, the last one first."""
    kept = tuple(n for k, n in enumerate(x.shape) if k not in axis)
    left = list(x.shape)
    for last in sorted(axis, reverse=True):
        if last + 1 in axis:
            continue  # goes with the next one
        first = last
        while first - 1 in axis:
            first -= 1
        before, n, after = (math.prod(left[:first]), math.prod(left[first : last + 1]), left[last + 1 :])
        cube = x.reshape(before, n, math.prod(after))
        x = _add_lines(cube[:, :, 0]) if cube.shape[2] == 1 else _add_middle(cube)
        left = [*left[:first], *after]
        if n >= _FEWER:
            x = x.astype(_FLOAT64, copy=False)  # so much less is left that it costs nothing
    return x.reshape(kept)


def _add_lines(x: Array) -> Array:
    """(m, n) to (m,)"""
    n = x.shape[1]
    if len(x) > 1 and 0 < n <= _MOST:
        return vector_dot(x, ONES[x.dtype][:n])
    return np.add.reduce(x, 1)  # in pairs


def _add_middle(x: Array) -> Array:
    """(m, n, c) to (m, c)"""
    m, n, _ = x.shape
    if m == 1:
        return add_rows(x[0])[None]
    if n <= partials.ROWS:
        return np.add.reduce(x, 1)
    if n <= DIRECT:
        k = next(k for k in (4, 8, 16) if 2 * n <= k * partials.ROWS)  # rows laid side by side
        end = n - n % k
        parts = matmul(ONES[x.dtype][None, : n // k], x[:, :end].reshape(m, n // k, -1)).reshape(m, k, -1)
        out = np.add.reduce(parts, 1)
        return out if end == n else out + np.add.reduce(x[:, end:], 1)
    return np.stack([add_rows(each) for each in x])


def add_rows(x: Array) -> Array:
    """(n, c) to (c,), in float64 where there are many"""
    (n, c), ones = x.shape, ONES[x.dtype]
    if n <= partials.ROWS or (n <= DIRECT and c % 4 == 0):
        return vector_dot(ones[:n], x)
    if x.size < ALWAYS_SERIAL and n <= 4 * DIRECT:
        return _fold(x, ones)
    k = 4 if c % 4 or n <= 4 * DIRECT else 1  # rows that are laid side by side, and more where they are short
    while 2 * k * c <= _WIDE and n >= 2 * k * partials.ROWS:
        k *= 2
    m = n // k
    wide = x[: m * k].reshape(m, k * c)
    out = vector_dot(ones[:m], wide) if m <= DIRECT else _add_partials(wide)
    if k > 1:
        out = add_rows(out.reshape(k, c))
    return out if m * k == n else out + vector_dot(ones[: n - m * k], x[m * k :])


def _fold(x: Array, ones: Array) -> Array:
    """The same for a small array, in as few calls as it takes: four rows lie side by side as one."""
    n, c = x.shape
    m = n >> 2
    parts = ones[:m].dot((x[: 4 * m] if n & 3 else x).reshape(m, 4 * c)).reshape(4, c)
    return ones[: n & 3 | 4].dot(np.concatenate((parts, x[4 * m :])) if n & 3 else parts)


def _add_partials(x: Array) -> Array:
    n, c = x.shape
    count = n // partials.ROWS
    end, ones = count * partials.ROWS, ONES[x.dtype]
    parts = matmul(ones[None, : partials.ROWS], x[:end].reshape(count, partials.ROWS, c))
    out = add_rows(parts[:, 0].astype(_FLOAT64, copy=False))
    return out if end == n else out + vector_dot(ones[: n - end], x[end:])
