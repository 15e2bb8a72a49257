"""Floats of 16 bits for kernels, which hold them as their bits, and compute in float32.

Straight-line text over NumPy-typed scalars and primitives, as in `vecmath`, with the same three callers: no
instruction is needed that a processor may lack, and loops run in vectors. Roundings are to nearest even, as
NumPy's and ml_dtypes' are; a NaN comes out quiet, with its sign.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from jtorch.native.intrinsics import (
    bits_i32,
    fabs,
    float_from_i32,
    select,
    to_f32,
    to_f64,
    to_i32,
    to_u16,
)
from jtorch.native.vecmath_core import f32, i32, quiet

__all__ = ["narrow_bf16", "narrow_f16", "odd_f32", "round_bf16", "round_f16", "wide_bf16", "wide_f16"]

_ABSOLUTE, _INFINITY = i32(0x7FFFFFFF), i32(0x7F800000)  # of float32
_MINUS, _NAN = i32(-0x80000000), i32(0x7FC00000)
_SIGN, _ONE, _ZERO = i32(0x8000), i32(1), i32(0)


@quiet
def wide_bf16(bits: Any) -> Any:
    """The bfloat16 of these bits as float32: its upper half."""
    return float_from_i32(to_i32(bits) << i32(16))


@quiet
def narrow_bf16(x: Any) -> Any:
    """The bits of a float32 rounded to bfloat16."""
    bits = bits_i32(x)
    odd = (bits >> i32(16)) & _ONE  # what is in the middle goes to the even neighbour
    rounded = (bits + i32(0x7FFF) + odd) >> i32(16)
    return to_u16(select(x == x, rounded, ((bits >> i32(16)) & _SIGN) | i32(0x7FC0)))


@quiet
def round_bf16(x: Any) -> Any:
    """A float32 rounded to bfloat16, as float32: what ``wide_bf16`` makes of ``narrow_bf16``."""
    bits = bits_i32(x)
    odd = (bits >> i32(16)) & _ONE
    rounded = (bits + i32(0x7FFF) + odd) & i32(-0x10000)
    return float_from_i32(select(x == x, rounded, (bits & _MINUS) | _NAN))


@quiet
def wide_f16(bits: Any) -> Any:
    """The float16 of these bits as float32."""
    bits = to_i32(bits)
    size = (bits & i32(0x7FFF)) << i32(13)  # exponent and fraction where float32 has them
    exponent = size & i32(0x0F800000)
    normal = size + i32((127 - 15) << 23)
    infinite = size + i32((255 - 31) << 23)
    least = i32((127 - 14) << 23)  # the exponent of what is below normal, there 1.f, not 0.f
    small = bits_i32(float_from_i32(size + least) - float_from_i32(least))
    found = select(exponent == i32(0x0F800000), infinite, select(exponent == _ZERO, small, normal))
    return float_from_i32(found | ((bits & _SIGN) << i32(16)))


@quiet
def narrow_f16(x: Any) -> Any:
    """The bits of a float32 rounded to float16; infinity from 65520 on."""
    bits = bits_i32(x)
    size = bits & _ABSOLUTE
    odd = (size >> i32(13)) & _ONE
    normal = (size + i32(((15 - 127) << 23) + 0xFFF) + odd) >> i32(13)
    # below the normal ones the last place is 2**-24, which is that of the sum with one half
    small = bits_i32(float_from_i32(size) + f32(0.5)) - i32(0x3F000000)
    found = select(size < i32((127 - 14) << 23), small, normal)
    found = select(size >= i32((127 + 16) << 23), i32(0x7C00), found)
    found = select(size > _INFINITY, i32(0x7E00), found)
    return to_u16(found | ((bits >> i32(16)) & _SIGN))


@quiet
def round_f16(x: Any) -> Any:
    """A float32 rounded to float16, as float32: what ``wide_f16`` makes of ``narrow_f16``."""
    bits = bits_i32(x)
    size = bits & _ABSOLUTE
    odd = (size >> i32(13)) & _ONE
    normal = (size + i32(0xFFF) + odd) & i32(-0x2000)
    small = bits_i32((float_from_i32(size) + f32(0.5)) - f32(0.5))
    found = select(size < i32((127 - 14) << 23), small, normal)
    found = select(found < i32((127 + 16) << 23), found, _INFINITY)
    return float_from_i32(select(x == x, found, _NAN) | (bits & _MINUS))


@quiet
def odd_f32(x: Any) -> Any:
    """A float64 as float32, rounded to odd where it is not exact: rounded once more, to less, it is as if
    rounded once.

    Source: S. Boldo and G. Melquiond, "Emulation of FMA and correctly rounded sums", 2008
    """
    near = to_f32(x)
    back, bits = to_f64(near), bits_i32(near)
    beside = select(fabs(back) > fabs(x), bits - _ONE, bits | _ONE)
    return float_from_i32(select((back != x) & ((bits & _ONE) == _ZERO), beside, bits))


FUNCTIONS: dict[str, Callable[..., Any]] = {name: globals()[name] for name in __all__}
