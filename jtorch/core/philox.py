"""Counter-based random numbers: seed, number of the random op and index of the element decide.

The generator is Philox4x64-10 (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", SC
2011), as in `numpy.random.Philox`. Element `index` of the stream (seed, call) has

    key     = (seed, call), each modulo 2**64
    counter = (index // 4 + 1, 0, 0, 0)     NumPy counts up first, so its first block is number 1
    lane    = index % 4 of that block

`raw_bits` fills arrays with NumPy's C code. `philox_u64` and `philox_block` are the same function
as text for kernels. The transforms after them (`uniform_*`, `normal_*`, `exponential_*`, `bounded`)
are one text for arrays, NumPy scalars and kernels, made only of exactly rounded operations (+ - * /
sqrt, conversions, integers) in a fixed order: no libm and no fused multiply-add, so eager and
compiled draws agree bit for bit. A compiler of this text must not contract a * b + c.
"""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable
from typing import Any

import numpy as np

__all__ = [
    "KERNEL_FUNCTIONS", "bounded", "exponential", "normal", "philox_block", "philox_u64",
    "raw_bits", "uniform",
]  # fmt: skip

u64, i64, f64 = np.uint64, np.int64, np.float64
MASK64 = (1 << 64) - 1


class _Source(threading.local):
    """One NumPy bit generator per thread, moved to another stream through its state.

    Measured for 8 draws: building a Philox 7.9 us, assigning a state 0.9 us, drawing 0.5 us.
    """

    def __init__(self) -> None:
        self.generator = np.random.Philox(key=np.zeros(2, u64))
        self.state: Any = dict(self.generator.state)
        self.key = self.state["state"]["key"]  # the counter in the state stays 0


_source = _Source()


def raw_bits(seed: int, call: int, n: int) -> np.ndarray:
    """uint64[n]: elements 0 to n - 1 of the stream (seed, call); ValueError for a negative n."""
    if n <= 0:
        if n < 0:
            raise ValueError(f"raw_bits needs a count of at least 0, not {n}")
        return np.empty(0, u64)
    source = _source
    source.key[0] = seed & MASK64
    source.key[1] = call & MASK64
    source.generator.state = source.state
    return source.generator.random_raw(n)


# --- the generator as text for kernels -----------------------------------------------------------
# Values are NumPy scalars, arrays, or symbolic values of the compiler, which know astype, view,
# where and sqrt.

KERNEL_FUNCTIONS: dict[str, Callable[..., Any]] = {}


def _kernel(function: Callable[..., Any]) -> Callable[..., Any]:
    KERNEL_FUNCTIONS[function.__name__] = function
    return function


def _wrapping(function: Callable[..., Any]) -> Callable[..., Any]:
    """Unsigned overflow is meant in `function`: NumPy shall not warn of it."""

    @functools.wraps(function)
    def wrapper(*args: Any) -> Any:
        with np.errstate(over="ignore"):
            return function(*args)

    return wrapper


def _where(condition: Any, a: Any, b: Any) -> Any:
    if isinstance(condition, (np.ndarray, np.bool_)):
        return np.where(condition, a, b)[()]
    return condition.where(a, b)


def _sqrt(x: Any) -> Any:
    return np.sqrt(x) if isinstance(x, (np.ndarray, np.generic)) else x.sqrt()


def _unsigned(x: Any) -> Any:
    return u64(x & MASK64) if isinstance(x, int) else x.astype(u64)


MULTIPLIER_0, MULTIPLIER_1 = u64(0xD2E7470EE14C6C93), u64(0xCA5A826395121157)
WEYL_0, WEYL_1 = u64(0x9E3779B97F4A7C15), u64(0xBB67AE8584CAA73B)
ROUNDS = 10
ZERO, ONE, TWO, THREE, FOUR = u64(0), u64(1), u64(2), u64(3), u64(4)
LOW32, SHIFT32 = u64(0xFFFFFFFF), u64(32)


def mulhi(a: Any, b: Any) -> Any:
    """The upper 64 bits of the product of two uint64, from products of 32-bit halves (AVX-512 has
    those)."""
    a_low, a_high, b_low, b_high = a & LOW32, a >> SHIFT32, b & LOW32, b >> SHIFT32
    middle = a_high * b_low + (a_low * b_low >> SHIFT32)  # at most 2**64 - 2**33 + 2**32: no overflow
    carry = (middle & LOW32) + a_low * b_high
    return a_high * b_high + (middle >> SHIFT32) + (carry >> SHIFT32)


@_kernel
@_wrapping
def philox_block(seed: Any, call: Any, block: Any) -> tuple[Any, Any, Any, Any]:
    """Elements 4 block to 4 block + 3 of the stream (seed, call), as four uint64."""
    key_0, key_1 = _unsigned(seed), _unsigned(call)
    x0 = _unsigned(block) + ONE
    x1 = x2 = x3 = x0 & ZERO
    for _ in range(ROUNDS):
        high_0, high_1 = mulhi(x0, MULTIPLIER_0), mulhi(x2, MULTIPLIER_1)
        x0, x1, x2, x3 = (
            high_1 ^ x1 ^ key_0,
            x2 * MULTIPLIER_1,
            high_0 ^ x3 ^ key_1,
            x0 * MULTIPLIER_0,
        )
        key_0, key_1 = key_0 + WEYL_0, key_1 + WEYL_1
    return x0, x1, x2, x3


@_kernel
@_wrapping
def philox_u64(seed: Any, call: Any, index: Any) -> Any:
    """Element `index` of the stream (seed, call), as uint64. A loop over all elements does better
    with `philox_block`."""
    index = _unsigned(index)
    x0, x1, x2, x3 = philox_block(seed, call, index >> TWO)
    lane = index & THREE
    even, first = lane & ONE == ZERO, lane < TWO
    return _where(first, _where(even, x0, x1), _where(even, x2, x3))


# --- transforms ----------------------------------------------------------------------------------


@_kernel
def uniform_f32(bits: Any) -> Any:
    """float32 in [0, 1): the upper 24 bits."""
    return (bits >> u64(40)).astype(np.float32) * np.float32(2.0**-24)


@_kernel
def uniform_f64(bits: Any) -> Any:
    """float64 in [0, 1): the upper 53 bits."""
    return (bits >> u64(11)).astype(f64) * f64(2.0**-53)


@_kernel
@_wrapping
def bounded(bits: Any, low: Any, high: Any) -> Any:
    """int64 in [low, high), for high > low: low + floor(bits * (high - low) / 2**64) (Lemire, "Fast
    random integer generation in an interval", 2019, without the rejection: no value is off by more
    than (high - low) / 2**64)."""
    first = _unsigned(low)
    return (first + mulhi(bits, _unsigned(high) - first)).astype(i64)


def _typed(*values: float) -> tuple[Any, ...]:
    return tuple(f64(value) for value in values)


def _polynomial(x: Any, coefficients: tuple[Any, ...]) -> Any:
    result = x * coefficients[0]
    for coefficient in coefficients[1:-1]:
        result += coefficient  # in place for arrays: no second temporary in the cache
        result *= x
    result += coefficients[-1]
    return result


LN2 = f64(0.6931471805599453)
ROOT_HALF = i64(0x3FE6A09E667F3BCD)
MANTISSA_BITS, EXPONENT_MASK = i64(52), i64(-0x10000000000000)
# 2 atanh(s) / s - 2 over s**2, in s**2, for |s| <= (sqrt(2) - 1) / (sqrt(2) + 1); minimax, error
# 2**-43
LOG = _typed(
    0.1949800895787404, 0.22182603153884758, 0.2857194251048481, 0.39999997361534384,
    0.6666666666995529,
)  # fmt: skip


def _log(p: Any) -> Any:
    """log(p) within 2**-42 of its size, for 2**-54 <= p < 1."""
    bits = p.view(i64)
    exponent = (bits - ROOT_HALF) & EXPONENT_MASK
    f = (bits - exponent).view(f64) - f64(1.0)
    s = f / (f + f64(2.0))
    z = s * s
    return (exponent >> MANTISSA_BITS).astype(f64) * LN2 + (s + s + s * (z * _polynomial(z, LOG)))


# r - x in r, where x is the normal quantile with tail probability exp(-r**2 / 2) <= 1/2: minimax
# over all 54-bit probabilities, absolute error 2.2e-13. The form is Hastings', "Approximations for
# Digital Computers", 1955
QUANTILE_UPPER = _typed(
    7.25529229335455e-06, 0.006797797704173206, 0.24659383894402653, 2.431816597861118,
    15.250346918595715, 46.917423244876524, 32.38153834320767, 3.653513247154921,
)  # fmt: skip
QUANTILE_LOWER = _typed(
    0.0011442173519181954, 0.06089858691409262, 0.7914617801375078, 5.545997465344888,
    23.546028755566162, 34.47805323247303, 13.997803577691988, 1.0,
)  # fmt: skip


@_kernel
def normal_f64(bits: Any) -> Any:
    """A standard normal float64 by inversion: the top bit is the sign, the next 53 the tail
    probability (odd / 2**54)."""
    odd = ((bits >> u64(10)) & u64(0x1FFFFFFFFFFFFF)) | ONE
    p = odd.astype(i64).astype(f64) * f64(2.0**-54)
    r = _sqrt(_log(p) * f64(-2.0))
    x = r - _polynomial(r, QUANTILE_UPPER) / _polynomial(r, QUANTILE_LOWER)
    return _where(bits >> u64(63) == ONE, -x, x)


@_kernel
def normal_f32(bits: Any) -> Any:
    """A standard normal float32: `normal_f64`, rounded."""
    return normal_f64(bits).astype(np.float32)


@_kernel
def exponential_f64(bits: Any) -> Any:
    """A float64 from the exponential distribution of rate 1, above 0: -log(odd / 2**53)."""
    odd = (bits >> u64(11)) | ONE
    return -_log(odd.astype(i64).astype(f64) * f64(2.0**-53))


@_kernel
def exponential_f32(bits: Any) -> Any:
    """A float32 from the exponential distribution of rate 1."""
    return exponential_f64(bits).astype(np.float32)


# --- the transforms for arrays -------------------------------------------------------------------

CHUNK = 8192  # items: a dozen temporaries of float64 stay in the L2 cache


def _in_chunks(name: str, bits: np.ndarray, dtype: Any) -> np.ndarray:
    dtype = np.dtype(dtype)
    if dtype not in (np.float32, np.float64):
        raise TypeError(f"random floats come as float32 or float64, not {dtype}")
    function = KERNEL_FUNCTIONS[f"{name}_f{8 * dtype.itemsize}"]
    if bits.size <= CHUNK:
        return np.asarray(function(bits))
    flat, out = bits.reshape(-1), np.empty(bits.size, dtype)
    for start in range(0, bits.size, CHUNK):
        out[start : start + CHUNK] = function(flat[start : start + CHUNK])
    return out.reshape(bits.shape)


def uniform(bits: np.ndarray, dtype: Any) -> np.ndarray:
    """Floats in [0, 1) of `dtype` (float32: 24 bits, float64: 53 bits), shaped like the uint64
    `bits`."""
    return _in_chunks("uniform", bits, dtype)


def normal(bits: np.ndarray, dtype: Any) -> np.ndarray:
    """Standard normal floats of `dtype`, shaped like the uint64 `bits`."""
    return _in_chunks("normal", bits, dtype)


def exponential(bits: np.ndarray, dtype: Any) -> np.ndarray:
    """Floats of `dtype` from the exponential distribution of rate 1, shaped like the uint64
    `bits`."""
    return _in_chunks("exponential", bits, dtype)
