"""Pooling against PyTorch."""

from __future__ import annotations

import math

import numpy as np
import pytest

import jtorch
from jtorch.nn import functional as F
from tests.nn.functional.agree import agree, agree_on_error, draw

LINE, IMAGE, VOLUME = (2, 3, 9), (2, 3, 7, 6), (2, 2, 5, 4, 6)
CALLS = {
    "max 1d": (lambda F, x: F.max_pool1d(x, 2), [LINE]),
    "max 1d all": (lambda F, x: F.max_pool1d(x, 3, 2, 1, 2, True, True), [LINE]),
    "max 1d alone": (lambda F, x: F.max_pool1d(x, (2,), return_indices=True), [LINE[1:]]),
    "max 2d": (lambda F, x: F.max_pool2d(x, 2), [IMAGE]),
    "max 2d one": (lambda F, x: F.max_pool2d(x, 1), [IMAGE]),
    "max 2d indices": (lambda F, x: F.max_pool2d(x, (2, 3), return_indices=True), [IMAGE]),
    "max 2d all": (lambda F, x: F.max_pool2d(x, 3, (2, 1), 1, (1, 2), False, True), [IMAGE]),
    "max 2d ceil": (lambda F, x: F.max_pool2d(x, 2, 2, 0, 1, True, True), [IMAGE]),
    "max 2d ceil border": (lambda F, x: F.max_pool2d(x, 3, 4, 1, 1, True, True), [IMAGE]),
    "max 2d alone": (lambda F, x: F.max_pool2d(x, 2, 1, return_indices=True), [IMAGE[1:]]),
    "max 2d empty": (lambda F, x: F.max_pool2d(x, 2), [(0, 3, 4, 4)]),
    "max 2d strided memory": (lambda F, x: F.max_pool2d(x.transpose(2, 3), 2), [IMAGE]),
    "max 3d": (lambda F, x: F.max_pool3d(x, 2, return_indices=True), [VOLUME]),
    "max 3d all": (lambda F, x: F.max_pool3d(x, (3, 2, 3), 2, (1, 0, 1), 1, True, True), [VOLUME]),
    "avg 1d": (lambda F, x: F.avg_pool1d(x, 2), [LINE]),
    "avg 1d all": (lambda F, x: F.avg_pool1d(x, 3, 2, 1, True, False), [LINE]),
    "avg 1d alone": (lambda F, x: F.avg_pool1d(x, 3), [LINE[1:]]),
    "avg 2d": (lambda F, x: F.avg_pool2d(x, 2), [IMAGE]),
    "avg 2d ceil": (lambda F, x: F.avg_pool2d(x, 2, 2, 0, True), [IMAGE]),
    "avg 2d ceil border": (lambda F, x: F.avg_pool2d(x, 3, 4, 1, True), [IMAGE]),
    "avg 2d ceil inside": (lambda F, x: F.avg_pool2d(x, 3, 4, 1, True, False), [IMAGE]),
    "avg 2d divisor": (lambda F, x: F.avg_pool2d(x, 3, 2, 1, True, True, 5), [IMAGE]),
    "avg 2d large ceil": (lambda F, x: F.avg_pool2d(x, 5, 3, 2, True), [IMAGE]),
    "avg 2d large remainder": (lambda F, x: F.avg_pool2d(x, 5, 3), [(1, 1, 9, 7)]),
    "avg 3d": (lambda F, x: F.avg_pool3d(x, 2), [VOLUME]),
    "avg 3d all": (lambda F, x: F.avg_pool3d(x, (3, 2, 3), 2, (1, 0, 1), True, False, None), [VOLUME]),
    "avg 3d alone": (lambda F, x: F.avg_pool3d(x, 2, divisor_override=3), [VOLUME[1:]]),
    "lp 1d": (lambda F, x: F.lp_pool1d(x, 2, 3), [LINE]),
    "lp 2d": (lambda F, x: F.lp_pool2d(x.abs() + 0.1, 3.0, (2, 3), 2, True), [IMAGE]),
    "lp 3d": (lambda F, x: F.lp_pool3d(x, 2.0, 2), [VOLUME]),
    "adaptive avg 1d": (lambda F, x: F.adaptive_avg_pool1d(x, 4), [LINE]),
    "adaptive avg 1d even": (lambda F, x: F.adaptive_avg_pool1d(x, 3), [LINE]),
    "adaptive avg 1d alone": (lambda F, x: F.adaptive_avg_pool1d(x, 2), [LINE[1:]]),
    "adaptive avg 2d": (lambda F, x: F.adaptive_avg_pool2d(x, (3, 4)), [IMAGE]),
    "adaptive avg 2d one": (lambda F, x: F.adaptive_avg_pool2d(x, 1), [IMAGE]),
    "adaptive avg 2d grows": (lambda F, x: F.adaptive_avg_pool2d(x, (9, None)), [IMAGE]),
    "adaptive avg 2d none": (lambda F, x: F.adaptive_avg_pool2d(x.detach(), 0), [IMAGE]),
    "adaptive avg 3d": (lambda F, x: F.adaptive_avg_pool3d(x, (2, 2, 4)), [VOLUME]),
    "adaptive max 1d": (lambda F, x: F.adaptive_max_pool1d(x, 4, True), [LINE]),
    "adaptive max 2d": (lambda F, x: F.adaptive_max_pool2d(x, (3, 4), True), [IMAGE]),
    "adaptive max 2d even": (lambda F, x: F.adaptive_max_pool2d(x, (7, 2)), [IMAGE]),
    "adaptive max 2d alone": (lambda F, x: F.adaptive_max_pool2d(x, 2, True), [IMAGE[1:]]),
    "adaptive max 3d": (lambda F, x: F.adaptive_max_pool3d(x, 3, True), [VOLUME]),
    "adaptive max 1d no batch": (lambda F, x: F.adaptive_max_pool1d(x, 2, True), [(0, 2, 4)]),
    "adaptive max 2d no batch": (lambda F, x: F.adaptive_max_pool2d(x, 2, True), [(0, 2, 4, 4)]),
    "adaptive max 3d no batch": (lambda F, x: F.adaptive_max_pool3d(x, 2, True), [(0, 2, 4, 4, 4)]),
    "unpool 1d no batch": (
        lambda F, x: F.max_unpool1d(*F.max_pool1d(x, 2, return_indices=True), 2),
        [(0, 2, 4)],
    ),
    "unpool 2d no batch": (
        lambda F, x: F.max_unpool2d(*F.max_pool2d(x, 2, return_indices=True), 2),
        [(0, 2, 4, 4)],
    ),
    "unpool 1d": (lambda F, x: F.max_unpool1d(*F.max_pool1d(x, 2, return_indices=True), 2), [LINE]),
    "unpool 2d": (
        lambda F, x: F.max_unpool2d(*F.max_pool2d(x, 2, return_indices=True), 2, output_size=x.shape),
        [IMAGE],
    ),
    "unpool 2d alone": (
        lambda F, x: F.max_unpool2d(*F.max_pool2d(x, 2, 2, 1, return_indices=True), 2, 2, 1),
        [(2, 6, 6)],
    ),
    "unpool 3d": (
        lambda F, x: F.max_unpool3d(*F.max_pool3d(x, 2, return_indices=True), 2, output_size=(5, 4, 6)),
        [VOLUME],
    ),
}
ERRORS = {
    f"{kind} {name}": (call, [(1, 2, *(5,) * rank)], kind, rank)
    for kind in ("max", "avg")
    for rank in (1, 2, 3)
    for name, call in {
        "dims": lambda f, x: f(x[0, 0], 2),
        "kernel": lambda f, x: f(x, 0),
        "stride": lambda f, x: f(x, 2, 0),
        "pad": lambda f, x: f(x, 2, None, 2),
        "negative pad": lambda f, x: f(x, 2, None, -1),
        "small": lambda f, x: f(x, 7),
    }.items()
    if (kind, rank, name) not in (("avg", 2, "dims"), ("avg", 3, "small"))
    for name in [f"{rank}d {name}"]
}
MORE_ERRORS = {
    "dilation": (lambda F, x: F.max_pool2d(x, 2, dilation=0), [IMAGE]),
    "dilation 3d": (lambda F, x: F.max_pool3d(x, 2, dilation=0), [VOLUME]),
    "dilation 1d": (lambda F, x: F.max_pool1d(x, 2, dilation=0), [LINE]),
    "kernels": (lambda F, x: F.max_pool2d(x, (2, 2, 2)), [IMAGE]),
    "kernels 1d": (lambda F, x: F.max_pool1d(x, (2, 2)), [LINE]),
    "strides 3d": (lambda F, x: F.max_pool3d(x, 2, (1, 1)), [VOLUME]),
    "divisor": (lambda F, x: F.avg_pool2d(x, 2, divisor_override=0), [IMAGE]),
    "adaptive dims": (lambda F, x: F.adaptive_avg_pool2d(x, 2), [(5, 5)]),
    "adaptive max dims": (lambda F, x: F.adaptive_max_pool3d(x, 2), [(5, 5)]),
    "adaptive sizes": (lambda F, x: F.adaptive_avg_pool2d(x, (2, 2, 2)), [IMAGE]),
    "adaptive max sizes": (lambda F, x: F.adaptive_max_pool2d(x, (2, 2, 2)), [IMAGE]),
    "adaptive empty": (lambda F, x: F.adaptive_avg_pool2d(x[..., :0], 2), [IMAGE]),
    "unpool shapes": (lambda F, x, i: F.max_unpool2d(x, i.long(), 2), [(1, 1, 2, 2), (1, 1, 2, 3)]),
    "unpool size": (
        lambda F, x, i: F.max_unpool2d(x, i.long(), 2, output_size=(9, 9)), [(1, 1, 2, 2), (1, 1, 2, 2)],
    ),
}  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("name", CALLS)
def test_equals_pytorch(torch, name):
    call, shapes = CALLS[name]
    agree(torch, call, [draw(*shape) for shape in shapes])


@pytest.mark.parametrize("name", ERRORS)
def test_error_is_pytorchs(torch, name):
    call, shapes, kind, rank = ERRORS[name]
    agree_on_error(
        torch, lambda F, x: call(getattr(F, f"{kind}_pool{rank}d"), x), [draw(*shape) for shape in shapes]
    )


@pytest.mark.parametrize("name", MORE_ERRORS)
def test_other_error_is_pytorchs(torch, name):
    call, shapes = MORE_ERRORS[name]
    agree_on_error(torch, call, [draw(*shape) for shape in shapes])


SPECIAL = np.array([[1.0, np.nan, 3.0, np.nan], [-np.inf, -np.inf, np.inf, 2.0], [0.0, -0.0, 5.0, 5.0]])


@pytest.mark.parametrize("name", ["max_pool1d", "adaptive_max_pool1d", "avg_pool1d", "adaptive_avg_pool1d"])
def test_special_values(torch, name):
    agree(torch, lambda F, x: getattr(F, name)(x, 2), [SPECIAL])


def test_the_first_of_equals_gets_the_gradient(torch):
    agree(torch, lambda F, x: F.max_pool2d(x, 2, 1, return_indices=True), [np.zeros((1, 1, 4, 4))])
    agree(torch, lambda F, x: F.adaptive_max_pool2d(x, 2, True), [np.zeros((1, 1, 3, 3))])


def test_whole_numbers():
    x = jtorch.arange(16).reshape(1, 4, 4)
    assert F.max_pool2d(x, 2).tolist() == [[[5, 7], [13, 15]]]
    with pytest.raises(NotImplementedError, match="convert to a float dtype"):
        F.avg_pool2d(x.int(), 2)


@pytest.mark.parametrize(("norm", "expected"), [(np.inf, [3, 3, 5, 7]), (-np.inf, [1, 2, 4, 6])])
def test_infinite_norms_of_windows_are_extremes(norm: float, expected: list) -> None:
    x = jtorch.tensor([[[1.0, -3, -2, 3, 4, 5, -6, 7]]])
    assert F.lp_pool1d(x, norm, 2).tolist() == [[expected]]
    assert F.lp_pool2d(x.reshape(1, 1, 8, 1), norm, (2, 1)).flatten().tolist() == expected
    assert F.lp_pool3d(x.reshape(1, 1, 8, 1, 1), norm, (2, 1, 1)).flatten().tolist() == expected


@pytest.mark.slow
@pytest.mark.parametrize("mode", [lambda f: f, jtorch.compile], ids=["eager", "compiled"])
def test_of_windows_of_minus_infinity_the_first_element_inside_counts(mode):
    """Small images are pooled by NumPy, large ones by a loop of their own."""
    F = jtorch.nn.functional
    line = jtorch.full((1, 1, 4), -math.inf)
    out, index = mode(lambda x: F.max_pool1d(x, 3, 2, padding=1, return_indices=True))(line)
    assert (out.tolist(), index.tolist()) == ([[[-math.inf] * 2]], [[[0, 1]]])
    slope = mode(lambda x: jtorch.func.grad(lambda t: F.max_pool1d(t, 3, 2, padding=1).sum())(x))(line)
    assert slope.tolist() == [[[1.0, 1.0, 0.0, 0.0]]]
    for n in (5, 80):
        images = jtorch.full((1, 1, n, n), -math.inf)
        pooled, index = mode(lambda x: F.max_pool2d(x, 3, 2, padding=1, dilation=1, return_indices=True))(
            images
        )
        begins = [max(0, 2 * k - 1) for k in range(pooled.shape[-1])]
        assert index[0, 0].tolist() == [[i * n + j for j in begins] for i in begins]
        back = F.max_unpool2d(pooled, index, 3, 2, padding=1, output_size=(n, n))
        assert back.isinf().sum().item() == index.numel()
    dilated = mode(lambda x: F.max_pool1d(x, 3, 1, padding=1, dilation=2, return_indices=True))(line[..., :3])
    assert dilated[1].tolist() == [[[1]]]


def test_images_of_bfloat16_know_values_below_those_of_int16():
    x = jtorch.full((1, 1, 4), -1e5).bfloat16()
    assert jtorch.nn.functional.max_pool1d(x, 3, 2, padding=1).tolist() == [[[-99840.0, -99840.0]]]
    x[0, 0, 1] = math.nan
    assert jtorch.nn.functional.max_pool1d(x, 3, 2, padding=1).isnan().all()


WHOLE = [
    (rank, kernel, options)
    for rank in (1, 2, 3)
    for kernel, options in (
        (2, {}), (3, {"stride": 2, "padding": 1}),
        (3, {"stride": 2, "padding": 1, "count_include_pad": False}),
        (2, {"stride": 3, "ceil_mode": True}), (3, {"stride": 2, "padding": 1, "ceil_mode": True}),
        (2, {"divisor_override": 3}),
    )
    if rank > 1 or "divisor_override" not in options
]  # fmt: skip


@pytest.mark.parametrize("wrap", [lambda f: f, lambda f: jtorch.compile(f, fullgraph=True)])
def test_means_of_int64_are_pytorchs(wrap):
    torch = pytest.importorskip("torch")
    for rank, kernel, options in WHOLE:
        x = np.random.default_rng(0).integers(-50, 50, (2, 3) + (5, 6, 7)[:rank])
        function = wrap(lambda x, r=rank, k=kernel, o=options: getattr(F, f"avg_pool{r}d")(x, k, **o))
        expected = getattr(torch.nn.functional, f"avg_pool{rank}d")(torch.tensor(x), kernel, **options)
        for given, want in ((x, expected), (x[0], expected[0])):
            assert function(jtorch.tensor(given)).tolist() == want.tolist(), (rank, kernel, options)


def test_means_of_int64_lose_their_fraction():
    x = jtorch.tensor([[[1, 2, -1, -2]]])
    assert F.avg_pool1d(x, 2).tolist() == [[[1, -1]]]
    big = jtorch.tensor([[[2**62 + 1, -1]]])
    assert F.avg_pool1d(big, 2).item() == 2**61  # no float has it on the way


@pytest.mark.parametrize("library", ["jtorch", "torch"])
def test_means_of_other_integers_are_refused(library):
    L = pytest.importorskip(library)
    for dtype, name in (("int32", "Int"), ("int8", "Char"), ("uint8", "Byte"), ("bool", "Bool")):
        x = L.ones(1, 1, 4, 4, 4).to(getattr(L, dtype))
        with pytest.raises(NotImplementedError, match=f"\"avg_pool2d\" not implemented for '{name}'"):
            L.nn.functional.avg_pool2d(x[0], 2)
        with pytest.raises(
            NotImplementedError, match=f"\"avg_pool3d_out_frame\" not implemented for '{name}'"
        ):
            L.nn.functional.avg_pool3d(x, 2)
    with pytest.raises(NotImplementedError, match="\"adaptive_avg_pool2d\" not implemented for 'Long'"):
        L.nn.functional.adaptive_avg_pool2d(L.ones(1, 1, 4, 4, dtype=L.int64), 2)
