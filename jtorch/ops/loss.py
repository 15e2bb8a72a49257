"""Losses between predictions and targets: one node each, reduced by "mean", "sum" or not ("none")."""

from __future__ import annotations

import math

from jtorch.core.number_ranges import is_one_number
from jtorch.core.op import composite
from jtorch.core.sizes import real

REDUCTIONS = ("mean", "sum", "none")


def reduced(xp, losses, reduction):
    """``losses`` as they are, summed, or averaged."""
    if reduction == "none":
        return losses
    total = xp.sum(losses, axis=tuple(range(losses.ndim)), keepdims=False)
    return total if reduction == "sum" else total / (real(math.prod(losses.shape)) or math.nan)


def scaled(g, shape, reduction):
    """The gradient of each loss from that of the reduced loss."""
    return g * _over(shape) if reduction == "mean" else g


def _over(shape):
    n = math.prod(shape)
    return 1.0 / n if n else math.nan


def _loss(grad_name, on_cuda="float32", **facts):
    autocast = {"cpu": "float32", "cuda": on_cuda}
    return composite(
        dtype="floating", grad_name=grad_name, methods=(), fuses_small=True, autocast=autocast, **facts
    )


def check_reduction(reduction):
    if reduction not in REDUCTIONS:
        raise ValueError(f"{reduction} is not a valid value for reduction")


def _face(input, target, reduction="mean"):
    check_reduction(reduction)
    return (input, target), {"reduction": reduction}


def _both(g, needs):
    """The gradients of a function of the difference of its two arguments."""
    return g if needs[0] else None, -g if needs[1] else None


@_loss("MseLossBackward0")
def mse_loss(xp, x, target, *, reduction):
    d = x - target
    return reduced(xp, d * d, reduction)


@mse_loss.vjp
def _(xp, g, x, target, needs, reduction):
    d = x - target
    return _both(scaled(g, d.shape, reduction) * (d * 2.0), needs)


@_loss("MeanBackward0")
def l1_loss(xp, x, target, *, reduction):
    return reduced(xp, xp.abs(x - target), reduction)


@l1_loss.vjp
def _(xp, g, x, target, needs, reduction):
    d = x - target
    return _both(scaled(g, d.shape, reduction) * xp.sign(d), needs)


@_loss("SmoothL1LossBackward0", ordered=True)
def smooth_l1_loss(xp, x, target, beta, *, reduction):
    """d^2 / (2 beta) where |d| < beta, else |d| - beta / 2. Source: https://arxiv.org/abs/1504.08083"""
    d = xp.abs(x - target)
    near = xp.lt(d, beta)
    return reduced(xp, xp.where(near, d * d * 0.5 / beta, d - 0.5 * beta), reduction)


@smooth_l1_loss.vjp
def _(xp, g, x, target, beta, needs, reduction):
    d = x - target
    slope = xp.where(xp.ge(xp.abs(d), beta), xp.sign(d), d / beta)  # NaN for NaN
    return (*_both(scaled(g, d.shape, reduction) * slope, needs), None)


@smooth_l1_loss.face
def _(input, target, reduction="mean", beta=1.0):
    check_reduction(reduction)
    if is_one_number(beta) and not beta > 0:
        if beta != 0:
            raise RuntimeError("smooth_l1_loss does not support negative values for beta.")
        raise NotImplementedError("smooth_l1_loss(beta=0) is l1_loss: call that")
    return (input, target, beta), {"reduction": reduction}


@_loss("HuberLossBackward0", ordered=True)
def huber_loss(xp, x, target, delta, *, reduction):
    """d^2 / 2 where |d| <= delta, else delta (|d| - delta / 2). Source: Huber 1964"""
    d = xp.abs(x - target)
    return reduced(xp, xp.where(xp.le(d, delta), d * d * 0.5, (d - 0.5 * delta) * delta), reduction)


@huber_loss.vjp
def _(xp, g, x, target, delta, needs, reduction):
    d = x - target
    slope = xp.where(xp.gt(xp.abs(d), delta), xp.sign(d) * delta, d)  # NaN for NaN
    return (*_both(scaled(g, d.shape, reduction) * slope, needs), None)


@huber_loss.face
def _(input, target, reduction="mean", delta=1.0):
    check_reduction(reduction)
    if is_one_number(delta) and not delta > 0:
        raise RuntimeError("huber_loss does not support non-positive values for delta.")
    return (input, target, delta), {"reduction": reduction}


# -- probabilities -----------------------------------------------------------------------------------------


def _weighted(losses, weight):
    return losses if weight is None else losses * weight


def _log_loss(xp, x, target):
    hit = xp.clamp_min(xp.log(x), -100.0)
    miss = xp.clamp_min(xp.log1p(-x), -100.0)
    return (target - 1.0) * miss - target * hit


@_loss("BinaryCrossEntropyBackward0", "banned", ordered=True)
def binary_cross_entropy(xp, x, target, weight, *, reduction):
    """-(t log x + (1 - t) log(1 - x)), each logarithm at least -100."""
    return reduced(xp, _weighted(_log_loss(xp, x, target), weight), reduction)


@binary_cross_entropy.vjp
def _(xp, g, x, target, weight, needs, reduction):
    g = scaled(g, x.shape, reduction)
    gw = g * _log_loss(xp, x, target) if needs[2] else None
    g = _weighted(g, weight)
    gx = g * ((x - target) / xp.clamp_min(x * (1.0 - x), 1e-12)) if needs[0] else None
    gt = g * (xp.log1p(-x) - xp.log(x)) if needs[1] else None
    return gx, gt, gw


@binary_cross_entropy.face
def _(input, target, weight=None, reduction="mean"):
    """Source: https://docs.pytorch.org/docs/stable/generated/torch.nn.functional.binary_cross_entropy.html"""
    check_reduction(reduction)
    if tuple(target.shape) != tuple(input.shape):
        raise ValueError(
            f"Using a target size ({target.shape}) that is different to the input size ({input.shape}) is "
            "deprecated. Please ensure they have the same size."
        )
    return (input, target, weight), {"reduction": reduction}


def _minus_log_sigmoid(xp, x):
    return xp.log1p(xp.exp(-xp.abs(x))) + xp.clamp_min(-x, 0.0)


def _logit_loss(xp, x, target, pos_weight):
    rest = _minus_log_sigmoid(xp, x)
    if pos_weight is not None:
        rest = rest * ((pos_weight - 1.0) * target + 1.0)
    return (1.0 - target) * x + rest


@_loss("BinaryCrossEntropyWithLogitsBackward0", ordered=True)
def binary_cross_entropy_with_logits(xp, x, target, weight, pos_weight, *, reduction):
    """The binary cross entropy of sigmoid(x), without overflow."""
    return reduced(xp, _weighted(_logit_loss(xp, x, target, pos_weight), weight), reduction)


@binary_cross_entropy_with_logits.vjp
def _(xp, g, x, target, weight, pos_weight, needs, reduction):
    g = scaled(g, x.shape, reduction)
    gw = g * _logit_loss(xp, x, target, pos_weight) if needs[2] else None
    g = _weighted(g, weight)
    if pos_weight is None:
        gx = g * (xp.sigmoid(x) - target) if needs[0] else None
        return gx, -g * x if needs[1] else None, gw, None
    positive = pos_weight * target
    gx = g * ((positive + 1.0 - target) * xp.sigmoid(x) - positive) if needs[0] else None
    gt = g * ((pos_weight - 1.0) * _minus_log_sigmoid(xp, x) - x) if needs[1] else None
    gp = g * target * _minus_log_sigmoid(xp, x) if needs[3] else None
    return gx, gt, gw, gp


@binary_cross_entropy_with_logits.face
def _(input, target, weight=None, reduction="mean", pos_weight=None):
    """Source: https://docs.pytorch.org/docs/stable/generated/torch.nn.BCEWithLogitsLoss.html"""
    check_reduction(reduction)
    if tuple(target.shape) != tuple(input.shape):
        raise ValueError(f"Target size ({target.shape}) must be the same as input size ({input.shape})")
    return (input, target, weight, pos_weight), {"reduction": reduction}


@_loss("MeanBackward0")
def kl_div(xp, x, target, *, reduction, log_target):
    """target (log target - x), 0 where target is 0; ``x`` holds logarithms. Mean over all elements."""
    if log_target:
        return reduced(xp, xp.exp(target) * (target - x), reduction)
    return reduced(xp, xp.where(xp.eq(target, 0.0), 0.0, target * xp.log(target)) - target * x, reduction)


@kl_div.vjp
def _(xp, g, x, target, needs, reduction, log_target):
    g = scaled(g, (target - x).shape if reduction == "mean" else (), reduction)
    t = xp.exp(target) if log_target else target
    gx = xp.expand(-g * t, shape=tuple((target - x).shape)) if needs[0] else None  # the target may broadcast
    gt = None
    if needs[1] and log_target:
        gt = g * (t * (target - x + 1.0))
    elif needs[1]:
        gt = g * (xp.log(target) + 1.0 - x)
    return gx, gt


@kl_div.face
def _(input, target, reduction="mean", log_target=False):
    if reduction == "batchmean":
        raise NotImplementedError("kl_div(reduction='batchmean'): use jtorch.nn.functional.kl_div")
    check_reduction(reduction)
    return (input, target), {"reduction": reduction, "log_target": bool(log_target)}


mse_loss.face(_face)
l1_loss.face(_face)


# -- margins -----------------------------------------------------------------------------------------------


@_loss("SoftMarginLossBackward0")
def soft_margin_loss(xp, x, target, *, reduction):
    """log(1 + exp(-target x)), without overflow."""
    return reduced(xp, _minus_log_sigmoid(xp, x * target), reduction)


@soft_margin_loss.vjp
def _(xp, g, x, target, needs, reduction):
    z = x * target
    slope = -scaled(g, z.shape, reduction) * xp.sigmoid(-z)
    return slope * target if needs[0] else None, slope * x if needs[1] else None


soft_margin_loss.face(_face)
