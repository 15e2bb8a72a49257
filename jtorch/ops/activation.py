"""Activations that are formulas over other ops. ``relu``, ``tanh`` and ``sigmoid`` are elementwise ops.

Bounds and slopes are numbers beside the tensor, so compiled code takes them at run time.
"""

from __future__ import annotations

import math

from jtorch.core.number_ranges import check_parameters, is_one_number
from jtorch.core.op import composite
from jtorch.ops import axes as ax
from jtorch.ops.complex import is_complex

_SQRT_HALF = math.sqrt(0.5)
_DENSITY = 1.0 / math.sqrt(2.0 * math.pi)
_TANH_SCALE = math.sqrt(2.0 / math.pi)
_TANH_CUBE = 0.044715


def _activation(grad_name, methods=(), dtype="floating", ordered=True, **facts):
    return composite(dtype=dtype, grad_name=grad_name, methods=methods, ordered=ordered, **facts)


@_activation("SiluBackward0", ordered=False, in_place=True, fuses_small=True)
def silu(xp, x):
    """x sigmoid(x). Source: Elfwing et al. 2017, https://arxiv.org/abs/1702.03118"""
    return x * xp.sigmoid(x)


@silu.vjp
def _(xp, g, x):
    s = xp.sigmoid(x)
    return g * (s * (1.0 + x * (1.0 - s)))


@_activation("GeluBackward0", fuses_small=True)
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


@_activation("LeakyReluBackward0", in_place=True)
def leaky_relu(xp, x, slope):
    return xp.where(xp.gt(x, 0.0), x, x * slope)


@leaky_relu.vjp
def _(xp, g, x, slope):
    return xp.where(xp.gt(x, 0.0), g, g * slope), None


@leaky_relu.face
def _(input, negative_slope=0.01):
    if negative_slope.__class__ is not float or not -128 <= negative_slope <= 127:  # nearly none
        check_parameters(input, negative_slope)
    return (input, negative_slope), {}


@_activation("EluBackward0", in_place=True, fuses_small=True)
def elu(xp, x, alpha):
    """x where positive, alpha (exp(x) - 1) elsewhere. Source: https://arxiv.org/abs/1511.07289"""
    return xp.where(xp.le(x, 0.0), xp.expm1(x) * alpha, x)


@elu.vjp
def _(xp, g, x, alpha):
    return xp.where(xp.le(x, 0.0), g * (xp.exp(x) * alpha), g), None


@elu.face
def _(input, alpha=1.0):
    if alpha.__class__ is not float or not -128 <= alpha <= 127:  # nearly none
        check_parameters(input, alpha)
    return (input, alpha), {}


@_activation("SoftplusBackward0", fuses_small=True, autocast={"cuda": "float32"})
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
    if not beta.__class__ is threshold.__class__ is float or not 0 < beta < threshold <= 127:  # nearly none
        check_parameters(input, beta, threshold)
    return (input, beta, threshold), {}


@_activation("LogSigmoidBackward0", fuses_small=True)
def logsigmoid(xp, x):
    """log(sigmoid(x)) without overflow: min(x, 0) - log(1 + exp(-|x|))"""
    return xp.clamp_max(x, 0.0) - xp.log1p(xp.exp(-xp.abs(x)))


@logsigmoid.vjp
def _(xp, g, x):
    return g * xp.sigmoid(-x)


@_activation("HardtanhBackward0", in_place=True)
def hardtanh(xp, x, low, high):
    """x limited to [low, high]; no gradient at the limits, unlike clamp."""
    return xp.clamp_max(xp.clamp_min(x, low), high)


@hardtanh.vjp
def _(xp, g, x, low, high):
    inside = xp.logical_and(xp.gt(x, low), xp.lt(x, high))
    return xp.where(inside, g, 0.0), None, None


@hardtanh.face
def _(input, min_val=-1.0, max_val=1.0):
    if is_one_number(min_val) and is_one_number(max_val) and min_val > max_val:
        raise ValueError("min_val cannot be greater than max_val")
    return (input, min_val, max_val), {}


@_activation("CeluBackward0", in_place=True)
def celu(xp, x, alpha):
    """x where positive, alpha (exp(x / alpha) - 1) elsewhere. Source: https://arxiv.org/abs/1704.07483"""
    return xp.where(xp.le(x, 0.0), xp.expm1(x / alpha) * alpha, x)


@celu.vjp
def _(xp, g, x, alpha):
    return xp.where(xp.le(x, 0.0), g * xp.exp(x / alpha), g), None


@celu.face
def _(input, alpha=1.0):
    if is_one_number(alpha) and alpha == 0:
        raise RuntimeError("ZeroDivisionError: alpha cannot be 0 for CELU")
    if alpha.__class__ is not float or not -128 <= alpha <= 127:  # nearly none
        check_parameters(input, alpha)
    return (input, alpha), {}


_SELU_SCALE = 1.0507009873554804934193349852946
_SELU_ALPHA = 1.6732632423543772848170429916717 * _SELU_SCALE


@_activation("EluBackward0", in_place=True)
def selu(xp, x):
    """elu scaled so that activations keep mean 0 and variance 1. Source: https://arxiv.org/abs/1706.02515"""
    return xp.where(xp.le(x, 0.0), xp.expm1(x) * _SELU_ALPHA, x * _SELU_SCALE)


@selu.vjp
def _(xp, g, x):
    return g * xp.where(xp.le(x, 0.0), xp.exp(x) * _SELU_ALPHA, _SELU_SCALE)


@_activation("MishBackward0", in_place=True, fuses_small=True)
def mish(xp, x):
    """x tanh(log(1 + exp(x))). Source: Misra 2019, https://arxiv.org/abs/1908.08681"""
    return x * xp.tanh(_log_of_one_more(xp, x))


@mish.vjp
def _(xp, g, x):
    t = xp.tanh(_log_of_one_more(xp, x))
    return g * (t + x * xp.sigmoid(x) * (1.0 - t * t))


def _log_of_one_more(xp, x):
    """log(1 + exp(x)) without overflow."""
    return xp.clamp_min(x, 0.0) + xp.log1p(xp.exp(-xp.abs(x)))


@_activation("DivBackward0", ordered=False, dtype="float", holomorphic=False)
def softsign(xp, x):
    """x / (1 + |x|)"""
    return x / (xp.abs(x) + 1.0)


@softsign.vjp
def _(xp, g, x):
    """Of complex numbers g / below - x / |x| Re(g conj(x)) / below^2, as |x| moves with both parts."""
    size = xp.abs(x)
    below = size + 1.0
    if not is_complex(x):
        return g / (below * below)
    along = xp.real_part(g * xp.conj(x)) / (below * below * xp.where(xp.eq(size, 0.0), 1.0, size))
    return g / below - x * along


@_activation("SubBackward0", ordered=False, dtype="float")
def tanhshrink(xp, x):
    """x - tanh(x)"""
    return x - xp.tanh(x)


@tanhshrink.vjp
def _(xp, g, x):
    t = xp.tanh(x)
    return g * t * t


@_activation("PreluKernelBackward0", public=None, autocast="lower")
def prelu_kernel(xp, x, weight):
    """x where positive, else ``weight`` x, for a weight that broadcasts. Source: arXiv:1502.01852"""
    return xp.where(xp.gt(x, 0.0), x, weight * x)


@prelu_kernel.vjp
def _(xp, g, x, weight):
    positive = xp.gt(x, 0.0)
    return xp.where(positive, g, g * weight), xp.where(positive, 0.0, g * x)


@_activation("GluBackward0", fuses_small=True)
def glu(xp, x, *, axis):
    """The first half along ``axis`` times the sigmoid of the second. Source: arXiv:1612.08083"""
    a, b = _halves(xp, x, axis)
    return a * xp.sigmoid(b)


@glu.vjp
def _(xp, g, x, axis):
    a, b = _halves(xp, x, axis)
    s = xp.sigmoid(b)
    return xp.cat(g * s, g * (a * s * (1.0 - s)), axis=axis)


def _halves(xp, x, axis):
    shape = tuple(x.shape)
    middle = shape[axis] // 2
    step = (1,) * len(shape)
    first = tuple(middle if k == axis else n for k, n in enumerate(shape))
    start = tuple(middle if k == axis else 0 for k in range(len(shape)))
    return (
        xp.slice(x, start=(0,) * len(shape), stop=first, step=step),
        xp.slice(x, start=start, stop=shape, step=step),
    )


@glu.face
def _(input, dim=-1):
    if not input.ndim:
        raise RuntimeError("glu does not support scalars because halving size must be even")
    axis = ax.one(dim, input.ndim)
    if input.shape[axis] % 2:
        raise RuntimeError(
            f"Halving dimension must be even, but dimension {axis} is size {input.shape[axis]}"
        )
    return (input,), {"axis": axis}


@composite(
    n_outputs=2,
    hidden=1,
    dtype="as_is",
    like_first=True,
    public=None,
    grad_name="RreluWithNoiseBackward0",
    fuses=False,
)
def rrelu_with(xp, x, seed, call, lower, upper):
    """(x where positive, else x times a slope drawn from [lower, upper); the slopes, 1 where positive)"""
    bits = xp.random_bits(seed, call, shape=tuple(x.shape), dtype="uint64")
    slopes = xp.uniform(bits, dtype=x.dtype) * (upper - lower) + lower
    slopes = xp.where(xp.le(x, 0.0), slopes, 1.0)
    return x * slopes, slopes


@rrelu_with.vjp
def _(xp, g, out1):
    return g[0] * out1, None, None, None, None
