"""What a plan over symbols keeps for the sizes that it has met, and when that goes."""

from __future__ import annotations

import gc
import threading
import weakref

import numpy as np
import pytest

import jtorch
from jtorch.compile.codegen.emitter import Edge, Pointer
from jtorch.compile.graph.products import product_of
from jtorch.compile.plan.pieces import divided
from jtorch.compile.run import arena, choice, instances
from jtorch.compile.run.steps_at_sizes import StepsAtSizes
from jtorch.core import pieces
from jtorch.core.dim import is_symbolic
from jtorch.core.products import Axis, merge


def network():
    jtorch.manual_seed(0)
    nn = jtorch.nn
    return nn.Sequential(nn.Linear(8, 32), nn.LayerNorm(32), nn.ReLU(), nn.Linear(32, 10))


def stepper(model, **options):
    optimizer = jtorch.optim.Adam(model.parameters(), lr=1e-3)

    @jtorch.compile(**options)
    def step(x, y):
        optimizer.zero_grad()
        loss = jtorch.nn.functional.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
        return loss

    return step


def batch(n):
    generator = np.random.default_rng(n)
    x = generator.standard_normal((n, 8)).astype(np.float32)
    return jtorch.from_numpy(x), jtorch.from_numpy(generator.integers(0, 10, n))


def only_plan(f):
    (plan,) = [plan for plans in f.plans.values() for plan in plans]
    return plan


@pytest.mark.slow
def test_training_over_moving_batches_is_that_of_eager_mode():
    model, other, third = network(), network(), network()
    fast, exact = stepper(model, dynamic=True), stepper(third, dynamic=False)
    eager = jtorch.compile(stepper(other).function, disable=True)
    for n in (5, 30, 7, 64, 5, 9, 200, 31, 7, 2, 1, 30):
        x, y = batch(n)
        loss = fast(x, y)
        assert loss.detach().numpy().tobytes() == exact(x, y).detach().numpy().tobytes()
        assert np.allclose(loss.detach(), eager(x, y).detach(), rtol=1e-4)
    for p, q, r in zip(model.parameters(), other.parameters(), third.parameters(), strict=True):
        assert p.detach().numpy().tobytes() == r.detach().numpy().tobytes()
        assert np.allclose(p.detach(), q.detach(), atol=1e-4)


def words(plan, sizes):
    """Of each task its kernel and its numbers, or its product, for these values of the symbols."""
    space = {} if plan.capture.sizing is None else plan.capture.sizing.env.functions | sizes

    def value(x):
        return eval(x.text, dict(space)) if is_symbolic(x) else x

    for task in plan.program.plan.tasks:
        kernel = plan.program.code.kernels.get(task)
        if kernel is None:
            x, y, product = product_of(task.step.eqns[0], plan.program.plan.fused.find)
            parts = (product.batch, product.rows, product.columns, product.inner)
            axes = [merge([Axis(*map(value, axis)) for axis in part]) for part in parts]
            yield "product", axes, [value(x.offset), value(y.offset)]
            continue
        numbers = []
        for a in kernel.arguments:
            if isinstance(a, Pointer):
                numbers.append(value(a.offset))
            elif isinstance(a, Edge):
                numbers.append(value(divided(task.nest).size) if a.last else 0)
            else:
                numbers.append(value(a.value))
        yield kernel.source, numbers, []


@pytest.mark.slow
def test_the_words_are_those_of_a_plan_for_these_sizes_alone():
    fast = stepper(network(), dynamic=True)
    for n in (20, 7):
        fast(*batch(n))
    plan = only_plan(fast)
    for n in (7, 9, 31, 65, 300):
        exact = stepper(network(), dynamic=False)
        exact(*batch(n))
        symbols = dict(zip(plan.capture.sizing.env.symbols, (n, 8), strict=False))
        assert sorted(map(str, words(plan, symbols))) == sorted(map(str, words(only_plan(exact), {})))


def test_the_least_recently_used_go(monkeypatch):
    monkeypatch.setattr(instances, "MOST", 4)
    f = jtorch.compile(lambda x: (x * 2).sum(0) + 1, dynamic=True)
    for n in (50, 3, 4, 5):
        f(jtorch.ones(n, 7))
    runner = only_plan(f).runner
    assert [n for n, _ in runner.found] == [50, 3, 4, 5]
    for _, made in runner.found.items():
        made.used = False
    f(jtorch.ones(50, 7))
    f(jtorch.ones(6, 7))
    assert [n for n, _ in runner.found] == [4, 5, 50, 6]
    assert f(jtorch.ones(3, 7)).tolist() == [7.0] * 7


def test_what_is_dropped_is_freed_and_its_runs_are_counted(monkeypatch):
    monkeypatch.setattr(instances, "MOST", 2)
    f = jtorch.compile(lambda x: (x * 2).sum(0), dynamic=True)
    f(jtorch.ones(50, 3))
    runner = only_plan(f).runner
    first = weakref.ref(next(iter(runner.found.values())))
    for n in range(4, 12):
        f(jtorch.ones(n, 3))
    gc.collect()
    assert first() is None and len(runner.found) == 2
    assert runner.ended == f.calls == 9


def test_memory_is_flat_over_many_sizes():
    f = jtorch.compile(lambda x: jtorch.softmax(x * 2, 1).sum(0), dynamic=True)
    f(jtorch.ones(999, 3))
    runner = only_plan(f).runner
    before = None
    for k in range(3000):
        f(jtorch.ones(5 + k % 990, 3))
        if k == 1000:
            before = len(gc.get_objects())
    assert len(runner.found) <= instances.MOST
    assert len(gc.get_objects()) < before + 2000
    assert len(f.retraces) == 0


def test_a_larger_size_takes_a_larger_arena_and_the_smaller_ones_still_run():
    f = jtorch.compile(lambda x: jtorch.softmax(jtorch.softmax(x, 1) * 2, 0).sum(1), dynamic=True)
    for n in (4, 400, 5, 4000, 4, 400, 7, 4000):
        x = jtorch.linspace(0, 1, n * 3).reshape(n, 3)
        expected = jtorch.softmax(jtorch.softmax(x, 1) * 2, 0).sum(1)
        assert np.allclose(f(x), expected, atol=1e-6)


def test_threads_with_sizes_of_their_own():
    layer = jtorch.nn.Linear(4, 6)
    f = jtorch.compile(lambda x: jtorch.tanh(layer(x)).sum(0), dynamic=True)
    wrong = []

    def work(k):
        with jtorch.no_grad():
            for n in range(3 + k, 83 + k):
                x = jtorch.full((n, 4), 0.1 * k)
                expected = jtorch.tanh(layer(x)).sum(0)
                if not np.allclose(f(x), expected, rtol=1e-4):
                    wrong.append((k, n))

    threads = [threading.Thread(target=work, args=(k,)) for k in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_a_size_whose_making_is_broken_off_is_made_by_the_next_call(monkeypatch):
    f = jtorch.compile(lambda x: (x * 2).sum(0), dynamic=True)
    f(jtorch.ones(5, 3))
    runner = only_plan(f).runner
    whole = type(runner)._work_out

    def interrupted(*given):
        raise KeyboardInterrupt

    monkeypatch.setattr(type(runner), "_work_out", interrupted)
    with pytest.raises(KeyboardInterrupt):
        f(jtorch.ones(7, 3))
    monkeypatch.setattr(type(runner), "_work_out", whole)
    assert f(jtorch.ones(7, 3)).tolist() == [14.0] * 3 and f.calls == 2


@pytest.mark.parametrize("n", [2, 3])
def test_large_sizes_are_shared_by_threads_bit_for_bit(n):
    """Loops that are cut, and products that are no usual ones."""
    from jtorch.core import threads

    jtorch.manual_seed(0)
    layer = jtorch.nn.Linear(256, 300)

    def f(x):
        h = jtorch.nn.functional.gelu(layer(x))
        return h.sum(1), (h @ h.t()).sum(0)

    before = threads.count()
    try:
        found = {}
        for count in (1, n):
            threads.set_count(count)
            any_size = jtorch.compile(f, dynamic=True)
            with jtorch.no_grad():
                for rows in (40, 700, 333):
                    x = jtorch.linspace(-1, 1, rows * 256).reshape(rows, 256)
                    parts = any_size(x)
                    assert all(
                        np.allclose(a, b, rtol=1e-3, atol=1e-3) for a, b in zip(parts, f(x), strict=True)
                    )
                    found.setdefault(rows, []).append([part.numpy().tobytes() for part in parts])
        assert all(one == other for one, other in found.values())
    finally:
        threads.set_count(before)


def pairs(x):
    return x[:, None] * x / x.shape[0]


NEEDY = {"sums": lambda x: pairs(x).cumsum(0).sum(1), "products": lambda x: (pairs(x) @ pairs(x)).sum(1)}


@pytest.mark.parametrize("function", NEEDY.values(), ids=NEEDY)
def test_a_size_for_which_there_is_no_memory_leaves_the_others_right(function, monkeypatch):
    real, most = arena.allocate, 1 << 20

    def allocate(nbytes):
        if nbytes > most:
            raise MemoryError(f"no {nbytes} bytes")
        return real(nbytes)

    monkeypatch.setattr(arena, "allocate", allocate)
    step = jtorch.compile(function, dynamic=True)
    for n in (10, 20, 3_000, 21, 250, 3_000, 300, 10, 350):
        x = jtorch.arange(float(n)) / n
        if n == 3_000:
            with pytest.raises(MemoryError, match=r"no \d+ bytes"):
                step(x)
            continue
        jtorch.testing.assert_close(step(x), function(x), rtol=1e-5, atol=1e-4)
        runner = only_plan(step).runner
        assert runner._reserved == runner.memory.nbytes <= most


def recurrence(x, w, u):
    h = jtorch.zeros(x.shape[0], w.shape[0])
    for t in range(6):
        h = jtorch.tanh(x[:, t] @ u.t() + h @ w.t())
    return h


def by_time(x, w, u):
    h = jtorch.zeros(x.shape[1], w.shape[0])
    for t in range(6):
        h = jtorch.tanh(x[t] @ u.t() + h @ w.t())
    return h


def layers(x, w, u):
    y = jtorch.nn.functional.gelu(x.reshape(-1, x.shape[-1]) @ u.t())
    return (y @ w.t()).softmax(-1).reshape(*x.shape[:2], -1)


def trained(function):
    def step(x, w, u):
        w, u = w.detach().requires_grad_(), u.detach().requires_grad_()
        loss = function(x, w, u).square().mean()
        loss.backward()
        return loss, w.grad, u.grad

    return step


FORWARD = {"rows": recurrence, "by time": by_time, "layers": layers}
RUNS = FORWARD | {f"{name}, trained": trained(function) for name, function in FORWARD.items()}


def tiles_of(runs):
    return [[(task.name, tuple(pieces)) for task, pieces in run.pieces.items()] for run in runs]


@pytest.mark.slow
@pytest.mark.parametrize("name", RUNS)
def test_the_same_steps_go_by_tiles_as_in_a_plan_of_these_sizes(name, monkeypatch):
    monkeypatch.setattr(pieces, "LEAST_TOTAL", 0)
    found = []
    real = StepsAtSizes.tiling

    def tiling(*given):
        found.append(real(*given))
        return found[-1]

    monkeypatch.setattr(StepsAtSizes, "tiling", tiling)
    monkeypatch.setattr(choice, "_FOLLOWED", 0)  # by ways of the whole nothing is asked
    draw = np.random.default_rng(0)
    w, u = (jtorch.from_numpy(draw.standard_normal(s).astype("f4") / 5) for s in ((48, 48), (48, 13)))
    step = jtorch.compile(RUNS[name], dynamic=True)
    with_runs = 0
    for n in (21, 27, 40, 16, 33, 200, 64, 129, 8, 7, 35, 37, 65, 128, 202):
        shape = (6, n, 13) if "time" in name else (n, 6, 13)
        x = jtorch.from_numpy(draw.standard_normal(shape).astype("f4"))
        exact = jtorch.compile(RUNS[name], dynamic=False)
        found.clear()
        for a, b in zip(parts(step(x, w, u)), parts(exact(x, w, u)), strict=True):
            assert a.tobytes() == b.tobytes()
        if found:
            plan = only_plan(exact).program.plan
            order, runs = found[0]
            assert tiles_of(runs) == tiles_of(plan.runs)
            assert [task.name for task in order] == [task.name for task in plan.tasks]
            with_runs += bool(runs)
    assert with_runs >= 3


def parts(result):
    return [t.detach().numpy() for t in (result if isinstance(result, tuple) else (result,))]
