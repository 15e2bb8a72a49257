"""The whole training step compiled: equal to eager in everything a program can see afterwards."""

import sys

import numpy as np
import pytest

import jtorch
import jtorch.nn as nn
import jtorch.nn.functional as F
from jtorch.compile.run.replay import Native
from tests import memory_peak


def make_step(optimizer=jtorch.optim.Adam, zero_grad=True, **options):
    jtorch.manual_seed(0)
    model = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 4))
    optimizer = optimizer(model.parameters(), **options)

    def step(x, y):
        if zero_grad:
            optimizer.zero_grad()
        loss = F.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
        return loss

    return model, optimizer, step


def batches(count, rows=6):
    rng = np.random.default_rng(0)
    for _ in range(count):
        x = rng.standard_normal((rows, 8)).astype(np.float32)
        yield jtorch.from_numpy(x), jtorch.from_numpy(rng.integers(0, 4, rows))


def assert_same(a, b, tolerance=2e-6):
    np.testing.assert_allclose(a.detach().numpy(), b.detach().numpy(), rtol=tolerance, atol=tolerance)


OPTIMIZERS = {
    "sgd": (jtorch.optim.SGD, {"lr": 0.1}),
    "momentum": (jtorch.optim.SGD, {"lr": 0.1, "momentum": 0.9, "weight_decay": 0.01}),
    "nesterov": (jtorch.optim.SGD, {"lr": 0.1, "momentum": 0.9, "nesterov": True}),
    "adam": (jtorch.optim.Adam, {"lr": 0.01}),
    "adam with decay": (jtorch.optim.Adam, {"lr": 0.01, "weight_decay": 0.1}),
    "adamw": (jtorch.optim.AdamW, {"lr": 0.01}),
}


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_steps_equal_eager_ones(name):
    optimizer, options = OPTIMIZERS[name]
    eager_model, eager_optimizer, eager = make_step(optimizer, **options)
    model, compiled_optimizer, step = make_step(optimizer, **options)
    step = jtorch.compile(step)
    for x, y in batches(5):
        assert_same(step(x, y), eager(x, y))
        for p, q in zip(model.parameters(), eager_model.parameters(), strict=True):
            assert_same(p, q)
            assert_same(p.grad, q.grad)
    state, expected = compiled_optimizer.state_dict(), eager_optimizer.state_dict()
    for k, facts in expected["state"].items():
        for key, value in facts.items():
            if isinstance(value, jtorch.Tensor):
                assert_same(state["state"][k][key], value)


def test_gradients_accumulate_over_calls_without_zero_grad():
    eager_model, _, eager = make_step(jtorch.optim.SGD, zero_grad=False, lr=0.1)
    model, _, step = make_step(jtorch.optim.SGD, zero_grad=False, lr=0.1)
    step = jtorch.compile(step)
    for x, y in batches(4):
        assert_same(step(x, y), eager(x, y))
    for p, q in zip(model.parameters(), eager_model.parameters(), strict=True):
        assert_same(p.grad, q.grad)


def test_a_kept_gradient_does_not_change():
    model, _, step = make_step()
    step = jtorch.compile(step)
    (first, second, third) = batches(3)
    step(*first)
    weight = model[0].weight
    kept = weight.grad
    before = kept.numpy().copy()
    step(*second)
    step(*third)
    np.testing.assert_array_equal(kept.numpy(), before)
    assert weight.grad is not kept
    assert not np.array_equal(weight.grad.numpy(), before)


def test_the_gradient_is_one_object_until_the_next_call():
    model, _, step = make_step()
    step = jtorch.compile(step)
    step(*next(batches(1)))
    assert model[0].weight.grad is model[0].weight.grad


def test_a_gradient_set_to_none_outside_is_there_again_after_the_next_call():
    model, optimizer, step = make_step()
    step = jtorch.compile(step)
    for x, y in batches(3):
        step(x, y)
        assert all(p.grad is not None for p in model.parameters())
        optimizer.zero_grad()
        assert all(p.grad is None for p in model.parameters())


def test_eager_and_compiled_steps_take_turns():
    eager_model, _, eager = make_step()
    model, _, plain = make_step()
    step = jtorch.compile(plain)
    for k, (x, y) in enumerate(batches(6)):
        assert_same((plain if k % 2 else step)(x, y), eager(x, y))
        for p, q in zip(model.parameters(), eager_model.parameters(), strict=True):
            assert_same(p.grad, q.grad)


def test_versions_move():
    model, _, step = make_step()
    step = jtorch.compile(step)
    x, y = next(batches(1))
    step(x, y)
    weight = model[0].weight
    before = weight._version
    step(x, y)
    assert weight._version > before


def test_a_graph_built_before_a_step_knows_that_its_parameters_changed():
    model, _, step = make_step()
    step = jtorch.compile(step)
    x, y = next(batches(1))
    step(x, y)
    loss = F.cross_entropy(model(x), y)
    step(x, y)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        loss.backward()


def test_the_learning_rate_is_read_at_each_call():
    eager_model, eager_optimizer, eager = make_step(jtorch.optim.SGD, lr=0.1)
    model, optimizer, step = make_step(jtorch.optim.SGD, lr=0.1)
    step = jtorch.compile(step)
    for k, (x, y) in enumerate(batches(4)):
        for o in (eager_optimizer, optimizer):
            o.param_groups[0]["lr"] = 0.1 / (k + 1)
        assert_same(step(x, y), eager(x, y))
    assert sum(map(len, step.plans.values())) == 1
    assert_same(model[0].weight, eager_model[0].weight)


def test_one_native_call_and_no_python_between_kernels():
    """Counted: what Python calls, from the user's call to its return."""
    _, _, step = make_step()
    step = jtorch.compile(step)
    x, y = next(batches(1))
    step(x, y)
    segments = step._latest.runner.segments
    assert [type(s) for s in segments] == [Native]
    assert sum(segments[0].table[:, 2]) > 10  # kernels and matrix products that the one call runs
    python, builtin = [], []

    def count(frame, event, argument):
        if event == "call":
            python.append(frame.f_code.co_name)
        elif event == "c_call":
            builtin.append(argument.__name__)

    sys.setprofile(count)
    try:
        step(x, y)
    finally:
        sys.setprofile(None)
    # the decorator's object, the plan's caller with all its tests, the loss
    assert python == ["__call__", "call", "wrap"]
    run = step._latest.runner.run.__name__
    assert builtin.count(run) == 1
    assert set(builtin) <= {"get", "len", "id", "empty", "__new__", run, "setprofile"}


def test_adam_over_all_parameters_is_one_kernel():
    _, _, step = make_step()
    step = jtorch.compile(step)
    step(*next(batches(1)))
    (native,) = step._latest.runner.segments
    kernels = step._latest.program.code.kernels
    repeats = [
        int(row[2])
        for row, task in zip(native.table, native.owners, strict=True)
        if task in kernels and "sqrt" in kernels[task].source
    ]
    assert repeats == [4]


def test_a_bad_target_raises_before_anything_is_changed():
    model, _, step = make_step()
    step = jtorch.compile(step)
    x, y = next(batches(1))
    step(x, y)
    before = [p.detach().numpy().copy() for p in model.parameters()]
    bad = y.clone()
    bad[2] = 7
    with pytest.raises(IndexError, match=r"out of bounds.*test_step.py"):
        step(x, bad)
    for p, b in zip(model.parameters(), before, strict=True):
        np.testing.assert_array_equal(p.detach().numpy(), b)
    assert np.isfinite(step(x, y).item())


@pytest.mark.parametrize("setting", ["JTORCH_JIT", "JTORCH_COMPILE"])
def test_the_other_ways_to_run_give_the_same(setting, monkeypatch):
    eager_model, _, eager = make_step()
    model, _, step = make_step()
    monkeypatch.setenv(setting, "0")
    step = jtorch.compile(step)
    for x, y in batches(2):
        assert_same(step(x, y), eager(x, y))
    assert_same(model[2].weight, eager_model[2].weight)


def test_ten_thousand_steps_leave_memory_flat():
    _, _, step = make_step()
    step = jtorch.compile(step)
    x, y = next(batches(1))
    for _ in range(500):
        step(x, y)
    memory_peak.forget()
    before = memory_peak.peak()
    for _ in range(10_000):
        step(x, y)
    assert memory_peak.peak() - before < 4 << 20
