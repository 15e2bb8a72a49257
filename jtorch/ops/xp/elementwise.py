"""Elementwise functions: one output element from one element of each input."""

from __future__ import annotations

import functools
import math
from typing import Any

import numpy as np

from jtorch.core import dtypes as dt
from jtorch.ops.xp._special import of_scipy as _of_scipy
from jtorch.ops.xp._wide import converted as _converted

Array = np.ndarray
_UINT32 = np.dtype(np.uint32)

add, sub, mul, div = np.add, np.subtract, np.multiply, np.true_divide
neg, abs = np.negative, np.abs
exp, log, sqrt, tanh, sin, cos = np.exp, np.log, np.sqrt, np.tanh, np.sin, np.cos
log1p, expm1, floor, ceil, trunc = np.log1p, np.expm1, np.floor, np.ceil, np.trunc
exp2, log2, log10, tan, sinh, cosh = np.exp2, np.log2, np.log10, np.tan, np.sinh, np.cosh
asin, acos, atan, atan2, hypot = np.arcsin, np.arccos, np.arctan, np.arctan2, np.hypot
asinh, acosh, atanh = np.arcsinh, np.arccosh, np.arctanh
copysign, nextafter = np.copysign, np.nextafter
eq, ne, lt, le, gt, ge = (
    np.equal, np.not_equal, np.less, np.less_equal, np.greater, np.greater_equal,
)  # fmt: skip
logical_not, logical_and, logical_or = np.logical_not, np.logical_and, np.logical_or
logical_xor = np.logical_xor
isnan, isfinite, signbit = np.isnan, np.isfinite, np.signbit
bitwise_and, bitwise_or, bitwise_xor = np.bitwise_and, np.bitwise_or, np.bitwise_xor
left_shift, right_shift = np.left_shift, np.right_shift
gcd, lcm = np.gcd, np.lcm


def floor_divide(x: Array, y: Array) -> Array:
    _check_divisor(x, y)
    if getattr(x, "dtype", None) == dt.BFLOAT16:  # its own routine rounds in between
        wide = np.floor_divide(x.astype(np.float32), np.asarray(y, np.float32))
        return np.asarray(wide).astype(dt.BFLOAT16)
    return np.floor_divide(x, y)


def remainder(x: Array, y: Array) -> Array:
    """The remainder with the sign of ``y``; 0 has that of ``x``, as in PyTorch (in NumPy that of ``y``)."""
    _check_divisor(x, y)
    found = np.asarray(np.remainder(x, y))
    return np.copysign(found, x, out=found, where=found == 0) if found.dtype.kind in "fV" else found


def fmod(x: Array, y: Array) -> Array:
    """The remainder with the sign of ``x``."""
    _check_divisor(x, y)
    return np.fmod(x, y)


def _check_divisor(x: Array, y: Array) -> None:
    """NumPy gives 0 for an integer divided by 0, and int8 for bools; PyTorch, and compiled code, raise."""
    if getattr(x, "dtype", None) == np.bool_ and getattr(y, "dtype", None) == np.bool_:
        raise NotImplementedError("remainders of bool tensors are not implemented")
    integers = np.asarray(x).dtype.kind in "iu" and np.asarray(y).dtype.kind in "iub"
    if integers and not np.all(y) and np.size(x):
        raise RuntimeError("ZeroDivisionError: integer division by zero")


def sigmoid(x: Array) -> Array:
    if x.dtype.kind == "c":  # which SciPy lacks
        return np.reciprocal(1 + np.exp(-x))
    return _of_scipy("expit", x)


def erf(x: Array) -> Array:
    return _of_scipy("erf", x)


def sign(x: Array) -> Array:
    if x.dtype.kind == "c":  # on the unit circle: what the gradient of abs needs
        length = np.abs(x)
        return np.divide(x, length, out=np.zeros_like(x), where=length != 0)
    if x.dtype.kind == "b":
        return np.logical_or(x, x)
    return np.subtract(x > 0, x < 0, dtype=x.dtype)  # 0 for NaN, as in PyTorch


_FLOAT16, _FLOAT32 = np.dtype(np.float16), np.dtype(np.float32)
_FLOATS = frozenset({float, np.float32, np.float64})  # Python's, and what a constant of a graph is


def pow(x: Any, y: Any) -> Array:
    if y.__class__ is bool:  # bools stay bools beside this one, where NumPy makes int8 of them
        return clone(x) if y else np.ones_like(x)
    if y.__class__ is float and y in _FAST_POWERS and getattr(x, "dtype", None) in dt.HALVES:
        return _power_of_16_bits(np.ascontiguousarray(x) if 0 in x.strides else x, y)
    if x.__class__ is float and getattr(y, "dtype", None) is dt.BFLOAT16:
        return dt.BFLOAT16.type(x) ** y  # beside which a Python number is not weak
    if y.__class__ is float and getattr(x, "dtype", None) is dt.BFLOAT16:
        y = dt.BFLOAT16.type(y)  # beside which a Python number is not weak
    if y.__class__ is float and y == -0.5 and hasattr(x, "dtype"):
        return rsqrt(x)
    if y.__class__ in _FLOATS and x.__class__ is np.ndarray and x.dtype.char in "fd":
        if y == 2.0:
            return x * x  # the same bits in a third of the time
        if y == 3.0:
            return x * x * x  # as PyTorch does: NumPy calls pow for each, which takes 200 times as long
    if y.__class__ is x.__class__ is np.ndarray and not y.ndim and y.dtype.kind == "f" and y == 0.5:
        return _half_power(x)
    try:
        return x**y  # where np.power would call pow(x, 2.0) for each element, the operator squares
    except ValueError as error:
        if "negative integer powers" not in str(error):
            raise
    if y.__class__ is not np.ndarray:
        raise RuntimeError("Integers to negative integer powers are not allowed.")
    of_minus_one = 1 - 2 * (y & 1)
    inverse = np.where(x == 1, 1, np.where(x == -1, of_minus_one, 0))  # what PyTorch makes of 1 / x^-y
    return np.where(y < 0, inverse, np.power(x, np.maximum(y, 0))).astype(y.dtype)


_FAST_POWERS = frozenset({1.0, 2.0, 3.0, -1.0, -2.0, 0.5, -0.5})


def _power_of_16_bits(x: Array, y: float) -> Array:
    """The bits that NumPy has by calling pow for each element, which takes a hundred times as long.

    In float32 the square of 16 bits is exact. In bfloat16 PyTorch rounds it before it goes on, and takes
    roots; in float16 it takes none.
    """
    if y == 1.0:
        return np.array(x)
    wide = cast(x, dtype=_FLOAT32)
    if y in (0.5, -0.5):
        power = _half_power(wide) if x.dtype is _FLOAT16 else np.sqrt(wide)
    else:
        power = wide if y == -1.0 else wide * wide
    if x.dtype is dt.BFLOAT16 and y in (3.0, -2.0):
        power = cast(cast(power, dtype=x.dtype), dtype=_FLOAT32)
    if y == 3.0:
        power = power * wide
    return cast(power if y > 0 else np.float32(1) / power, dtype=x.dtype)


def _half_power(x: Array) -> Array:
    """x to the power of one half as C's pow has it: inf for -inf and 0 for -0."""
    return np.where(x == -np.inf, np.inf, np.sqrt(x + 0.0)).astype(x.dtype, copy=False)


def reciprocal(x: Array) -> Array:
    return np.true_divide(x.dtype.type(1), x)  # beside bfloat16 a Python number is not weak


def frexp(x: Array) -> tuple[Array, Array]:
    """(mantissa in [0.5, 1), exponent)"""
    mantissa, exponent = np.frexp(x)
    return np.asarray(mantissa), np.asarray(exponent, np.int32)


def round(x: Array) -> Array:
    """To the nearest, halves to even; integers stay as they are, where NumPy would make floats of them."""
    return np.rint(x) if x.dtype.kind in "fV" else np.positive(x)


def rsqrt(x: Array) -> Array:
    return x.dtype.type(1) / np.sqrt(x)


def maximum(x: Array, y: Array) -> Array:
    """The larger; of two zeros the second one, as kernels have it: NumPy's of float16 is the first one."""
    return np.maximum(y, x) if x.dtype is _FLOAT16 else np.maximum(x, y)


def minimum(x: Array, y: Array) -> Array:
    return np.minimum(y, x) if x.dtype is _FLOAT16 else np.minimum(x, y)


def clamp_min(x: Any, low: Any) -> Array:
    """The larger; of two zeros the one of ``x``, as in PyTorch."""
    return np.maximum(x, low) if x.dtype is _FLOAT16 else np.maximum(low, x)


def clamp_max(x: Any, high: Any) -> Array:
    return np.minimum(x, high) if x.dtype is _FLOAT16 else np.minimum(high, x)


def relu(x: Array) -> Array:
    """Many elements by blocks beside as many zeros: beside one NumPy takes 50 us for 131,072, not 23."""
    if x.dtype is _FLOAT16:
        return np.maximum(x, _zeros(x.dtype, 0))
    n = x.size
    if not 4096 <= n <= _MANY or not x.flags.c_contiguous:
        return np.maximum(_zeros(x.dtype, 0), x)
    flat, out, zeros = x.reshape(-1), np.empty(n, x.dtype), _zeros(x.dtype, _BLOCK)
    for begin in range(0, n, _BLOCK):
        block = flat[begin : begin + _BLOCK]
        np.maximum(zeros[: block.size], block, out=out[begin : begin + _BLOCK])
    return out.reshape(x.shape)


_BLOCK = 1 << 15  # elements: 128 KB of float32, so that zeros and block stay in the cache
_MANY = 1 << 20  # from here on both wait for memory


@functools.cache
def _zeros(dtype: np.dtype, count: int) -> Array:
    """So many, or one without axes: as an array it starts 0.25 us sooner than as a Python number."""
    return np.zeros(count or (), dtype)


def where(condition: Array, x: Any, y: Any) -> Array:
    """``x`` where ``condition`` holds, else ``y``; either may be a number.

    ``np.where`` branches for each element: 1 ms for 221,184 random choices, where selecting by masks of
    bits takes 0.05 (y = 0) to 0.15 ms. Bits also keep NaN, inf and -0.0 as they are.
    """
    dtype: Any = getattr(x, "dtype", None) or getattr(y, "dtype", None)
    if dtype is not None and dtype.kind == "V":  # beside which NumPy takes a number for one of float64
        x, y = (v if hasattr(v, "dtype") else np.asarray(v, dtype) for v in (x, y))
    integer = _INTEGER.get(dtype) if condition.size > 512 else None
    if integer is None or not (_has_bits(x, dtype) and _has_bits(y, dtype)):
        return np.where(condition, x, y)
    differs: Any = np.not_equal
    if _is_zero(x):  # "y where it does not hold, else 0"
        x, y, differs = y, x, np.equal
    holds = differs(condition.view(np.int8), _ZERO_BYTE)  # a byte of a bool may be another than 0 and 1
    mask = np.negative(holds.view(np.int8)).astype(integer, copy=False)
    if _is_zero(y):
        return _into(mask, np.bitwise_and, _bits(x, dtype, integer)).view(dtype)
    y = _bits(y, dtype, integer)
    differ = np.bitwise_xor(_bits(x, dtype, integer), y)
    return _into(_into(mask, np.bitwise_and, differ), np.bitwise_xor, y).view(dtype)


_INTEGER = {np.dtype(kind): np.dtype(f"i{kind[1]}") for kind in ("f2", "f4", "f8", "i1", "i2", "i4", "i8")}


_ZERO_BYTE = np.zeros((), np.int8)


def _has_bits(value: Any, dtype: np.dtype) -> bool:
    """Whether ``value`` is an array of that dtype, or a number that one of its elements can be."""
    if value.__class__ is np.ndarray:
        return value.dtype is dtype
    return value.__class__ is int or (value.__class__ is float and dtype.kind == "f")


def _is_zero(value: Any) -> bool:
    return value.__class__ in (int, float) and value == 0 and math.copysign(1.0, value) > 0


def _bits(value: Any, dtype: np.dtype, integer: np.dtype) -> Array:
    return (np.array(value, dtype) if isinstance(value, (int, float)) else value).view(integer)


def _into(mask: Array, function: Any, other: Array) -> Array:
    """``function(mask, other)`` in the memory of ``mask`` where it fits there."""
    return function(mask, other, mask if other.shape in ((), mask.shape) else None)


def cast(x: Array, *, dtype: np.dtype) -> Array:
    if x.dtype.kind == "c" and dtype.kind not in "cb":
        x = x.real  # without NumPy's warning: gradients of reals that met complex numbers come here
    if x.itemsize + dtype.itemsize == 6:
        return _converted(x, dtype)
    if dtype == _UINT32 and x.dtype.kind == "f":  # NumPy's vectors of it and its single ones differ
        x = x.astype(np.int64)
    return x.astype(dtype, copy=False)


def clone(x: Array) -> Array:
    return np.array(x, order="C")
