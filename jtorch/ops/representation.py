"""The insides of floating-point numbers: sign, exponent, neighbours, and what is no number.

Source: https://docs.pytorch.org/docs/stable/torch.html#pointwise-ops
"""

from __future__ import annotations

import ml_dtypes
import numpy as np

from jtorch.core import dtypes as dt
from jtorch.core.number_ranges import is_number
from jtorch.core.op import composite, elementwise, opaque


@elementwise(dtype="float", in_place=True)
def copysign(xp, x, y):
    """|x| with the sign of y."""
    return xp.copysign(x, y)


@copysign.vjp
def _(xp, g, x, y, out, needs):
    zero = xp.eq(x, 0.0)
    gx = xp.where(zero, 0.0, g * (out / xp.where(zero, 1.0, x))) if needs[0] else None
    return gx, xp.full(0.0, shape=tuple(g.shape), dtype=g.dtype) if needs[1] else None


@elementwise(dtype="floating", in_place=True, tensors_only=True)
def nextafter(xp, x, y):
    """The next number after x towards y."""
    return xp.nextafter(x, y)


@nextafter.vjp
def _(xp, g, x, y, needs):
    gx = xp.where(xp.eq(x, y), 0.0, g) if needs[0] else None
    return gx, xp.full(0.0, shape=tuple(g.shape), dtype=g.dtype) if needs[1] else None


_INT32 = np.dtype(np.int32)


@opaque(
    n_outputs=2,
    shape=lambda x: (x, x),
    dtype=lambda dtypes, statics: (dtypes[0], _INT32),
    layout="operands",
    public=None,
    leads=True,
)
def frexp(xp, x):
    """(mantissa, exponent) with x = mantissa 2**exponent and 0.5 <= |mantissa| < 1"""
    return xp.frexp(x)


@frexp.vjp
def _(xp, g, out1):
    return g[0] * xp.exp2(xp.cast(-out1, dtype=g[0].dtype))


@composite(dtype="as_is", like_first=True, in_place=True)
def nan_to_num(xp, x, *, nan, posinf, neginf):
    """x with numbers in place of NaN and the infinities, in both parts of complex ones."""
    if x.dtype.kind == "c":
        limits = {"nan": nan, "posinf": posinf, "neginf": neginf}
        parts = (nan_to_num.body(xp, part(x), **limits) for part in (xp.real_part, xp.imag_part))
        return xp.make_complex(*parts)
    if x.dtype.kind != "f":
        return xp.clone(x)
    # what takes the place of NaN may itself be infinite in this dtype
    limited = xp.where(xp.lt(x, -_LARGEST[x.dtype]), neginf, xp.where(xp.isnan(x), nan, x))
    return xp.where(xp.gt(x, _LARGEST[x.dtype]), posinf, limited)


@nan_to_num.vjp
def _(xp, g, x):
    return xp.where(xp.isfinite(x), g, 0.0)


_LARGEST = {np.dtype(k): float(np.finfo(k).max) for k in (np.float16, np.float32, np.float64)}
_LARGEST |= {np.dtype(k): float(np.finfo(k).max) for k in (np.complex64, np.complex128)}
_LARGEST[dt.BFLOAT16] = float(ml_dtypes.finfo(dt.BFLOAT16).max)


@nan_to_num.face
def _(input, nan=None, posinf=None, neginf=None):
    most = _LARGEST.get(input.dtype.numpy, 0.0)
    return (input,), {
        "nan": 0.0 if nan is None else _put("nan", 2, nan),
        "posinf": most if posinf is None else _put("posinf", 3, posinf),
        "neginf": -most if neginf is None else _put("neginf", 4, neginf),
    }


def _put(name, position, value):
    """A number, or the one that a tensor without axes and gradient holds."""
    if hasattr(value, "requires_grad") and not value.ndim and not value.requires_grad:
        return value.item()
    if not (is_number(value) or isinstance(value, (np.number, np.bool_))):
        place = f"nan_to_num(): argument '{name}' (position {position})"
        raise TypeError(f"{place} must be float, not {type(value).__name__}")
    return dt.plain(value)


@composite(dtype="as_is", public=None, grad_name="NansumBackward0")
def without_nan(xp, x):
    """0 in the place of NaN, where the gradient is 0 times what arrives, as PyTorch's: the mean of NaN alone
    says so there, too."""
    return xp.where(xp.isnan(x), 0.0, x)


@without_nan.vjp
def _(xp, g, x):
    return (g * xp.cast(xp.logical_not(xp.isnan(x)), dtype=getattr(g.dtype, "numpy", g.dtype)),)
