"""Elementwise ops: one output element from one element of each input.

``text`` is what a kernel computes, with ``{x}`` for an argument, ``{t}`` for the element type in a
function's name (``f32``, ``f64``) and ``{kind}(0)`` for a number of that type: an untyped one would make
doubles of float32; ``integer_text`` where integers need another. Gradients come out in the broadcast
shape; the engine sums them back.
"""

from __future__ import annotations

from jtorch.op import elementwise

# -- arithmetic ------------------------------------------------------------------------------------


@elementwise(text="{x} + {y}", commutes=True, in_place=True)
def add(xp, x, y):
    return xp.add(x, y)


@add.vjp
def _(xp, g):
    return g, g


@elementwise(text="{x} - {y}", in_place=True)
def sub(xp, x, y):
    return xp.sub(x, y)


@sub.vjp
def _(xp, g):
    return g, -g


@elementwise(text="{x} * {y}", commutes=True, in_place=True)
def mul(xp, x, y):
    return xp.mul(x, y)


@mul.vjp
def _(xp, g, x, y, needs):
    return g * y if needs[0] else None, g * x if needs[1] else None


@elementwise(text="{x} / {y}", dtype="float", in_place=True)
def div(xp, x, y):
    return xp.div(x, y)


@div.vjp
def _(xp, g, x, y, needs):
    over = g / y
    return over, -over * (x / y) if needs[1] else None


@elementwise(text="-{x}", in_place=True)
def neg(xp, x):
    return xp.neg(x)


@neg.vjp
def _(xp, g):
    return -g


@elementwise(
    text="floor_divide_{t}({x}, {y})",
    # the least integer over -1 does not fit: it wraps, as in NumPy
    integer_text="({x} // {y} if {y} != -1 else {kind}(0) - {x})",
    check=("{y} == 0", "integer division by zero"),
    differentiable=False,
)
def floor_divide(xp, x, y):
    return xp.floor_divide(x, y)


@elementwise(
    text="remainder_{t}({x}, {y})",
    integer_text="{x} % {y}",
    check=("{y} == 0", "integer division by zero"),
)
def remainder(xp, x, y):
    return xp.remainder(x, y)


@remainder.vjp
def _(xp, g, x, y, needs):
    return g, -g * xp.floor(x / y) if needs[1] else None


@elementwise(
    text="pow_{t}({x}, {y})",
    integer_text="{x} ** {y}",
    check=("{y} < 0", "Integers to negative integer powers are not allowed."),
    in_place=True,
)
def pow(xp, x, y):
    return xp.pow(x, y)


@pow.vjp
def _(xp, g, x, y, out, needs):
    # d/dx x**y = y x**(y-1), 0 where y is 0 (also at x = 0); d/dy x**y = x**y log x, 0 where x is 0
    # and y >= 0. A number as exponent stays a number: ``x ** 2`` must not build arrays of twos.
    gx = gy = None
    if needs[0] and isinstance(y, (int, float)):
        gx = xp.mul(g, x * y if y == 2 else y * xp.pow(x, y - 1)) if y else g * 0.0
    elif needs[0]:
        gx = g * xp.where(xp.eq(y, 0.0), 0.0 * out, y * xp.pow(x, y - 1.0))
    if needs[1]:
        zero = xp.logical_and(xp.eq(x, 0.0), xp.ge(y, 0.0))
        gy = g * xp.where(zero, 0.0 * out, out * xp.log(x))
    return gx, gy


@elementwise(text="sqrt({x})", dtype="float", in_place=True)
def sqrt(xp, x):
    return xp.sqrt(x)


@sqrt.vjp
def _(xp, g, out):
    return g / (out * 2.0)


@elementwise(text="rsqrt_{t}({x})", dtype="float", in_place=True)
def rsqrt(xp, x):
    return xp.rsqrt(x)


@rsqrt.vjp
def _(xp, g, out):
    return g * (out * out * out) * -0.5


@elementwise(text="abs({x})", in_place=True)
def abs(xp, x):
    return xp.abs(x)


@abs.vjp
def _(xp, g, x):
    return g * xp.sign(x)


@elementwise(text="sign_{t}({x})", integer_text="int64({x} > 0) - int64({x} < 0)")
def sign(xp, x):
    return xp.sign(x)


# -- exponentials and trigonometry -----------------------------------------------------------------


@elementwise(text="exp_{t}({x})", dtype="float", in_place=True)
def exp(xp, x):
    return xp.exp(x)


@exp.vjp
def _(xp, g, out):
    return g * out


@elementwise(text="expm1_{t}({x})", dtype="float")
def expm1(xp, x):
    return xp.expm1(x)


@expm1.vjp
def _(xp, g, out):
    return g * (out + 1.0)


@elementwise(text="log_{t}({x})", dtype="float", in_place=True)
def log(xp, x):
    return xp.log(x)


@log.vjp
def _(xp, g, x):
    return g / x


@elementwise(text="log1p_{t}({x})", dtype="float", grad_name="Log1PBackward0")
def log1p(xp, x):
    return xp.log1p(x)


@log1p.vjp
def _(xp, g, x):
    return g / (x + 1.0)


@elementwise(text="sin_{t}({x})", dtype="float")
def sin(xp, x):
    return xp.sin(x)


@sin.vjp
def _(xp, g, x):
    return g * xp.cos(x)


@elementwise(text="cos_{t}({x})", dtype="float")
def cos(xp, x):
    return xp.cos(x)


@cos.vjp
def _(xp, g, x):
    return -g * xp.sin(x)


@elementwise(text="tanh_{t}({x})", dtype="float", in_place=True)
def tanh(xp, x):
    return xp.tanh(x)


@tanh.vjp
def _(xp, g, out):
    return g * (1.0 - out * out)


@elementwise(text="sigmoid_{t}({x})", dtype="float", in_place=True)
def sigmoid(xp, x):
    return xp.sigmoid(x)


@sigmoid.vjp
def _(xp, g, out):
    return g * (out * (1.0 - out))


@elementwise(text="erf_{t}({x})", dtype="float")
def erf(xp, x):
    return xp.erf(x)


@erf.vjp
def _(xp, g, x):
    return g * (xp.exp(-(x * x)) * 1.1283791670955126)  # 2 / sqrt(pi)


# -- selection -------------------------------------------------------------------------------------


@elementwise(text="maximum({x}, {kind}(0))", integer_text="max({x}, 0)", in_place=True)
def relu(xp, x):
    return xp.relu(x)


@relu.vjp
def _(xp, g, out):
    return xp.where(xp.gt(out, 0), g, 0.0)


@elementwise(text="maximum({x}, {y})", integer_text="max({x}, {y})", commutes=True)
def maximum(xp, x, y):
    return xp.maximum(x, y)


@maximum.vjp
def _(xp, g, x, y):
    return _share(xp, g, xp.lt(x, y), xp.gt(x, y), xp.eq(x, y))


@elementwise(text="minimum({x}, {y})", integer_text="min({x}, {y})", commutes=True)
def minimum(xp, x, y):
    return xp.minimum(x, y)


@minimum.vjp
def _(xp, g, x, y):
    return _share(xp, g, xp.gt(x, y), xp.lt(x, y), xp.eq(x, y))


def _share(xp, g, not_x, not_y, tie):
    """g to the chosen side, half to each where both are equal, and to both beside a NaN, as in PyTorch."""
    g = xp.where(tie, g * 0.5, g)
    return xp.where(not_x, 0.0, g), xp.where(not_y, 0.0, g)


@elementwise(text="{x} if {condition} else {y}", dtype="where", methods=())
def where(xp, condition, x, y):
    return xp.where(condition, x, y)


@where.vjp
def _(xp, g, condition):
    return None, xp.where(condition, g, 0.0), xp.where(condition, 0.0, g)


@where.face
def _(condition, input, other):
    return (condition, input, other), {}


# -- comparison and logic --------------------------------------------------------------------------


@elementwise(text="{x} == {y}", dtype="compare", differentiable=False, commutes=True)
def eq(xp, x, y):
    return xp.eq(x, y)


@elementwise(text="{x} != {y}", dtype="compare", differentiable=False, commutes=True)
def ne(xp, x, y):
    return xp.ne(x, y)


@elementwise(text="{x} < {y}", dtype="compare", differentiable=False)
def lt(xp, x, y):
    return xp.lt(x, y)


@elementwise(text="{x} <= {y}", dtype="compare", differentiable=False)
def le(xp, x, y):
    return xp.le(x, y)


@elementwise(text="{x} > {y}", dtype="compare", differentiable=False)
def gt(xp, x, y):
    return xp.gt(x, y)


@elementwise(text="{x} >= {y}", dtype="compare", differentiable=False)
def ge(xp, x, y):
    return xp.ge(x, y)


@elementwise(text="not {x}", dtype="logical", differentiable=False)
def logical_not(xp, x):
    return xp.logical_not(x)


@elementwise(
    text="({x} != {kind}(0)) and ({y} != {kind}(0))",
    dtype="logical",
    differentiable=False,
    commutes=True,
)
def logical_and(xp, x, y):
    return xp.logical_and(x, y)


@elementwise(
    text="({x} != {kind}(0)) or ({y} != {kind}(0))",
    dtype="logical",
    differentiable=False,
    commutes=True,
)
def logical_or(xp, x, y):
    return xp.logical_or(x, y)


@elementwise(text="{x} != {x}", dtype="logical", differentiable=False)
def isnan(xp, x):
    return xp.isnan(x)


@elementwise(text="({x} - {x}) == {kind}(0)", dtype="logical", differentiable=False)
def isfinite(xp, x):
    return xp.isfinite(x)


# -- rounding --------------------------------------------------------------------------------------


@elementwise(text="floor({x})", integer_text="{x}")
def floor(xp, x):
    return xp.floor(x)


@elementwise(text="ceil({x})", integer_text="{x}")
def ceil(xp, x):
    return xp.ceil(x)


@elementwise(text="rint({x})", integer_text="{x}")
def round(xp, x):
    return xp.round(x)


@elementwise(text="trunc({x})", integer_text="{x}")
def trunc(xp, x):
    return xp.trunc(x)


for _flat in (floor, ceil, round, trunc, sign):

    @_flat.vjp
    def _(xp, g):
        return xp.full(0.0, shape=tuple(g.shape), dtype=g.dtype)


# -- conversion and position -----------------------------------------------------------------------


@elementwise(text="{out}({x})", dtype="static", public=None, grad_name="ToCopyBackward0")
def cast(xp, x, *, dtype):
    return xp.cast(x, dtype=dtype)


@cast.vjp
def _(xp, g, x_dtype):
    return xp.cast(g, dtype=x_dtype)


@elementwise(text="{x}", methods=("clone",))
def clone(xp, x):
    return xp.clone(x)


@clone.vjp
def _(xp, g):
    return g


@elementwise(text="{out}({value})", dtype="static", public=None, differentiable=False)
def full(xp, value, *, shape, dtype):
    return xp.full(value, shape=shape, dtype=dtype)


@elementwise(text="{out}({position})", dtype="static", public=None, differentiable=False)
def iota(xp, *, shape, axis, dtype):
    return xp.iota(shape=shape, axis=axis, dtype=dtype)


# -- limits: with a tie the gradient goes to the input, as in PyTorch's clamp ----------------------


@elementwise(text="maximum({x}, {low})", integer_text="max({x}, {low})", grad_name="ClampBackward1")
def clamp_min(xp, x, low):
    return xp.maximum(x, low)


@clamp_min.vjp
def _(xp, g, x, low, needs):
    kept = xp.ge(x, low)
    return xp.where(kept, g, 0.0), xp.where(kept, 0.0, g) if needs[1] else None


@elementwise(text="minimum({x}, {high})", integer_text="min({x}, {high})", grad_name="ClampBackward1")
def clamp_max(xp, x, high):
    return xp.minimum(x, high)


@clamp_max.vjp
def _(xp, g, x, high, needs):
    kept = xp.le(x, high)
    return xp.where(kept, g, 0.0), xp.where(kept, 0.0, g) if needs[1] else None
