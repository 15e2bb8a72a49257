"""Hyper-parameters are read anew at each call: no schedule of any optimizer records a step again."""

from __future__ import annotations

import numpy as np
import pytest

import jtorch
from jtorch.core.errors import CompileError
from jtorch.optim import lr_scheduler as schedules

OPTIMIZERS = {
    "SGD": {"momentum": 0.9}, "Adam": {}, "AdamW": {}, "RMSprop": {"momentum": 0.5}, "Adagrad": {},
    "NAdam": {},
}  # fmt: skip

# name -> (optimizer, whether it has a momentum to cycle) -> scheduler
SCHEDULES = {
    "StepLR": lambda o, m: schedules.StepLR(o, 3, 0.5),
    "MultiStepLR": lambda o, m: schedules.MultiStepLR(o, [2, 5], 0.3),
    "ExponentialLR": lambda o, m: schedules.ExponentialLR(o, 0.9),
    "LambdaLR": lambda o, m: schedules.LambdaLR(o, lambda k: 1 / (k + 1)),
    "MultiplicativeLR": lambda o, m: schedules.MultiplicativeLR(o, lambda k: 0.95),
    "ConstantLR": lambda o, m: schedules.ConstantLR(o, 0.5, 4),
    "LinearLR": lambda o, m: schedules.LinearLR(o, 0.2, total_iters=10),
    "PolynomialLR": lambda o, m: schedules.PolynomialLR(o, 10, 2.0),
    "CosineAnnealingLR": lambda o, m: schedules.CosineAnnealingLR(o, 8),
    "CosineAnnealingWarmRestarts": lambda o, m: schedules.CosineAnnealingWarmRestarts(o, 4),
    "CyclicLR": lambda o, m: schedules.CyclicLR(o, 0.001, 0.05, 3, cycle_momentum=m),
    "OneCycleLR": lambda o, m: schedules.OneCycleLR(o, 0.05, total_steps=25, cycle_momentum=m),
    "ChainedScheduler": lambda o, m: schedules.ChainedScheduler(
        [schedules.ConstantLR(o, 0.5, 3), schedules.ExponentialLR(o, 0.9)]
    ),
    "SequentialLR": lambda o, m: schedules.SequentialLR(
        o, [schedules.ConstantLR(o, 0.5, 3), schedules.ExponentialLR(o, 0.9)], [4]
    ),
    "ReduceLROnPlateau": lambda o, m: schedules.ReduceLROnPlateau(o, patience=1),
}


def train(optimizer_name, schedule_name, wrap, steps=20):
    """(losses, parameters and rates after each step, the step)."""
    jtorch.manual_seed(0)
    w, b = jtorch.randn(3, 2, dtype=jtorch.float64), jtorch.zeros(2, dtype=jtorch.float64)
    w.requires_grad_(), b.requires_grad_()
    options = OPTIMIZERS[optimizer_name]
    optimizer = getattr(jtorch.optim, optimizer_name)([w, b], lr=0.01, **options)
    scheduler = SCHEDULES[schedule_name](optimizer, optimizer_name != "Adagrad")
    x = jtorch.randn(4, 3, dtype=jtorch.float64)

    def step(x):
        optimizer.zero_grad()
        loss = ((jtorch.tanh(x @ w) + b - 1.0) ** 2).mean()
        loss.backward()
        optimizer.step()
        return loss

    step, rows, rates = wrap(step), [], []
    for _ in range(steps):
        loss = step(x)
        plateau = schedule_name == "ReduceLROnPlateau"
        scheduler.step(1.0) if plateau else scheduler.step()
        rows.append([loss.item(), *w.detach().reshape(6).tolist(), *b.tolist()])
        rates.append(optimizer.param_groups[0]["lr"])
    return np.array(rows), rates, step


def assert_no_recording(optimizer_name, schedule_name, **keywords):
    expected, rates, _ = train(optimizer_name, schedule_name, lambda f: f)
    found, same_rates, step = train(
        optimizer_name, schedule_name, lambda f: jtorch.compile(f, on_retrace="raise", **keywords)
    )
    assert not step.retraces and sum(map(len, step.plans.values())) == 1
    assert len(set(rates)) > 1 and rates == same_rates  # or nothing was asked
    np.testing.assert_allclose(found, expected, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize("optimizer", OPTIMIZERS)
def test_schedules_record_nothing_and_equal_eager(optimizer, schedule):
    assert_no_recording(optimizer, schedule, mode="interpret")


@pytest.mark.parametrize("optimizer", OPTIMIZERS)
def test_native_code_reads_rates_and_momenta_too(optimizer):
    assert_no_recording(optimizer, "OneCycleLR")


def test_all_schedules_are_here():
    public = {name for name in vars(schedules) if name.endswith(("LR", "Scheduler", "Restarts", "Plateau"))}
    assert public - {"LRScheduler", "_LRScheduler"} == set(SCHEDULES)


def _rate_passed(optimizer, rate):
    optimizer.param_groups[0]["lr"] = rate
    optimizer.step()


def _rate_for_the_next_call(optimizer, rate):
    optimizer.step()
    for group in optimizer.param_groups:
        group["lr"] = rate


def _rate_before_and_after(optimizer, rate):
    optimizer.param_groups[0]["lr"] = 0.25
    optimizer.step()
    optimizer.param_groups[0]["lr"] = rate * 0.5


def _rate_decays(optimizer, rate):
    for group in optimizer.param_groups:
        group["lr"] *= 0.5
    optimizer.step()


@pytest.mark.parametrize("first", [0.5, 1])  # a rate may be an int that becomes a float
@pytest.mark.parametrize("optimizer_name", OPTIMIZERS)
def test_rates_that_are_set_inside_count_for_the_steps_that_follow(optimizer_name, first):
    for change in (_rate_passed, _rate_for_the_next_call, _rate_before_and_after, _rate_decays):
        seen = []
        for wrap in (lambda f: f, jtorch.compile):
            w = jtorch.tensor([1.0, 2.0], dtype=jtorch.float64, requires_grad=True)
            optimizer = getattr(jtorch.optim, optimizer_name)([w], lr=first, **OPTIMIZERS[optimizer_name])

            @wrap
            def step(x, rate, optimizer=optimizer, w=w, change=change):
                optimizer.zero_grad()
                (w * w * x).sum().backward()
                change(optimizer, rate)

            rows = []
            for k in range(5):
                step(jtorch.tensor([k + 1.0, 1.0], dtype=jtorch.float64), 0.01 * (k + 1))
                rows.append([*w.tolist(), optimizer.param_groups[0]["lr"]])
            seen.append(rows)
        assert sum(map(len, step.plans.values())) <= 2, change.__name__
        assert [row[-1] for row in seen[0]] == [row[-1] for row in seen[1]], change.__name__
        np.testing.assert_allclose(seen[1], seen[0], rtol=1e-10, err_msg=change.__name__)


def test_a_group_that_is_updated_as_a_dict_is_refused_by_name():
    w = jtorch.ones(2, requires_grad=True)
    optimizer = jtorch.optim.SGD([w], lr=0.1)

    def step(rate):
        optimizer.param_groups[0].update(lr=rate)

    where = rf"test_schedules.py:{step.__code__.co_firstlineno + 1} in step: "
    with pytest.raises(jtorch.errors.CompileError, match=f"{where}.*the entries of an optimizer's group"):
        jtorch.compile(step)(0.2)
    assert optimizer.param_groups[0]["lr"] == 0.1


# -- a schedule that the compiled function itself steps ----------------------------------------------


class Halving(schedules.LRScheduler):
    """A user's own schedule."""

    def get_lr(self):
        return [group["lr"] * (0.5 if self.last_epoch % 2 else 1.0) for group in self.optimizer.param_groups]


class Counting(Halving):
    """One with a ``step`` of its own."""

    def step(self, epoch=None):
        self.steps = getattr(self, "steps", 0) + 1
        super().step(epoch)


STEPPED_INSIDE = {
    **SCHEDULES,
    "SWALR": lambda o, m: jtorch.optim.swa_utils.SWALR(o, swa_lr=0.05, anneal_epochs=4),
    "a user's": lambda o, m: Halving(o),
    "a user's with a step": lambda o, m: Counting(o),
}


def _stepped_inside(optimizer_name, schedule_name, wrap):
    jtorch.manual_seed(0)
    w = jtorch.randn(3, 2, dtype=jtorch.float64).requires_grad_()
    optimizer = getattr(jtorch.optim, optimizer_name)([w], lr=0.01, **OPTIMIZERS[optimizer_name])
    scheduler = STEPPED_INSIDE[schedule_name](optimizer, optimizer_name != "Adagrad")
    plateau = schedule_name == "ReduceLROnPlateau"

    def step(x):
        optimizer.zero_grad()
        loss = (jtorch.tanh(x @ w) ** 2).mean() + 1
        loss.backward()
        optimizer.step()
        scheduler.step(loss) if plateau else scheduler.step()
        return loss

    step, rows = wrap(step), []
    for k in range(10):
        loss = step(jtorch.full((4, 3), 0.1 * k, dtype=jtorch.float64))
        state = scheduler.state_dict()
        state.pop("lr_lambdas", None)
        rows.append(
            (loss.item(), w.tolist(), [dict(g, params=None) for g in optimizer.param_groups], repr(state))
        )
    return rows, step


@pytest.mark.slow
def test_a_schedule_stepped_inside_goes_on_as_in_eager_mode():
    failures = []
    for optimizer_name in ("SGD", "Adam"):
        for name in STEPPED_INSIDE:
            expected, _ = _stepped_inside(optimizer_name, name, lambda f: f)
            found, compiled = _stepped_inside(
                optimizer_name, name, lambda f: jtorch.compile(f, mode="interpret")
            )
            for k, (row, wanted) in enumerate(zip(found, expected, strict=True)):
                np.testing.assert_allclose(row[1], wanted[1], rtol=1e-12, err_msg=f"{name}, call {k}")
                if row[2:] != wanted[2:] and name != "ReduceLROnPlateau":
                    failures.append(f"{name} of {optimizer_name}, call {k}: {row[2:]}, want {wanted[2:]}")
                if row[2] != wanted[2]:
                    failures.append(f"{name} of {optimizer_name}, call {k}: {row[2]}, want {wanted[2]}")
            if str(compiled.retraces) != "no retraces":
                failures.append(f"{name} of {optimizer_name}: {compiled.retraces}")
    assert not failures, "\n".join(failures)


def _optimizer():
    p = jtorch.ones(2, requires_grad=True)
    return p, jtorch.optim.SGD([p], lr=1.0)


def test_what_a_step_inside_changes_is_not_known_before_the_call_has_ended():
    for name, after in {
        "get_last_lr": lambda o, s: s.get_last_lr(),
        "last_epoch": lambda o, s: s.last_epoch,
        "state_dict": lambda o, s: s.state_dict(),
        "the group": lambda o, s: o.param_groups[0]["lr"],
        "a step of the optimizer": lambda o, s: o.step(),
    }.items():
        p, optimizer = _optimizer()
        scheduler = schedules.StepLR(optimizer, 1)

        @jtorch.compile
        def step(p=p, optimizer=optimizer, scheduler=scheduler, after=after):
            p.sum().backward()
            optimizer.step()
            scheduler.step()
            return after(optimizer, scheduler)

        with pytest.raises(jtorch.errors.CompileError, match=r"test_schedules.py:\d+.*when it has ended"):
            step()
        assert (scheduler.last_epoch, optimizer.param_groups[0]["lr"]) == (0, 1.0), name


def test_what_a_schedule_raises_comes_after_the_step():
    p, optimizer = _optimizer()
    scheduler = schedules.OneCycleLR(optimizer, 1.0, total_steps=2)

    @jtorch.compile
    def step():
        p.sum().backward()
        optimizer.step()
        scheduler.step()

    step(), step()
    before = p.tolist()
    with pytest.raises(ValueError, match="Tried to step 3 times"):
        step()
    assert p.tolist() != before


def test_several_schedules_and_rates_are_set_in_order():
    def train(wrap):
        p, optimizer = _optimizer()
        first, second = schedules.ExponentialLR(optimizer, 0.5), schedules.StepLR(optimizer, 2)

        def step():
            optimizer.zero_grad()
            (p * p).sum().backward()
            optimizer.step()
            first.step()
            second.step()
            optimizer.param_groups[0]["weight_decay"] = 0.25

        step, rows = wrap(step), []
        for _ in range(5):
            step()
            rows.append(
                (p.tolist(), optimizer.param_groups[0]["lr"], first.get_last_lr(), second.get_last_lr())
            )
        return rows

    assert train(jtorch.compile) == train(lambda f: f)


def test_a_wrong_order_warns_once_at_the_users_line(recwarn):
    _, optimizer = _optimizer()
    scheduler = schedules.StepLR(optimizer, 1)
    scheduler.step()
    (told,) = [w for w in recwarn.list if "before `optimizer.step()`" in str(w.message)]
    assert told.filename == __file__


# -- what a schedule's own code may see ---------------------------------------------------------------


class Reading(schedules.LRScheduler):
    """A user's own schedule, which reads a tensor."""

    def __init__(self, optimizer, seen):
        self.seen = seen
        super().__init__(optimizer)

    def get_lr(self):
        return [group["lr"] / (1 + float(self.seen)) for group in self.optimizer.param_groups]


SEEING = {  # (optimizer, a tensor) -> a schedule whose code of the user's reads it or draws
    "a tensor": lambda o, seen: schedules.LambdaLR(o, lambda k: 1 / (k + 1 + float(seen))),
    "a tensor of an object": Reading,
    "a tensor below": lambda o, seen: schedules.ChainedScheduler(
        [schedules.LambdaLR(o, lambda k: 1 / (k + 1 + float(seen)))]
    ),
    "random numbers": lambda o, seen: schedules.LambdaLR(o, lambda k: float(jtorch.rand(1))),
}


def _rates_seen(make, is_last, wrap):
    jtorch.manual_seed(0)
    w, seen = jtorch.ones(2).requires_grad_(), jtorch.zeros(1)
    optimizer = jtorch.optim.SGD([w], lr=1.0)
    scheduler = make(optimizer, seen)

    def step(x):
        optimizer.zero_grad()
        (w * x).sum().backward()
        optimizer.step()
        if not is_last:
            scheduler.step()
        noise = jtorch.rand(1)
        seen.add_(1)
        if is_last:
            scheduler.step()
        return noise

    step = wrap(step)
    return [(step(jtorch.ones(2)).item(), optimizer.param_groups[0]["lr"]) for _ in range(3)]


@pytest.mark.parametrize("make", SEEING.values(), ids=SEEING)
def test_what_its_own_code_sees_is_what_it_is_at_that_place_or_an_error(make):
    expected = _rates_seen(make, True, lambda f: f)
    assert _rates_seen(make, True, jtorch.compile) == expected
    with pytest.raises(CompileError, match=r"test_schedules.py:\d+ .*Put the call last"):
        _rates_seen(make, False, jtorch.compile)


@pytest.mark.parametrize("name", ["LambdaLR", "ExponentialLR", "a user's"])
def test_a_formula_may_be_stepped_anywhere(name):
    def make(optimizer, seen):
        return STEPPED_INSIDE[name](optimizer, True)

    expected = _rates_seen(make, False, lambda f: f)
    assert _rates_seen(make, False, jtorch.compile) == expected
