"""Comparison, logic, and questions about what kind of number an element is. Results are bool.

Source: https://docs.pytorch.org/docs/stable/torch.html#comparison-ops
"""

from __future__ import annotations

import math
from functools import partial

import numpy as np

from jtorch.core.op import composite, elementwise

_BOOL = np.dtype(np.bool_)
_compare = partial(elementwise, dtype="compare", differentiable=False, in_place=True)


@_compare(text="{x} == {y}", commutes=True)
def eq(xp, x, y):
    """Whether x is equal to y."""
    return xp.eq(x, y)


@_compare(text="{x} != {y}", commutes=True)
def ne(xp, x, y):
    """Whether x is not equal to y."""
    return xp.ne(x, y)


@_compare(text="{x} < {y}", ordered=True)
def lt(xp, x, y):
    """Whether x is smaller than y."""
    return xp.lt(x, y)


@_compare(text="{x} <= {y}", ordered=True)
def le(xp, x, y):
    """Whether x is at most y."""
    return xp.le(x, y)


@_compare(text="{x} > {y}", ordered=True)
def gt(xp, x, y):
    """Whether x is larger than y."""
    return xp.gt(x, y)


@_compare(text="{x} >= {y}", ordered=True)
def ge(xp, x, y):
    """Whether x is at least y."""
    return xp.ge(x, y)


@elementwise(text="not {x}", dtype="logical", differentiable=False, in_place=True)
def logical_not(xp, x):
    """Whether it is 0."""
    return xp.logical_not(x)


@_compare(text="({x} != {kind}(0)) & ({y} != {kind}(0))", commutes=True, tensors_only=True)
def logical_and(xp, x, y):
    """Whether both are not 0."""
    return xp.logical_and(x, y)


@_compare(text="({x} != {kind}(0)) | ({y} != {kind}(0))", commutes=True, tensors_only=True)
def logical_or(xp, x, y):
    """Whether one of them, or both, is not 0."""
    return xp.logical_or(x, y)


@_compare(text="({x} != {kind}(0)) != ({y} != {kind}(0))", commutes=True, tensors_only=True)
def logical_xor(xp, x, y):
    """Whether exactly one of them is not 0."""
    return xp.logical_xor(x, y)


@elementwise(text="{x} != {x}", dtype="logical", differentiable=False)
def isnan(xp, x):
    """Whether elements are NaN."""
    return xp.isnan(x)


@elementwise(text="({x} - {x}) == {kind}(0)", dtype="logical", differentiable=False)
def isfinite(xp, x):
    """Whether elements are neither infinite nor NaN."""
    return xp.isfinite(x)


@composite(dtype="as_is", differentiable=False)
def isinf(xp, x):
    """Whether elements are inf or -inf; of complex ones a part of them."""
    if x.dtype.kind == "c":
        infinite = (xp.eq(xp.abs(part(x)), math.inf) for part in (xp.real_part, xp.imag_part))
        return xp.logical_or(*infinite)
    return xp.eq(xp.abs(x), math.inf) if x.dtype.kind in "fV" else xp.ne(x, x)


@composite(dtype="as_is", differentiable=False, ordered=True)
def isposinf(xp, x):
    """Whether elements are inf."""
    return xp.eq(x, math.inf) if x.dtype.kind in "fV" else xp.ne(x, x)


@composite(dtype="as_is", differentiable=False, ordered=True)
def isneginf(xp, x):
    """Whether elements are -inf."""
    return xp.eq(x, -math.inf) if x.dtype.kind in "fV" else xp.ne(x, x)


@composite(dtype="as_is", differentiable=False)
def isreal(xp, x):
    """Whether elements have no imaginary part: all of those of real tensors."""
    if x.dtype.kind == "c":
        return xp.eq(xp.imag_part(x), 0)
    return xp.full(True, shape=tuple(x.shape), dtype=_BOOL)


@elementwise(
    text="copysign({kind}(1), {x}) < {kind}(0)",
    integer_text="{x} < {kind}(0)",
    dtype="logical",
    differentiable=False,
)
def signbit(xp, x):
    """Whether the sign bit is set: of -0.0, too."""
    return xp.signbit(x)
