"""How many recordings moving sizes take: what the library asks of a size is a plan for each answer."""

from __future__ import annotations

import numpy as np
import pytest

import jtorch
from jtorch import nn
from jtorch.nn import functional as F

SIZES = (19, 26, 33, 40, 52, 63, 64, 65)


def pooled(layer):
    """A training step of an image network with two pools."""
    net = nn.Sequential(
        nn.Conv2d(2, 4, 3, padding=1), nn.ReLU(), layer(), nn.Conv2d(4, 4, 3, padding=1), nn.ReLU(), layer()
    )  # fmt: skip

    def step(x):
        net.zero_grad()
        loss = net(x).square().mean()
        loss.backward()
        return loss, *(p.grad for p in net.parameters())

    return step


def wide(n):
    return (jtorch.randn(2, 2, 24, n),)


def both(n):
    return (jtorch.randn(2, 2, n, n + 3),)


def rows(n):
    return (jtorch.randn(2, n, 8),)


def batched(x, y):
    return jtorch.einsum("bnd,bmd->bnm", x, y)


def two_rows(n):
    return jtorch.randn(2, n, 8), jtorch.randn(2, n, 8)


PROGRAMS = {  # with their arguments, and how many recordings there may be besides the first
    # whether pools leave a column over makes other sums: four ways
    "max pools": (pooled(lambda: nn.MaxPool2d(2)), wide, 4),
    "strided convolutions": (lambda x: F.conv2d(x, jtorch.ones(3, 2, 3, 3), stride=2, padding=1), wide, 1),
    "overlapping pools": (pooled(lambda: nn.MaxPool2d(3, 2, 1)), wide, 4),
    "transposed convolution": (
        lambda x: F.conv_transpose2d(x, jtorch.ones(2, 3, 4, 4), stride=2, padding=1), both, 1,
    ),
    "einsum of a batch": (batched, two_rows, 1),
    "parts": (lambda x: [part.sum(1) for part in x.chunk(4, 1)], rows, 1),
}  # fmt: skip


@pytest.mark.parametrize("name", PROGRAMS)
def test_few_recordings_for_all_sizes(name):
    f, make, most = PROGRAMS[name]
    compiled = jtorch.compile(f)
    for n in SIZES:
        arguments = make(n)
        found, expected = compiled(*arguments), f(*arguments)
        many = isinstance(found, (tuple, list))
        for a, b in zip(found if many else [found], expected if many else [expected], strict=True):
            np.testing.assert_allclose(a.detach().numpy(), b.detach().numpy(), rtol=1e-4, atol=1e-5)
    assert 1 <= len(compiled.retraces) <= most


@pytest.mark.slow
@pytest.mark.parametrize("name", PROGRAMS)
def test_any_size_has_the_bits_of_its_own_plan(name):
    f, make, _ = PROGRAMS[name]
    moving, exact = jtorch.compile(f), jtorch.compile(f, dynamic=False)
    for n in SIZES:
        arguments = make(n)
        found, expected = moving(*arguments), exact(*arguments)
        many = isinstance(found, (tuple, list))
        for a, b in zip(found if many else [found], expected if many else [expected], strict=True):
            np.testing.assert_array_equal(a.detach().numpy(), b.detach().numpy())
