"""Elementwise functions: one output element from one element of each input."""

from __future__ import annotations

import functools
import math
from typing import Any

import numpy as np

Array = np.ndarray

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


_INTEGER = {np.dtype(kind): np.dtype(f"i{kind[1]}") for kind in ("f2", "f4", "f8", "i1", "i2", "i4", "i8")}


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
