"""Scalar operations that kernels need and plain Python cannot spell for Numba.

Every function here is a *primitive*: one name with three meanings.

* Called with NumPy scalars or arrays it computes with NumPy: this is the twin, used when a kernel
  runs unjitted.
* Called with a `Symbolic` it records itself there. `llvm_values.py` holds the ones that write LLVM
  IR.
* Called in a function that Numba compiles (after `jit_names.register()`) it becomes one or two LLVM
  instructions that the loop vectoriser understands.

Arguments of one call have one dtype, and literals are typed: `fma(x, np.float32(2.0), y)`. Mixing
float32 and float64 is an error when compiled, so that no double sneaks into a float32 kernel.
"""

from __future__ import annotations

import ctypes
import functools
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np

from jtorch.core import philox


class Symbolic:
    """A value that records primitives instead of computing them; see `llvm_values.LLVMValue`."""

    __array_ufunc__ = None  # np.float32(2) * symbolic must come to symbolic.__rmul__

    def emit(self, name: str, args: tuple[Any, ...]) -> Any:
        raise NotImplementedError


PRIMITIVES: dict[str, Callable[..., Any]] = {}


def primitive(twin: Callable[..., Any]) -> Callable[..., Any]:
    """Declare `twin` as a primitive: recorded for symbolic arguments, computed by NumPy for
    others."""
    name = twin.__name__

    @functools.wraps(twin)
    def dispatch(*args: Any) -> Any:
        for arg in args:
            if isinstance(arg, Symbolic):
                return arg.emit(name, args)
        return twin(*args)

    PRIMITIVES[name] = dispatch
    return dispatch


# --- bit casts and conversions -------------------------------------------------------------------


def _view(x: Any, dtype: type) -> Any:
    return x.view(dtype) if isinstance(x, (np.ndarray, np.generic)) else np.asarray(x).view(dtype)


@primitive
def bits_i32(x: Any) -> Any:
    """The bits of a float32 as int32."""
    return _view(np.float32(x) if isinstance(x, float) else x, np.int32)


@primitive
def float_from_i32(bits: Any) -> Any:
    """The float32 whose bits are the int32 `bits`."""
    return _view(bits, np.float32)


@primitive
def bits_i64(x: Any) -> Any:
    """The bits of a float64 as int64."""
    return _view(x, np.int64)


@primitive
def float_from_i64(bits: Any) -> Any:
    """The float64 whose bits are the int64 `bits`."""
    return _view(bits, np.float64)


def _conversion(name: str, dtype: type, doc: str) -> Callable[..., Any]:
    def twin(x: Any) -> Any:
        return x.astype(dtype) if isinstance(x, np.ndarray) else dtype(x)

    twin.__name__ = twin.__qualname__ = name
    twin.__doc__ = doc
    return primitive(twin)


_CUT = "`x` as {0}. A float is cut towards zero; the result is undefined where it does not fit."
to_f32 = _conversion("to_f32", np.float32, "`x` as float32, rounded to nearest even.")
to_f64 = _conversion("to_f64", np.float64, "`x` as float64, rounded to nearest even.")
to_i32 = _conversion("to_i32", np.int32, _CUT.format("int32"))
to_i64 = _conversion("to_i64", np.int64, _CUT.format("int64"))
to_u16 = _conversion("to_u16", np.uint16, _CUT.format("uint16"))
to_u32 = _conversion("to_u32", np.uint32, _CUT.format("uint32"))
to_u64 = _conversion("to_u64", np.uint64, _CUT.format("uint64"))


# --- floating point ------------------------------------------------------------------------------


@primitive
def select(condition: Any, a: Any, b: Any) -> Any:
    """`a` where `condition` holds, else `b`. Both are computed: a select, never a branch."""
    if isinstance(condition, np.ndarray):
        return np.where(condition, a, b)
    return a if condition else b


@primitive
def fma(a: Any, b: Any, c: Any) -> Any:
    """`a * b + c` with a single rounding, for float32 and float64; the twin is exactly rounded
    too."""
    if isinstance(a, np.ndarray) or isinstance(b, np.ndarray) or isinstance(c, np.ndarray):
        a, b, c = np.broadcast_arrays(a, b, c)
        return _fma_f32(a, b, c) if a.dtype == np.float32 else _fma_f64(a, b, c)
    if isinstance(a, np.float32):
        return _fma_f32(a, b, c)
    return _fma_f64(np.asarray(a), np.asarray(b), np.asarray(c))[()]


def _fma_f32(a: Any, b: Any, c: Any) -> Any:
    """float32 `fma` through float64.

    The product of two float32 is exact in float64. The sum is rounded to odd (Boldo and Melquiond,
    "Emulation of FMA and correctly rounded sums", 2008), so that rounding it again to float32 is
    innocuous.
    """
    with np.errstate(all="ignore"):
        product = to_f64(a) * to_f64(b)
        addend = to_f64(c)
        total = product + addend
        back = total - product
        error = (product - (total - back)) + (addend - back)
        bits = np.asarray(total).view(np.int64)
        outward = (np.asarray(error) > 0) == (np.asarray(total) > 0)
        inexact = np.isfinite(total) & (np.asarray(error) != 0) & (bits & 1 == 0)
        odd = np.where(inexact, np.where(outward, bits | 1, bits - 1), bits).view(np.float64)
        return odd.astype(np.float32)[()]


_SPLIT = np.float64(134217729.0)  # 2**27 + 1, Dekker's splitter for 53 bits


def _fma_f64(a: np.ndarray, b: np.ndarray, c: np.ndarray) -> np.ndarray:
    """float64 `fma`: error-free transforms where no exponent can overflow or underflow, else
    fractions."""
    with np.errstate(all="ignore"):
        product = a * b
        low_a, low_b = np.abs(a), np.abs(b)
        sizes = (np.abs(product), np.abs(c))
        safe = (low_a < 1e150) & (low_b < 1e150) & (sizes[0] > 1e-200)
        safe &= (sizes[1] < 1e150) & (sizes[1] > 1e-200)
        out = _fma_f64_safe(a, b, c, product)
        out = np.where((product == 0) & ((a == 0) | (b == 0)), product + c, out)
        # a zero addend, infinities and NaN follow the two-step result, unless the product rounded
        finite = np.isfinite(a) & np.isfinite(b) & np.isfinite(c)
        out = np.where(finite, out, np.where(np.isfinite(a) & np.isfinite(b), c, product + c))
    exact = np.asarray(finite & ~safe & (a != 0) & (b != 0))
    if exact.any():
        out = np.array(out)
        for index in np.argwhere(exact):
            at = tuple(index)
            out[at] = _fma_fraction(float(a[at]), float(b[at]), float(c[at]))
    return out


def _fma_f64_safe(a: np.ndarray, b: np.ndarray, c: np.ndarray, product: np.ndarray) -> np.ndarray:
    """Boldo and Melquiond's algorithm: two error-free sums, the last addition rounded to odd."""
    a_high = _SPLIT * a - (_SPLIT * a - a)
    b_high = _SPLIT * b - (_SPLIT * b - b)
    a_low, b_low = a - a_high, b - b_high
    product_low = a_low * b_low - (((product - a_high * b_high) - a_low * b_high) - a_high * b_low)
    t_high, t_low = _two_sum(c, product_low)
    v_high, v_low = _two_sum(product, t_high)
    z, z_low = _two_sum(t_low, v_low)
    bits = np.asarray(z).view(np.int64)
    outward = (z_low > 0) == (z > 0)
    odd = np.where((z_low != 0) & (bits & 1 == 0), np.where(outward, bits | 1, bits - 1), bits)
    return v_high + odd.view(np.float64)


def _two_sum(a: np.ndarray, b: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    total = a + b
    back = total - a
    return total, (a - (total - back)) + (b - back)


def _fma_fraction(a: float, b: float, c: float) -> float:
    exact = Fraction(a) * Fraction(b) + Fraction(c)
    if exact == 0:  # signed zeros: an exact cancellation, or two zeros of one sign
        return c + 0.0 * a * b if c == 0 else 0.0
    try:
        return float(exact) if exact > 0 else -float(-exact)
    except OverflowError:
        return float("inf") if exact > 0 else float("-inf")


@primitive
def rint(x: Any) -> Any:
    """`x` rounded to the nearest integer, ties to even."""
    return np.rint(x)


@primitive
def floor(x: Any) -> Any:
    """The largest integer not above `x`, as a float of the same dtype."""
    return np.floor(x)


@primitive
def ceil(x: Any) -> Any:
    """The smallest integer not below `x`, as a float of the same dtype."""
    return np.ceil(x)


@primitive
def trunc(x: Any) -> Any:
    """`x` cut towards zero, as a float of the same dtype."""
    return np.trunc(x)


@primitive
def sqrt(x: Any) -> Any:
    """The correctly rounded square root; NaN for x < 0."""
    return np.sqrt(x)


@primitive
def fabs(x: Any) -> Any:
    """`x` with its sign bit cleared (of NaN as well)."""
    return np.abs(x)


@primitive
def copysign(magnitude: Any, sign: Any) -> Any:
    """`magnitude` with the sign bit of `sign`."""
    return np.copysign(magnitude, sign)


@primitive
def fmod(x: Any, y: Any) -> Any:
    """The remainder of `x / y` cut towards zero, exact; a libm call per element (there is no
    instruction)."""
    with np.errstate(invalid="ignore"):
        return np.fmod(x, y)


@primitive
def maximum(a: Any, b: Any) -> Any:
    """The larger of two floats; NaN if either is NaN. Equal zeros give `b`, as NumPy and PyTorch do
    on x86."""
    return np.where((a > b) | (a != a), a, b)[()]


@primitive
def minimum(a: Any, b: Any) -> Any:
    """The smaller of two floats; NaN if either is NaN. Equal zeros give `b`."""
    return np.where((a < b) | (a != a), a, b)[()]


# --- reductions ----------------------------------------------------------------------------------
# A float sum in program order cannot be vectorised. These four allow *this* instruction to be
# reordered and nothing else: NaN, infinities and signed zeros of the rest of the kernel keep their
# meaning.


@primitive
def add_reassoc(accumulator: Any, x: Any) -> Any:
    """`accumulator + x`, where the compiler may choose the order of a chain of them."""
    return accumulator + x


@primitive
def mul_reassoc(accumulator: Any, x: Any) -> Any:
    """`accumulator * x`, where the compiler may choose the order of a chain of them."""
    return accumulator * x


@primitive
def max_reassoc(accumulator: Any, x: Any) -> Any:
    """The larger, for accumulators; NaN if either is NaN, and +0.0 over -0.0, so that no order
    shows."""
    zeros = (accumulator == 0) & (x == 0) & np.signbit(x)
    return np.where(zeros, accumulator, maximum(accumulator, x))[()]


@primitive
def min_reassoc(accumulator: Any, x: Any) -> Any:
    """The smaller, for accumulators; NaN if either is NaN, and -0.0 under +0.0."""
    zeros = (accumulator == 0) & (x == 0) & ~np.signbit(x)
    return np.where(zeros, accumulator, minimum(accumulator, x))[()]


# --- integers ------------------------------------------------------------------------------------


@primitive
def mulhi_u64(a: Any, b: Any) -> Any:
    """The upper 64 bits of the 128-bit product of two uint64."""
    with np.errstate(over="ignore"):
        return philox.mulhi(a, b)


@primitive
def lookup(table: np.ndarray, index: Any) -> Any:
    """`table[index]` for a constant float64 table and an int64 index within it; vectorises as a
    gather."""
    return table[index]


# --- pointers ------------------------------------------------------------------------------------

POINTER_DTYPES: dict[str, Any] = {
    "f32": np.float32, "f64": np.float64, "bool": np.bool_,
    "i8": np.int8, "i16": np.int16, "i32": np.int32, "i64": np.int64,
    "u8": np.uint8, "u16": np.uint16, "u32": np.uint32, "u64": np.uint64,
}  # fmt: skip

_UNBOUNDED = 1 << 40  # items of the array a twin returns: a pointer knows no length


def _pointer(suffix: str, dtype: Any) -> Callable[..., Any]:
    def twin(address: int, scope: int = -1) -> np.ndarray:
        if not int(address):
            return np.empty(0, dtype)
        block = (ctypes.c_char * (_UNBOUNDED * np.dtype(dtype).itemsize)).from_address(int(address))
        return np.frombuffer(block, dtype)

    twin.__name__ = twin.__qualname__ = f"as_pointer_{suffix}"
    twin.__doc__ = f"""The {np.dtype(dtype).name} buffer at the int64 `address`.

    `scope` (a literal, 0 to 63) promises that memory written through this pointer is not reached
    through a pointer of another scope: see `jit_names.ScopedPointer`. The twin is an array without
    a true length."""
    return twin


as_pointer_f32 = _pointer("f32", np.float32)
as_pointer_f64 = _pointer("f64", np.float64)
as_pointer_i8 = _pointer("i8", np.int8)
as_pointer_i16 = _pointer("i16", np.int16)
as_pointer_i32 = _pointer("i32", np.int32)
as_pointer_i64 = _pointer("i64", np.int64)
as_pointer_u8 = _pointer("u8", np.uint8)
as_pointer_u16 = _pointer("u16", np.uint16)
as_pointer_u32 = _pointer("u32", np.uint32)
as_pointer_u64 = _pointer("u64", np.uint64)
as_pointer_bool = _pointer("bool", np.bool_)

POINTERS: dict[str, Callable[..., Any]] = {
    suffix: globals()[f"as_pointer_{suffix}"] for suffix in POINTER_DTYPES
}

# --- stack memory --------------------------------------------------------------------------------


def _stack(suffix: str, dtype: Any) -> Callable[..., Any]:
    def twin(count: int) -> np.ndarray:
        return np.empty(count, dtype)

    twin.__name__ = twin.__qualname__ = f"stack_{suffix}"
    twin.__doc__ = f"""Memory for `count` (a literal) items of {np.dtype(dtype).name}, as long as the
    kernel runs; nothing is in it yet."""
    return twin


stack_f32 = _stack("f32", np.float32)
stack_f64 = _stack("f64", np.float64)

STACKS: dict[str, Callable[..., Any]] = {"stack_f32": stack_f32, "stack_f64": stack_f64}
