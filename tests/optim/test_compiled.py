"""A compiled training step equals the eager one, whatever changes between calls.

Modules, hooks and optimizers know nothing of the compiler: these programs check that all they do reaches it.
"""

from __future__ import annotations

import collections
import importlib.util

import numpy as np
import pytest

import jtorch
from jtorch import nn, optim
from jtorch.optim import SGD, Adam, AdamW, lr_scheduler

pytestmark = pytest.mark.skipif(
    importlib.util.find_spec("numba") is None,
    reason="compiling needs Numba, which is not installed",
)


def plain():
    return nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 3))


def with_dropout():
    return nn.Sequential(nn.Linear(4, 8), nn.Dropout(0.5), nn.Linear(8, 3))


class Stateful(nn.Module):
    """A buffer that every call changes, a tied weight and a parameter for a later group."""

    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(4, 4)
        self.head = nn.Linear(4, 3)
        self.norm = nn.LayerNorm(4)
        self.late = nn.Parameter(jtorch.ones(3))
        self.register_buffer("calls", jtorch.zeros(3))

    def forward(self, x):
        with jtorch.no_grad():
            self.calls.add_(1)
        x = self.norm(self.layer(self.layer(x)))
        return self.head(x) * self.late + 0.1 * self.calls


def losses(build, make_optimizer, between, compiled, steps=5):
    """(the loss of each step, the parameters after the last)."""
    jtorch.manual_seed(0)
    model = build()
    optimizer = make_optimizer(model)

    def step(x, y):
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
        return loss

    run = jtorch.compile(step) if compiled else step
    out = []
    for k in range(steps):
        rng = np.random.default_rng(k)
        x = jtorch.tensor(rng.standard_normal((5, 4)).astype(np.float32))
        out.append(run(x, jtorch.tensor(rng.integers(0, 3, 5))).item())
        between(model, optimizer, k)
    return out, [p.detach().numpy().copy() for p in model.parameters()]


def check(build, make_optimizer, between=lambda model, optimizer, k: None):
    expected, parameters = losses(build, make_optimizer, between, compiled=False)
    got, others = losses(build, make_optimizer, between, compiled=True)
    np.testing.assert_allclose(got, expected, rtol=1e-5)
    for a, b in zip(others, parameters, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-6)


OPTIMIZERS = {
    "sgd": lambda m: SGD(m.parameters(), lr=0.1),
    "sgd with dampened momentum": lambda m: SGD(
        m.parameters(), lr=0.1, momentum=0.9, dampening=0.5, weight_decay=0.1
    ),
    "sgd nesterov maximize": lambda m: SGD(
        m.parameters(), lr=0.1, momentum=0.9, nesterov=True, maximize=True
    ),
    "adam with l2": lambda m: Adam(m.parameters(), lr=0.1, weight_decay=0.1),
    "adamw": lambda m: AdamW(m.parameters(), lr=0.1),
    "momentum": lambda m: SGD(m.parameters(), lr=0.1, momentum=0.9),
    "amsgrad": lambda m: Adam(m.parameters(), lr=0.1, amsgrad=True),
    "adamax": lambda m: optim.Adamax(m.parameters(), lr=0.1, weight_decay=0.1),
    "nadam": lambda m: optim.NAdam(m.parameters(), lr=0.1, weight_decay=0.1, decoupled_weight_decay=True),
    "radam": lambda m: optim.RAdam(m.parameters(), lr=0.1, betas=(0.5, 0.9)),
    "rmsprop": lambda m: optim.RMSprop(m.parameters(), lr=0.01),
    "rmsprop centered": lambda m: optim.RMSprop(m.parameters(), lr=0.01, momentum=0.9, centered=True),
    "adagrad": lambda m: optim.Adagrad(m.parameters(), lr=0.1, lr_decay=0.1),
    "adadelta": lambda m: optim.Adadelta(m.parameters(), weight_decay=0.1),
    "rprop": lambda m: optim.Rprop(m.parameters()),
    "asgd": lambda m: optim.ASGD(m.parameters(), lr=0.1, t0=2, lambd=0.1),
    "adafactor": lambda m: optim.Adafactor(m.parameters(), lr=0.1, weight_decay=0.1),
}
SCHEDULES = {
    "cosine": lambda o: lr_scheduler.CosineAnnealingLR(o, 6),
    "one cycle": lambda o: lr_scheduler.OneCycleLR(
        o, 0.2, 12, cycle_momentum="momentum" in o.defaults or "betas" in o.defaults
    ),
}


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_every_optimizer(name):
    check(plain, OPTIMIZERS[name])


@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize("name", ["momentum", "adamw", "rmsprop", "adagrad", "nadam", "adam with l2"])
def test_schedules_never_retrace(name, schedule):
    def train(compiled):
        jtorch.manual_seed(0)
        model = plain()
        optimizer = OPTIMIZERS[name](model)
        scheduler = SCHEDULES[schedule](optimizer)

        def step(x):
            optimizer.zero_grad()
            model(x).square().sum().backward()
            optimizer.step()

        run = jtorch.compile(step) if compiled else step
        for k in range(10):
            run(jtorch.tensor(np.random.default_rng(k).standard_normal((5, 4)).astype(np.float32)))
            scheduler.step()
        assert not getattr(run, "retraces", ())
        return [p.detach().numpy() for p in model.parameters()]

    expected, got = train(False), train(True)
    for a, b in zip(got, expected, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("name", ["SGD", "Adam"])
def test_a_rate_that_is_a_tensor(name):
    def train(compiled):
        p = jtorch.ones(2, requires_grad=True)
        lr = jtorch.tensor(0.5)
        optimizer = getattr(optim, name)([p], lr=lr)

        def step(x):
            optimizer.zero_grad()
            (p * x).sum().backward()
            optimizer.step()

        run = jtorch.compile(step) if compiled else step
        for k in range(3):
            run(jtorch.ones(2))
            lr.fill_(0.1 * (k + 1))
        assert not getattr(run, "retraces", ())
        return p.tolist()

    assert train(True) == pytest.approx(train(False), rel=1e-6)


def _halved(optimizer, lr, p):
    lr.mul_(0.5)
    optimizer.step()


def _halved_after(optimizer, lr, p):
    optimizer.step()
    lr.mul_(0.5)
    optimizer.step()


def _halved_through_a_view(optimizer, lr, p):
    lr.reshape(1)[0] = 0.25
    optimizer.step()


def _from_the_gradient(optimizer, lr, p):
    lr.copy_(p.grad.abs().mean() * 0.01)
    optimizer.step()


@pytest.mark.parametrize("change", [_halved, _halved_after, _halved_through_a_view, _from_the_gradient])
@pytest.mark.parametrize("name", ["SGD", "Adam", "AdamW", "RMSprop", "Adagrad", "Adadelta", "NAdam", "Rprop"])
def test_a_rate_that_the_step_changes_itself(name, change):
    def train(compile):
        p = jtorch.ones(2, requires_grad=True)
        lr = jtorch.tensor(0.5)
        optimizer = getattr(optim, name)([p], lr=lr)

        @compile
        def step(x):
            optimizer.zero_grad()
            (p * p * x).sum().backward()
            change(optimizer, lr, p)

        found = []
        for k in range(4):
            step(jtorch.tensor([1.0, 2.0 + k]))
            found += [*p.tolist(), lr.item()]
        return found

    assert train(jtorch.compile) == pytest.approx(train(lambda f: f), rel=1e-5)


def set_option(name, value):
    def between(model, optimizer, k):
        if k == 2:
            optimizer.param_groups[0][name] = value

    return between


@pytest.mark.parametrize(
    ("optimizer", "name", "value"),
    [
        ("adam with l2", "lr", 0.01),
        ("adam with l2", "betas", (0.5, 0.6)),
        ("adam with l2", "eps", 0.1),
        ("adam with l2", "weight_decay", 0.0),
        ("sgd", "momentum", 0.9),
        ("sgd", "weight_decay", 0.1),
        ("sgd nesterov maximize", "momentum", 0.0),
    ],
)
def test_options_that_change(optimizer, name, value):
    check(plain, OPTIMIZERS[optimizer], set_option(name, value))


def at_two(change):
    return lambda model, optimizer, k: change(model, optimizer) if k == 2 else None


CHANGES = {
    "layer replaced": lambda m, o: m.__setitem__(1, nn.ReLU()),
    "layer frozen": lambda m, o: m[0].requires_grad_(False),
    "weights loaded": lambda m, o: m.load_state_dict({k: v * 0.5 for k, v in m.state_dict().items()}),
    "optimizer loaded": lambda m, o: o.load_state_dict(o.state_dict()),
    "forward hook": lambda m, o: m[0].register_forward_hook(lambda m, a, out: out * 2),
    "pre-hook": lambda m, o: m[0].register_forward_pre_hook(lambda m, a: a[0] * 2),
    "backward hook": lambda m, o: m[1].register_full_backward_hook(lambda m, gi, go: (gi[0] * 2,)),
    "gradients zeroed": lambda m, o: o.zero_grad(set_to_none=False),
    "there and back": lambda m, o: m.double().float(),
}


@pytest.mark.parametrize("name", CHANGES)
def test_changes_between_calls(name):
    check(plain, OPTIMIZERS["adamw"], at_two(CHANGES[name]))


def test_dropout_and_modes():
    check(with_dropout, OPTIMIZERS["adamw"], lambda model, optimizer, k: model.train(k % 2 == 0))


@pytest.mark.slow
def test_buffers_tied_weights_and_a_later_group():
    def optimizer(model):
        return Adam([*model.layer.parameters(), *model.head.parameters()], lr=0.1)

    def add(model, optimizer):
        optimizer.add_param_group({"params": [model.late], "lr": 0.3})

    check(Stateful, optimizer, at_two(add))


def _another_state(optimizer, p):
    optimizer.state = collections.defaultdict(dict, optimizer.state)


def _cleared_state(optimizer, p):
    optimizer.state.clear()


def _a_plain_group(optimizer, p):
    options = {k: v for k, v in optimizer.param_groups[0].items() if k != "params"}
    optimizer.param_groups.append({**options, "params": [p]})


def _a_changed_group(optimizer, p):
    optimizer.param_groups[-1]["params"].clear()


def _plain_groups(optimizer, p):
    optimizer.param_groups = [dict(group, params=list(group["params"])) for group in optimizer.param_groups]


def _without_the_first(optimizer, p):
    del optimizer.param_groups[0]["params"][0]


@pytest.mark.parametrize(
    "changes",
    [
        (_another_state, _cleared_state),
        (_a_plain_group, _a_changed_group),
        (_plain_groups, _without_the_first),
    ],
)
def test_plain_containers_in_the_place_of_an_optimizers_own(changes):
    def train(compile):
        p, q = (jtorch.ones(2, requires_grad=True) for _ in range(2))
        optimizer = optim.SGD([p], lr=0.1, momentum=0.9)

        @compile
        def step():
            optimizer.zero_grad()
            q.grad = None
            (p * p * q).sum().backward()
            optimizer.step()

        found = []
        for change in (None, *changes):
            if change is not None:
                change(optimizer, q)
            for _ in range(2):
                step()
                found += [*p.tolist(), *q.tolist()]
        return found

    assert train(jtorch.compile) == pytest.approx(train(lambda f: f), rel=1e-5)
