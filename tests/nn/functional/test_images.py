"""Borders, other sizes, shuffled pixels and sampled places against PyTorch."""

from __future__ import annotations

import math

import numpy as np
import pytest

import jtorch
from jtorch.nn import functional as F
from tests.nn.functional.agree import agree, agree_on_error, draw
from tests.ops.support import HAS_TORCH, needs_torch

if HAS_TORCH:
    import torch

LINE, IMAGE, VOLUME = (2, 3, 5), (2, 3, 4, 5), (1, 2, 3, 4, 3)
PADS = {
    **{
        f"{mode} {len(shape)}-d {pads}": (lambda F, x, p=pads, m=mode: F.pad(x, p, m), [shape])
        for mode in ("constant", "reflect", "replicate", "circular")
        for shape, pads in [
            (LINE, (2, 1)), (LINE[1:], (0, 3)), (IMAGE, (1, 2, 3, 0)), (IMAGE[1:], (1, 0, 2, 2)),
            (VOLUME, (1, 2, 0, 1, 2, 2)), (LINE, (-1, 2)), (IMAGE, (1, -2, 2, -1)), (LINE, (0, 0)),
        ]
    },
    **{
        f"replicate beyond {pads}": (lambda F, x, p=pads: F.pad(x, p, "replicate"), [shape])
        for shape, pads in [
            (LINE, (-5, 2)), (LINE, (-6, 2)), (LINE, (3, -5)), (LINE, (7, -6)), (IMAGE, (1, -5, -4, 3)),
        ]
    },
    "value": (lambda F, x: F.pad(x, (1, 2, 0, 1), value=2.5), [IMAGE]),
    "value and less": (lambda F, x: F.pad(x, (-1, 2), "constant", -1.0), [IMAGE]),
    "more dims": (lambda F, x: F.pad(x, (1, 1) * 4), [IMAGE]),
    "none": (lambda F, x: F.pad(x, ()), [IMAGE]),
    "empty": (lambda F, x: F.pad(x[..., :0], (1, 1)), [IMAGE]),
}  # fmt: skip
SIZES = {
    **{
        f"{mode} {kw} of {len(shape)}": (lambda F, x, m=mode, k=kw: F.interpolate(x, mode=m, **k), [shape])
        for modes, shape in [
            (("nearest", "nearest-exact", "linear", "area"), LINE),
            (("nearest", "nearest-exact", "bilinear", "bicubic", "area"), IMAGE),
            (("nearest", "nearest-exact", "trilinear", "area"), VOLUME),
        ]
        for mode in modes
        for kw in [
            {"size": 7}, {"size": 2}, {"scale_factor": 2}, {"scale_factor": 1.7},
            {"scale_factor": 0.6, "recompute_scale_factor": True}, {"scale_factor": 3.0},
        ]
    },
    **{
        f"{mode} aligned": (
            lambda F, x, m=mode: F.interpolate(x, 8, mode=m, align_corners=True), [shape],
        )
        for mode, shape in [("linear", LINE), ("bilinear", IMAGE), ("bicubic", IMAGE), ("trilinear", VOLUME)]
    },
    "one aligned": (lambda F, x: F.interpolate(x, 1, mode="bilinear", align_corners=True), [IMAGE]),
    "same size": (lambda F, x: F.interpolate(x, (4, 9), mode="bilinear"), [IMAGE]),
    "pairs": (lambda F, x: F.interpolate(x, scale_factor=(1.5, 2), mode="bicubic"), [IMAGE]),
    "upsample": (lambda F, x: F.upsample(x, 9), [IMAGE]),
    "upsample bilinear": (lambda F, x: F.upsample_bilinear(x, scale_factor=2), [IMAGE]),
}  # fmt: skip
FACTORS = {  # that make the result as large, or twice as large, and are not 1 or 2
    f"{mode} {factor} of {len(shape)}": (
        lambda F, x, m=mode, f=factor: F.interpolate(x, mode=m, scale_factor=f), [shape],
    )
    for modes, shape in [
        (("nearest", "nearest-exact", "linear", "area"), LINE),
        (("nearest", "nearest-exact", "bilinear", "bicubic", "area"), IMAGE),
        (("nearest", "nearest-exact", "trilinear", "area"), VOLUME),
    ]
    for mode in modes
    for factor in (1.1, 1.2, 2.2)
}  # fmt: skip
GRID = np.random.default_rng(3).uniform(-1.3, 1.3, (2, 3, 4, 2))
GRID3 = np.random.default_rng(3).uniform(-1.3, 1.3, (1, 2, 2, 3, 3))
OTHERS = {
    "pixel_shuffle": (lambda F, x: F.pixel_shuffle(x, 2), [(2, 8, 3, 2)]),
    "pixel_shuffle alone": (lambda F, x: F.pixel_shuffle(x, 3), [(9, 1, 2)]),
    "pixel_unshuffle": (lambda F, x: F.pixel_unshuffle(x, 2), [(2, 2, 4, 6)]),
    "channel_shuffle": (lambda F, x: F.channel_shuffle(x, 3), [(2, 6, 4)]),
    "affine_grid": (lambda F, t: F.affine_grid(t, (2, 3, 4, 5), align_corners=False), [(2, 2, 3)]),
    "affine_grid aligned": (lambda F, t: F.affine_grid(t, (1, 3, 4, 1, 2), align_corners=True), [(1, 3, 4)]),
    **{
        f"grid {mode} {padding} {aligned}": (
            lambda F, x, g, a=(mode, padding, aligned): F.grid_sample(x, g, *a), [IMAGE, GRID],
        )
        for mode in ("bilinear", "bicubic")
        for padding in ("zeros", "border", "reflection")
        for aligned in (False, True)
    },
    **{
        f"grid nearest {padding} {aligned}": (
            lambda F, x, g, a=("nearest", padding, aligned): F.grid_sample(x, g.detach(), *a), [IMAGE, GRID],
        )
        for padding in ("zeros", "border", "reflection")
        for aligned in (False, True)
    },
    "grid of a volume": (lambda F, x, g: F.grid_sample(x, g, align_corners=False), [VOLUME, GRID3]),
    "grid no batch": (
        lambda F, x, g: F.grid_sample(x, g, align_corners=False), [(0, 2, 4, 4), np.zeros((0, 2, 2, 2))],
    ),
    "grid nearest no batch": (
        lambda F, x, g: F.grid_sample(x, g.detach(), "nearest", align_corners=False),
        [(0, 2, 4, 4), np.zeros((0, 2, 2, 2))],
    ),
}  # fmt: skip
ERRORS = {
    "reflect too far": (lambda F, x: F.pad(x, (5, 1), "reflect"), [LINE]),
    "reflect too far up": (lambda F, x: F.pad(x, (1, 1, 4, 0), "reflect"), [IMAGE]),
    "odd": (lambda F, x: F.pad(x, (1,)), [LINE]),
    "many": (lambda F, x: F.pad(x, (1,) * 8), [LINE]),
    "mode": (lambda F, x: F.pad(x, (1, 1), "foo"), [LINE]),
    "value": (lambda F, x: F.pad(x, (1, 1), "reflect", value=1.0), [LINE]),
    "dims": (lambda F, x: F.pad(x, (1, 1), "circular"), [IMAGE]),
    "wraps": (lambda F, x: F.pad(x, (6, 0), "circular"), [LINE]),
    "replicate too small": (lambda F, x: F.pad(x, (-3, -3), "replicate"), [LINE]),
    "no size": (lambda F, x: F.interpolate(x), [IMAGE]),
    "both": (lambda F, x: F.interpolate(x, 3, 2), [IMAGE]),
    "sizes": (lambda F, x: F.interpolate(x, (3,)), [IMAGE]),
    "scales": (lambda F, x: F.interpolate(x, scale_factor=(1, 2, 3)), [IMAGE]),
    "linear of images": (lambda F, x: F.interpolate(x, 3, mode="linear"), [IMAGE]),
    "no such mode": (lambda F, x: F.interpolate(x, 3, mode="foo"), [IMAGE]),
    "corners": (lambda F, x: F.interpolate(x, 3, align_corners=True), [IMAGE]),
    "recompute": (lambda F, x: F.interpolate(x, 3, recompute_scale_factor=True), [IMAGE]),
    "nothing": (lambda F, x: F.interpolate(x, 0), [IMAGE]),
    "antialias": (lambda F, x: F.interpolate(x, 3, antialias=True), [IMAGE]),
    "rows": (lambda F, x: F.interpolate(x, 3), [(4, 5)]),
    "bicubic of lines": (lambda F, x: F.interpolate(x, 3, mode="bicubic"), [LINE]),
    "shuffle": (lambda F, x: F.pixel_shuffle(x, 2), [(1, 3, 2, 2)]),
    "shuffle dims": (lambda F, x: F.pixel_shuffle(x, 2), [(1, 3)]),
    "shuffle factor": (lambda F, x: F.pixel_shuffle(x, 0), [(1, 3, 2, 2)]),
    "unshuffle height": (lambda F, x: F.pixel_unshuffle(x, 2), [(1, 3, 3, 2)]),
    "unshuffle width": (lambda F, x: F.pixel_unshuffle(x, 2), [(1, 3, 4, 3)]),
    "channels": (lambda F, x: F.channel_shuffle(x, 2), [(1, 3, 2, 2)]),
    "channels dims": (lambda F, x: F.channel_shuffle(x, 3), [(1, 3)]),
    "grid mode": (lambda F, x, g: F.grid_sample(x, g, "foo"), [IMAGE, GRID]),
    "bicubic of a volume": (lambda F, x, g: F.grid_sample(x, g, "bicubic"), [VOLUME, GRID3]),
    "grid padding": (lambda F, x, g: F.grid_sample(x, g, padding_mode="foo"), [IMAGE, GRID]),
}


def _arrays(given):
    return [g if isinstance(g, np.ndarray) else draw(*g) for g in given]


@pytest.mark.parametrize("name", [*PADS, *SIZES, *OTHERS])
def test_equals_pytorch(torch, name):
    call, given = (PADS | SIZES | OTHERS)[name]
    agree(torch, call, _arrays(given))


@pytest.mark.parametrize("name", FACTORS)
def test_factors_that_are_not_whole_equal_pytorch(torch, name):
    """The values: PyTorch's gradients are of other ones, see ``docs/differences.md``."""
    call, (shape,) = FACTORS[name]
    (x,) = _arrays([shape])
    found = call(jtorch.nn.functional, jtorch.tensor(x))
    np.testing.assert_allclose(found, call(torch.nn.functional, torch.tensor(x)), rtol=1e-9, atol=1e-10)


@pytest.mark.parametrize("name", ERRORS)
def test_error_is_pytorchs(torch, name):
    call, given = ERRORS[name]
    agree_on_error(torch, call, _arrays(given))


@pytest.mark.parametrize("size", range(1, 40))
@pytest.mark.parametrize("mode", ["nearest", "nearest-exact"])
def test_nearest_picks_pytorchs_neighbour(torch, mode, size):
    x = np.arange(13, dtype=np.float32)[None, None]
    ours = F.interpolate(jtorch.tensor(x), size, mode=mode)
    theirs = torch.nn.functional.interpolate(torch.tensor(x), size, mode=mode)
    assert ours.tolist() == theirs.tolist()


@pytest.mark.parametrize("dtype, height", [("float32", 28), ("float64", 15)])
def test_the_identity_takes_its_gradient_from_pytorchs_side(torch, dtype, height):
    """There grid_sample has a kink at each place: a last bit decides which slope is the gradient.

    Of heights where PyTorch's fused multiply-add of float64 rounds as two steps do.
    """
    x, weights = np.random.default_rng(0).standard_normal((2, 3, 1, height, 21)).astype(dtype)
    gradients, grids = [], []
    for lib in (jtorch, torch):
        theta = lib.tensor(np.tile(np.eye(2, 3, dtype=dtype), (3, 1, 1)), requires_grad=True)
        grid = lib.nn.functional.affine_grid(theta, (3, 1, height, 21), align_corners=False)
        sampled = lib.nn.functional.grid_sample(lib.tensor(x), grid, align_corners=False)
        (sampled * lib.tensor(weights)).sum().backward()
        grids.append(grid.detach().numpy())
        gradients.append(theta.grad.numpy())
    np.testing.assert_array_equal(*grids)
    np.testing.assert_allclose(*gradients, rtol=1e-12 if dtype == "float64" else 1e-4, atol=1e-4)


@pytest.mark.parametrize("align_corners", [False, True])
def test_places_are_rounded_as_pytorch_does(torch, align_corners):
    for n in range(2, 65):
        grids = [
            lib.nn.functional.affine_grid(
                lib.eye(2, 3, dtype=lib.float32)[None], (1, 1, 2, n), align_corners=align_corners
            ).numpy()
            for lib in (jtorch, torch)
        ]
        np.testing.assert_array_equal(*grids)


def test_special_values_stay_where_they_are():
    x = jtorch.tensor([[[1.0, float("nan"), 3.0]]])
    assert np.isnan(F.interpolate(x, 6).numpy()).sum() == 2
    assert np.isnan(F.pad(x, (1, 1)).numpy()).sum() == 1


@pytest.mark.parametrize("mode", [lambda f: f, jtorch.compile], ids=["eager", "compiled"])
def test_the_nearest_elements_place_has_a_gradient_of_zeros(mode):
    images = jtorch.arange(16.0).reshape(1, 1, 4, 4)
    grid = jtorch.tensor([[[[0.1, 0.2], [-0.3, float("inf")]]]])

    def slopes(x, grid):
        grid = grid.detach().requires_grad_()
        out = jtorch.nn.functional.grid_sample(x, grid, mode="nearest", align_corners=False)
        out.sum().backward()
        return out.detach(), grid.grad

    out, slope = mode(slopes)(images, grid)
    assert out.tolist() == [[[[10.0, 0.0]]]]
    assert slope.tolist() == [[[[0.0, 0.0], [0.0, 0.0]]]]


NOWHERE = [(math.nan, 0.0), (math.inf, 0.0), (-math.inf, 0.3), (1e10, math.nan), (0.0, 1e30)]


@pytest.mark.parametrize("compiled", [False, True], ids=["eager", "compiled"])
def test_places_that_are_none_leave_the_image_its_gradient(compiled):
    """What is warped from behind a camera has coordinates divided by 0."""
    grid = jtorch.tensor([[NOWHERE[:4]]])
    image = jtorch.arange(12.0).reshape(1, 1, 3, 4)

    def sampled(image, mode):
        return F.grid_sample(image, grid, mode, align_corners=False)

    f = jtorch.compile(sampled, fullgraph=True) if compiled else sampled
    for mode in ("bilinear", "nearest", "bicubic"):
        x = image.clone().requires_grad_()
        out = f(x, mode)
        assert (out == 0).all() if mode == "nearest" else out.isnan().all()
        out.sum().backward()
        assert not x.grad.any()


@needs_torch
@pytest.mark.parametrize("align", [False, True])
@pytest.mark.parametrize("mode", ["bilinear", "nearest", "bicubic"])
def test_places_that_are_none_are_those_of_pytorch(mode, align):
    for place in NOWHERE:
        results = []
        for library in (jtorch, torch):
            x = library.arange(1.0, 13.0).reshape(1, 1, 3, 4).requires_grad_()
            grid = library.tensor([[[place]]]).requires_grad_()
            out = library.nn.functional.grid_sample(x, grid, mode, align_corners=align)
            out.sum().backward()
            results.append([t.detach().numpy() for t in (out, x.grad, grid.grad)])
        for ours, theirs in zip(*results, strict=True):
            np.testing.assert_array_equal(ours, theirs)
    x = jtorch.arange(1.0, 13.0).reshape(1, 1, 3, 4)  # PyTorch's backward writes beyond the image here
    at_border = F.grid_sample(x, jtorch.tensor([[[(math.nan, 0.0)]]]), "nearest", "border", align)
    assert at_border.item() == 5.0
    volume = jtorch.ones(1, 1, 2, 2, 2)
    assert (
        F.grid_sample(volume, jtorch.tensor([[[[(math.nan, 0.0, 0.0)]]]]), align_corners=align).item() == 0.0
    )
