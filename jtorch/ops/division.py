"""Quotients and remainders: those of floats and integers have the signs that PyTorch gives them.

``text``, ``integer_text`` and ``check`` are explained in ``elementwise``.
Source: https://docs.pytorch.org/docs/stable/generated/torch.remainder.html
"""

from __future__ import annotations

from jtorch.core.failure import Failure, FailureKind
from jtorch.core.op import composite, elementwise

_BY_ZERO = Failure(FailureKind.VALUE, "integer division by zero")


@elementwise(text="{x} / {y}", dtype="float", in_place=True, saved_for={"x": "y"}, unrounded=("y",))
def div(xp, x, y):
    return xp.div(x, y)


@div.vjp
def _(xp, g, x, y, needs):
    over = g / y
    return over, -over * (x / y) if needs[1] else None


@elementwise(
    text="floor_divide_{t}({x}, {y})",
    costly=True,
    # the least integer over -1 does not fit: it wraps, as in NumPy
    integer_text="({x} // {y} if {y} != -1 else {kind}(0) - {x})",
    check=("{y} == 0", _BY_ZERO),
    differentiable=False,
    refuses_bools="\"div_floor_cpu\" not implemented for 'Bool'",
    in_place=True,
    unrounded=("y",),
)
def floor_divide(xp, x, y):
    """x / y rounded down."""
    return xp.floor_divide(x, y)


@elementwise(
    text="remainder_{t}({x}, {y})",
    costly=True,
    integer_text="{x} % {y}",
    check=("{y} == 0", _BY_ZERO),
    refuses_bools="\"remainder_cpu\" not implemented for 'Bool'",
    in_place=True,
)
def remainder(xp, x, y):
    """The remainder of x / y with the sign of y."""
    return xp.remainder(x, y)


@remainder.vjp
def _(xp, g, x, y, needs):
    return g, -g * xp.floor(x / y) if needs[1] else None


@elementwise(
    text="fmod({x}, {y})",
    # Python's remainder has the sign of y, this one that of x
    integer_text="({x} % {y} - ({y} if {x} % {y} != 0 and ({x} < 0) != ({y} < 0) else {kind}(0)))",
    check=("{y} == 0", _BY_ZERO),
    refuses_bools="\"fmod_cpu\" not implemented for 'Bool'",
    in_place=True,
)
def fmod(xp, x, y):
    """The remainder of x / y with the sign of x."""
    return xp.fmod(x, y)


@fmod.vjp
def _(xp, g, x, y, needs):
    return g, -g * xp.trunc(x / y) if needs[1] else None


@composite(
    public=None,
    grad_name="DivBackward1",
    unrounded=("y",),
    refuses_bools="\"div_floor_cpu\" not implemented for 'Bool'",
)
def divide_and_floor(xp, x, y):
    """``floor_divide`` with a gradient, which is zero."""
    return xp.floor_divide(x, y)


@composite(
    public=None,
    grad_name="DivBackward1",
    unrounded=("y",),
    refuses_bools="\"div_trunc_cpu\" not implemented for 'Bool'",
)
def divide_and_trunc(xp, x, y):
    """x / y cut towards zero, as C divides integers."""
    if x.dtype.kind == "f":
        return xp.trunc(x / y)
    down = xp.floor_divide(x, y)
    short = xp.logical_and(xp.lt(down, 0), xp.ne(x, down * y))  # below zero and not exact: one too low
    return down + xp.cast(short, dtype=x.dtype)


for _flat in (divide_and_floor, divide_and_trunc):

    @_flat.vjp
    def _(xp, g, needs):
        zeros = xp.full(0.0, shape=tuple(g.shape), dtype=g.dtype)
        return zeros, zeros if needs[1] else None


@elementwise(text="{kind}(1) / {x}", dtype="float", in_place=True, autocast={"cuda": "float32"})
def reciprocal(xp, x):
    """1 / x"""
    return xp.reciprocal(x)


@reciprocal.vjp
def _(xp, g, out):
    return -g * (out * out)


@elementwise(differentiable=False, commutes=True, in_place=True, tensors_only=True)
def gcd(xp, x, y):
    """The greatest common divisor of integers."""
    return xp.gcd(x, y)


@elementwise(differentiable=False, commutes=True, in_place=True, tensors_only=True)
def lcm(xp, x, y):
    """The least common multiple of integers."""
    return xp.lcm(x, y)
