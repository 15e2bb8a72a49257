"""Gradient clipping."""

from __future__ import annotations

import math

import numpy as np
import pytest

import jtorch
from jtorch.nn import utils

GRADIENTS = ([3.0, -4.0], [[12.0]], None)


def parameters(lib, gradients=GRADIENTS):
    out = []
    for g in gradients:
        p = lib.zeros(np.shape(g) if g is not None else (2,), requires_grad=True)
        p.grad = None if g is None else lib.tensor(g)
        out.append(p)
    return out


@pytest.mark.parametrize("norm_type", [2.0, 1.0, 3.0, 0.0, math.inf])
@pytest.mark.parametrize("max_norm", [1.0, 1000.0])
def test_clip_grad_norm_equals_pytorch(torch, norm_type, max_norm):
    ours, theirs = parameters(jtorch), parameters(torch)
    total = utils.clip_grad_norm_(ours, max_norm, norm_type)
    expected = torch.nn.utils.clip_grad_norm_(theirs, max_norm, norm_type)
    assert total.item() == pytest.approx(expected.item(), rel=1e-6)
    for p, q in zip(ours[:2], theirs[:2], strict=True):
        np.testing.assert_allclose(p.grad.numpy(), q.grad.numpy(), rtol=1e-6)
    assert ours[2].grad is None


def test_no_gradients():
    assert utils.clip_grad_norm_(parameters(jtorch, [None]), 1.0).item() == 0.0


def test_not_finite():
    params = parameters(jtorch, [[math.nan, 1.0]])
    with pytest.raises(RuntimeError, match=r"order 2\.0 for gradients from `parameters` is non-finite"):
        utils.clip_grad_norm_(params, 1.0, error_if_nonfinite=True)
    assert math.isnan(utils.clip_grad_norm_(params, 1.0).item())


def test_clip_grad_value():
    params = parameters(jtorch)
    utils.clip_grad_value_(params, 3.5)
    assert [p.grad.tolist() for p in params[:2]] == [[3.0, -3.5], [[3.5]]]


def test_norm_and_clipping_apart():
    params = parameters(jtorch)
    total = utils.get_total_norm([p.grad for p in params[:2]])
    assert total.item() == pytest.approx(13.0)
    assert utils.get_total_norm([p.grad for p in params[:2]], -math.inf).item() == 3.0
    utils.clip_grads_with_norm_(params, 6.5, total)
    np.testing.assert_allclose(params[0].grad.tolist(), [1.5, -2.0], rtol=1e-6)


@pytest.mark.parametrize("mode", [lambda f: f, jtorch.compile], ids=["eager", "compiled"])
def test_of_gradients_of_16_bits_the_norm_is_made_in_float32(mode):
    p = jtorch.nn.Parameter(jtorch.ones(2).half())
    p.grad = jtorch.tensor([300.0, 300.0]).half()
    total = mode(lambda: utils.clip_grad_norm_([p], 1.0))()
    assert (total.dtype, total.item()) == (jtorch.float16, 424.25)
    np.testing.assert_allclose(p.grad.float().numpy(), [0.5**0.5] * 2, rtol=2**-10)
    p.grad = jtorch.full((2,), 60000.0).half()  # whose norm is infinite in 16 bits
    assert mode(lambda: utils.clip_grad_norm_([p], 1.0))().item() == float("inf")
    np.testing.assert_allclose(p.grad.float().numpy(), [0.5**0.5] * 2, rtol=2**-10)
