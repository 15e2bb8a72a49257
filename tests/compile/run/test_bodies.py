"""What kernels compute over large arrays in eager mode is what NumPy computes, op by op."""

from __future__ import annotations

import itertools
import os
import threading
import time

import numpy as np
import pytest

import jtorch
from jtorch.compile.run import bodies
from jtorch.core.op import BY_NAME, TABLE
from jtorch.eager import large
from jtorch.eager.tensor import Tensor
from jtorch.ops.xp import _formulas
from tests.compile.chain import assert_link
from tests.each import each
from tests.machine_code import needs_kernels
from tests.ops.samples import samples
from tests.ops.support import CASES, DIFFERENTIABLE, call, tensors

pytestmark = needs_kernels
DTYPES = [pytest.param("float64", marks=pytest.mark.slow), "float32"]


@pytest.fixture(params=["by rows", "at once"])
def asked(monkeypatch, request):
    """Arrays of any size are large here, and blocks small; gives what kernels computed."""
    found = []

    def run(function, values, statics):
        result = bodies.run(function, values, statics)
        if result is not NotImplemented:
            found.append(function)
        return result

    for name in ("LEAST", "LEAST_SIMPLE"):
        monkeypatch.setattr(large, name, 1)
    monkeypatch.setattr(large, "_run", lambda: run)
    for name in ("LEAST", "LEAST_IMAGES"):
        monkeypatch.setattr(bodies, name, 10**9 if request.param == "by rows" else 0)
    monkeypatch.setattr(bodies, "BLOCKS", (12, 5, 2))
    monkeypatch.setattr(bodies, "_calls", {})  # which go by these numbers
    return found


def _by_numpy(function):
    before = large._run
    large._run = lambda: large._nothing
    try:
        return function()
    finally:
        large._run = before


def _fusing(cases):
    def marked(case):
        marks = [*case.marks, *([] if case.values[1] == 0 else [pytest.mark.slow])]
        return pytest.param(*case.values, id=case.id, marks=marks)

    return [marked(case) for case in cases if BY_NAME[case.values[0]].fuses]


def _outputs(name, sample):
    with jtorch.no_grad():
        return call(name, tensors(sample), sample)


def _assert_alike(name, expected, found):
    assert_link(f"{name} by NumPy -> by kernels", [t._data for t in expected], [t._data for t in found])
    assert [t.stride() for t in found] == [t.stride() for t in expected]
    assert [t.is_contiguous() for t in found] == [t.is_contiguous() for t in expected]


@each("dtype", DTYPES, parts=2)
@each("name, k", _fusing(CASES))
def test_forward(name, k, dtype, asked):
    sample = samples(name)[k].cast(np.dtype(dtype))
    expected = _by_numpy(lambda: _outputs(name, sample))
    _assert_alike(name, expected, _outputs(name, sample))


@each("dtype", DTYPES, parts=2)
@each("name, k", _fusing(DIFFERENTIABLE))
def test_backward(name, k, dtype, asked):
    sample = samples(name)[k].cast(np.dtype(dtype))

    def gradients():
        arguments = tensors(sample, True)
        wanted = [t for t in arguments if isinstance(t, Tensor) and t.requires_grad]
        outs = [o for o in call(name, arguments, sample) if o.requires_grad]
        seeds = [jtorch.cos(jtorch.arange(o.numel(), dtype=o.dtype)).reshape(o.shape) for o in outs]
        found = jtorch.autograd.grad(outs, wanted, seeds, allow_unused=True)
        return [g for g in found if g is not None]

    assert_link(f"{name} by NumPy -> by kernels", [g._data for g in _by_numpy(gradients)], [
        g._data for g in gradients()
    ])  # fmt: skip


def test_kernels_compute_what_is_declared_to_fuse(asked, request):
    """A formula for which no kernel is found would run on NumPy without a word."""
    for case in DIFFERENTIABLE:
        name, k = case.values
        if BY_NAME[name].fuses:
            sample = samples(name)[k]
            outs = [o for o in call(name, tensors(sample, True), sample) if o.requires_grad]
            jtorch.autograd.backward(outs, [jtorch.ones_like(o) for o in outs])
    formulas = [op for op in TABLE if op.fuses]
    if request.node.callspec.params["asked"] == "by rows":
        by_rows = {
            "gelu",
            "relu",
            "where",
            "softmax",
            "log_softmax",
            "layer_norm",
            "rms_norm",
            "prelu_kernel",
        }
        assert by_rows <= {op.name for op in formulas if op.body in asked}
        assert by_rows - {"prelu_kernel"} <= {op.name for op in formulas if op.vjp_function in asked}
        return
    # NumPy's own functions, and products that are asked for by name
    assert {op.name for op in formulas if op.body not in asked} == {"tanh", "mm", "bmm"}
    assert {op.name for op in formulas if op.vjp_function not in asked} == {"vector_norm"}


# -- at the sizes where it happens --------------------------------------------------------------------------


@pytest.fixture
def counted(monkeypatch):
    """What kernels computed, at the sizes of every day."""
    found = []

    def run(function, values, statics):
        result = bodies.run(function, values, statics)
        found.extend([] if result is NotImplemented else [function])
        return result

    monkeypatch.setattr(large, "_run", lambda: run)
    return found


def _numbers(*shape, seed=0):
    return jtorch.tensor(np.random.default_rng(seed).standard_normal(shape).astype(np.float32))


@pytest.mark.parametrize("n", [large.LEAST, 100_003, bodies.LEAST - 1, bodies.LEAST])
def test_elements_by_blocks(n, counted):
    x = _numbers(n).requires_grad_()
    y = jtorch.nn.functional.gelu(x)
    y.backward(jtorch.cos(x.detach()))
    assert counted == [BY_NAME["gelu"].body, BY_NAME["gelu"].vjp_function]
    wide = x.detach().double().requires_grad_()
    expected = _by_numpy(lambda: jtorch.nn.functional.gelu(wide))
    expected.backward(jtorch.cos(x.detach()).double())
    np.testing.assert_allclose(y.detach().numpy(), expected.detach().numpy(), rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(x.grad.numpy(), wide.grad.numpy(), rtol=1e-5, atol=1e-6)


def test_small_arrays_are_numpys(counted):
    jtorch.nn.functional.gelu(_numbers(large.LEAST - 1))
    x = _numbers(8, bodies.LEAST // 16)
    jtorch.nn.functional.mse_loss(x, x + 1)  # one number, of all rows
    assert counted == []


@pytest.mark.parametrize(("op", "least"), [("relu", large.LEAST_SIMPLE), ("sigmoid", large.LEAST)])
def test_what_does_little_for_an_element_needs_more_of_them(counted, op, least):
    for n, kernels in ((least - 1, 0), (least, 2)):  # itself and its gradient
        x = _numbers(n).requires_grad_()
        getattr(jtorch, op)(x).backward(jtorch.ones(n))
        assert len(counted) == kernels


def test_numbers_may_change_and_keep_their_sign(counted):
    x = _numbers(large.LEAST).abs() + 1
    before = bodies._kernels.cache_info().misses
    for slope in (0.1, 0.25, -0.0, 0.0, float("inf"), float("nan")):
        y = jtorch.nn.functional.leaky_relu(-x, slope)
        np.testing.assert_array_equal(y.numpy(), (-x).numpy() * np.float32(slope))
        assert np.array_equal(np.signbit(y.numpy()), np.signbit((-x).numpy() * np.float32(slope)))
    assert len(counted) == 6
    assert bodies._kernels.cache_info().misses - before <= 1


def test_what_depends_on_the_number_of_elements_is_not_made_by_rows(counted):
    x, y = _numbers(1000, 100).requires_grad_(), _numbers(1000, 100, seed=1)
    for reduction in ("mean", "sum", "none"):
        x.grad = None
        loss = jtorch.nn.functional.mse_loss(x, y, reduction=reduction)
        loss.backward(jtorch.ones_like(loss))
        over = x.numel() if reduction == "mean" else 1
        np.testing.assert_allclose(x.grad.numpy(), 2 / over * (x - y).detach().numpy(), rtol=1e-5)


@pytest.mark.parametrize("rows", [513, 4096, 4097, 8191])
def test_rows_of_any_number(rows, counted):
    x, w = _numbers(rows, 64).requires_grad_(), _numbers(64).requires_grad_()
    y = jtorch.softmax(jtorch.nn.functional.layer_norm(x, (64,), w), 1)
    y.backward(_numbers(rows, 64, seed=3))
    assert len(counted) == 4
    found = [t.numpy() for t in (y.detach(), x.grad, w.grad)]
    x.grad = w.grad = None
    y = _by_numpy(lambda: jtorch.softmax(jtorch.nn.functional.layer_norm(x, (64,), w), 1))
    _by_numpy(lambda: y.backward(_numbers(rows, 64, seed=3)))
    for a, b in zip(found, [t.numpy() for t in (y.detach(), x.grad, w.grad)], strict=True):
        np.testing.assert_allclose(a, b, rtol=2e-4, atol=1e-5)


def test_random_masks_are_those_of_small_arrays():
    """One counter for all elements: the mask of 100,000 begins as that of 1,000 does."""
    jtorch.manual_seed(5)
    mask = jtorch.nn.functional.dropout(jtorch.ones(100_000))
    jtorch.manual_seed(5)
    assert bool((mask[:1000] == jtorch.nn.functional.dropout(jtorch.ones(1000))).all())
    assert not bool((mask[:32768] == mask[32768:65536]).all())


def test_dtypes_beside_other_numbers_are_those_of_small_arrays():
    class Third(float):
        pass

    x = _numbers(large.LEAST)
    for slope in (Third(0.3), np.float64(0.3)):
        small = jtorch.nn.functional.leaky_relu(x[:10], slope)
        assert jtorch.nn.functional.leaky_relu(x, slope).dtype is small.dtype
    n = jtorch.arange(large.LEAST)
    assert jtorch.add(n, n, alpha=2).dtype is jtorch.add(n[:10], n[:10], alpha=2).dtype


def test_gradients_lie_as_their_inputs_do():
    x = jtorch.ones(300, 200).t().detach().requires_grad_()
    (g,) = jtorch.autograd.grad(jtorch.relu(x), x, jtorch.ones(300, 200).t())
    assert g.stride() == x.stride()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork here")
def test_a_child_of_a_fork_does_not_wait_for_a_thread_of_its_parent():
    stop = threading.Event()

    def record():
        for n in itertools.count(bodies.LEAST // 8):
            jtorch.nn.functional.normalize(jtorch.ones(n, 8), dim=0)
            if stop.is_set():
                return

    thread = threading.Thread(target=record)
    thread.start()
    try:
        for _ in range(5):
            child = os.fork()
            if not child:
                jtorch.nn.functional.normalize(jtorch.ones(bodies.LEAST, 3), dim=0)
                os._exit(7)
            end = time.monotonic() + 30
            while not (status := os.waitpid(child, os.WNOHANG))[0]:
                if time.monotonic() > end:
                    os.kill(child, 9)
                    os.waitpid(child, 0)
                    raise AssertionError("the child hangs")
                time.sleep(0.01)
            assert os.waitstatus_to_exitcode(status[1]) == 7
    finally:
        stop.set()
        thread.join()


def test_other_layouts_stay_as_they_are(counted):
    x = _numbers(64, 32, 32).permute(1, 2, 0)
    y = jtorch.nn.functional.gelu(x)
    assert y.stride() == x.stride()
    assert counted == []


def test_other_dtypes(counted):
    for dtype in (jtorch.float16, jtorch.bfloat16, jtorch.float64):
        x = _numbers(large.LEAST).to(dtype)
        y = jtorch.nn.functional.silu(x)
        assert y.dtype is dtype
        expected = x.double().numpy()
        expected = expected / (1 + np.exp(-expected))
        np.testing.assert_allclose(y.double().numpy(), expected, rtol=1e-2, atol=1e-3)
    z = jtorch.complex(_numbers(large.LEAST), _numbers(large.LEAST, seed=1))
    np.testing.assert_allclose(jtorch.addcmul(z, z, z).numpy(), z.numpy() + z.numpy() ** 2, rtol=1e-4)


def test_an_element_that_a_kernel_refuses_is_numpys_to_name():
    scores, target = _numbers(1000, 100), jtorch.full((1000,), 100)
    with pytest.raises(IndexError) as large_error:
        jtorch.nn.functional.cross_entropy(scores, target)
    with pytest.raises(IndexError) as small_error:
        jtorch.nn.functional.cross_entropy(scores[:10], target[:10])
    assert str(large_error.value) == str(small_error.value)


def test_second_derivatives(counted):
    x = _numbers(large.LEAST).double().requires_grad_()
    (g,) = jtorch.autograd.grad(jtorch.nn.functional.gelu(x).sum(), x, create_graph=True)
    (h,) = jtorch.autograd.grad(g.sum(), x)
    density = np.exp(-0.5 * x.detach().numpy() ** 2) / np.sqrt(2 * np.pi)
    np.testing.assert_allclose(h.numpy(), density * (2 - x.detach().numpy() ** 2), rtol=1e-9, atol=1e-12)


def test_what_is_saved_and_changed_is_found():
    x = _numbers(large.LEAST).requires_grad_()
    y = jtorch.sigmoid(x)
    y.mul_(2)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        y.sum().backward()


@pytest.mark.parametrize("kind", ["LSTM", "GRU"])
@pytest.mark.parametrize("lengths", [(26, 26, 26), (9, 4, 1)])
def test_steps_of_recurrent_layers(kind, lengths, monkeypatch):
    """Steps of as many rows run in one call, the formula of a single one as a kernel; sequences that end make
    fewer rows."""
    layer = getattr(jtorch.nn, kind)(16, 512, bidirectional=True)
    x = jtorch.nn.utils.rnn.pack_padded_sequence(_numbers(lengths[0], 3, 16), jtorch.tensor(lengths))

    def results():
        layer.zero_grad()
        out, state = layer(x)
        states = state if isinstance(state, tuple) else (state,)
        sum(t.square().sum() for t in (out.data, *states)).backward()
        gradients = [p.grad.numpy() for p in layer.parameters()]
        return [t.detach().numpy() for t in (out.data, *states)] + gradients

    bodies._calls.clear()
    found = results()
    made = {key[0].__name__ for key, call in bodies._calls.items() if call is not None}
    asked = []
    monkeypatch.setattr(_formulas, "kernels", lambda: lambda f, *_: asked.append(f) or NotImplemented)
    expected = results()
    names = {f.__name__ for f in asked}
    wanted = ["cell", "slopes", *(["steps", "back"] if lengths[2] > 25 else [])]
    assert names == {f"_{kind.lower()}_{name}" for name in wanted} and names <= made
    for a, b in zip(expected, found, strict=True):
        np.testing.assert_allclose(b, a, rtol=2e-4, atol=2e-5)
