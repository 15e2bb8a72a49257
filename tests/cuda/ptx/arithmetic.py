"""What PTX instructions compute where NumPy has no operator for it.

All take and give arrays of one item per lane, or of one item in all where the lanes agree.
"""

from __future__ import annotations

import numpy as np

F4, F8 = np.float32, np.float64
U1, U2, U4, U8 = np.uint8, np.uint16, np.uint32, np.uint64
I1, I2, I4, I8 = np.int8, np.int16, np.int32, np.int64
Array = np.ndarray


# -- integers ----------------------------------------------------------------------------------------------


def divide(a: Array, b: Array) -> Array:
    """Towards zero. By zero all bits are set, as on devices: PTX leaves it open."""
    safe = np.where(b == 0, b.dtype.type(1), b)
    found = a // safe
    if a.dtype.kind == "i":
        found = found + ((found * safe != a) & ((a < 0) != (safe < 0)))  # NumPy's is the floor
    return np.where(b == 0, ~np.zeros_like(found), found)


def remainder(a: Array, b: Array) -> Array:
    return np.where(b == 0, a, a - divide(a, b) * b)


def shift_left(a: Array, n: Array) -> Array:
    """By more than there are bits, too."""
    width = 8 * a.dtype.itemsize
    return np.where(n < width, a << np.minimum(n, width - 1).astype(a.dtype), a.dtype.type(0))


def shift_right(a: Array, n: Array) -> Array:
    """Of a signed type the sign comes in."""
    width = 8 * a.dtype.itemsize
    moved = a >> np.minimum(n, width - 1).astype(a.dtype)
    return moved if a.dtype.kind == "i" else np.where(n < width, moved, a.dtype.type(0))


# -- floats ------------------------------------------------------------------------------------------------


def fma_toward_zero(a: Array, b: Array, c: Array) -> Array:
    """float32 ``fma.rz``. The product is exact in float64, and the sum there is rounded toward zero by what
    its error says; cutting off the rest of the bits is a rounding toward zero, too."""
    product, addend = a.astype(F8) * b.astype(F8), c.astype(F8)
    total = product + addend
    back = total - product
    error = (product - (total - back)) + (addend - back)
    beyond = np.isfinite(total) & (error != 0) & ((error > 0) != (total > 0))
    total = np.where(beyond, np.nextafter(total, 0), total)
    near = total.astype(F4)
    return np.where(np.abs(near.astype(F8)) > np.abs(total), np.nextafter(near, F4(0)), near)


def to_integer(x: Array, dtype: type) -> Array:
    """Of a whole float: NaN gives 0, what is too large the nearest integer there is."""
    info = np.iinfo(dtype)
    above, below = x >= float(info.max), x <= float(info.min)
    inside = np.where(np.isnan(x) | above | below, x.dtype.type(0), x).astype(dtype)
    return np.where(above, dtype(info.max), np.where(below, dtype(info.min), inside))


def rough(x: Array, ulps: int = 2) -> Array:
    """``x``, of which PTX promises no more than ``ulps`` units of the last place: some number within them."""
    bits = x.view(I4)
    plain = np.isfinite(x) & (np.abs(x) > 4 * np.finfo(F4).tiny)
    off = (bits * I4(-1640531527) >> I4(16)) % I4(2 * ulps + 1) - I4(ulps)
    return np.where(plain, (bits + off).view(F4), x)


def rough_quotient(a: Array, b: Array) -> Array:
    """``div.approx.f32``: 0 for divisors beyond 2**126."""
    return np.where(np.isfinite(a) & (np.abs(b) > F4(2.0**126)), np.copysign(F4(0), a / b), rough(a / b))


def rough_reciprocal(x: Array) -> Array:
    """``rcp.approx.ftz.f32``: what is too small for a full mantissa is zero, as argument and as result."""
    return flushed(rough(F4(1) / flushed(x), 1))


def flushed(x: Array) -> Array:
    return np.where(np.abs(x) < np.finfo(F4).tiny, np.copysign(F4(0), x), x)
