"""What methods of the library's own objects read is seen: optimizers, schedulers, distributions, scalers."""

import pytest

import jtorch
from jtorch import distributions
from jtorch.nn.utils import clip_grad_norm_, clip_grad_value_
from tests.compile.observe.observing import t

READS = {
    "state_dict": lambda o, s: o.state_dict()["param_groups"][0]["lr"],
    "state_dict of the class": lambda o, s: type(o).state_dict(o)["param_groups"][0]["lr"],
    "how much state": lambda o, s: len(o.state_dict()["state"]),
    "a text": lambda o, s: len(f"{o}"),
    "repr": lambda o, s: len(o.__repr__()),
    "defaults": lambda o, s: o.defaults["lr"],
    "the last rate": lambda o, s: s.get_last_lr()[0],
    "a scheduler's state": lambda o, s: s.state_dict()["last_epoch"],
}


@pytest.mark.parametrize("name", READS)
def test_optimizers_and_schedulers(name):
    seen = []
    for wrap in (lambda f: f, jtorch.compile):
        w = jtorch.ones(1, requires_grad=True)
        optimizer = jtorch.optim.Adam([w], lr=1.0)
        scheduler = jtorch.optim.lr_scheduler.StepLR(optimizer, 1, 0.1234)

        @wrap
        def f(x, optimizer=optimizer, scheduler=scheduler):
            return x * READS[name](optimizer, scheduler)

        found = [f(t(1)).item(), f(t(1)).item()]
        optimizer.param_groups[0]["lr"] = optimizer.defaults["lr"] = 5.0625
        found.append(f(t(1)).item())
        (w * 2).sum().backward()
        optimizer.step()
        scheduler.step()
        found.append(f(t(1)).item())
        seen.append(found)
    assert seen[0] == seen[1]


def test_a_distribution_whose_parameter_is_replaced():
    d = distributions.Normal(jtorch.zeros(1), jtorch.ones(1))
    f = jtorch.compile(lambda x: d.log_prob(x))
    f(t(1))
    d.loc = jtorch.full((1,), 3.0)
    assert f(t(1)).tolist() == d.log_prob(t(1)).tolist()


def test_the_scale_of_a_loss_is_read_at_each_call():
    scaler = jtorch.amp.GradScaler("cpu", init_scale=4.0)
    f = jtorch.compile(scaler.scale)
    g = jtorch.compile(lambda x: scaler.scale(x))
    assert f(t(1)).item() == g(t(1)).item() == 4.0
    scaler.update(8.0)
    assert f(t(1)).item() == g(t(1)).item() == 8.0
    assert not len(g.retraces)


def test_the_bound_of_clipping_is_a_runtime_number():
    w = jtorch.ones(2, requires_grad=True)

    def step(x, bound):
        w.grad = None
        (w * x).sum().backward()
        norm = clip_grad_norm_([w], bound)
        clip_grad_value_([w], bound * 0.7)
        return w.grad * 1, norm

    f = jtorch.compile(step)
    for bound in (1.0, 0.5, 100.0, 0.1):
        expected, got = step(t(1, 2), bound), f(t(1, 2), bound)
        assert [e.tolist() for e in expected] == [pytest.approx(g.tolist()) for g in got]
    assert not len(f.retraces)
