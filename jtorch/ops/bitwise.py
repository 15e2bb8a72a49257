"""Bits of integers and bools.

Kernels have a text for integers alone: floats have no bits to speak of, and PyTorch's error says so.
Source: https://docs.pytorch.org/docs/stable/torch.html#pointwise-ops
"""

from __future__ import annotations

from jtorch.core.op import composite, elementwise


@elementwise(integer_text="{x} & {y}", differentiable=False, commutes=True, in_place=True)
def bitwise_and(xp, x, y):
    """The bits that are set in both; for bools: and."""
    return xp.bitwise_and(x, y)


@elementwise(integer_text="{x} | {y}", differentiable=False, commutes=True, in_place=True)
def bitwise_or(xp, x, y):
    """The bits that are set in one or both; for bools: or."""
    return xp.bitwise_or(x, y)


@elementwise(integer_text="{x} ^ {y}", differentiable=False, commutes=True, in_place=True)
def bitwise_xor(xp, x, y):
    """The bits that are set in exactly one; for bools: whether they differ."""
    return xp.bitwise_xor(x, y)


@composite(dtype="as_is", differentiable=False, in_place=True)
def bitwise_not(xp, x):
    """Every bit the other way round; for bools: not."""
    kind = x.dtype.kind
    if kind == "b":
        return xp.logical_not(x)
    if kind == "f":
        return xp.bitwise_xor(x, x)  # which raises
    return xp.bitwise_xor(x, -1 if kind == "i" else (1 << 8 * x.dtype.itemsize) - 1)


@elementwise(
    # a shift by more bits than there are, or by a negative number, leaves none
    integer_text="({x} << {y} if {y} >= {kind}(0) and {y} < {kind}(64) else {kind}(0))",
    public="bitwise_left_shift",
    refuses_bools="\"lshift_cpu\" not implemented for 'Bool'",
    methods=("bitwise_left_shift",),
    differentiable=False,
    in_place=True,
)
def left_shift(xp, x, y):
    """x 2**y, for integers: y bits to the left."""
    return xp.left_shift(x, y)


@elementwise(
    # what is left is the sign
    integer_text="({x} >> {y} if {y} >= {kind}(0) and {y} < {kind}(64) else "
    "({x} >> {kind}(62)) >> {kind}(2))",
    public="bitwise_right_shift",
    refuses_bools="\"rshift_cpu\" not implemented for 'Bool'",
    methods=("bitwise_right_shift",),
    differentiable=False,
    in_place=True,
)
def right_shift(xp, x, y):
    """x / 2**y rounded down, for integers: y bits to the right."""
    return xp.right_shift(x, y)
