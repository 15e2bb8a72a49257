"""``CrossMapLRN2d`` against PyTorch's forward pass, and its gradient against finite differences."""

from __future__ import annotations

import numpy as np
import pytest

import jtorch
from jtorch import nn
from tests.each import each
from tests.ops.support import HAS_TORCH, needs_torch

if HAS_TORCH:
    import torch

OPTIONS = {"alpha": 0.5, "beta": 0.75, "k": 2.0}


def _images(channels):
    return np.random.default_rng(channels).standard_normal((2, channels, 3, 2))


@needs_torch
@each("size, channels", [(s, c) for s in (1, 2, 3, 4, 5, 7) for c in (1, 2, 6)])
def test_equals_pytorch_s(size, channels):
    ours, theirs = (L.nn.CrossMapLRN2d(size, **OPTIONS) for L in (jtorch, torch))
    assert repr(ours) == repr(theirs)
    expected = theirs(torch.tensor(_images(channels))).numpy()
    np.testing.assert_allclose(ours(jtorch.tensor(_images(channels))).numpy(), expected, rtol=1e-12)


@each("size", [1, 3, 5])
def test_is_the_response_norm_of_few_channels(size):
    x = jtorch.tensor(_images((size + 1) // 2))
    expected = nn.LocalResponseNorm(size, **OPTIONS)(x)
    np.testing.assert_allclose(nn.CrossMapLRN2d(size, **OPTIONS)(x).numpy(), expected.numpy(), rtol=1e-12)


@each("size", [2, 3])
def test_gradients_and_compiled(size):
    layer, x = nn.CrossMapLRN2d(size, **OPTIONS), jtorch.tensor(_images(6), requires_grad=True)
    assert jtorch.autograd.gradcheck(layer, (x,))
    np.testing.assert_allclose(
        jtorch.compile(layer)(x).detach().numpy(), layer(x).detach().numpy(), rtol=1e-12
    )


def test_dims():
    with pytest.raises(ValueError, match="Expected input to be 4D, got 3D instead"):
        nn.CrossMapLRN2d(3)(jtorch.ones(1, 2, 3))
