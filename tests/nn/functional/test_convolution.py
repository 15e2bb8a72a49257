"""Convolutions against PyTorch and against their definition."""

from __future__ import annotations

import numpy as np
import pytest

import jtorch
from jtorch.nn import functional as F
from tests.nn.functional.agree import agree, agree_on_error, draw

LINE, IMAGE, VOLUME = (2, 4, 9), (2, 4, 7, 6), (2, 4, 5, 4, 6)
CALLS = {
    "1d": (lambda F, x, w, b: F.conv1d(x, w, b), [LINE, (6, 4, 3), (6,)]),
    "1d all": (lambda F, x, w: F.conv1d(x, w, None, 2, 3, 2, 2), [LINE, (6, 2, 3)]),
    "1d alone": (lambda F, x, w: F.conv1d(x, w), [LINE[1:], (6, 4, 3)]),
    "2d": (lambda F, x, w, b: F.conv2d(x, w, b), [IMAGE, (3, 4, 3, 2), (3,)]),
    "2d pairs": (lambda F, x, w: F.conv2d(x, w, None, (2, 1), (1, 2), (2, 1)), [IMAGE, (3, 4, 3, 2)]),
    "2d depthwise": (lambda F, x, w, b: F.conv2d(x, w, b, groups=4), [IMAGE, (8, 1, 3, 3), (8,)]),
    "2d same": (lambda F, x, w: F.conv2d(x, w, padding="same", dilation=(1, 2)), [IMAGE, (3, 4, 4, 3)]),
    "2d valid": (lambda F, x, w: F.conv2d(x, w, padding="valid"), [IMAGE, (3, 4, 4, 3)]),
    "2d remainder": (lambda F, x, w: F.conv2d(x, w, stride=4), [IMAGE, (3, 4, 2, 1)]),
    "2d alone": (lambda F, x, w: F.conv2d(x, w, padding=1), [IMAGE[1:], (3, 4, 3, 3)]),
    "2d one number in a list": (
        lambda F, x, w: F.conv2d(x, w, padding=[1], stride=[2]),
        [IMAGE, (3, 4, 3, 3)],
    ),
    "2d empty": (lambda F, x, w: F.conv2d(x, w), [(0, 4, 7, 6), (3, 4, 3, 3)]),
    "2d strided memory": (lambda F, x, w: F.conv2d(x.transpose(2, 3), w.flip(3)), [IMAGE, (3, 4, 3, 3)]),
    "3d": (lambda F, x, w, b: F.conv3d(x, w, b), [VOLUME, (3, 4, 2, 3, 2), (3,)]),
    "3d all": (lambda F, x, w: F.conv3d(x, w, None, (1, 2, 1), 1, (2, 1, 2), 2), [VOLUME, (4, 2, 2, 3, 2)]),
    "3d same": (lambda F, x, w: F.conv3d(x, w, padding="same"), [VOLUME, (3, 4, 2, 3, 2)]),
    "transposed 1d": (lambda F, x, w, b: F.conv_transpose1d(x, w, b), [LINE, (4, 3, 3), (3,)]),
    "transposed 1d all": (lambda F, x, w: F.conv_transpose1d(x, w, None, 3, 2, 2, 2, 2), [LINE, (4, 3, 4)]),
    "transposed 2d": (lambda F, x, w, b: F.conv_transpose2d(x, w, b), [IMAGE, (4, 3, 3, 2), (3,)]),
    "transposed 2d all": (
        lambda F, x, w, b: F.conv_transpose2d(x, w, b, (2, 3), (1, 2), (1, 2), 2, (1, 2)),
        [IMAGE, (4, 3, 3, 2), (6,)],
    ),
    "transposed 2d beyond the stride": (
        lambda F, x, w, b: F.conv_transpose2d(x, w, b, 1, 0, (0, 1), dilation=3),
        [IMAGE, (4, 3, 2, 2), (3,)],
    ),
    "transposed 2d alone": (lambda F, x, w: F.conv_transpose2d(x, w, stride=2), [IMAGE[1:], (4, 3, 2, 2)]),
    "transposed 3d": (lambda F, x, w: F.conv_transpose3d(x, w, None, 2, 1, 1), [VOLUME, (4, 2, 3, 2, 3)]),
    "unfold": (lambda F, x: F.unfold(x, (3, 2)), [IMAGE]),
    "unfold all": (lambda F, x: F.unfold(x, 2, (2, 1), (0, 1), (1, 2)), [IMAGE]),
    "unfold alone": (lambda F, x: F.unfold(x, 2), [IMAGE[1:]]),
    "fold": (lambda F, x: F.fold(x, (3, 4), 2), [(2, 8, 6)]),
    "fold all": (lambda F, x: F.fold(x, (7, 6), 2, (2, 1), (0, 1), (1, 2)), [(2, 8, 20)]),
    "fold alone": (lambda F, x: F.fold(x, 3, 2), [(4, 4)]),
}
ERRORS = {
    "dims": (lambda F, x, w: F.conv1d(x, w), [(5,), (1, 1, 2)]),
    "dims 2d": (lambda F, x, w: F.conv2d(x, w), [(2, 3, 4, 5, 6), (1, 1, 2, 2)]),
    "weight": (lambda F, x, w: F.conv1d(x, w), [(1, 1, 5), (1, 1, 2, 2)]),
    "channels": (lambda F, x, w: F.conv2d(x, w), [(2, 1, 5, 5), (1, 2, 2, 2)]),
    "groups": (lambda F, x, w: F.conv2d(x, w, groups=0), [(2, 1, 5, 5), (1, 1, 2, 2)]),
    "groups of outputs": (lambda F, x, w: F.conv2d(x, w, groups=2), [(2, 2, 5, 5), (3, 1, 2, 2)]),
    "few outputs": (lambda F, x, w: F.conv2d(x, w, groups=2), [(2, 2, 5, 5), (1, 1, 2, 2)]),
    "bias": (lambda F, x, w, b: F.conv2d(x, w, b), [(2, 1, 5, 5), (1, 1, 2, 2), (2,)]),
    "stride": (lambda F, x, w: F.conv2d(x, w, stride=0), [(1, 1, 5, 5), (1, 1, 2, 2)]),
    "strides": (lambda F, x, w: F.conv2d(x, w, stride=(1, 1, 1)), [(1, 1, 5, 5), (1, 1, 2, 2)]),
    "dilation": (lambda F, x, w: F.conv2d(x, w, dilation=0), [(1, 1, 5, 5), (1, 1, 2, 2)]),
    "padding": (lambda F, x, w: F.conv2d(x, w, padding=-1), [(1, 1, 5, 5), (1, 1, 2, 2)]),
    "paddings": (lambda F, x, w: F.conv2d(x, w, padding=(1, 1, 1)), [(1, 1, 5, 5), (1, 1, 2, 2)]),
    "padding word": (lambda F, x, w: F.conv2d(x, w, padding="foo"), [(1, 1, 5, 5), (1, 1, 2, 2)]),
    "same strided": (lambda F, x, w: F.conv2d(x, w, padding="same", stride=2), [(1, 1, 5, 5), (1, 1, 2, 2)]),
    "no kernel": (lambda F, x, w: F.conv2d(x, w), [(1, 2, 5, 5), (2, 2, 0, 3)]),
    "no kernel 1d": (lambda F, x, w: F.conv1d(x, w), [(1, 2, 5), (2, 2, 0)]),
    "no transposed kernel": (lambda F, x, w: F.conv_transpose1d(x, w), [(1, 2, 5), (2, 2, 0)]),
    "large kernel": (lambda F, x, w: F.conv2d(x, w, padding=1), [(1, 1, 3, 5), (1, 1, 7, 2)]),
    "large kernel 1d": (lambda F, x, w: F.conv1d(x, w, dilation=3), [(1, 1, 6), (1, 1, 3)]),
    "transposed channels": (lambda F, x, w: F.conv_transpose2d(x, w), [(2, 3, 5, 5), (2, 2, 2, 2)]),
    "transposed bias": (lambda F, x, w, b: F.conv_transpose2d(x, w, b), [(2, 2, 5, 5), (2, 2, 2, 2), (3,)]),
    "transposed groups": (lambda F, x, w: F.conv_transpose2d(x, w, groups=3), [(2, 2, 5, 5), (2, 2, 2, 2)]),
    "unfold": (lambda F, x: F.unfold(x, 3), [(1, 1, 2, 2)]),
    "fold channels": (lambda F, x: F.fold(x, (3, 3), 2), [(1, 5, 4)]),
    "fold blocks": (lambda F, x: F.fold(x, (3, 3), 2), [(1, 4, 5)]),
    "fold dims": (lambda F, x: F.fold(x, (3, 3), 2), [(4,)]),
}


@pytest.mark.parametrize("name", CALLS)
def test_equals_pytorch(torch, name):
    call, shapes = CALLS[name]
    agree(torch, call, [draw(*shape) for shape in shapes])


@pytest.mark.parametrize("name", ERRORS)
def test_error_is_pytorchs(torch, name):
    call, shapes = ERRORS[name]
    agree_on_error(torch, call, [draw(*shape) for shape in shapes])


def test_output_padding_is_smaller_than_stride_or_dilation():
    with pytest.raises(RuntimeError, match="output padding must be smaller than either stride or dilation"):
        F.conv_transpose2d(jtorch.ones(1, 1, 2, 2), jtorch.ones(1, 1, 2, 2), output_padding=1)


def test_dtypes_must_agree():
    with pytest.raises(RuntimeError, match=r"Input type .* and weight type .* should be the same"):
        F.conv1d(jtorch.ones(1, 1, 3), jtorch.ones(1, 1, 2).double())


def test_definition():
    x, w = draw(2, 3, 5, 4), draw(2, 3, 2, 3)
    expected = np.zeros((2, 2, 4, 2))
    for i, j in np.ndindex(4, 2):
        expected[:, :, i, j] = np.einsum("nchw,ochw->no", x[:, :, i : i + 2, j : j + 3], w)
    out = F.conv2d(jtorch.tensor(x), jtorch.tensor(w))
    np.testing.assert_allclose(out.numpy(), expected, rtol=1e-12)


def test_transposed_is_the_adjoint():
    """<conv(x), y> = <x, conv_transpose(y)>"""
    x, w, y = map(jtorch.tensor, (draw(2, 3, 6, 5), draw(4, 3, 3, 2), draw(2, 4, 3, 5)))
    at = {"stride": (2, 1), "padding": (1, 0), "dilation": (1, 1)}
    there = F.conv2d(x, w, **at)
    back = F.conv_transpose2d(y[:, :, : there.shape[2], : there.shape[3]], w, output_padding=(1, 0), **at)
    left = (there * y[:, :, : there.shape[2], : there.shape[3]]).sum()
    np.testing.assert_allclose(left.item(), (x * back).sum().item(), rtol=1e-10)


@pytest.mark.parametrize("special", [np.nan, np.inf])
def test_special_values_stay_in_their_windows(special):
    x = np.ones((1, 1, 5, 5))
    x[0, 0, 0, 0] = special
    out = F.conv2d(jtorch.tensor(x), jtorch.ones(1, 1, 2, 2).double()).numpy()
    assert np.isfinite(out).sum() == 15
    assert not np.isfinite(out[0, 0, 0, 0])


def test_second_derivative():
    x = jtorch.tensor(draw(1, 2, 4), requires_grad=True)
    w = jtorch.tensor(draw(2, 2, 2), requires_grad=True)
    assert jtorch.autograd.gradcheck(lambda x, w: F.conv1d(x, w, stride=2, padding=1), (x, w))
    assert jtorch.autograd.gradgradcheck(lambda x, w: F.conv1d(x, w, stride=2, padding=1), (x, w))
    assert jtorch.autograd.gradgradcheck(lambda x, w: F.conv_transpose1d(x, w, stride=2), (x, w))


@pytest.mark.parametrize(
    "geometry",
    [
        {"stride": 2, "padding": 2, "output_padding": 3, "dilation": 4},
        {"stride": 2, "padding": 1, "output_padding": 3, "dilation": 4},
        {"stride": 1, "padding": 3, "output_padding": 2, "dilation": 4},
        {"stride": 2, "padding": 0, "output_padding": 3, "dilation": 4},
        {"stride": 3, "padding": 1, "output_padding": 2, "dilation": 1},
    ],
)
def test_output_padding_of_a_stride_and_more_uncovers_what_padding_cuts(geometry: dict) -> None:
    ones = jtorch.ones(1, 1, 2, requires_grad=True)
    found = F.conv_transpose1d(jtorch.tensor([[[1.0, 2.0]]]), ones, **geometry)
    s, p, e, d = (geometry[k] for k in ("stride", "padding", "output_padding", "dilation"))
    whole = np.zeros(s + d + 1 + e)
    for k, x in enumerate((1.0, 2.0)):
        whole[[k * s, k * s + d]] += x
    expected = whole[p : p + s + d + 1 - 2 * p + e]
    assert found.flatten().tolist() == expected.tolist()
    weights = jtorch.arange(float(len(expected)))
    (found.flatten() * weights).sum().backward()
    inside = np.concatenate([np.zeros(p), weights.numpy(), np.zeros(len(whole))])
    slopes = [sum(x * inside[k * s + tap * d] for k, x in enumerate((1.0, 2.0))) for tap in (0, 1)]
    assert ones.grad.flatten().tolist() == slopes
