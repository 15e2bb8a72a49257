"""Elementwise ops: one output element from one element of each input.

``text`` is what a kernel computes, with ``{x}`` for an argument, ``{t}`` for the element type in a
function's name (``f32``, ``f64``) and ``{kind}(0)`` for a number of that type: an untyped one would make
doubles of float32; ``integer_text`` where integers need another. Gradients come out in the broadcast
shape; the engine sums them back.
"""

from __future__ import annotations

import numpy as np

from jtorch.core import memory_formats as formats
from jtorch.core.dtypes import HALVES
from jtorch.core.number_ranges import PLAIN, check_beside, is_number
from jtorch.core.op import composite, elementwise

# -- arithmetic ------------------------------------------------------------------------------------


@elementwise(text="{x} + {y}", commutes=True, in_place=True)
def add(xp, x, y):
    return xp.add(x, y)


@add.vjp
def _(xp, g):
    return g, g


@elementwise(
    text="{x} - {y}",
    in_place=True,
    refuses_bools="Subtraction, the `-` operator, with a bool tensor is not supported. If you are trying to "
    "invert a mask, use the `~` or `logical_not()` operator instead.",
)
def sub(xp, x, y):
    return xp.sub(x, y)


@sub.vjp
def _(xp, g):
    return g, -g


@elementwise(text="{x} * {y}", commutes=True, in_place=True, saved_for={"x": "y", "y": "x"}, unrounded=("y",))
def mul(xp, x, y):
    """x y"""
    return xp.mul(x, y)


@mul.vjp
def _(xp, g, x, y, needs):
    return g * y if needs[0] else None, g * x if needs[1] else None


@elementwise(text="-{x}", in_place=True)
def neg(xp, x):
    """-x"""
    return xp.neg(x)


@neg.vjp
def _(xp, g):
    return -g


def _root(xp, x, y):
    """Beside the number 0.5 or -0.5 a power is a root, as in PyTorch: NaN for -inf, where C's pow has inf.
    Not in float16, where PyTorch, too, leaves it to pow. In bfloat16 3 and -2 are products, each rounded."""
    if is_number(x) or not is_number(y) or x.dtype.name == "float16":
        return None
    if y == 0.5:
        return xp.sqrt(x)
    if x.dtype.name == "bfloat16" and y in (3, -2):
        square = xp.mul(x, x)
        return xp.mul(square, x) if y == 3 else xp.reciprocal(square)
    return xp.rsqrt(x) if y == -0.5 else None


@elementwise(
    text="pow_{t}({x}, {y})",
    costly=True,
    integer_text="{kind}(integer_power(int64({x}), int64({y})))",
    in_place=True,
    refuses_bools="\"pow\" not implemented for 'Bool'",
    fitting=True,
    beside_numbers=_root,
    autocast={"cuda": "float32"},
)
def pow(xp, x, y):
    """x ** y; either may be a number."""
    return xp.pow(x, y)


@pow.vjp
def _(xp, g, x, y, needs):
    # d/dx x**y = y x**(y-1), 0 where y is 0 (also at x = 0); d/dy x**y = x**y log x, 0 where x is 0
    # and y >= 0. A number as exponent stays a number: ``x ** 2`` must not build arrays of twos.
    # The result is not kept, so it may be changed in place, as in PyTorch beside a number.
    gx = gy = None
    if needs[0] and hasattr(y, "as_runtime_scalar"):
        gx = xp.mul(g, _times(xp, y, x if y == 2 else _one_power_less(xp, x, y))) if y else g * 0.0
    elif needs[0] and isinstance(y, (int, float)):
        gx = xp.mul(g, _times(xp, y, x if y == 2 else xp.pow(x, y - 1))) if y else g * 0.0
    elif needs[0]:
        slope = y * xp.pow(x, in_dtype_of(xp, y - 1.0, y))
        gx = g * in_dtype_of(xp, xp.where(xp.eq(y, 0.0), 0.0, slope), x)
    if needs[1]:
        base, log = _base_and_log(xp, x, y)
        zero = xp.logical_and(xp.eq(base, 0.0), xp.ge(y, 0.0))
        power = xp.pow(x, y)
        if not hasattr(x, "dtype") and y.dtype in HALVES:
            power = xp.cast(power, dtype=np.dtype(np.float32))
        gy = g * in_dtype_of(xp, xp.where(zero, 0.0, power * log), y)
    return gx, gy


def _base_and_log(xp, x, y):
    """The base of a power and its logarithm in the dtype of y: of a number it is taken once, in double. It
    stays wider than 16 bits, which do not hold it."""
    if hasattr(x, "dtype"):
        return x, xp.log(x)
    base, dtype = xp.full(x, shape=(), dtype=np.dtype(np.float64)), getattr(y.dtype, "numpy", y.dtype)
    return base, xp.cast(xp.log(base), dtype=np.dtype(np.float32) if dtype in HALVES else dtype)


def in_dtype_of(xp, value, x):
    """``value``, computed beside a number, which NumPy makes wider floats of where ``x`` is bfloat16."""
    return xp.cast(value, dtype=x.dtype) if getattr(x, "dtype", None) in HALVES else value


def _times(xp, number, x):
    """``number * x``; 16 bits, which do not hold every number, are rounded once."""
    if x.dtype not in HALVES:
        return x * number if number == 2 else number * x
    return xp.cast(xp.cast(x, dtype=np.dtype(np.float32)) * number, dtype=x.dtype)


def _one_power_less(xp, x, y):
    """x**(y - 1), a root where it is one, for a y that may change: what is asked of it alone holds for most
    others, what is asked of y - 1 would hold it as it is."""
    if y == 1.5:
        return xp.sqrt(x)
    return xp.rsqrt(x) if y == 0.5 else xp.pow(x, xp.full(y - 1, shape=tuple(x.shape), dtype=x.dtype))


@pow.face
def _(input, exponent):
    return (input, exponent), {}


@elementwise(text="sqrt({x})", takes_root=True, dtype="float", in_place=True)
def sqrt(xp, x):
    """The square root; NaN below 0."""
    return xp.sqrt(x)


@sqrt.vjp
def _(xp, g, out):
    return g / (out * 2.0)


@elementwise(text="rsqrt_{t}({x})", costly=True, dtype="float", in_place=True, autocast={"cuda": "float32"})
def rsqrt(xp, x):
    """1 / sqrt(x)"""
    return xp.rsqrt(x)


@rsqrt.vjp
def _(xp, g, out):
    return g * (out * out * out) * -0.5


@elementwise(text="abs({x})", in_place=True)
def abs(xp, x):
    """|x|; the length of a complex number."""
    return xp.abs(x)


@abs.vjp
def _(xp, g, x):
    if getattr(x.dtype, "numpy", x.dtype).kind != "c":
        return g * xp.sign(x)
    size = xp.abs(x)  # the sign of a complex number has a derivative
    return g * xp.div(x, xp.where(xp.eq(size, 0.0), 1.0, size))


@elementwise(
    text="sign_{t}({x})", costly=True, integer_text="int64({x} > 0) - int64({x} < 0)", in_place=True,
    ordered=True,
)  # fmt: skip
def sign(xp, x):
    """-1, 0 or 1."""
    return xp.sign(x)


# -- selection -------------------------------------------------------------------------------------


@elementwise(  # -0.0 stays
    text="maximum({kind}(0), {x})", integer_text="max({x}, 0)", in_place=True, fuses=True, ordered=True
)
def relu(xp, x):
    """x where positive, else 0."""
    return xp.relu(x)


@relu.vjp
def _(xp, g, out):
    return xp.where(xp.le(out, 0), 0.0, g)  # g for NaN, too


@elementwise(
    text="maximum({x}, {y})", integer_text="max({x}, {y})", commutes=True, ordered=True, tensors_only=True
)
def maximum(xp, x, y):
    """The larger one; NaN where one is NaN."""
    return xp.maximum(x, y)


@maximum.vjp
def _(xp, g, x, y):
    return _share(xp, g, xp.lt(x, y), xp.gt(x, y), xp.eq(x, y))


@elementwise(
    text="minimum({x}, {y})", integer_text="min({x}, {y})", commutes=True, ordered=True, tensors_only=True
)
def minimum(xp, x, y):
    """The smaller one; NaN where one is NaN."""
    return xp.minimum(x, y)


@minimum.vjp
def _(xp, g, x, y):
    return _share(xp, g, xp.gt(x, y), xp.lt(x, y), xp.eq(x, y))


def _share(xp, g, not_x, not_y, tie):
    """g to the chosen side, half to each where both are equal, and to both beside a NaN, as in PyTorch."""
    g = xp.where(tie, g * 0.5, g)
    return xp.where(not_x, 0.0, g), xp.where(not_y, 0.0, g)


@composite(ordered=True, tensors_only=True)
def fmax(xp, x, y):
    """The larger one; of a number and a NaN the number."""
    return xp.where(_takes_first(xp, xp.ge, x, y), x, y)


@fmax.vjp
def _(xp, g, x, y):
    first = _takes_first(xp, xp.ge, x, y)
    return xp.where(first, g, 0.0), xp.where(first, 0.0, g)


@composite(ordered=True, tensors_only=True)
def fmin(xp, x, y):
    """The smaller one; of a number and a NaN the number."""
    return xp.where(_takes_first(xp, xp.le, x, y), x, y)


@fmin.vjp
def _(xp, g, x, y):
    first = _takes_first(xp, xp.le, x, y)
    return xp.where(first, g, 0.0), xp.where(first, 0.0, g)


def _takes_first(xp, comparison, x, y):
    return xp.logical_or(comparison(x, y), xp.isnan(y))


@composite(differentiable=False, in_place=True, ordered=True)
def heaviside(xp, x, y):
    """0 below zero, y at zero, 1 above."""
    return xp.where(xp.eq(x, 0), y, xp.cast(xp.gt(x, 0), dtype=x.dtype))


@heaviside.face
def _(input, values):
    if input.dtype is not values.dtype:
        raise RuntimeError("heaviside is not yet implemented for tensors with different dtypes.")
    return (input, values), {}


@elementwise(text="{x} if {condition} else {y}", dtype="where", methods=(), fuses=True)
def where(xp, condition, x, y):
    return xp.where(condition, x, y)


@where.vjp
def _(xp, g, condition):
    return None, xp.where(condition, g, 0.0), xp.where(condition, 0.0, g)


@where.face
def _(condition, input, other):
    return (condition, input, other), {}


# -- rounding --------------------------------------------------------------------------------------


@elementwise(text="floor({x})", integer_text="{x}", in_place=True)
def floor(xp, x):
    """The next integer that is not larger."""
    return xp.floor(x)


@elementwise(text="ceil({x})", integer_text="{x}", in_place=True)
def ceil(xp, x):
    """The next integer that is not smaller."""
    return xp.ceil(x)


@elementwise(text="rint({x})", integer_text="{x}", in_place=True, ordered=True)
def round(xp, x):
    return xp.round(x)


@elementwise(text="trunc({x})", integer_text="{x}", in_place=True)
def trunc(xp, x):
    """The next integer towards 0."""
    return xp.trunc(x)


for _flat in (floor, ceil, round, trunc, sign):

    @_flat.vjp
    def _(xp, g):
        return xp.full(0.0, shape=tuple(g.shape), dtype=g.dtype)


# -- conversion and position -----------------------------------------------------------------------


@elementwise(text="{convert}({x})", dtype="static", public=None, grad_name="ToCopyBackward0", layout="copy")
def cast(xp, x, *, dtype):
    return xp.cast(x, dtype=dtype)


@cast.vjp
def _(xp, g, x_dtype):
    return xp.cast(g, dtype=x_dtype)


@elementwise(text="{x}", methods=("clone",), layout="rows")
def clone(xp, x):
    """A copy in memory of its own; gradients flow through it."""
    return xp.clone(x)


@clone.vjp
def _(xp, g):
    return g


@clone.lean_face(usual=("memory_format is None", "input,"))
def _(input, *, memory_format=None):
    if formats.asked(memory_format, "clone()") in formats.ORDERS:
        raise NotImplementedError(
            f"clone(): memory_format={memory_format}: a copy lies row by row; "
            f"x.contiguous(memory_format={memory_format}) gives that order"
        )
    return (input,)


@elementwise(text="{convert}({value})", dtype="static", public=None, differentiable=False)
def full(xp, value, *, shape, dtype):
    return xp.full(value, shape=shape, dtype=dtype)


@elementwise(text="{out}({position})", dtype="static", public=None, differentiable=False)
def iota(xp, *, shape, axis, dtype):
    return xp.iota(shape=shape, axis=axis, dtype=dtype)


# -- limits: with a tie the input stays (-0.0 beside 0.0) and gets the gradient, as in PyTorch's clamp --
# NaN gets none, nor does a bound beside it.


@elementwise(
    text="maximum({low}, {x})",
    integer_text="max({x}, {low})",
    grad_name="ClampBackward1",
    ordered=True,
    in_place=True,
    fuses=True,
)
def clamp_min(xp, x, low):
    """Elements below ``min`` replaced by it."""
    return xp.clamp_min(x, low)


@clamp_min.vjp
def _(xp, g, x, low, needs):
    return xp.where(xp.ge(x, low), g, 0.0), xp.where(xp.lt(x, low), g, 0.0) if needs[1] else None


@elementwise(
    text="minimum({high}, {x})",
    integer_text="min({x}, {high})",
    grad_name="ClampBackward1",
    ordered=True,
    in_place=True,
    fuses=True,
)
def clamp_max(xp, x, high):
    """Elements above ``max`` replaced by it."""
    return xp.clamp_max(x, high)


@clamp_max.vjp
def _(xp, g, x, high, needs):
    return xp.where(xp.le(x, high), g, 0.0), xp.where(xp.gt(x, high), g, 0.0) if needs[1] else None


@clamp_min.face
def _(input, min):
    if not (min.__class__ in PLAIN and -128 <= min <= 127):
        check_beside(input, min)
    return (input, min), {}


@clamp_max.face
def _(input, max):
    if not (max.__class__ in PLAIN and -128 <= max <= 127):
        check_beside(input, max)
    return (input, max), {}
