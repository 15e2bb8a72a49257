"""What kernels compute over large arrays in eager mode is what NumPy computes, op by op."""

from __future__ import annotations

import gc
import itertools
import os
import threading
import time
import tracemalloc

import numpy as np
import pytest

import jtorch
from jtorch.compile.run import bodies
from jtorch.core import philox
from jtorch.core.op import BY_NAME, TABLE
from jtorch.eager import formulas
from jtorch.eager.evaluate import EAGER
from jtorch.eager.tensor import Tensor
from jtorch.ops.xp import _formulas
from tests.compile.chain import assert_link, by_numpy
from tests.each import each
from tests.machine_code import needs_kernels
from tests.ops.samples import samples
from tests.ops.support import CASES, DIFFERENTIABLE, call, tensors

pytestmark = needs_kernels
DTYPES = [pytest.param("float64", marks=pytest.mark.slow), "float32"]


def _noting(found):
    """``call_of``, which notes what kernels computed."""

    def call_of(function, *arguments):
        call = bodies.call_of(function, *arguments)

        def noted(values):
            result = call(values)
            if result is not NotImplemented:
                found.append(function)
            return result

        return None if call is None else noted

    return call_of


@pytest.fixture(params=["any sizes", "these sizes"])
def asked(monkeypatch, request):
    """Arrays of any size are large here; gives what kernels computed."""
    found = []
    for name in ("LEAST_SMALL", "LEAST", "LEAST_SIMPLE"):
        monkeypatch.setattr(formulas, name, 1)
    for name in ("LEAST", "LEAST_IMAGES"):
        monkeypatch.setattr(bodies, name, 10**9 if request.param == "any sizes" else 0)
    if request.param == "these sizes":
        monkeypatch.setattr(bodies, "_named", lambda shapes: (shapes, []))
    monkeypatch.setattr(formulas, "call_of", _noting(found))
    formulas.forget()
    yield found
    formulas.forget()


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
    with by_numpy():
        expected = _outputs(name, sample)
    _assert_alike(name, expected, _outputs(name, sample))


@pytest.mark.slow
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

    with by_numpy():
        expected = gradients()
    assert_link(f"{name} by NumPy -> by kernels", [g._data for g in expected], [g._data for g in gradients()])


@pytest.mark.slow
def test_kernels_compute_what_is_declared_to_fuse(asked):
    """A formula for which no kernel is found would run on NumPy without a word."""
    for case in DIFFERENTIABLE:
        name, k = case.values
        if BY_NAME[name].fuses:
            sample = samples(name)[k]
            outs = [o for o in call(name, tensors(sample, True), sample) if o.requires_grad]
            jtorch.autograd.backward(outs, [jtorch.ones_like(o) for o in outs])
    declared = [op for op in TABLE if op.fuses and op.differentiable]
    # NumPy's own functions, and products that are asked for by name
    assert {op.name for op in declared if op.body not in asked} == {"tanh", "mm", "bmm"}
    # the gradient of a sum is a view
    assert {op.name for op in declared if op.vjp_function not in asked} == {"vector_norm", "sum"}


# -- at the sizes where it happens --------------------------------------------------------------------------


@pytest.fixture
def counted(monkeypatch):
    """What kernels computed, at the sizes of every day."""
    found = []
    monkeypatch.setattr(formulas, "call_of", _noting(found))
    formulas.forget()
    yield found
    formulas.forget()


def _numbers(*shape, seed=0):
    return jtorch.tensor(np.random.default_rng(seed).standard_normal(shape).astype(np.float32))


@pytest.mark.parametrize("n", [formulas.LEAST, 100_003, bodies.LEAST - 1, bodies.LEAST])
def test_elements(n, counted):
    x = _numbers(n).requires_grad_()
    y = jtorch.nn.functional.gelu(x)
    y.backward(jtorch.cos(x.detach()))
    assert counted == [BY_NAME["gelu"].body, BY_NAME["gelu"].vjp_function]
    wide = x.detach().double().requires_grad_()
    with by_numpy():
        expected = jtorch.nn.functional.gelu(wide)
    expected.backward(jtorch.cos(x.detach()).double())
    np.testing.assert_allclose(y.detach().numpy(), expected.detach().numpy(), rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(x.grad.numpy(), wide.grad.numpy(), rtol=1e-5, atol=1e-6)


def test_small_arrays_are_numpys(counted):
    jtorch.nn.functional.softsign(_numbers(formulas.LEAST - 1))
    jtorch.nn.functional.gelu(_numbers(formulas.LEAST_SMALL - 1))
    assert counted == []


def test_small_arrays_of_what_networks_consist_of(counted):
    scores = _numbers(8, 5).requires_grad_()
    classes = [1, 0, 4, 4, 2, 3, 0, 0]
    loss = jtorch.nn.functional.cross_entropy(scores, jtorch.tensor(classes))
    loss.backward()
    assert counted == [BY_NAME["cross_entropy"].body, BY_NAME["cross_entropy"].vjp_function]
    expected = np.exp(scores.detach().numpy())
    expected /= expected.sum(1, keepdims=True)
    expected[range(8), classes] -= 1
    np.testing.assert_allclose(scores.grad.numpy(), expected / 8, rtol=1e-5, atol=1e-7)


@pytest.mark.parametrize(
    ("op", "least"),
    [("relu", formulas.LEAST_SIMPLE), ("erf", formulas.LEAST), ("sigmoid", formulas.LEAST_SMALL)],
)
def test_what_does_little_for_an_element_needs_more_of_them(counted, op, least):
    for n, kernels in ((least - 1, 0), (least, 2)):  # itself and its gradient
        x = _numbers(n).requires_grad_()
        getattr(jtorch, op)(x).backward(jtorch.ones(n))
        assert len(counted) == kernels


def test_numbers_may_change_and_keep_their_sign(counted, monkeypatch):
    x = _numbers(formulas.LEAST).abs() + 1
    made = []
    kernels = bodies._kernels
    monkeypatch.setattr(bodies, "_kernels", lambda *given: made.append(given) or kernels(*given))
    for slope in (0.1, 0.25, -0.0, 0.0, float("inf"), float("nan")):
        y = jtorch.nn.functional.leaky_relu(-x, slope)
        np.testing.assert_array_equal(y.numpy(), (-x).numpy() * np.float32(slope))
        assert np.array_equal(np.signbit(y.numpy()), np.signbit((-x).numpy() * np.float32(slope)))
    assert len(counted) == 6
    assert len(made) <= 1


def test_what_depends_on_the_number_of_elements(counted):
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
    with by_numpy():
        y = jtorch.softmax(jtorch.nn.functional.layer_norm(x, (64,), w), 1)
        y.backward(_numbers(rows, 64, seed=3))
    for a, b in zip(found, [t.numpy() for t in (y.detach(), x.grad, w.grad)], strict=True):
        np.testing.assert_allclose(a, b, rtol=2e-4, atol=1e-5)


@pytest.mark.parametrize("kind", ["uniform", "normal", "exponential"])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_random_numbers_have_the_bits_of_numpys(kind, dtype, counted):
    draw, found = getattr(philox, kind), np.dtype(dtype)
    for n in (formulas.LEAST_SMALL, 257, 40_000):
        bits = philox.raw_bits(3, 5, n)
        np.testing.assert_array_equal(
            EAGER.table[BY_NAME[kind].index](bits, dtype=found).view(np.uint8),
            draw(bits, found).view(np.uint8),
        )
    assert len(counted) == 3


@pytest.mark.parametrize(
    "low, high", [(0, 1), (-5, 7), (0, 2**32 - 1), (0, 2**32), (5, 2**40), (-(2**63), 9 - 2**63)]
)
def test_random_integers_of_a_small_range_are_those_of_any(low, high):
    bits = philox.raw_bits(3, 5, 10_000)
    np.testing.assert_array_equal(
        EAGER.table[BY_NAME["bounded"].index](bits, low, high), philox.bounded(bits, low, high)
    )


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

    x = _numbers(formulas.LEAST)
    for slope in (Third(0.3), np.float64(0.3)):
        small = jtorch.nn.functional.leaky_relu(x[:10], slope)
        assert jtorch.nn.functional.leaky_relu(x, slope).dtype is small.dtype
    n = jtorch.arange(formulas.LEAST)
    assert jtorch.add(n, n, alpha=2).dtype is jtorch.add(n[:10], n[:10], alpha=2).dtype


def test_gradients_lie_as_their_inputs_do():
    x = jtorch.ones(300, 200).t().detach().requires_grad_()
    (g,) = jtorch.autograd.grad(jtorch.relu(x), x, jtorch.ones(300, 200).t())
    assert g.stride() == x.stride()


def test_one_plan_for_any_sizes(counted, monkeypatch):
    """Square arrays, single rows, and such as a plan would be cut for: NumPy's values in double precision."""
    made = []
    kernels = bodies._kernels
    monkeypatch.setattr(bodies, "_kernels", lambda *given: made.append(given) or kernels(*given))
    bodies._formula.cache_clear()
    for rows, columns in ((5, 7), (64, 64), (6, 6), (3000, 40), (2, 100_000), (31, 1025), (700, 700)):
        x = _numbers(rows, columns)
        wide = np.exp(x.double().numpy())
        np.testing.assert_allclose(
            jtorch.softmax(x, 1).numpy(), wide / wide.sum(1, keepdims=True), rtol=2e-5, atol=1e-12
        )
        np.testing.assert_allclose(
            jtorch.softmax(x, 0).numpy(), wide / wide.sum(0, keepdims=True), rtol=2e-5, atol=1e-12
        )
    assert len(counted) == 14
    assert len(made) <= 6  # what an order of magnitudes asks may divide them


def test_plans_for_any_sizes_have_the_bits_of_those_for_some(monkeypatch):
    """Whatever sizes came first."""

    def results():
        x, t = _numbers(63, 33).requires_grad_(), jtorch.arange(63) % 33
        y = jtorch.nn.functional.layer_norm(x, (33,))
        loss = jtorch.nn.functional.cross_entropy(y, t) + jtorch.log_softmax(y, 0).square().mean()
        loss.backward()
        return [y.detach().numpy(), loss.detach().numpy(), x.grad.numpy()]

    def fresh():
        formulas.forget()
        bodies._formula.cache_clear()

    fresh()
    first = results()
    fresh()
    for n in (2, 33, 63, 500):
        jtorch.log_softmax(_numbers(n, n), 0)
        jtorch.nn.functional.cross_entropy(
            jtorch.nn.functional.layer_norm(_numbers(n, 40), (40,)), jtorch.zeros(n).long()
        )
    later = results()
    monkeypatch.setattr(bodies, "_named", lambda shapes: (shapes, []))
    for name in ("LEAST", "LEAST_IMAGES"):
        monkeypatch.setattr(bodies, name, 0)
    fresh()
    exact = results()
    fresh()
    for a, b, c in zip(first, later, exact, strict=True):
        np.testing.assert_array_equal(a, b)
        np.testing.assert_array_equal(a, c)


@pytest.mark.slow
def test_sizes_that_keep_moving_use_no_more_memory():
    for n in range(2, 40):
        jtorch.softmax(_numbers(n, 8), 1)
    tracemalloc.start()
    before = tracemalloc.get_traced_memory()[0]
    for n in range(40, 3000):
        jtorch.softmax(jtorch.ones(n, 8), 1)
    grown = tracemalloc.get_traced_memory()[0] - before
    tracemalloc.stop()
    assert grown < 4 << 20


@pytest.mark.slow
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
        x = _numbers(formulas.LEAST).to(dtype)
        y = jtorch.nn.functional.silu(x)
        assert y.dtype is dtype
        expected = x.double().numpy()
        expected = expected / (1 + np.exp(-expected))
        np.testing.assert_allclose(y.double().numpy(), expected, rtol=1e-2, atol=1e-3)
    z = jtorch.complex(_numbers(formulas.LEAST), _numbers(formulas.LEAST, seed=1))
    np.testing.assert_allclose(jtorch.addcmul(z, z, z).numpy(), z.numpy() + z.numpy() ** 2, rtol=1e-4)


def test_an_element_that_a_kernel_refuses_is_numpys_to_name():
    scores, target = _numbers(1000, 100), jtorch.full((1000,), 100)
    with pytest.raises(IndexError) as large_error:
        jtorch.nn.functional.cross_entropy(scores, target)
    with pytest.raises(IndexError) as small_error:
        jtorch.nn.functional.cross_entropy(scores[:10], target[:10])
    assert str(large_error.value) == str(small_error.value)


def test_second_derivatives(counted):
    x = _numbers(formulas.LEAST).double().requires_grad_()
    (g,) = jtorch.autograd.grad(jtorch.nn.functional.gelu(x).sum(), x, create_graph=True)
    (h,) = jtorch.autograd.grad(g.sum(), x)
    density = np.exp(-0.5 * x.detach().numpy() ** 2) / np.sqrt(2 * np.pi)
    np.testing.assert_allclose(h.numpy(), density * (2 - x.detach().numpy() ** 2), rtol=1e-9, atol=1e-12)


def test_what_is_saved_and_changed_is_found():
    x = _numbers(formulas.LEAST).requires_grad_()
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

    _formulas.calls.clear()
    found = results()
    made = {key[0].__name__ for key, call in _formulas.calls.items() if call is not None}
    asked = []
    monkeypatch.setattr(_formulas, "call_of", lambda: lambda f, *_: asked.append(f))  # which gives None
    _formulas.calls.clear()
    expected = results()
    _formulas.calls.clear()
    names = {f.__name__ for f in asked}
    wanted = ["cell", "slopes", *(["steps", "back"] if lengths[2] > 25 else [])]
    assert names == {f"_{kind.lower()}_{name}" for name in wanted} and names <= made
    for a, b in zip(expected, found, strict=True):
        np.testing.assert_allclose(b, a, rtol=2e-4, atol=2e-5)


def test_calls_keep_the_memory_that_they_use(monkeypatch):
    """Of plans for some sizes alone, which share what a larger one replaces."""
    monkeypatch.setattr(bodies, "_named", lambda shapes: (shapes, []))
    for name in ("LEAST", "LEAST_IMAGES"):
        monkeypatch.setattr(bodies, name, 0)
    formulas.forget()
    x, w = _numbers(2, 3, 12, 12), _numbers(4, 3, 3, 3)
    expected = jtorch.nn.functional.conv2d(x, w).numpy()
    jtorch.nn.functional.conv2d(_numbers(4, 3, 64, 64), w)
    gc.collect()
    for _ in range(20):
        np.testing.assert_array_equal(jtorch.nn.functional.conv2d(x, w).numpy(), expected)
    formulas.forget()
