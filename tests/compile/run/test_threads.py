"""Compiled functions in several threads and in forked processes."""

from __future__ import annotations

import itertools
import multiprocessing
import os
import sys
import threading
import time

import numpy as np
import pytest

import jtorch
import jtorch.nn as nn
import jtorch.nn.functional as F


@pytest.fixture(autouse=True)
def eager_switching():
    """Let the interpreter change threads as often as it can."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)


@pytest.fixture(params=["numba", "plain Python", "interpreted"])
def mode(request, monkeypatch):
    monkeypatch.setenv("JTORCH_JIT", "0" if request.param == "plain Python" else "1")
    return "interpret" if request.param == "interpreted" else None


def together(*works):
    """Run the functions in a thread each; raise what one of them raised. The results, in order."""
    results, errors = [None] * len(works), []
    start = threading.Barrier(len(works))

    def run(k):
        start.wait()
        try:
            results[k] = works[k]()
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=run, args=(k,)) for k in range(len(works))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if errors:
        raise errors[0]
    return results


def numbers(seed, *shape):
    return jtorch.from_numpy(np.random.default_rng(seed).standard_normal(shape).astype(np.float32))


def _chain(x, s):
    return F.softmax((x * s).tanh() @ x.t(), -1).sum(0)


def _with_library_calls(x, s):
    y = x * s
    return (y[jtorch.argsort(x[:, 0])] * 2.0).sum(1) + jtorch.sort(x[:, 1]).values * s


def _with_branches(x, s):
    y = x * s
    if y.sum() > 0:
        return y.exp()
    return y.abs() + 1.0


def _with_half(x, s):
    return (x.to(jtorch.float16) * s).float().exp()


FUNCTIONS = [_chain, _with_library_calls, _with_branches, _with_half]


@pytest.mark.slow
@pytest.mark.parametrize("function", FUNCTIONS)
def test_one_function_in_four_threads(function, mode):
    f = jtorch.compile(function, mode=mode)

    def work(k):
        x, s = numbers(k, 6, 4), 0.5 + k
        expected = function(x, s).numpy()
        for _ in range(25):
            np.testing.assert_allclose(f(x, s).numpy(), expected, rtol=1e-5, atol=1e-6)

    together(*(lambda k=k: work(k) for k in range(4)))


@pytest.mark.parametrize("dynamic", [False, None])
@pytest.mark.parametrize("function", FUNCTIONS)
def test_shapes_are_recorded_in_several_threads_at_once(function, dynamic):
    """Each thread brings shapes that no plan knows, some of them the same."""
    f = jtorch.compile(function, dynamic=dynamic)

    def work(k):
        for rows in (k + 4, 9, 10, k + 4):
            x = numbers(rows, rows, 4)
            np.testing.assert_allclose(f(x, 2.0).numpy(), function(x, 2.0).numpy(), rtol=1e-5, atol=1e-6)

    together(*(lambda k=k: work(k) for k in range(4)))
    shapes = [plan.capture.inputs[0].var.shape for plans in f.plans.values() for plan in plans]
    if function is not _with_branches:
        assert len(shapes) == len(set(shapes)) <= 6, "no shape was compiled twice"
        assert len(shapes) == 6 or dynamic is None


def test_two_functions_in_two_threads_are_recorded_at_once():
    def work(k):
        def forward(x):
            return (x * k).sum() + F.relu(x).mean()

        x = numbers(3, 5, 5)
        for _ in range(5):
            f = jtorch.compile(forward)
            np.testing.assert_allclose(f(x).item(), forward(x).item(), rtol=1e-5)

    together(*(lambda k=k: work(float(k)) for k in range(4)))


def _make_step(seed):
    jtorch.manual_seed(seed)
    model = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 3))
    optimizer = jtorch.optim.Adam(model.parameters(), lr=0.01)

    def step(x, y):
        optimizer.zero_grad()
        loss = F.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
        return loss

    return model, step


def test_trainings_side_by_side_compiled_and_eager():
    """Four models, two of them compiled, in a thread each: as if each had been alone."""
    pairs = [(_make_step(k), _make_step(k)) for k in range(4)]
    x, y = numbers(9, 6, 4), jtorch.tensor([0, 1, 2, 0, 1, 2])
    for _, (_, alone) in pairs:
        for _ in range(8):
            alone(x, y)

    def work(k):
        step = pairs[k][0][1]
        step = jtorch.compile(step) if k % 2 else step
        for _ in range(8):
            step(x, y)

    together(*(lambda k=k: work(k) for k in range(4)))
    for (model, _), (expected, _) in pairs:
        for p, q in zip(model.parameters(), expected.parameters(), strict=True):
            np.testing.assert_allclose(p.detach().numpy(), q.detach().numpy(), rtol=1e-4, atol=1e-6)
            np.testing.assert_allclose(p.grad.numpy(), q.grad.numpy(), rtol=1e-3, atol=1e-6)


def test_backward_outside_in_several_threads():
    w = numbers(0, 4, 4).requires_grad_()
    f = jtorch.compile(lambda x: ((x @ w).tanh() * x).sum())

    def work(k):
        x = numbers(k, 5, 4)
        expected = jtorch.autograd.grad(((x @ w).tanh() * x).sum(), w)[0].numpy()
        for _ in range(20):
            found = jtorch.autograd.grad(f(x), w)[0].numpy()
            np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)

    together(*(lambda k=k: work(k) for k in range(4)))


@pytest.mark.parametrize(
    "draw",
    [
        lambda x: x + jtorch.rand(4),
        lambda x: (x + jtorch.rand(4), jtorch.randperm(4))[0],
        lambda x: jtorch.where(jtorch.randperm(4) >= 0, x + jtorch.rand(4), x),
    ],
    ids=["one native call", "beside a library call", "after a library call"],
)
def test_no_two_threads_draw_the_same_numbers(draw, mode):
    """And together they draw what one thread alone would."""
    f = jtorch.compile(draw, mode=mode)
    f(jtorch.zeros(4))
    jtorch.manual_seed(11)
    drawn = together(*[lambda: [tuple(f(jtorch.zeros(4)).tolist()) for _ in range(30)]] * 4)
    jtorch.manual_seed(11)
    alone = [tuple(draw(jtorch.zeros(4)).tolist()) for _ in range(120)]
    assert sorted(itertools.chain(*drawn)) == sorted(alone)


@pytest.mark.slow
def test_eager_draws_meanwhile_are_no_seeding_and_stay():
    """Another thread draws from the generator while a function is recorded."""
    stop, found = threading.Event(), []

    def draw():
        while not stop.wait(1e-4):  # lets the other one go on
            for _ in range(20):
                found.append(jtorch.rand(1, dtype=jtorch.float64).item())  # 53 bits: none equal by chance

    def record():
        try:
            for k in range(10):
                f = jtorch.compile(lambda x: x * 2 + jtorch.rand(3) * 0 + float(k))  # noqa: B023
                assert f(jtorch.ones(3)).tolist() == [2.0 + k] * 3
        finally:
            stop.set()

    jtorch.manual_seed(3)
    together(draw, record)
    assert len(set(found)) == len(found)


def test_errors_in_threads_belong_to_their_calls():
    """Two ways to fail, at different places of one plan, and good calls between."""
    table = jtorch.arange(5.0)

    def f(i, j):
        a = table[i]
        order = jtorch.argsort(a)
        return a[order] + 10 // j

    f = jtorch.compile(f)
    good, far, zero = jtorch.tensor([3, 1]), jtorch.tensor([1, 9]), jtorch.tensor([1, 0])
    f(good, good)

    def fails(error, words, *args):
        for _ in range(40):
            with pytest.raises(error, match=words):
                f(*args)

    def works():
        for _ in range(40):
            assert f(good, good).tolist() == [4.0, 13.0]

    together(
        lambda: fails(IndexError, "out of", far, good), lambda: fails(RuntimeError, "zero", good, zero), works
    )


@pytest.mark.slow
def test_reset_while_another_thread_calls():
    f = jtorch.compile(lambda x, s: x * s + 1.0)
    x, done = jtorch.ones(3), threading.Event()

    def calls():
        try:
            for k in range(150):
                assert f(x, s=float(k)).tolist() == [k + 1.0] * 3
        finally:
            done.set()

    def resets():
        while not done.is_set():
            f.reset()
            time.sleep(0)

    together(calls, resets)


def test_one_training_step_in_four_threads():
    """Each call is one native call: no update is lost, whatever the order."""
    w = jtorch.zeros(3, requires_grad=True)
    optimizer = jtorch.optim.SGD([w], lr=1.0)

    def step(x):
        optimizer.zero_grad()
        (w * x).sum().backward()
        optimizer.step()

    f, x = jtorch.compile(step), jtorch.ones(3)
    f(x)
    version = w._version
    together(*[lambda: [f(x) for _ in range(100)]] * 4)
    assert w.tolist() == [-401.0] * 3
    assert w._version == version + 400


def test_a_gradient_that_a_thread_keeps_stays():
    model, step = _make_step(0)
    f, x, y = jtorch.compile(step), numbers(9, 6, 4), jtorch.tensor([0, 1, 2, 0, 1, 2])
    f(x, y)
    weight, done = model[0].weight, threading.Event()

    def trains():
        try:
            for _ in range(300):
                f(x, y)
        finally:
            done.set()

    def reads():
        kept = []
        while not done.is_set():
            gradient = weight.grad
            kept.append((gradient, gradient.numpy().copy()))
            kept = kept[-50:]
            for found, was in kept:
                np.testing.assert_array_equal(found.numpy(), was)

    together(trains, reads)


# -- forked processes ------------------------------------------------------------------

forks = pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")


def in_child(work):
    """Run ``work`` in a forked child; what it raised fails the test."""
    read, write = os.pipe()
    child = os.fork()
    if not child:
        try:
            try:
                work()
                told = b"right"
            except BaseException as error:
                told = repr(error).encode()
            os.write(write, told)
        finally:
            os._exit(0)
    os.close(write)
    deadline = time.monotonic() + 30
    while os.waitpid(child, os.WNOHANG)[0] == 0:
        if time.monotonic() > deadline:
            os.kill(child, 9)
            os.waitpid(child, 0)
            pytest.fail("the child hangs")
        time.sleep(0.01)
    with os.fdopen(read, "rb") as told:
        assert told.read() == b"right"


@forks
def test_a_forked_child_replays_records_and_trains():
    _, step = _make_step(0)
    _, expected = _make_step(0)
    f, large = jtorch.compile(step), jtorch.compile(lambda a: a @ a)
    x, y, a = numbers(9, 6, 4), jtorch.tensor([0, 1, 2, 0, 1, 2]), numbers(1, 400, 400)
    f(x, y)
    expected(x, y)
    product = large(a).numpy()  # BLAS has its threads by now

    def child():
        np.testing.assert_allclose(f(x, y).item(), expected(x, y).item(), rtol=1e-5)
        np.testing.assert_allclose(large(a).numpy(), product, rtol=1e-4, atol=1e-4)
        np.testing.assert_allclose(f(x[:3], y[:3]).item(), expected(x[:3], y[:3]).item(), rtol=1e-5)
        kernel = jtorch.compile(lambda t: (t * 3.25 - t.tanh()).cosh().sum(1))
        np.testing.assert_allclose(kernel(x).numpy(), kernel.function(x).numpy(), rtol=1e-5)

    in_child(child)
    np.testing.assert_allclose(f(x, y).item(), expected(x, y).item(), rtol=1e-5)


@pytest.mark.slow
@forks
def test_a_fork_while_other_threads_record_and_replay():
    """The child has none of those threads, whose locks would stay closed."""
    done = threading.Event()
    f = jtorch.compile(_with_library_calls)
    x = numbers(0, 6, 4)
    expected = f(x, 2.0).numpy()

    def replays():
        while not done.is_set():
            f(x, 2.0)

    def records():
        while not done.is_set():
            jtorch.compile(lambda t: t * 2 + 1)(x)

    def forks_children():
        try:
            for _ in range(5):
                in_child(child)
        finally:
            done.set()

    def child():
        np.testing.assert_allclose(f(x, 2.0).numpy(), expected, rtol=1e-6)
        assert jtorch.compile(lambda t: t - 1)(jtorch.ones(2)).tolist() == [0.0, 0.0]

    together(replays, records, forks_children)


def _in_a_worker(queue, f, x):
    queue.put(f(x).tolist())


@forks
def test_multiprocessing_by_fork():
    w = jtorch.ones(3)
    f = jtorch.compile(lambda x: x * w + jtorch.rand(3))
    f(jtorch.ones(3))
    context = multiprocessing.get_context("fork")
    queue = context.Queue()
    position = jtorch.get_rng_state()
    expected = f.function(jtorch.ones(3)).tolist()
    jtorch.set_rng_state(position)
    workers = [context.Process(target=_in_a_worker, args=(queue, f, jtorch.ones(3))) for _ in range(2)]
    for worker in workers:
        worker.start()
    found = [queue.get(timeout=30) for _ in workers]
    for worker in workers:
        worker.join()
    assert found == [expected] * 2
    assert f(jtorch.ones(3)).tolist() == expected
