"""Layers that take in a batch normalization: the same results in one layer."""

from __future__ import annotations

import numpy as np
import pytest

import jtorch
from jtorch import nn
from jtorch.nn.utils import fuse_conv_bn_eval, fuse_linear_bn_eval

LAYERS = {
    "conv1d": (lambda: nn.Conv1d(3, 4, 3), lambda: nn.BatchNorm1d(4), (2, 3, 6), False),
    "conv2d": (
        lambda: nn.Conv2d(4, 4, 3, groups=2, bias=False),
        lambda: nn.BatchNorm2d(4),
        (2, 4, 6, 5),
        False,
    ),
    "without weights": (
        lambda: nn.Conv2d(3, 4, 1),
        lambda: nn.BatchNorm2d(4, affine=False),
        (1, 3, 2, 2),
        False,
    ),
    "transposed": (lambda: nn.ConvTranspose2d(3, 4, 2), lambda: nn.BatchNorm2d(4), (1, 3, 2, 2), True),
}


def trained(bn):
    for k, t in enumerate([bn.running_mean, bn.running_var, *bn.parameters()]):
        with jtorch.no_grad():
            t.copy_(jtorch.linspace(0.5, 1.5 + k, t.numel()))
    return bn.eval()


@pytest.mark.parametrize("name", LAYERS)
def test_a_convolution_computes_both(name):
    conv, bn, shape, transposed = LAYERS[name]
    conv, bn = conv().eval(), trained(bn())
    before = conv.weight.clone()
    fused, x = fuse_conv_bn_eval(conv, bn, transpose=transposed), jtorch.randn(shape)
    np.testing.assert_allclose(fused(x).detach().numpy(), bn(conv(x)).detach().numpy(), rtol=1e-5, atol=1e-5)
    assert jtorch.equal(conv.weight, before) and fused.weight.requires_grad and fused.bias.is_leaf


def test_a_linear_layer_computes_both():
    for bias in (True, False):
        linear, bn, x = nn.Linear(3, 4, bias=bias).eval(), trained(nn.BatchNorm1d(4)), jtorch.randn(5, 3)
        fused = fuse_linear_bn_eval(linear, bn)
        wanted = bn(linear(x)).detach().numpy()
        np.testing.assert_allclose(fused(x).detach().numpy(), wanted, rtol=1e-5, atol=1e-5)
    half = fuse_linear_bn_eval(nn.Linear(3, 4).half().eval(), bn)
    assert half.weight.dtype is half.bias.dtype is jtorch.float16


def test_what_cannot_be_taken_in_is_refused():
    conv, linear = nn.Conv1d(3, 4, 3).eval(), nn.Linear(3, 4).eval()
    with pytest.raises(AssertionError, match="only for eval"):
        fuse_conv_bn_eval(conv, nn.BatchNorm1d(4))
    with pytest.raises(RuntimeError, match="keeps no statistics"):
        fuse_conv_bn_eval(conv, nn.BatchNorm1d(4, track_running_stats=False).eval())
    with pytest.raises(AssertionError, match=r"bn\.num_features"):
        fuse_linear_bn_eval(linear, nn.BatchNorm1d(3).eval())
