"""Activations that are formulas over other ops. ``relu``, ``tanh`` and ``sigmoid`` are elementwise ops.

Bounds and slopes are numbers beside the tensor, so compiled code takes them at run time.
"""

from __future__ import annotations

import math

from jtorch.op import composite

_SQRT_HALF = math.sqrt(0.5)
_DENSITY = 1.0 / math.sqrt(2.0 * math.pi)
_TANH_SCALE = math.sqrt(2.0 / math.pi)
_TANH_CUBE = 0.044715


def _activation(grad_name, **facts):
    return composite(dtype="floating", grad_name=grad_name, methods=(), **facts)


@_activation("SiluBackward0")
def silu(xp, x):
    """x sigmoid(x). Source: Elfwing et al. 2017, https://arxiv.org/abs/1702.03118"""
    return x * xp.sigmoid(x)


@silu.vjp
def _(xp, g, x):
    s = xp.sigmoid(x)
    return g * (s * (1.0 + x * (1.0 - s)))


@_activation("GeluBackward0")
def gelu(xp, x, *, tanh):
    """x times the normal distribution function of x, or its approximation by tanh.

    Source: Hendrycks and Gimpel 2016, https://arxiv.org/abs/1606.08415
    """
    if tanh:
        return 0.5 * x * (1.0 + xp.tanh(_inner(x)))
    return 0.5 * x * (1.0 + xp.erf(x * _SQRT_HALF))


def _inner(x):
    return _TANH_SCALE * (x + _TANH_CUBE * x * x * x)


@gelu.vjp
def _(xp, g, x, tanh):
    if tanh:
        t = xp.tanh(_inner(x))
        slope = _TANH_SCALE * (1.0 + (3.0 * _TANH_CUBE) * x * x)
        return g * (0.5 * (1.0 + t) + 0.5 * x * (1.0 - t * t) * slope)
    return g * (0.5 * (1.0 + xp.erf(x * _SQRT_HALF)) + x * _DENSITY * xp.exp(-0.5 * x * x))


@gelu.face
def _(input, approximate="none"):
    if approximate not in ("none", "tanh"):
        raise RuntimeError("approximate argument must be either none or tanh.")
    return (input,), {"tanh": approximate == "tanh"}


@_activation("LeakyReluBackward0")
def leaky_relu(xp, x, slope):
    return xp.where(xp.gt(x, 0.0), x, x * slope)


@leaky_relu.vjp
def _(xp, g, x, slope):
    return xp.where(xp.gt(x, 0.0), g, g * slope), None


@leaky_relu.face
def _(input, negative_slope=0.01):
    return (input, negative_slope), {}


@_activation("EluBackward0")
def elu(xp, x, alpha):
    """x where positive, alpha (exp(x) - 1) elsewhere. Source: https://arxiv.org/abs/1511.07289"""
    return xp.where(xp.gt(x, 0.0), x, xp.expm1(x) * alpha)


@elu.vjp
def _(xp, g, x, alpha):
    return xp.where(xp.gt(x, 0.0), g, g * (xp.exp(x) * alpha)), None


@elu.face
def _(input, alpha=1.0):
    return (input, alpha), {}


@_activation("SoftplusBackward0")
def softplus(xp, x, beta, threshold):
    """log(1 + exp(beta x)) / beta, and x itself where beta x is above ``threshold``."""
    scaled = x * beta
    return xp.where(xp.gt(scaled, threshold), x, xp.log1p(xp.exp(scaled)) / beta)


@softplus.vjp
def _(xp, g, x, beta, threshold):
    scaled = x * beta
    return xp.where(xp.gt(scaled, threshold), g, g * xp.sigmoid(scaled)), None, None


@softplus.face
def _(input, beta=1.0, threshold=20.0):
    return (input, beta, threshold), {}


@_activation("LogSigmoidBackward0")
def logsigmoid(xp, x):
    """log(sigmoid(x)) without overflow: min(x, 0) - log(1 + exp(-|x|))"""
    return -(xp.clamp_min(-x, 0.0) + xp.log1p(xp.exp(-xp.abs(x))))


@logsigmoid.vjp
def _(xp, g, x):
    return g * xp.sigmoid(-x)


@_activation("HardtanhBackward0")
def hardtanh(xp, x, low, high):
    """x limited to [low, high]; no gradient at the limits, unlike clamp."""
    return xp.clamp_max(xp.clamp_min(x, low), high)


@hardtanh.vjp
def _(xp, g, x, low, high):
    outside = xp.logical_or(xp.le(x, low), xp.ge(x, high))
    return xp.where(outside, 0.0, g), None, None


@hardtanh.face
def _(input, min_val=-1.0, max_val=1.0):
    if (
        isinstance(min_val, (int, float))
        and isinstance(max_val, (int, float))
        and min_val > max_val
    ):
        raise ValueError("min_val cannot be greater than max_val")
    return (input, min_val, max_val), {}
