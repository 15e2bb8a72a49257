"""What can be asked of a compiled function whose tensors lie on the tests' device, where each operation takes
a millisecond by its own clock."""

from __future__ import annotations

import pytest

import jtorch
from jtorch import nn
from jtorch.compile.inspect import profile, stats
from jtorch.compiler import disable, scan, while_loop
from tests.compile.codegen.cuda_programs import tensor
from tests.cuda.marks import compiles
from tests.each import each

pytestmark = [
    pytest.mark.usefixtures("cuda"),
    compiles,
]
F = nn.functional


def training(asks):
    """(losses, all that is left) of a training that asks in the middle, or does not."""
    jtorch.manual_seed(0)
    model = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Dropout(0.2), nn.Linear(8, 2)).cuda()
    optimizer = jtorch.optim.Adam(model.parameters(), lr=0.01)

    @jtorch.compile(fullgraph=True)
    def step(x, y):
        optimizer.zero_grad()
        loss = F.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
        return loss

    losses = []
    for k in range(4):
        x, y = tensor(5, 4, seed=k).cuda(), jtorch.tensor([0, 1, 1, 0, 1]).cuda()
        losses.append(step(x, y).item())
        if k == 1 and asks:
            asks(step, x, y)
    state = [*model.parameters(), *(p.grad for p in model.parameters())]
    return losses, [t.tolist() for t in state], step


def goes_on(asks, monkeypatch):
    """The step of a training that asks, and goes on as one that does not."""
    monkeypatch.setattr(stats, "_REPLAYS", 3)
    monkeypatch.setattr(stats, "_EAGER_RUNS", 2)
    expected_losses, expected, _ = training(None)
    losses, found, step = training(asks)
    assert losses == expected_losses and found == expected
    return step


def asked(monkeypatch):
    """What the stats of a training say, which goes on as if nobody had asked; and its step."""
    told = []
    step = goes_on(lambda step, *given: told.append(step.stats(*given)), monkeypatch)
    (found,) = told
    stages = (found.guard_us, found.marshal_us, found.kernels_us, found.wrap_us, found.eager_us)
    assert all(us > 0 for us in stages) and found.calls == 2 and found.name == "step"
    return found, step


@pytest.mark.slow
def test_stats_put_everything_back(monkeypatch):
    found, step = asked(monkeypatch)
    assert found.kernels_us > found.guard_us  # the tests' device runs nothing before it is waited for
    assert "calls until paid back" in str(found) and step.calls == 4


def halved(x):
    return while_loop(lambda c: c.abs().max() > 0.5, lambda c: c * 0.5, x, max_steps=20)


def with_a_library(x):
    return (x * 2).cumsum(0) + 1


@each("function", (halved, with_a_library))
def test_stats_of_what_is_several_graphs(function, monkeypatch):
    monkeypatch.setattr(stats, "_REPLAYS", 3)
    step = jtorch.compile(function, fullgraph=True)
    x = tensor(4).cuda() * 8
    step(x)
    assert step.stats(x).kernels_us > 0


# -- profiles ------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_a_profile_changes_nothing(monkeypatch):
    monkeypatch.setattr(profile, "_SECONDS", 0.0)
    told = []
    goes_on(lambda step, *given: told.append(step.profile(*given)), monkeypatch)
    (found,) = told
    assert [k for s in found.steps for k in s.tasks] == list(range(len(found.tasks)))


def test_a_profile_where_sizes_move(monkeypatch):
    monkeypatch.setattr(profile, "_SECONDS", 0.0)
    step = jtorch.compile(lambda x: (x * 2).sum(1), fullgraph=True, dynamic=True)
    for n in (3, 5):
        step(tensor(n, 4).cuda())
        (found,) = step.profile(tensor(n, 4).cuda()).steps
        assert found.us >= 1000 and found.nbytes == 4 * (4 * n + n)


def over_time(x):
    w = x.t() * 0.1
    return scan(lambda c, row: ((c @ w + row).tanh(), c.sum()), x[0], x)


def with_a_call(x):
    return NOTED((x * 2).sum(1)) * 2


NOTED = disable(lambda x: x + 1)
PROFILED = {
    "a product": (lambda x: (x @ x.t()).relu().sum(), {"gemm", "loop"}),
    "a loop over time": (over_time, {"scan"}),
    "Python": (with_a_call, {"host"}),
    "a loop that elements end": (halved, {"scan"}),
    "a library": (with_a_library, {"host"}),
}


@pytest.mark.slow
@each("name", PROFILED)
def test_a_profile_has_the_steps_that_one_of_the_host_has(name, monkeypatch):
    there = profiled(name, monkeypatch)
    assert all(s.us >= 1000 for s in there.steps if s.kind in ("gemm", "loop"))


def profiled(name, monkeypatch):
    """The profile on the device of one of PROFILED, which has the steps that one of the host has."""
    monkeypatch.setattr(profile, "_SECONDS", 0.0)
    monkeypatch.setattr(profile, "_LEAST", 2)
    function, kinds = PROFILED[name]
    x, found = tensor(4, 4) * 4, []
    for given in (x, x.cuda()):
        step = jtorch.compile(function, fullgraph=True)
        step(given)
        found.append(step.profile(given))
    here, there = found
    assert here.device == "" and there.device == "cuda:0" and "limits of cuda:0" in str(there)
    assert kinds <= {s.kind for s in there.steps}
    assert sum(s.flops for s in there.steps) >= sum(s.flops for s in here.steps if s.kind == "gemm")
    assert all(s.us > 0 for s in there.steps) and there.limits.flops > 0
    assert [k for s in there.steps for k in s.tasks] == list(range(len(there.tasks)))
    return there
