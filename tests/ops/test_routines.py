"""NumPy's routines of their own for some ops give what the bodies of the ops say."""

from __future__ import annotations

import numpy as np
import pytest

import jtorch
import jtorch.nn.functional as F
from jtorch.core.op import BY_NAME
from jtorch.ops import xp
from jtorch.ops.xp import _linear, _softmax, elementwise

INF, NAN = float("inf"), float("nan")


@pytest.fixture(autouse=True)
def of_any_size(monkeypatch):
    monkeypatch.setattr(_softmax, "WORTHWHILE", 1)


def _softmax_of(x, axis):
    x = x.astype(np.float64)
    with np.errstate(invalid="ignore"):
        e = np.exp(x - x.max(axis, keepdims=True))
        return e / e.sum(axis, keepdims=True)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("axis", [0, 1, 2])
@pytest.mark.parametrize(
    "extremes", [(), (59.5, -59.5), (61.0,), (-61.0,), (700.0, -700.0), (1e30,), (INF,), (-INF,), (NAN,)]
)
def test_softmax(extremes, axis, dtype):
    x = np.random.default_rng(0).standard_normal((4, 5, 6)).astype(dtype)
    for k, value in enumerate(extremes):
        x[k, k, k] = value
    given = x.copy()
    assert _softmax.applies(x, (axis,)) == all(abs(v) <= 60 for v in extremes)
    tolerance = 4 * np.finfo(dtype).eps
    found = F.softmax(jtorch.from_numpy(x), axis).numpy()
    assert found.dtype == dtype and np.array_equal(x, given, equal_nan=True)
    np.testing.assert_allclose(found, _softmax_of(x, axis), rtol=tolerance, atol=1e-20)


@pytest.mark.parametrize("shape", [(), (1,), (3, 1), (0, 3), (3, 0), (2, 0, 3)])
def test_softmax_of_odd_shapes_and_its_gradient(shape):
    x = jtorch.rand(shape, dtype=jtorch.float64, requires_grad=True)
    for dim in range(len(shape)) or (0,):
        out = x.softmax(dim)
        assert out.shape == shape
        x.grad = None
        g = jtorch.arange(out.numel(), dtype=jtorch.float64).reshape(shape)
        out.backward(g)
        expected = (g - (g * out).sum(dim, keepdim=True)) * out
        np.testing.assert_allclose(x.grad.numpy(), expected.detach().numpy(), rtol=1e-12, atol=1e-15)


def test_softmax_writes_over_what_is_its_own_alone():
    x = np.ones((2, 3), np.float32)
    assert _softmax.forward(x, (1,), own=False) is not x and x[0, 0] == 1
    assert _softmax.forward(x, (1,), own=True) is x
    g, out = np.ones((2, 3), np.float32), np.full((2, 3), 0.5, np.float32)
    _softmax.gradient(g, out, (1,))
    assert (g == 1).all() and (out == 0.5).all()


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("scale", [1.0, 200.0])
def test_attention_of_small_and_large_scores(scale, causal):
    rng = np.random.default_rng(0)
    q, k, v = (rng.standard_normal((2, 5, 4)) for _ in range(3))
    scores = q * scale @ k.swapaxes(1, 2) / 2
    if causal:
        scores = np.where(np.tri(5, dtype=bool), scores, -INF)
    expected = _softmax_of(scores, 2) @ v
    tensors = [jtorch.from_numpy(a).requires_grad_() for a in (q * scale, k, v)]
    out = F.scaled_dot_product_attention(*tensors, is_causal=causal)
    np.testing.assert_allclose(out.detach().numpy(), expected, rtol=1e-9, atol=1e-12)
    assert jtorch.autograd.gradcheck(
        lambda *t: F.scaled_dot_product_attention(*t, is_causal=causal), [t / scale for t in tensors]
    )


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64, np.int32])
def test_relu_of_blocks(dtype):
    block = elementwise._BLOCK
    for n in (0, 1, 4095, 4096, block - 1, block, block + 1, 3 * block + 7, elementwise._MANY + 1):
        x = np.random.default_rng(n).integers(-3, 3, n).astype(dtype)
        if x.dtype.kind == "f" and n > 2:
            x[:3] = NAN, -INF, -0.0
            x[-1] = -NAN
        np.testing.assert_array_equal(xp.relu(x), np.maximum(x, dtype(0)))
        np.testing.assert_array_equal(xp.relu(x[::2]), np.maximum(x[::2], dtype(0)))
    x = np.random.default_rng(0).standard_normal((70, 80)).astype(np.float32)
    for view in (x, x.T, x[:, 3:], x[::-1]):
        np.testing.assert_array_equal(xp.relu(view), np.maximum(view, 0))


@pytest.mark.parametrize("kind", [np.float32, np.float64, np.float16, np.int8, np.int64])
def test_where_keeps_its_condition_and_every_bit(kind):
    condition = np.random.default_rng(0).random(1000) < 0.5
    kept = condition.copy()
    x = np.arange(1000).astype(kind)
    if x.dtype.kind == "f":
        x[:4] = NAN, INF, -INF, -0.0
    for y in (0, x[::-1].copy()):
        expected = np.where(condition, x, np.asarray(y, kind))
        assert xp.where(condition, x, y).tobytes() == expected.tobytes()
    assert np.array_equal(condition, kept)


def test_where_of_odd_conditions_and_numbers():
    condition = np.full(1000, 2, np.uint8)
    condition[::3] = 0
    odd = condition.view(np.bool_)
    ints, floats = np.arange(1000), np.arange(1000.0, dtype=np.float32)
    for x, y in [(7, 0 * ints), (0.5, ints), (ints, 0.0), (np.float64(2), floats), (floats, np.int64(3))]:
        expected = np.where(odd, x, y)
        found = xp.where(odd, x, y)
        assert found.dtype == expected.dtype
        np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("shape", [(3,), (2, 3), (4, 2, 3), (2, 0, 3), (0, 3), (2, 3, 0), (0,)])
@pytest.mark.parametrize("bias", ["row", "one", "grid", "wider", None])
def test_linear(shape, bias):
    rng = np.random.default_rng(0)
    x, w = rng.standard_normal(shape), rng.standard_normal((4, shape[-1]))
    rows = shape[-2] if len(shape) > 1 else 1
    biases = {"row": (4,), "one": (1,), "grid": (rows, 4) if len(shape) == 2 else (4,), "wider": (4,)}
    b = None if bias is None else rng.standard_normal(biases[bias])
    b = b.astype(np.longdouble) if bias == "wider" else b
    by_routine = _linear.forward(x, w, b)
    out = BY_NAME["linear"].body(xp, x, w, b)
    assert (by_routine is None) == (b is not None and (b.shape != (4,) or bias == "wider"))
    assert by_routine is None or np.array_equal(by_routine, out)
    expected = x @ w.T + (0 if b is None else b)
    assert out.shape == expected.shape
    np.testing.assert_allclose(out, expected, rtol=1e-12, atol=1e-14)
    g = rng.standard_normal(out.shape)
    np.testing.assert_allclose(_linear.for_input(g, w), g @ w, rtol=1e-12, atol=1e-14)
    flat = g.reshape(-1, 4) if g.size else np.zeros((0, 4))
    wanted = flat.T @ x.reshape(len(flat), shape[-1]) if x.size else np.zeros(w.shape)
    np.testing.assert_allclose(_linear.for_weight(g, x), wanted, rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize("bias", [(3, 3), (2, 1, 3), (2, 3, 3), (1,), (6, 3), (5,)])
def test_linear_of_images_with_a_bias_of_more_axes(bias):
    x, w, b = jtorch.rand(2, 3, 4), jtorch.rand(3, 4), jtorch.rand(bias, requires_grad=True)
    if bias in ((6, 3), (5,)):
        with pytest.raises((ValueError, RuntimeError)):
            F.linear(x, w, b)
        return
    out = F.linear(x, w, b)
    np.testing.assert_allclose(out.detach().numpy(), (x @ w.t() + b).detach().numpy(), rtol=1e-6)
    out.sum().backward()
    assert b.grad.shape == bias


def test_linear_twice_differentiable():
    x, w, b = (jtorch.rand(*s, dtype=jtorch.float64, requires_grad=True) for s in ((2, 3), (4, 3), (4,)))
    assert jtorch.autograd.gradgradcheck(F.linear, (x, w, b))
