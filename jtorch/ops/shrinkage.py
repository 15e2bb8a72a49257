"""Activations in pieces: each is one formula between bounds and another outside.

NaN stays NaN where PyTorch keeps it, so the test that fails for NaN picks the branch with ``x`` in it.
"""

from __future__ import annotations

from jtorch.core.dtypes import LONG_NAMES
from jtorch.core.number_ranges import PLAIN, check_number, is_one_number, largest, whole
from jtorch.core.op import composite


def _activation(grad_name, methods=(), dtype="floating", **facts):
    return composite(dtype=dtype, grad_name=grad_name, methods=methods, ordered=True, **facts)


def _within(xp, x, bound):
    return xp.logical_and(xp.ge(x, -bound), xp.le(x, bound))


def _passed(xp, g, x, bound):
    """``g`` beyond [-bound, bound], else 0: also for NaN, as in PyTorch."""
    return xp.where(xp.logical_or(xp.lt(x, -bound), xp.gt(x, bound)), g, 0.0), None


@_activation("ThresholdBackward0", dtype="promote", in_place=True)
def threshold(xp, x, bound, value):
    """x above ``bound``, else ``value``."""
    return xp.where(xp.le(x, bound), value, x)


@threshold.vjp
def _(xp, g, x, bound):
    return xp.where(xp.le(x, bound), 0.0, g), None, None


@threshold.face
def _(input, threshold, value):
    if not input.is_floating_point():
        threshold, value = whole(threshold), whole(value)
    return (input, threshold, value), {}


@_activation("HardshrinkBackward0", methods=("hardshrink",))
def hardshrink(xp, x, bound):
    """x outside [-bound, bound], else 0."""
    return xp.where(_within(xp, x, bound), 0.0, x)


@hardshrink.vjp
def _(xp, g, x, bound):
    return _passed(xp, g, x, bound)


@hardshrink.face
def _(input, lambd=0.5):
    if not (lambd.__class__ in PLAIN and -128 <= lambd <= 127):
        check_number(lambd, input.dtype.numpy)
    if lambd.__class__ in PLAIN and input.dtype.itemsize == 2 and input.dtype.is_floating_point:
        lambd = float(input.dtype.numpy.type(lambd))  # what PyTorch compares with: 0.3 is not beyond 0.3
    return (input, lambd), {}


@_activation("SoftshrinkBackward0")
def softshrink(xp, x, bound):
    """x moved towards 0 by ``bound``, and 0 within it."""
    moved = xp.where(xp.gt(x, bound), x - bound, x + bound)
    return xp.where(_within(xp, x, bound), 0.0, moved)


@softshrink.vjp
def _(xp, g, x, bound):
    return _passed(xp, g, x, bound)


@softshrink.face
def _(input, lambd=0.5):
    dtype = input.dtype.numpy
    if is_one_number(lambd) and dtype.kind in "fV" and not 0 <= lambd <= largest(dtype):
        raise RuntimeError(
            f"lambda must be in range [0, {largest(dtype):g}] for input dtype {LONG_NAMES[dtype.name]}, but "
            f"found {lambd:g}"
        )
    return (input, lambd), {}


@_activation("HardsigmoidBackward0", in_place=True)
def hardsigmoid(xp, x):
    """min(max(x + 3, 0), 6) / 6"""
    return xp.clamp_max(xp.clamp_min(x + 3.0, 0.0), 6.0) / 6.0


@hardsigmoid.vjp
def _(xp, g, x):
    between = xp.logical_and(xp.gt(x, -3.0), xp.lt(x, 3.0))
    return xp.where(between, g / 6.0, 0.0)


@_activation("HardswishBackward0", in_place=True)
def hardswish(xp, x):
    """x hardsigmoid(x). Source: Howard et al. 2019, https://arxiv.org/abs/1905.02244"""
    return x * xp.clamp_max(xp.clamp_min(x + 3.0, 0.0), 6.0) / 6.0


@hardswish.vjp
def _(xp, g, x):
    between = xp.where(xp.lt(x, 3.0), g * (x / 3.0 + 0.5), g)
    return xp.where(xp.le(x, -3.0), 0.0, between)
