"""float16 and bfloat16 on a device: widened to float32 and rounded from it by kernels of integers alone, the
bits of NumPy's and of ml_dtypes'. What computes does so in float32, and rounds once."""

from __future__ import annotations

from typing import Any

import numpy as np

from jtorch.compile.run.device_routines import kernel, launch
from jtorch.core.device_array import DeviceArray

_FLOAT = np.dtype(np.float32)

_WIDEN_BFLOAT = "y[j] = int64(x[j]) << 16"
_ROUND_BFLOAT = """
u = int64(x[j])
if u & 0x7fffffff > 0x7f800000:
    y[j] = (u >> 16 & 0x8000) | 0x7fc0
else:
    y[j] = u + 0x7fff + (u >> 16 & 1) >> 16
"""
_WIDEN_FLOAT16 = """
h = int64(x[j])
sign, e, m = (h & 0x8000) << 16, h >> 10 & 31, h & 0x3ff
if e == 31:
    r = 0x7f800000 | m << 13
elif e != 0:
    r = e + 112 << 23 | m << 13
elif m == 0:
    r = int64(0)
else:
    e = int64(113)
    while m & 0x400 == 0:
        m = m << 1
        e = e - 1
    r = e << 23 | (m & 0x3ff) << 13
y[j] = sign | r
"""
_ROUND_FLOAT16 = """
u = int64(x[j])
a = u & 0x7fffffff
if a > 0x7f800000:
    r = max(0x7c00 | a >> 13 & 0x3ff, 0x7c01)
elif a >= 0x47800000:
    r = int64(0x7c00)
elif a >= 0x38800000:
    v = a - 0x38000000
    r = v + 0xfff + (v >> 13 & 1) >> 13
elif a >> 23 < 102:
    r = int64(0)
else:
    m, shift = a & 0x7fffff | 0x800000, 126 - (a >> 23)
    r = m >> shift
    rest, half = m & (int64(1) << shift) - 1, int64(1) << shift - 1
    if rest > half or (rest == half and r & 1 == 1):
        r = r + 1
y[j] = (u >> 16 & 0x8000) | r
"""


_ODD = """
r, f = int64(u[j]), float64(near[j])
if f == f and f != x[j]:
    if abs(f) > abs(x[j]):
        r = r - 1
    r = r | 1
y[j] = r
"""


def widened(memory: Any, x: DeviceArray) -> DeviceArray:
    """The same numbers in float32."""
    text = _WIDEN_FLOAT16 if x.dtype.kind == "f" else _WIDEN_BFLOAT
    name = "widened_float16" if x.dtype.kind == "f" else "widened_bfloat16"
    return _converted(memory, x, _FLOAT, kernel(name, "x:u16* y:u32*", text))


def _narrowed(memory: Any, x: DeviceArray, is_odd: bool) -> DeviceArray:
    """Numbers of float64 in float32: the nearest, or of those in between the odd one of their neighbours,
    which rounded again is what they would have been at once (Boldo and Melquiond, 2008)."""
    x = memory.in_order(x)
    near = _converted(memory, x, _FLOAT, kernel("nearest_float32", "x:f64* y:f32*", "y[j] = x[j]"))
    if not is_odd:
        return near
    made = memory.empty(_FLOAT, x.shape)
    with memory.native.own():
        odd = kernel("odd_float32", "x:f64* near:f32* u:u32* y:u32*", _ODD)
        launch(memory, odd, x.size, x, near, near, made)
    return made


def rounded(memory: Any, x: DeviceArray, dtype: np.dtype) -> DeviceArray:
    """Numbers of float32 or float64 rounded to the nearest of 16 bits, to the even one of two; of float64 to
    bfloat16 by way of float32, as ml_dtypes does."""
    if x.dtype == np.float64:
        x = _narrowed(memory, x, is_odd=dtype.kind == "f")
    text = _ROUND_FLOAT16 if dtype.kind == "f" else _ROUND_BFLOAT
    name = "rounded_float16" if dtype.kind == "f" else "rounded_bfloat16"
    return _converted(memory, x, dtype, kernel(name, "x:u32* y:u16*", text))


def _converted(memory: Any, x: DeviceArray, dtype: np.dtype, one: Any) -> DeviceArray:
    x = memory.in_order(x)
    made = memory.empty(dtype, x.shape)
    with memory.native.own():
        launch(memory, one, x.size, x, made)
    return made
