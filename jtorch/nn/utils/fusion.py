"""Layers that take in the batch normalization behind them, for inference.

Source: https://docs.pytorch.org/docs/stable/nn.html#utility-functions-to-fuse-modules
"""

from __future__ import annotations

import copy
from typing import Any

from jtorch.eager.public import Tensor, ones_like, zeros_like
from jtorch.nn.parameter import Parameter

__all__ = ["fuse_conv_bn_eval", "fuse_conv_bn_weights", "fuse_linear_bn_eval", "fuse_linear_bn_weights"]


def fuse_conv_bn_eval(conv: Any, bn: Any, transpose: bool = False) -> Any:
    """A copy of ``conv`` that computes ``bn(conv(x))`` in evaluation; ``transpose`` for transposed ones.

    Raises AssertionError where one of them is in training mode, RuntimeError where ``bn`` has no statistics.

    >>> import jtorch
    >>> from jtorch import nn
    >>> conv, bn = nn.Conv2d(3, 4, 3).eval(), nn.BatchNorm2d(4).eval()
    >>> fused, x = nn.utils.fuse_conv_bn_eval(conv, bn), jtorch.ones(1, 3, 5, 5)
    >>> jtorch.allclose(fused(x), bn(conv(x)), atol=1e-6)
    True
    """
    _check(conv, bn, "conv")
    fused = copy.deepcopy(conv)
    statistics = (bn.running_mean, bn.running_var, bn.eps, bn.weight, bn.bias)
    fused.weight, fused.bias = fuse_conv_bn_weights(
        fused.weight, fused.bias, *statistics, transpose=transpose
    )
    return fused


def fuse_linear_bn_eval(linear: Any, bn: Any) -> Any:
    """A copy of ``linear`` that computes ``bn(linear(x))``, both in evaluation.

    Raises AssertionError where one of them is in training mode, or their numbers of features do not fit,
    RuntimeError where ``bn`` keeps no statistics.

    >>> import jtorch
    >>> from jtorch import nn
    >>> linear, bn = nn.Linear(3, 4).eval(), nn.BatchNorm1d(4).eval()
    >>> fused, x = nn.utils.fuse_linear_bn_eval(linear, bn), jtorch.ones(2, 3)
    >>> jtorch.allclose(fused(x), bn(linear(x)), atol=1e-6)
    True
    """
    _check(linear, bn, "linear")
    if bn.num_features not in (linear.out_features, 1):
        raise AssertionError("To fuse, linear.out_features == bn.num_features or bn.num_features == 1")
    fused = copy.deepcopy(linear)
    statistics = (bn.running_mean, bn.running_var, bn.eps, bn.weight, bn.bias)
    fused.weight, fused.bias = fuse_linear_bn_weights(fused.weight, fused.bias, *statistics)
    return fused


def _check(layer: Any, bn: Any, name: str) -> None:
    if layer.training or bn.training:
        raise AssertionError("Fusion only for eval!")
    if bn.running_mean is None or bn.running_var is None:
        raise RuntimeError(f"fuse_{name}_bn_eval: this batch normalization keeps no statistics")


def fuse_conv_bn_weights(
    conv_w: Tensor, conv_b: Tensor | None, bn_rm: Tensor, bn_rv: Tensor, bn_eps: float,
    bn_w: Tensor | None, bn_b: Tensor | None, transpose: bool = False,
) -> tuple[Parameter, Parameter]:  # fmt: skip
    """(weight, bias) of a convolution with these parameters and this batch normalization behind it.

    Without a bias of either there is one afterwards.
    """
    shape = [1] * conv_w.ndim
    shape[1 if transpose else 0] = -1
    return _fused(conv_w, conv_b, bn_rm, bn_rv, bn_eps, bn_w, bn_b, shape)


def fuse_linear_bn_weights(
    linear_w: Tensor, linear_b: Tensor | None, bn_rm: Tensor, bn_rv: Tensor, bn_eps: float,
    bn_w: Tensor | None, bn_b: Tensor | None,
) -> tuple[Parameter, Parameter]:  # fmt: skip
    """(weight, bias) of a linear layer with these parameters and this batch normalization behind it."""
    return _fused(linear_w, linear_b, bn_rm, bn_rv, bn_eps, bn_w, bn_b, [-1, 1])


def _fused(
    weight: Tensor, bias: Tensor | None, mean: Tensor, variance: Tensor, eps: float, scale: Tensor | None,
    shift: Tensor | None, shape: list[int],
) -> tuple[Parameter, Parameter]:  # fmt: skip
    factor = (variance + eps).rsqrt() * (ones_like(mean) if scale is None else scale)
    start = zeros_like(mean) if bias is None else bias
    moved = (start - mean) * factor + (zeros_like(mean) if shift is None else shift)
    wide = (weight * factor.reshape(shape)).to(weight.dtype)
    narrow = moved.to(weight.dtype if bias is None else bias.dtype)
    grad = weight.requires_grad if bias is None else bias.requires_grad
    return Parameter(wide.detach(), weight.requires_grad), Parameter(narrow.detach(), grad)
