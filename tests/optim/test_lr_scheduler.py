"""Schedules against PyTorch's rates and momenta, over sixty steps."""

from __future__ import annotations

import pytest

import jtorch
from jtorch.optim import SGD, Adam, lr_scheduler


class Halving:
    """A callable with state, which a state dict keeps."""

    def __init__(self, base=0.5):
        self.base = base

    def __call__(self, k):
        return self.base**k


def sequential(s, optimizer):
    parts = [s.ConstantLR(optimizer, 0.1, 4), s.ExponentialLR(optimizer, 0.9), s.StepLR(optimizer, 3)]
    return s.SequentialLR(optimizer, parts, milestones=[5, 20])


def warm_up(s, optimizer):
    parts = [s.LinearLR(optimizer, 0.1, total_iters=10), s.CosineAnnealingLR(optimizer, 40)]
    return s.SequentialLR(optimizer, parts, milestones=[10])


def chained(s, optimizer):
    return s.ChainedScheduler([s.ConstantLR(optimizer, 0.1, 4), s.ExponentialLR(optimizer, 0.9)])


CASES = {
    "lambda": lambda s, o: s.LambdaLR(o, lambda k: 1 / (1 + k)),
    "lambdas": lambda s, o: s.LambdaLR(o, [Halving(), lambda k: 1.0]),
    "multiplicative": lambda s, o: s.MultiplicativeLR(o, lambda k: 0.95),
    "step": lambda s, o: s.StepLR(o, step_size=7, gamma=0.5),
    "multi-step": lambda s, o: s.MultiStepLR(o, [2, 25, 25, 40], gamma=0.3),
    "constant": lambda s, o: s.ConstantLR(o, factor=0.25, total_iters=9),
    "linear": lambda s, o: s.LinearLR(o, start_factor=0.25, end_factor=0.5, total_iters=30),
    "exponential": lambda s, o: s.ExponentialLR(o, 0.9),
    "polynomial": lambda s, o: s.PolynomialLR(o, total_iters=40, power=2.0),
    "cosine": lambda s, o: s.CosineAnnealingLR(o, T_max=13, eta_min=0.01),
    "restarts": lambda s, o: s.CosineAnnealingWarmRestarts(o, T_0=5, T_mult=2, eta_min=0.01),
    "restarts of one length": lambda s, o: s.CosineAnnealingWarmRestarts(o, T_0=7),
    "sequential": sequential,
    "warm-up": warm_up,
    "chained": chained,
    "cyclic": lambda s, o: s.CyclicLR(o, 0.1, [1.0, 2.0], step_size_up=4, step_size_down=7),
    "cyclic halving": lambda s, o: s.CyclicLR(o, 0.1, 1.0, 5, mode="triangular2"),
    "cyclic falling": lambda s, o: s.CyclicLR(o, 0.1, 1.0, 5, mode="exp_range", gamma=0.97),
    "cyclic by function": lambda s, o: s.CyclicLR(
        o, 0.1, 1.0, 5, scale_fn=lambda k: 1 / (1 + k), scale_mode="iterations", cycle_momentum=False
    ),
    "one cycle": lambda s, o: s.OneCycleLR(o, [0.5, 1.0], total_steps=61),
    "one cycle in three": lambda s, o: s.OneCycleLR(
        o, 1.0, epochs=7, steps_per_epoch=9, three_phase=True, anneal_strategy="linear"
    ),
}
CLOSED = ["step", "multi-step", "constant", "linear", "exponential", "polynomial", "cosine", "restarts"]


def build(lib, case, kind="SGD"):
    groups = [{"params": [lib.ones(1, requires_grad=True)], "lr": lr} for lr in (1.0, 0.3)]
    options = {"momentum": 0.5} if kind == "SGD" else {}
    optimizer = getattr(lib.optim, kind)(groups, lr=0.1, **options)
    return optimizer, CASES[case](lib.optim.lr_scheduler, optimizer)


def facts(optimizer):
    return [(g["lr"], g["momentum"] if "momentum" in g else g["betas"][0]) for g in optimizer.param_groups]


def run(lib, case, kind="SGD", steps=60):
    optimizer, schedule = build(lib, case, kind)
    out = [facts(optimizer)]
    for _ in range(steps):
        optimizer.step()
        schedule.step()
        assert schedule.get_last_lr() == [g["lr"] for g in optimizer.param_groups]
        out.append(facts(optimizer))
    return out, optimizer, schedule


@pytest.mark.parametrize("kind", ["SGD", "Adam"])
@pytest.mark.parametrize("case", CASES)
def test_rates_equal_pytorch(torch, case, kind):
    ours, optimizer, schedule = run(jtorch, case, kind)
    theirs, other, their_schedule = run(torch, case, kind)
    for a, b in zip(ours, theirs, strict=True):
        for pair, their_pair in zip(a, b, strict=True):
            assert pair == pytest.approx(their_pair, rel=1e-12, abs=1e-15)
    state, their_state = schedule.state_dict(), their_schedule.state_dict()
    assert their_state.keys() - state.keys() <= {"_scale_fn_ref"} and state.keys() <= their_state.keys()
    assert [list(g) for g in optimizer.param_groups] == [list(g) for g in other.param_groups]


@pytest.mark.parametrize("case", CASES)
def test_resumes_from_its_state(case):
    expected, _, _ = run(jtorch, case, steps=20)
    _, optimizer, schedule = run(jtorch, case, steps=11)
    fresh_optimizer, fresh = build(jtorch, case)
    fresh_optimizer.load_state_dict(optimizer.state_dict())
    fresh.load_state_dict(schedule.state_dict())
    assert fresh.get_last_lr() == schedule.get_last_lr()
    for k in range(12, 21):
        fresh_optimizer.step()
        fresh.step()
        assert facts(fresh_optimizer) == expected[k]


@pytest.mark.parametrize("case", ["step", "linear", "cosine", "restarts", "one cycle", "warm-up", "chained"])
def test_states_are_interchangeable(torch, case):
    expected, _, _ = run(torch, case, steps=20)
    _, optimizer, schedule = run(torch, case, steps=11)
    fresh_optimizer, fresh = build(jtorch, case)
    for group, saved in zip(fresh_optimizer.param_groups, optimizer.param_groups, strict=True):
        group.update({k: v for k, v in saved.items() if k != "params"})
    fresh.load_state_dict(schedule.state_dict())
    for k in range(12, 21):
        fresh_optimizer.step()
        fresh.step()
        for pair, their_pair in zip(facts(fresh_optimizer), expected[k], strict=True):
            assert pair == pytest.approx(their_pair, rel=1e-12, abs=1e-15)


@pytest.mark.parametrize("case", CLOSED)
def test_going_to_an_epoch_equals_pytorch(torch, case):
    def rates(lib):
        optimizer, schedule = build(lib, case)
        out = []
        for epoch in (3, 17, 2):
            optimizer.step()
            if case == "restarts":
                schedule.step(epoch + 0.5)
            else:
                with pytest.warns(UserWarning, match="The epoch parameter"):
                    schedule.step(epoch)
            out += schedule.get_last_lr()
        return out

    assert rates(jtorch) == pytest.approx(rates(torch), rel=1e-12)


@pytest.mark.parametrize(
    "options",
    [
        {"patience": 2, "factor": 0.5},
        {"mode": "max", "patience": 1, "cooldown": 3, "min_lr": [0.2, 0.01]},
        {"patience": 0, "threshold": 0.3, "threshold_mode": "abs", "min_lr": 0.05},
        {"mode": "max", "patience": 2, "threshold": 0.2, "threshold_mode": "abs", "eps": 0.1},
    ],
)
def test_plateau_equals_pytorch(torch, options):
    metrics = [5.0, 4.0, 4.0, 3.9999, 4.1, 4.2, 3.0, 3.0, 3.0, 3.0, float("nan"), 6.0, 6.0, 1.0, 1.0] * 4

    def rates(lib):
        optimizer, _ = build(lib, "constant")
        schedule = lib.optim.lr_scheduler.ReduceLROnPlateau(optimizer, **options)
        out = []
        for k, metric in enumerate(metrics):
            optimizer.step()
            schedule.step(lib.tensor(metric) if k % 2 else metric)
            out.append((schedule.get_last_lr(), schedule.num_bad_epochs, schedule.cooldown_counter))
        return out, schedule.state_dict()

    (ours, state), (theirs, their_state) = rates(jtorch), rates(torch)
    assert ours == theirs and state == their_state
    fresh = lr_scheduler.ReduceLROnPlateau(build(jtorch, "constant")[0])
    fresh.load_state_dict(state)
    assert fresh.state_dict() == state


def test_state_dict_holds_attributes_of_objects_and_no_functions():
    _, schedule = build(jtorch, "lambdas")
    state = schedule.state_dict()
    assert state["lr_lambdas"] == [{"base": 0.5}, None] and "optimizer" not in state
    _, fresh = build(jtorch, "lambdas")
    state["lr_lambdas"] = [{"base": 0.25}, None]
    fresh.load_state_dict(state)
    assert fresh.lr_lambdas[0].base == 0.25 and len(state["lr_lambdas"]) == 2


def test_the_optimizer_uses_the_rate():
    p = jtorch.zeros(1, requires_grad=True)
    optimizer = SGD([p], lr=1.0)
    schedule = lr_scheduler.ExponentialLR(optimizer, 0.5)
    p.grad = jtorch.ones(1)
    for _ in range(3):
        optimizer.step()
        schedule.step()
    assert p.item() == -1.75


def test_a_rate_that_is_a_tensor_is_filled():
    lr = jtorch.tensor(1.0)
    optimizer = SGD([jtorch.zeros(1, requires_grad=True)], lr=lr)
    schedule = lr_scheduler.StepLR(optimizer, 1, 0.5)
    optimizer.step()
    schedule.step()
    kept = schedule.get_last_lr()[0]
    assert optimizer.param_groups[0]["lr"] is lr and lr.item() == 0.5
    lr.fill_(9.0)
    assert kept.item() == 0.5 and schedule.base_lrs[0].item() == 1.0


def test_warns_of_the_order_of_steps():
    optimizer = SGD([jtorch.zeros(1, requires_grad=True)])
    schedule = lr_scheduler.StepLR(optimizer, 1)
    with pytest.warns(UserWarning, match=r"Detected call of `lr_scheduler.step\(\)` before `optimizer.step"):
        schedule.step()
    schedule.step()  # once is enough
    optimizer = SGD([jtorch.zeros(1, requires_grad=True)])
    schedule = lr_scheduler.StepLR(optimizer, 1)
    optimizer.step = lambda: None
    with pytest.warns(UserWarning, match="has been overridden after learning rate scheduler"):
        schedule.step()
    with pytest.warns(UserWarning, match=r"please use `get_last_lr\(\)`"):
        schedule.get_lr()


S = {
    "no optimizer": lambda s, o: s.StepLR(3, 1),
    "lambdas": lambda s, o: s.LambdaLR(o, [float, float]),
    "no function": lambda s, o: s.MultiplicativeLR(o, 3),
    "resumed": lambda s, o: s.ExponentialLR(o, 0.5, last_epoch=3),
    "constant": lambda s, o: s.ConstantLR(o, 2.0),
    "linear start": lambda s, o: s.LinearLR(o, 0.0),
    "linear end": lambda s, o: s.LinearLR(o, end_factor=2.0),
    "T_0": lambda s, o: s.CosineAnnealingWarmRestarts(o, 0),
    "T_mult": lambda s, o: s.CosineAnnealingWarmRestarts(o, 1, 0.5),
    "eta_min": lambda s, o: s.CosineAnnealingWarmRestarts(o, 1, 1, "x"),
    "negative epoch": lambda s, o: s.CosineAnnealingWarmRestarts(o, 1).step(-1),
    "no schedules": lambda s, o: s.SequentialLR(o, [], []),
    "nothing chained": lambda s, o: s.ChainedScheduler([]),
    "milestones": lambda s, o: s.SequentialLR(o, [s.StepLR(o, 1)], [3]),
    "plateau": lambda s, o: s.ChainedScheduler([s.ReduceLROnPlateau(o)]),
    "no schedule": lambda s, o: s.SequentialLR(o, [3], []),
    "factor": lambda s, o: s.ReduceLROnPlateau(o, factor=1.0),
    "min_lr": lambda s, o: s.ReduceLROnPlateau(o, min_lr=[1, 2]),
    "plateau mode": lambda s, o: s.ReduceLROnPlateau(o, mode="x"),
    "threshold mode": lambda s, o: s.ReduceLROnPlateau(o, threshold_mode="x"),
    "cyclic mode": lambda s, o: s.CyclicLR(o, 0.1, 1, mode="x"),
    "cyclic rates": lambda s, o: s.CyclicLR(o, [0.1, 0.2], 1),
    "no length": lambda s, o: s.OneCycleLR(o, 1.0),
    "length": lambda s, o: s.OneCycleLR(o, 1.0, total_steps=0),
    "epochs": lambda s, o: s.OneCycleLR(o, 1.0, epochs=-1, steps_per_epoch=3),
    "pct_start": lambda s, o: s.OneCycleLR(o, 1.0, 10, pct_start=2.0),
    "strategy": lambda s, o: s.OneCycleLR(o, 1.0, 10, anneal_strategy="x"),
}


@pytest.mark.parametrize("name", S)
def test_errors_are_word_for_word(torch, name):
    found = []
    for lib in (torch, jtorch):
        optimizer = lib.optim.SGD([lib.ones(1, requires_grad=True)], lr=0.1)
        with pytest.raises((ValueError, TypeError, KeyError)) as caught:
            S[name](lib.optim.lr_scheduler, optimizer)
        found.append((type(caught.value), str(caught.value)))
    assert found[0] == found[1]


def test_errors_without_pytorch():
    plain = jtorch.optim.Adagrad([jtorch.ones(1, requires_grad=True)])
    with pytest.raises(ValueError, match="must support momentum or beta1 with `cycle_momentum`"):
        lr_scheduler.CyclicLR(plain, 0.1, 1.0)
    one = lr_scheduler.OneCycleLR(Adam([jtorch.ones(1, requires_grad=True)]), 1.0, total_steps=2)
    one.optimizer.step()
    one.step()
    one.step()
    with pytest.raises(ValueError, match=r"Tried to step 3 times. The specified number of total steps is 2"):
        one.step()
    with pytest.raises(ValueError, match="expects all schedulers to belong to the same optimizer"):
        lr_scheduler.ChainedScheduler([lr_scheduler.StepLR(plain, 1)], one.optimizer)
