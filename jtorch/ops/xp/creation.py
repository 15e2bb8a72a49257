"""Filled, counted and random arrays."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from jtorch.core import philox

Array = np.ndarray
Shape = tuple[int, ...]


def full(value: Any, *, shape: Shape, dtype: np.dtype) -> Array:
    if value.__class__ is not float or dtype.kind != "f":
        return np.full(shape, value, dtype)
    out = np.empty(shape, dtype)
    out.fill(value)  # a third of what np.full takes for one element
    return out


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
    if low.__class__ is int is high.__class__ and 0 < high - low <= _LOW32:
        # the same as there, of products that fit into 64 bits: half as many steps
        n = np.uint64(high - low)
        upper, lower = bits >> _HALF, bits & _LOW32
        upper *= n
        lower *= n
        lower >>= _HALF
        upper += lower
        upper >>= _HALF
        found = upper.view(np.int64)
        if low:
            found += low
        return found
    return philox.bounded(bits, low, high)


_HALF, _LOW32 = np.uint64(32), np.uint64(0xFFFFFFFF)
