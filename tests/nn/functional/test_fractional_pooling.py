"""Fractional max-pooling against PyTorch, with windows at places that both are given."""

from __future__ import annotations

import numpy as np
import pytest

import jtorch
from jtorch import nn
from jtorch.autograd import gradcheck
from tests.each import each
from tests.ops.oracle import compare
from tests.ops.support import HAS_TORCH, needs_torch

if HAS_TORCH:
    import torch

RNG = np.random.default_rng(0)
IMAGES, DRAWN = RNG.standard_normal((2, 3, 9, 11)), RNG.random((2, 3, 2))
VOLUMES, DRAWN3 = RNG.standard_normal((2, 2, 6, 7, 8)), RNG.random((2, 2, 3))
CALLS = {
    f"{k} to {o}": (
        lambda L, x, u, k=k, o=o: L.nn.functional.fractional_max_pool2d(
            x, k, o, return_indices=True, _random_samples=u.detach()
        ),
        [IMAGES, DRAWN],
    )
    for k, o in ((2, 4), ((2, 3), (5, 7)), (3, 1), ((3, 2), (1, 6)))
} | {
    "ratio": (
        lambda L, x, u: L.nn.functional.fractional_max_pool2d(
            x, 2, output_ratio=(0.5, 0.6), _random_samples=u.detach()
        ),
        [IMAGES[0], DRAWN[:1]],
    ),
    "indices": (
        lambda L, x, u: L.nn.functional.fractional_max_pool2d_with_indices(
            x, 2, 3, _random_samples=u.detach()
        ),
        [IMAGES, DRAWN],
    ),
    "no images": (
        lambda L, x, u: L.nn.functional.fractional_max_pool2d(
            x, 2, 3, return_indices=True, _random_samples=u.detach()
        ),
        [IMAGES[:0], DRAWN[:0]],
    ),
    "no volumes": (
        lambda L, x, u: L.nn.functional.fractional_max_pool3d(x, 2, 3, _random_samples=u.detach()),
        [VOLUMES[:0], DRAWN3[:0]],
    ),
    "volumes": (
        lambda L, x, u: L.nn.functional.fractional_max_pool3d(
            x, (2, 3, 2), (3, 1, 5), return_indices=True, _random_samples=u.detach()
        ),
        [VOLUMES, DRAWN3],
    ),
    "module": (
        lambda L, x, u: L.nn.FractionalMaxPool2d(3, output_ratio=0.5, _random_samples=u.detach())(x),
        [IMAGES, DRAWN],
    ),
    "module of volumes": (
        lambda L, x, u: L.nn.FractionalMaxPool3d(
            2, output_size=(2, 3, 4), return_indices=True, _random_samples=u.detach()
        )(x),
        [VOLUMES, DRAWN3],
    ),
}  # fmt: skip


@needs_torch
@each("name", CALLS)
def test_equals_pytorch(name):
    call, arrays = CALLS[name]
    compare(call, jtorch, torch, arrays)
    compare(call, jtorch, torch, [a.astype(np.float32) for a in arrays])


@pytest.mark.slow
def test_windows_are_drawn_and_recorded():
    pool = nn.FractionalMaxPool2d(2, output_size=(4, 5))
    x = jtorch.tensor(IMAGES)
    jtorch.manual_seed(0)
    first, second = pool(x), pool(x)
    assert first.shape == (2, 3, 4, 5)
    assert not jtorch.equal(first, second)
    jtorch.manual_seed(0)
    np.testing.assert_array_equal(jtorch.compile(pool, fullgraph=True)(x).numpy(), first.numpy())


@pytest.mark.slow
def test_gradients_are_those_of_finite_differences():
    drawn = jtorch.tensor(DRAWN)
    x = jtorch.tensor(IMAGES, requires_grad=True)
    assert gradcheck(lambda x: nn.functional.fractional_max_pool2d(x, 2, 4, _random_samples=drawn), (x,))


BAD = {
    "neither": lambda F, L, i: F.fractional_max_pool2d(i, 2),
    "too large": lambda F, L, i: F.fractional_max_pool2d(i, 2, output_size=5),
    "kernel": lambda F, L, i: F.fractional_max_pool2d(i, 5, output_size=1),
    "dims": lambda F, L, i: F.fractional_max_pool2d(i[0, 0], 2, output_size=2),
    "samples": lambda F, L, i: F.fractional_max_pool2d(i, 2, 2, _random_samples=L.ones(1, 1, 3)),
    "sample dtype": lambda F, L, i: F.fractional_max_pool2d(
        i, 2, 2, _random_samples=L.ones(1, 1, 2).double()
    ),
    "ratios": lambda F, L, i: F.fractional_max_pool2d(i, 2, output_ratio=(0.5, 0.5, 0.5)),
    "volumes": lambda F, L, i: F.fractional_max_pool3d(i, 2, output_size=2),
    "no channels": lambda F, L, i: F.fractional_max_pool2d(i[:, :0], 2, output_size=2),
    "flat volumes": lambda F, L, i: F.fractional_max_pool3d(i[:, :, None][:, :, :0], 2, output_size=2),
    "both": lambda F, L, i: L.nn.FractionalMaxPool2d(2, 2, 0.5),
    "module": lambda F, L, i: L.nn.FractionalMaxPool3d(2),
    "ratio": lambda F, L, i: L.nn.FractionalMaxPool2d(2, output_ratio=1.5),
    "kernel size": lambda F, L, i: L.nn.FractionalMaxPool3d(0, 2),
}


@needs_torch
@each("name", BAD)
def test_refuses_in_pytorchs_words(name):
    with pytest.raises((RuntimeError, ValueError, IndexError)) as theirs:
        BAD[name](torch.nn.functional, torch, torch.ones(1, 1, 4, 4))
    with pytest.raises(type(theirs.value)) as ours:
        BAD[name](jtorch.nn.functional, jtorch, jtorch.ones(1, 1, 4, 4))
    assert str(ours.value) == str(theirs.value)
