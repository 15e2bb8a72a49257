from __future__ import annotations

import numpy as np
import pytest

import jtorch
from jtorch import nn


def test_is_a_leaf_that_requires_grad(torch):
    p, q = nn.Parameter(jtorch.ones(2)), torch.nn.Parameter(torch.ones(2))
    assert isinstance(p, jtorch.Tensor) and p.is_leaf and p.requires_grad
    assert repr(p) == repr(q)
    assert type(p * 2) is jtorch.Tensor and type(p.detach()) is jtorch.Tensor


def test_shares_memory():
    x = jtorch.zeros(2)
    p = nn.Parameter(x)
    with jtorch.no_grad():
        p.add_(1)
    assert x.tolist() == [1.0, 1.0] and x._version == 1


def test_off_the_tape():
    x = jtorch.ones(2, requires_grad=True) * 2
    assert nn.Parameter(x).is_leaf


def test_integers_and_numbers():
    with pytest.raises(RuntimeError, match="floating point dtype can require gradients"):
        nn.Parameter(jtorch.tensor([1, 2]))
    assert not nn.Parameter(jtorch.tensor([1]), requires_grad=False).requires_grad
    with pytest.raises(TypeError, match="wraps a Tensor, got list"):
        nn.Parameter([1.0])
    assert nn.Parameter().shape == (0,)
    assert nn.Parameter(np.ones(2, np.float32)).tolist() == [1.0, 1.0]
