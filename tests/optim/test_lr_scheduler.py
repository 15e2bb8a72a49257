"""Schedules against PyTorch's rates."""

from __future__ import annotations

import pytest

import jtorch
from jtorch.optim import SGD, lr_scheduler

CASES = [
    ("StepLR", {"step_size": 3, "gamma": 0.5}),
    ("MultiStepLR", {"milestones": [2, 5, 5], "gamma": 0.1}),
    ("ExponentialLR", {"gamma": 0.9}),
    ("CosineAnnealingLR", {"T_max": 8, "eta_min": 0.01}),
    ("LinearLR", {"start_factor": 0.25, "total_iters": 4}),
    ("LambdaLR", {"lr_lambda": lambda k: 1 / (1 + k)}),
    ("LambdaLR", {"lr_lambda": [lambda k: 0.5**k, lambda k: 1.0]}),
]


def build(lib, name, options):
    groups = [{"params": [lib.ones(1, requires_grad=True)], "lr": lr} for lr in (1.0, 0.3)]
    optimizer = lib.optim.SGD(groups, lr=0.1)
    return optimizer, getattr(lib.optim.lr_scheduler, name)(optimizer, **options)


def rates(lib, name, options, steps=9):
    optimizer, schedule = build(lib, name, options)
    out = [schedule.get_last_lr()]
    for _ in range(steps):
        optimizer.step()
        schedule.step()
        assert schedule.get_last_lr() == [g["lr"] for g in optimizer.param_groups]
        out.append(schedule.get_last_lr())
    return out


@pytest.mark.parametrize("case", CASES, ids=[f"{n}-{k}" for k, (n, _) in enumerate(CASES)])
def test_rates_equal_pytorch(torch, case):
    for ours, theirs in zip(rates(jtorch, *case), rates(torch, *case), strict=True):
        assert ours == pytest.approx(theirs, rel=1e-12)


@pytest.mark.parametrize("case", CASES[:5], ids=[n for n, _ in CASES[:5]])
def test_resumes_from_its_state(case):
    expected = rates(jtorch, *case)
    optimizer, schedule = build(jtorch, *case)
    for _ in range(4):
        schedule.step()
    saved, saved_optimizer = schedule.state_dict(), optimizer.state_dict()
    fresh_optimizer, fresh = build(jtorch, *case)
    fresh_optimizer.load_state_dict(saved_optimizer)
    fresh.load_state_dict(saved)
    for k in range(5, 10):
        fresh.step()
        assert fresh.get_last_lr() == expected[k]


def test_state_dict_holds_no_functions():
    _, schedule = build(jtorch, *CASES[5])
    state = schedule.state_dict()
    assert state["last_epoch"] == 0 and "lr_lambdas" not in state and "optimizer" not in state


def test_the_optimizer_uses_the_rate():
    p = jtorch.zeros(1, requires_grad=True)
    optimizer = SGD([p], lr=1.0)
    schedule = lr_scheduler.ExponentialLR(optimizer, 0.5)
    p.grad = jtorch.ones(1)
    for _ in range(3):
        optimizer.step()
        schedule.step()
    assert p.item() == -1.75


def test_errors():
    optimizer = SGD([jtorch.ones(1, requires_grad=True)])
    with pytest.raises(TypeError, match="int is not an Optimizer"):
        lr_scheduler.StepLR(3, 1)
    with pytest.raises(ValueError, match="Expected 1 lr_lambdas, but got 2"):
        lr_scheduler.LambdaLR(optimizer, [float, float])
    with pytest.raises(KeyError, match="'initial_lr' is not specified"):
        lr_scheduler.ExponentialLR(optimizer, 0.5, last_epoch=3)
