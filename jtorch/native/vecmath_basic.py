"""Roundings, extrema, sign and division with Python's signs, under the names that kernels use
(`<op>_f32`, `<op>_f64`).

`remainder` and `floor_divide` follow NumPy's `npy_divmod` step for step, so that both modes agree
in every bit; a remainder of 0 has the sign of `x`, as in PyTorch.
"""

from __future__ import annotations

from typing import Any

from jtorch.native.intrinsics import (
    ceil,
    copysign,
    fabs,
    floor,
    fmod,
    maximum,
    minimum,
    rint,
    select,
    sqrt,
    trunc,
)
from jtorch.native.vecmath_core import f32, f64, quiet

_SHARED = {
    "ceil": ceil, "fabs": fabs, "floor": floor, "maximum": maximum, "minimum": minimum,
    "rint": rint, "sqrt": sqrt, "trunc": trunc,
}  # fmt: skip
globals().update({f"{name}_{kind}": f for name, f in _SHARED.items() for kind in ("f32", "f64")})

_OWN = ("floor_divide", "remainder", "sign")
__all__ = [f"{name}_{kind}" for name in (*_SHARED, *_OWN) for kind in ("f32", "f64")]


def _sign(x: Any, dtype: Any) -> Any:
    zero = dtype(0.0)
    return select(x > zero, dtype(1.0), select(x < zero, dtype(-1.0), zero))


@quiet
def sign_f32(x: Any) -> Any:
    """-1, 0 or 1; 0 for NaN, as in PyTorch."""
    return _sign(x, f32)


@quiet
def sign_f64(x: Any) -> Any:
    """-1, 0 or 1; 0 for NaN, as in PyTorch."""
    return _sign(x, f64)


def _divmod(x: Any, y: Any, dtype: Any) -> tuple[Any, Any]:
    zero, one, half = dtype(0.0), dtype(1.0), dtype(0.5)
    cut = fmod(x, y)
    shift = (cut != zero) & ((y < zero) ^ (cut < zero))
    remainder = select(shift, cut + y, cut)
    quotient = (x - cut) / y
    quotient = select(shift, quotient - one, quotient)
    whole = floor(quotient)
    whole = select(quotient - whole > half, whole + one, whole)
    whole = select(quotient == zero, copysign(zero, x / y), whole)
    return select(y == zero, x / y, whole), remainder


@quiet
def remainder_f32(x: Any, y: Any) -> Any:
    """x - y * floor(x / y), with the sign of y; 0 has that of x."""
    return _divmod(x, y, f32)[1]


@quiet
def remainder_f64(x: Any, y: Any) -> Any:
    """x - y * floor(x / y), with the sign of y; 0 has that of x."""
    return _divmod(x, y, f64)[1]


@quiet
def floor_divide_f32(x: Any, y: Any) -> Any:
    """floor(x / y) of the exact quotient."""
    return _divmod(x, y, f32)[0]


@quiet
def floor_divide_f64(x: Any, y: Any) -> Any:
    """floor(x / y) of the exact quotient."""
    return _divmod(x, y, f64)[0]
