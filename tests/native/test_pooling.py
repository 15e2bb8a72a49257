"""Kernels of max pooling give, to the bit, what the composite gives."""

from __future__ import annotations

import numpy as np
import pytest

import jtorch
import jtorch.nn.functional as F
from jtorch.core import higher
from jtorch.native import loops, pooling
from tests.machine_code import needs_kernels

pytestmark = needs_kernels
INF = float("inf")


def _images(kind, dtype):
    rng = np.random.default_rng(0)
    x = rng.standard_normal((2, 3, 9, 11)).astype(dtype)
    if kind == "ties":
        x = np.round(x)
    elif kind == "nan and inf":
        x[rng.random(x.shape) < 0.2] = np.nan
        x[rng.random(x.shape) < 0.3] = -INF
        x[rng.random(x.shape) < 0.1] = INF
    return x


def _pooled(x, **geometry):
    t = jtorch.tensor(x, requires_grad=True)
    out, index = F.max_pool2d(t, return_indices=True, **geometry)
    # numbers whose sums are rounded: their order counts
    out.backward((jtorch.arange(out.numel(), dtype=t.dtype) / 7).sin().reshape(out.shape))
    return out.detach().numpy(), index.numpy(), t.grad.numpy()


GEOMETRIES = [
    {"kernel_size": 2},
    {"kernel_size": 2, "stride": 1},
    {"kernel_size": 3, "stride": 2, "padding": 1},
    {"kernel_size": (3, 2), "stride": (1, 2), "dilation": (2, 1)},
    {"kernel_size": (1, 3), "stride": (3, 2), "ceil_mode": True},
    {"kernel_size": 2, "ceil_mode": True},
]


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["plain", "ties", "nan and inf"])
@pytest.mark.parametrize("geometry", GEOMETRIES, ids=str)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_as_the_composite(dtype, geometry, kind, monkeypatch):
    x = _images(kind, dtype)
    calls = []

    def noting(entry, *arguments):
        found = loop(entry, *arguments)
        calls.append((entry, found is not None))
        return found

    loop = pooling._loop
    monkeypatch.setattr(pooling, "_loop", noting)
    for given in (x, x.swapaxes(2, 3), x[:, :, ::-1]):
        ours = _pooled(given, **geometry)
        assert calls[-2:] == [("max_pool", True), ("max_unpool", True)]
        with monkeypatch.context() as patch:
            patch.setattr(higher, "pooling", None)
            theirs = _pooled(given, **geometry)
        for a, b in zip(ours, theirs, strict=True):
            np.testing.assert_array_equal(a, b)


def test_what_is_small_or_of_another_kind_is_left_to_numpy():
    geometry = (2, 2), (2, 2), (0, 0), (1, 1)
    big = np.ones((4, 4, 32, 32), np.float32)
    assert pooling.max_pool(big, (16, 16), *geometry) is not None
    assert pooling.max_pool(big[:1, :1, :4, :4], (2, 2), *geometry) is None
    assert pooling.max_pool(big.astype(np.float16), (16, 16), *geometry) is None
    assert pooling.max_pool(big.astype(np.int32), (16, 16), *geometry) is None
    assert pooling.max_pool(np.ones((0, 4, 32, 32), np.float32), (16, 16), *geometry) is None
    wide = (12, 12), (1, 1), *geometry[2:]
    assert pooling.max_pool(big, (21, 21), *wide) is None  # more positions than an int8 tells apart


def test_what_hooks_make_of_gradients_and_positions_stays_in_bounds():
    x = jtorch.ones(1, 4, 64, 64, requires_grad=True)
    out = F.max_pool2d(x, 2)
    out.grad_fn.register_prehook(lambda g: (jtorch.full((1,), 7.0), *g[1:]))
    out.sum().backward()
    assert set(x.grad.unique().tolist()) == {0.0, 7.0}
    for stride in (1, 3):
        x.grad = None

        def unpack(a):
            return jtorch.full_like(a, 127) if a.dtype is jtorch.int8 else a

        with jtorch.autograd.graph.saved_tensors_hooks(lambda a: a, unpack):
            out = F.max_pool2d(x, 3, stride=stride)
        out.sum().backward()
        assert x.grad.isfinite().all()
    with jtorch.autograd.graph.saved_tensors_hooks(
        lambda a: a, lambda a: a[:1, :1, :2, :2] if a.dtype is jtorch.int8 else a
    ):
        out = F.max_pool2d(x, 2)
    with pytest.raises((ValueError, RuntimeError)):
        out.sum().backward()


@pytest.mark.slow
@pytest.mark.parametrize("geometry", [(2,), (3, 1, 1), (3, 2, 1, 2)])
def test_lines_as_the_composite(geometry, monkeypatch):
    x = _images("nan and inf", np.float32)[0, 0]
    for given in (x, x.T, x[:, ::-1]):
        found = []
        for kernels in (higher.pooling, None):
            monkeypatch.setattr(higher, "pooling", kernels)
            t = jtorch.tensor(given[None], requires_grad=True)
            out, index = F.max_pool1d(t, *geometry, return_indices=True)
            out.nan_to_num().sum().backward()
            found.append((out.detach().numpy(), index.numpy(), t.grad.numpy()))
        for a, b in zip(*found, strict=True):
            np.testing.assert_array_equal(a, b)


def test_volumes_and_sequences():
    for pool, shape in ((F.max_pool1d, (4, 8, 256)), (F.max_pool3d, (2, 4, 8, 16, 16))):
        x = jtorch.rand(*shape, requires_grad=True)
        out = pool(x, 2)
        out.sum().backward()
        assert x.grad.sum().item() == out.numel()


@pytest.mark.parametrize("setting", ["JTORCH_JIT", "JTORCH_CACHE"])
def test_without_kernels_numpy_pools(setting, monkeypatch):
    monkeypatch.setenv(setting, "0")
    loops.KNOWN.clear()
    loops._kernel.cache_clear()
    x = np.random.default_rng(0).standard_normal((4, 4, 32, 32)).astype(np.float32)
    geometry = (2, 2), (2, 2), (0, 0), (1, 1)
    assert pooling.max_pool(x, (16, 16), *geometry) is None
    out, _, _ = _pooled(x, kernel_size=2)
    np.testing.assert_array_equal(out, x.reshape(4, 4, 16, 2, 16, 2).max((3, 5)))
    monkeypatch.undo()
    assert pooling.max_pool(x, (16, 16), *geometry) is not None  # that there was none is not kept
