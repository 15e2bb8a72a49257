"""``if tensor:`` in compiled functions: every way is exact, in values, gradients and what is written."""

from __future__ import annotations

import os
import subprocess
import sys
import warnings

import numpy as np
import pytest

import jtorch
from jtorch.compile.run.compiled import CompiledPlan
from jtorch.core.errors import OtherBranch


def _tensor(values, grad=False):
    return jtorch.tensor(np.array(values, np.float32)).requires_grad_(grad)


def test_each_way_is_recorded_once_and_replayed():
    def f(x):
        if x.sum() > 0:
            return x * 2
        return x - 1

    compiled = jtorch.compile(f)
    for values in ([1.0, 2.0], [-1.0, -2.0], [3.0, 1.0], [-5.0, 1.0], [0.5, 0.5], [-1.0, 0.0]):
        x = _tensor(values)
        np.testing.assert_array_equal(compiled(x).numpy(), f(x).numpy())
    assert sum(map(len, compiled.plans.values())) == 2
    (further,) = compiled.retraces
    line = f.__code__.co_firstlineno + 1
    assert further.changes[0].what == f"a data-dependent branch, asked at test_branches.py:{line}"


def test_while_and_early_exit():
    def f(x):
        steps = 0
        while x.norm() > 1:
            x = x / 2
            steps += 1
        return x, steps

    compiled = jtorch.compile(f)
    for scale in (0.5, 3.0, 100.0, 3.0, 0.5):
        x = _tensor([scale, scale])
        found, expected = compiled(x), f(x)
        np.testing.assert_array_equal(found[0].numpy(), expected[0].numpy())
        assert found[1] == expected[1]


def test_nested_branches_take_every_combination():
    def f(x, y):
        if x > 0:
            if y > 0:
                return x + y
            return x - y
        elif y > x:
            return y * 2
        return x * y

    compiled = jtorch.compile(f)
    rng = np.random.default_rng(0)
    for a, b in rng.uniform(-1, 1, (40, 2)):
        x, y = _tensor(a), _tensor(b)
        assert compiled(x, y).item() == f(x, y).item()


def test_assert_in_the_step():
    space: dict = {}  # pytest rewrites the asserts of test files
    exec("def f(x):\n    assert x.isfinite().all(), 'not finite'\n    return x * 2", space)
    compiled = jtorch.compile(space["f"])
    assert compiled(_tensor([1.0])).tolist() == [2.0]
    with pytest.raises(AssertionError, match="not finite"):
        compiled(_tensor([np.inf]))
    assert compiled(_tensor([3.0])).tolist() == [6.0]


def _training(clip, skip=False):
    jtorch.manual_seed(0)
    model = jtorch.nn.Sequential(jtorch.nn.Linear(4, 8), jtorch.nn.Tanh(), jtorch.nn.Linear(8, 1))
    optimizer = jtorch.optim.Adam(model.parameters(), lr=1e-2)

    def step(x, y):
        optimizer.zero_grad()
        loss = ((model(x) - y) ** 2).mean()
        loss.backward()
        if clip:
            norm = jtorch.stack([p.grad.norm() for p in model.parameters()]).norm()
            if norm > 1.0:
                for p in model.parameters():
                    p.grad.mul_(1.0 / norm)
        if skip and not all(p.grad.isfinite().all() for p in model.parameters()):
            return loss
        optimizer.step()
        return loss

    return model, optimizer, step


@pytest.mark.slow
@pytest.mark.parametrize(("clip", "skip"), [(True, False), (False, True), (True, True)])
def test_training_steps_equal_eager(clip, skip):
    rng = np.random.default_rng(0)
    sizes = (1, 30, 1, 30, 0.1, 1, 30)
    batches = [(rng.standard_normal((5, 4)), rng.standard_normal((5, 1)) * s) for s in sizes]
    if skip:
        batches.insert(3, (np.full((5, 4), np.inf), np.ones((5, 1))))
    results = []
    for compiled in (False, True):
        model, optimizer, step = _training(clip, skip)
        run = jtorch.compile(step) if compiled else step
        losses = [run(_tensor(x), _tensor(y)).item() for x, y in batches]
        state = optimizer.state_dict()["state"]
        steps = [float(s["step"]) for s in state.values()]
        grads = [p.grad.numpy().copy() for p in model.parameters()]
        results.append((losses, [p.detach().numpy().copy() for p in model.parameters()], grads, steps))
    (la, pa, ga, sa), (lb, pb, gb, sb) = results
    np.testing.assert_allclose(la, lb, rtol=2e-5)
    assert sa == sb
    for a, b in zip([*pa, *ga], [*pb, *gb], strict=True):
        np.testing.assert_allclose(a, b, rtol=2e-4, atol=2e-6)


def test_a_plan_that_stops_has_written_nothing():
    buffer = _tensor([1.0, 2.0])

    def f(x):
        buffer.add_(x)
        if buffer.sum() > 10:
            buffer.zero_()
        return buffer * 1

    compiled = jtorch.compile(f)
    expected = np.array([1.0, 2.0], np.float32)
    for x in (1.0, 1.0, 5.0, 1.0, 20.0, 0.5):
        expected = expected + np.float32(x)
        if expected.sum() > 10:
            expected[:] = 0
        out = compiled(_tensor([x, x]))
        np.testing.assert_array_equal(out.numpy(), expected)
        np.testing.assert_array_equal(buffer.numpy(), expected)


def test_gradients_flow_through_the_way_that_was_taken():
    w = _tensor([2.0, 3.0], grad=True)

    def forward(x):
        h = w * x
        if h.sum() > 0:
            return h * h
        return h * 3

    compiled = jtorch.compile(forward)
    for values in ([1.0, 1.0], [-1.0, -1.0], [2.0, -1.0], [-3.0, 1.0]):
        w.grad = None
        forward(_tensor(values)).sum().backward()
        expected = w.grad.numpy().copy()
        w.grad = None
        compiled(_tensor(values)).sum().backward()
        np.testing.assert_allclose(w.grad.numpy(), expected, rtol=1e-6)


@pytest.mark.slow
def test_random_draws_are_those_of_eager():
    def f(x):
        noise = jtorch.rand(3)
        if noise[0] > 0.5:
            return x + noise + jtorch.rand(3)
        return x - noise

    compiled = jtorch.compile(f)
    x = jtorch.zeros(3)
    jtorch.manual_seed(5)
    expected = [f(x).tolist() for _ in range(12)]
    jtorch.manual_seed(5)
    assert [compiled(x).tolist() for _ in range(12)] == expected


def test_too_many_ways_run_eagerly_and_say_so_once():
    def f(x):
        n = 0
        while x > 0:
            x = x - 1
            n += 1
        return n

    compiled = jtorch.compile(f, max_branches=3)
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        found = [compiled(_tensor(float(k))) for k in (0, 1, 2, 3, 4, 5, 1, 5)]
    assert found == [0, 1, 2, 3, 4, 5, 1, 5]
    assert len([w for w in told if "ways through its branches" in str(w.message)]) == 1


def test_bool_of_many_elements_is_eagers_error():
    with pytest.raises(RuntimeError, match="Boolean value of Tensor with more than one value is ambiguous"):
        jtorch.compile(lambda x: 1 if x else 2)(_tensor([1.0, 2.0]))


@pytest.mark.parametrize("mode", [None, "interpret"])
def test_interpreted_plans_stop_at_branches_too(mode):
    compiled = jtorch.compile(lambda x: x * 2 if x > 0 else x - 1, mode=mode)
    assert [compiled(_tensor(v)).item() for v in (1.0, -1.0, 2.0, -3.0)] == [2.0, -2.0, 4.0, -4.0]


@pytest.mark.parametrize("every", [2, 3])
@pytest.mark.parametrize("make", [
    lambda p: jtorch.optim.SGD(p, lr=0.1),
    lambda p: jtorch.optim.SGD(p, lr=0.1, momentum=0.9),
    lambda p: jtorch.optim.Adam(p, lr=0.1),
], ids=["sgd", "momentum", "adam"])  # fmt: skip
def test_gradients_that_are_accumulated_until_a_counter_says_so(make, every):
    """A replay that finds itself on the wrong branch has changed no parameter."""

    def run(wrap):
        jtorch.manual_seed(0)
        model = jtorch.nn.Linear(3, 1)
        optimizer, n, seen = make(model.parameters()), 0, []

        @wrap
        def micro(x):
            nonlocal n
            loss = model(x).pow(2).mean()
            loss.backward()
            n += 1
            if n % every == 0:
                optimizer.step()
                optimizer.zero_grad()
                return True
            return False

        for k in range(9):
            stepped = micro(jtorch.ones(2, 3) * (k + 1) / 10)
            grads = [None if p.grad is None else p.grad.clone() for p in model.parameters()]
            seen.append((stepped, n, [p.detach().clone() for p in model.parameters()], grads))
        return seen

    for got, want in zip(run(jtorch.compile), run(lambda f: f), strict=True):
        assert got[:2] == want[:2]
        for mine, theirs in zip(got[2] + got[3], want[2] + want[3], strict=True):
            assert (mine is None) == (theirs is None)
            if mine is not None:
                jtorch.testing.assert_close(mine, theirs)


@pytest.mark.slow
def test_machine_code_that_a_branch_needs_first_is_not_watched(tmp_path):
    """The first product of a process makes code with llvmlite, whose Python is nobody's program."""
    program = (
        "import jtorch\n"
        "model = jtorch.nn.Linear(5, 3)\n"
        "def loss(x, y):\n"
        "    return jtorch.nn.functional.binary_cross_entropy(model(x).sigmoid(), y)\n"
        "x, y = jtorch.rand(4, 5), jtorch.rand(4, 3)\n"
        "compiled = jtorch.compile(loss)(x, y)\n"
        "assert jtorch.allclose(compiled, loss(x, y))\n"
    )
    environment = os.environ | {"JTORCH_CACHE": str(tmp_path)}
    subprocess.run([sys.executable, "-c", program], check=True, timeout=300, env=environment)


class Counted(jtorch.nn.Module):
    def __init__(self):
        super().__init__()
        self.best, self.calls, self.log = 0.0, 0, []


@pytest.mark.slow
def test_where_rounding_decides_a_call_runs_in_eager_mode():
    """A divergence that is 0 but for its last bit: kernels may find it below 0 where NumPy does not."""
    F = jtorch.nn.functional

    def step(x, net):
        net.train(not net.training)
        net.calls += 1
        found = F.kl_div(F.log_softmax(x, 1), F.softmax(x.detach(), 1), reduction="batchmean")
        net.best = max(net.best, found.item())
        return found

    compiled, mine, right = jtorch.compile(step), Counted(), Counted()
    with jtorch.random.fork_rng():
        jtorch.manual_seed(0)
        for _ in range(40):
            x = jtorch.randn(4, 3)
            assert abs(compiled(x, mine).item() - step(x, right).item()) < 1e-6
            assert abs(mine.best - right.best) < 1e-6
            assert (mine.training, mine.calls) == (right.training, right.calls)


def test_a_plan_that_goes_another_way_at_once_leaves_nothing_of_its_recording(monkeypatch):
    replay, refused = CompiledPlan.replay, []

    def another_way_at_first(plan, leaves):
        if plan not in refused:
            refused.append(plan)
            raise OtherBranch
        return replay(plan, leaves)

    monkeypatch.setattr(CompiledPlan, "replay", another_way_at_first)

    @jtorch.compile
    def step(x, net):
        net.train(not net.training)
        net.calls += 1
        net.log.append(net.calls)
        return x * net.calls

    net = Counted()
    for k in range(1, 7):
        assert step(jtorch.ones(1), net).item() == k
        assert (net.training, net.calls, net.log) == (k % 2 == 0, k, [*range(1, k + 1)])
    assert refused
