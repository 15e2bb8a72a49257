"""Circular and hyperbolic functions and their inverses.

The inverses have no scalar text but ``atan``: in compiled code they are library calls.
Source: https://docs.pytorch.org/docs/stable/torch.html#pointwise-ops
"""

from __future__ import annotations

import math

from jtorch.core.op import composite, elementwise
from jtorch.ops.complex import is_complex
from jtorch.ops.elementwise import in_dtype_of


@elementwise(text="sin_{t}({x})", costly=True, dtype="float", in_place=True)
def sin(xp, x):
    """The sine of an angle in radians."""
    return xp.sin(x)


@sin.vjp
def _(xp, g, x):
    return g * xp.cos(x)


@elementwise(text="cos_{t}({x})", costly=True, dtype="float", in_place=True)
def cos(xp, x):
    """The cosine of an angle in radians."""
    return xp.cos(x)


@cos.vjp
def _(xp, g, x):
    return -g * xp.sin(x)


@elementwise(text="tan_{t}({x})", costly=True, dtype="float", in_place=True, autocast={"cuda": "float32"})
def tan(xp, x):
    """The tangent of an angle in radians."""
    return xp.tan(x)


@tan.vjp
def _(xp, g, out):
    return g * (out * out + 1.0)


@elementwise(dtype="float", in_place=True, autocast={"cuda": "float32"})
def asin(xp, x):
    """The angle in [-pi/2, pi/2] whose sine is given; NaN beyond [-1, 1]."""
    return xp.asin(x)


@asin.vjp
def _(xp, g, x):
    return g * xp.rsqrt(1.0 - x * x)


@elementwise(dtype="float", in_place=True, autocast={"cuda": "float32"})
def acos(xp, x):
    """The angle in [0, pi] whose cosine is given; NaN beyond [-1, 1]."""
    return xp.acos(x)


@acos.vjp
def _(xp, g, x):
    return -g * xp.rsqrt(1.0 - x * x)


@elementwise(text="atan_{t}({x})", costly=True, dtype="float", in_place=True)
def atan(xp, x):
    """The angle in (-pi/2, pi/2) whose tangent is given."""
    return xp.atan(x)


@atan.vjp
def _(xp, g, x):
    return g / (x * x + 1.0)


@elementwise(dtype="float", in_place=True, tensors_only=True, autocast={"cuda": "promote"})
def atan2(xp, x, y):
    """The angle of the point (y, x), in all four quadrants."""
    return xp.atan2(x, y)


@atan2.vjp
def _(xp, g, x, y, needs):
    square = x * x + y * y
    origin = xp.eq(square, 0.0)
    over = g / in_dtype_of(xp, xp.where(origin, 1.0, square), x)
    over = in_dtype_of(xp, xp.where(origin, 0.0, over), x)  # no slope at the origin, as in PyTorch
    return over * y if needs[0] else None, -over * x if needs[1] else None


@elementwise(text="sinh_{t}({x})", costly=True, dtype="float", in_place=True, autocast={"cuda": "float32"})
def sinh(xp, x):
    """(exp(x) - exp(-x)) / 2"""
    return xp.sinh(x)


@sinh.vjp
def _(xp, g, x):
    return g * xp.cosh(x)


@elementwise(text="cosh_{t}({x})", costly=True, dtype="float", in_place=True, autocast={"cuda": "float32"})
def cosh(xp, x):
    """(exp(x) + exp(-x)) / 2"""
    return xp.cosh(x)


@cosh.vjp
def _(xp, g, x):
    return g * xp.sinh(x)


@elementwise(text="tanh_{t}({x})", costly=True, dtype="float", in_place=True, fuses=True)
def tanh(xp, x):
    """sinh(x) / cosh(x)"""
    return xp.tanh(x)


@tanh.vjp
def _(xp, g, out):
    return (
        g - g * out * out
    )  # all of it waits for g: what does not would be one more array of the forward pass


@elementwise(dtype="float", in_place=True)
def asinh(xp, x):
    """The number whose hyperbolic sine is given."""
    return xp.asinh(x)


@asinh.vjp
def _(xp, g, x):
    return g * xp.rsqrt(x * x + 1.0)


@elementwise(dtype="float", in_place=True)
def acosh(xp, x):
    """The number of at least 0 whose hyperbolic cosine is given; NaN below 1."""
    return xp.acosh(x)


@acosh.vjp
def _(xp, g, x):
    if is_complex(x):  # the root of a product may be the other one
        return g * (xp.rsqrt(x + 1.0) * xp.rsqrt(x - 1.0))
    return g * xp.rsqrt(x * x - 1.0)


@elementwise(dtype="float", in_place=True)
def atanh(xp, x):
    """The number whose hyperbolic tangent is given; NaN beyond [-1, 1]."""
    return xp.atanh(x)


@atanh.vjp
def _(xp, g, x):
    return g / (1.0 - x * x)


@elementwise(dtype="floating", in_place=True, tensors_only=True)
def hypot(xp, x, y):
    """sqrt(x x + y y) without overflow."""
    return xp.hypot(x, y)


@hypot.vjp
def _(xp, g, x, y, out, needs):
    return g * (x / out) if needs[0] else None, g * (y / out) if needs[1] else None


@composite(dtype="float", in_place=True)
def sinc(xp, x):
    """sin(pi x) / (pi x), 1 at 0."""
    angle = x * math.pi
    return xp.where(xp.eq(x, 0.0), 1.0, xp.sin(angle) / angle)


@sinc.vjp
def _(xp, g, x):
    angle = x * math.pi
    slope = (xp.cos(angle) - xp.sin(angle) / angle) / x  # of a tiny number the square would be 0
    return xp.where(xp.eq(x, 0.0), 0.0, g * slope)


@composite(dtype="float", in_place=True, grad_name="Deg2RadBackward0")
def deg2rad(xp, x):
    """Degrees as radians."""
    return x * (math.pi / 180.0)


@deg2rad.vjp
def _(xp, g):
    return g * (math.pi / 180.0)


@composite(dtype="float", in_place=True, grad_name="Rad2DegBackward0")
def rad2deg(xp, x):
    """Radians as degrees."""
    return x * (180.0 / math.pi)


@rad2deg.vjp
def _(xp, g):
    return g * (180.0 / math.pi)
