"""Antialiased images and images of bytes against PyTorch: floats to rounding, bytes exactly."""

from __future__ import annotations

import numpy as np
import pytest

import jtorch
import jtorch.nn.functional as F
from jtorch.autograd import gradcheck
from tests.each import each
from tests.ops.oracle import compare
from tests.ops.support import HAS_TORCH, needs_torch

if HAS_TORCH:
    import torch

RNG = np.random.default_rng(0)
IMAGES = RNG.standard_normal((2, 3, 11, 13))
BYTES, MANY = (RNG.integers(0, 256, (n, c, 11, 13)).astype(np.uint8) for n, c in ((2, 3), (1, 7)))
SIZES = ((5, 6), (20, 7), (11, 13), (4, 2), (23, 30))
CASES = [
    (mode, corners, size) for mode in ("bilinear", "bicubic") for corners in (False, True) for size in SIZES
]


@needs_torch
@each("mode, corners, size", CASES)
def test_antialiased_images_equal_pytorchs(mode, corners, size):
    def smaller(L, x):
        return L.nn.functional.interpolate(x, size, mode=mode, align_corners=corners, antialias=True)

    compare(smaller, jtorch, torch, [IMAGES], rtol=1e-9, atol=1e-11)
    compare(smaller, jtorch, torch, [IMAGES.astype(np.float32)], rtol=1e-4, atol=1e-5)


@needs_torch
@each("mode, corners, size", CASES)
def test_bytes_equal_pytorchs(mode, corners, size):
    for images in (BYTES, MANY):
        for antialias in (False, True):
            options = {"mode": mode, "align_corners": corners, "antialias": antialias}
            ours, theirs = (
                L.nn.functional.interpolate(L.tensor(images), size, **options) for L in (jtorch, torch)
            )
            np.testing.assert_array_equal(ours.numpy(), theirs.numpy(), strict=True)


@needs_torch
@each("mode", ["nearest", "nearest-exact", "bilinear", "bicubic"])
def test_bytes_by_a_factor(mode):
    ours, theirs = (
        L.nn.functional.interpolate(L.tensor(BYTES), scale_factor=(0.6, 1.7), mode=mode)
        for L in (jtorch, torch)
    )
    np.testing.assert_array_equal(ours.numpy(), theirs.numpy(), strict=True)


@needs_torch
@each("mode", ["bilinear", "bicubic"])
def test_antialiased_by_a_factor(mode):
    def smaller(L, x):
        return L.nn.functional.interpolate(x, scale_factor=(0.6, 0.4), mode=mode, antialias=True)

    compare(smaller, jtorch, torch, [IMAGES], rtol=1e-9, atol=1e-11)


@pytest.mark.slow
def test_gradients_are_those_of_finite_differences_and_compiled_equals_eager():
    def smaller(x):
        return F.interpolate(x, (3, 4), mode="bicubic", antialias=True)

    x = jtorch.tensor(IMAGES[:1, :1], requires_grad=True)
    assert gradcheck(smaller, (x,))
    compiled = jtorch.compile(smaller, fullgraph=True)
    np.testing.assert_allclose(compiled(x).detach().numpy(), smaller(x).detach().numpy(), rtol=1e-12)
    small = jtorch.compile(lambda x: F.interpolate(x, (3, 4), mode="bilinear"), fullgraph=True)
    expected = F.interpolate(jtorch.tensor(BYTES), (3, 4), mode="bilinear")
    np.testing.assert_array_equal(small(jtorch.tensor(BYTES)).numpy(), expected.numpy())


@pytest.mark.parametrize("mode", ["linear", "trilinear"])
def test_bytes_have_two_dims(mode):
    x = jtorch.ones(1, 2, *(4,) * (1 if mode == "linear" else 3), dtype=jtorch.uint8)
    with pytest.raises(NotImplementedError, match=f"upsample_{mode}"):
        F.interpolate(x, 3, mode=mode)
