"""Normalisation against PyTorch and against its definition."""

from __future__ import annotations

import numpy as np
import pytest

import jtorch
from jtorch.nn import functional as F
from tests.nn.functional.agree import agree, agree_on_error, draw

IMAGE = (3, 4, 5, 2)
CALLS = {
    "layer": (lambda F, x, w, b: F.layer_norm(x, (5, 2), w, b), [IMAGE, (5, 2), (5, 2)]),
    "rms": (lambda F, x, w: F.rms_norm(x, (2,), w), [IMAGE, (2,)]),
    "rms plain": (lambda F, x: F.rms_norm(x, [5, 2], eps=1e-3), [IMAGE]),
    "group": (lambda F, x, w, b: F.group_norm(x, 2, w, b), [IMAGE, (4,), (4,)]),
    "group plain": (lambda F, x: F.group_norm(x, 4, eps=0.1), [IMAGE]),
    "group of one row": (lambda F, x, w: F.group_norm(x, 1, w), [(3, 4), (4,)]),
    "batch": (lambda F, x, w, b: F.batch_norm(x, None, None, w, b, True), [IMAGE, (4,), (4,)]),
    "batch of rows": (lambda F, x: F.batch_norm(x, None, None, training=True, eps=0.1), [(5, 4)]),
    "batch evaluated": (
        lambda F, x, m, w, b: F.batch_norm(x, m.detach(), m.detach() ** 2 + 0.5, w, b), [IMAGE, (4,),
        (4,), (4,)],
    ),
    "instance": (lambda F, x, w, b: F.instance_norm(x, None, None, w, b), [IMAGE, (4,), (4,)]),
    "instance evaluated": (
        lambda F, x, m: F.instance_norm(x, m.detach(), m.detach() ** 2 + 0.5, use_input_stats=False),
        [IMAGE, (4,)],
    ),
    "response": (lambda F, x: F.local_response_norm(x, 2), [IMAGE]),
    "response wide": (lambda F, x: F.local_response_norm(x, 3, 0.5, 0.6, 2.0), [(3, 4, 5)]),
    "strided memory": (lambda F, x: F.batch_norm(x.transpose(2, 3), None, None, training=True), [IMAGE]),
}  # fmt: skip
ERRORS = {
    "one value": (lambda F, x: F.batch_norm(x, None, None, training=True), [(1, 3)]),
    "mean": (lambda F, x, m, v: F.batch_norm(x, m, v), [(4, 3), (2,), (3,)]),
    "weight": (lambda F, x, m, w: F.batch_norm(x, m, m, w), [(4, 3), (3,), (2,)]),
    "no statistics": (lambda F, x: F.batch_norm(x, None, None), [(4, 3)]),
    "groups": (lambda F, x: F.group_norm(x, 2), [(2, 3, 4)]),
    "group weight": (lambda F, x, w: F.group_norm(x, 2, w), [(2, 4, 4), (3,)]),
    "group dims": (lambda F, x: F.group_norm(x, 2), [(2,)]),
    "group of one": (lambda F, x: F.group_norm(x, 2), [(1, 2)]),
    "instance of one": (lambda F, x: F.instance_norm(x), [(2, 3, 1)]),
    "rms shape": (lambda F, x: F.rms_norm(x, (4,)), [(2, 3)]),
    "rms weight": (lambda F, x, w: F.rms_norm(x, (3,), w), [(2, 3), (4,)]),
    "layer shape": (lambda F, x: F.layer_norm(x, (4,)), [(2, 3)]),
    "response dims": (lambda F, x: F.local_response_norm(x, 2), [(2,)]),
}


@pytest.mark.parametrize("name", CALLS)
def test_equals_pytorch(torch, name):
    call, shapes = CALLS[name]
    agree(torch, call, [draw(*shape) for shape in shapes])


@pytest.mark.parametrize("name", ERRORS)
def test_error_is_pytorchs(torch, name):
    call, shapes = ERRORS[name]
    agree_on_error(torch, call, [draw(*shape) for shape in shapes])


def test_mean_and_variance_of_the_batch():
    x = draw(6, 3, 4)
    out = F.batch_norm(jtorch.tensor(x), None, None, training=True, eps=1e-300).numpy()
    np.testing.assert_allclose(out.mean((0, 2)), 0.0, atol=1e-12)
    np.testing.assert_allclose(out.var((0, 2)), 1.0, rtol=1e-12)


@pytest.mark.parametrize("kind", ["batch_norm", "instance_norm"])
def test_running_statistics(torch, kind):
    x = draw(3, 2, 5)
    found = []
    for library in (jtorch, torch):
        mean, variance = library.zeros(2).double(), library.ones(2).double()
        extra = (None, None, True, 0.3)
        getattr(library.nn.functional, kind)(library.tensor(x, requires_grad=True), mean, variance, *extra)
        assert not mean.requires_grad
        found.append((mean.numpy(), variance.numpy()))
    np.testing.assert_allclose(found[0][0], found[1][0], rtol=1e-12)
    np.testing.assert_allclose(found[0][1], found[1][1], rtol=1e-12)


def test_empty_batch():
    x = jtorch.zeros(0, 3, 4, requires_grad=True)
    out = F.batch_norm(x, None, None, training=True)
    out.sum().backward()
    assert out.shape == x.grad.shape == (0, 3, 4)


def test_nan_stays_in_its_channel():
    x = draw(2, 3, 4)
    x[0, 1, 2] = np.nan
    out = F.batch_norm(jtorch.tensor(x), None, None, training=True).numpy()
    assert np.isnan(out[:, 1]).all()
    assert np.isfinite(out[:, [0, 2]]).all()


def test_an_empty_batch_leaves_the_running_statistics() -> None:
    layer = jtorch.nn.BatchNorm1d(2)
    layer.running_mean.fill_(3)
    layer(jtorch.zeros(0, 2))
    assert layer.running_mean.tolist() == [3, 3] and layer.running_var.tolist() == [1, 1]
    assert layer.num_batches_tracked.item() == 1
    image = jtorch.nn.BatchNorm2d(2)
    image(jtorch.zeros(2, 2, 0, 3))
    assert image.running_mean.tolist() == [0, 0] and image.running_var.tolist() == [1, 1]


def test_instances_are_scaled_by_the_weight_from_before_the_update() -> None:
    shared = jtorch.ones(2)
    out = F.instance_norm(jtorch.arange(8.0).reshape(1, 2, 4), shared, shared, shared, shared)
    row = [-0.34163, 0.55279, 1.44721, 2.34163]
    np.testing.assert_allclose(out.numpy(), [[row, row]], atol=1e-5)


@pytest.mark.parametrize("mode", [lambda f: f, jtorch.compile], ids=["eager", "compiled"])
def test_running_statistics_of_16_bits_are_those_of_float32(mode):
    x = jtorch.tensor([[0.0, 1.0], [3000.0, 2.0]]).half()  # a variance of 4,500,000
    for make in (lambda: jtorch.nn.BatchNorm1d(2), lambda: jtorch.nn.BatchNorm1d(2, momentum=None)):
        layer, exact = make(), make()
        out = mode(lambda x, layer=layer: layer(x))(x)
        expected = exact(x.float())
        assert (out.dtype, out.tolist()) == (jtorch.float16, expected.half().tolist())
        assert layer.running_var.tolist() == exact.running_var.tolist()
        assert layer.running_mean.tolist() == exact.running_mean.tolist()
    halved = jtorch.nn.BatchNorm1d(2, momentum=0.01).half()
    mode(lambda x: halved(x))(x)
    assert halved.running_var.tolist() == [44992.0, pytest.approx(0.995, rel=1e-3)]
