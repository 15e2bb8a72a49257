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
    return philox.bounded(bits, low, high)
