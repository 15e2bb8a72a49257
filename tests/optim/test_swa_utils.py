"""Averaged models and their schedule against PyTorch and closed forms."""

from __future__ import annotations

import numpy as np
import pytest

import jtorch
from jtorch import nn
from jtorch.optim import SGD, swa_utils

AVERAGES = {
    "mean": lambda u: {},
    "one by one": lambda u: {"avg_fn": u.get_swa_avg_fn()},
    "moving": lambda u: {"avg_fn": u.get_ema_avg_fn(0.9)},
    "moving lists": lambda u: {"multi_avg_fn": u.get_ema_multi_avg_fn(0.9)},
    "mean of lists": lambda u: {"multi_avg_fn": u.get_swa_multi_avg_fn()},
    "with buffers": lambda u: {"use_buffers": True},
}


def averaged(lib, options):
    model = lib.nn.Linear(2, 3)
    model.register_buffer("extra", lib.zeros(2))
    mean = lib.optim.swa_utils.AveragedModel(model, **options(lib.optim.swa_utils))
    rng = np.random.default_rng(0)
    for _ in range(4):
        with lib.no_grad():
            for t in [*model.parameters(), *model.buffers()]:
                t.copy_(lib.tensor(rng.standard_normal(tuple(t.shape)).astype(np.float32)))
        mean.update_parameters(model)
    return mean


@pytest.mark.parametrize("name", AVERAGES)
def test_averages_equal_pytorch(torch, name):
    ours, theirs = averaged(jtorch, AVERAGES[name]), averaged(torch, AVERAGES[name])
    a, b = ours.state_dict(), theirs.state_dict()
    assert list(a) == list(b) and a["n_averaged"].item() == 4
    for key in a:
        np.testing.assert_allclose(a[key].numpy(), b[key].numpy(), rtol=1e-6)


def test_the_mean_is_the_mean_and_the_model_its_own():
    model = nn.Linear(1, 1)
    mean = swa_utils.AveragedModel(model)
    for k in (1.0, 2.0, 6.0):
        with jtorch.no_grad():
            model.weight.fill_(k)
            model.bias.fill_(0.0)
        mean.update_parameters(model)
    assert mean(jtorch.ones(1, 1)).item() == pytest.approx(3.0)
    assert model.weight.item() == 6.0


@pytest.mark.parametrize("strategy", ["cos", "linear"])
@pytest.mark.parametrize("epochs", [0, 5])
def test_schedule_equals_pytorch(torch, strategy, epochs):
    def rates(lib):
        groups = [{"params": [lib.ones(1, requires_grad=True)], "lr": lr} for lr in (1.0, 0.3)]
        optimizer = lib.optim.SGD(groups, lr=0.1)
        schedule = lib.optim.swa_utils.SWALR(
            optimizer, swa_lr=[0.05, 0.2], anneal_epochs=epochs, anneal_strategy=strategy
        )
        out = []
        for _ in range(9):
            optimizer.step()
            schedule.step()
            out.append(schedule.get_last_lr())
        return out, schedule.state_dict()

    (ours, state), (theirs, their_state) = rates(jtorch), rates(torch)
    np.testing.assert_allclose(ours, theirs, rtol=1e-12)
    assert state.keys() == their_state.keys()


class CountingBatchNorm(nn.Module):
    """What ``update_bn`` needs of a batch norm: a momentum and statistics to reset."""

    def __init__(self):
        super().__init__()
        self.momentum = 0.1
        self.seen = []

    def reset_running_stats(self):
        self.seen.clear()

    def forward(self, x):
        self.seen.append((x.sum().item(), self.momentum, self.training))
        return x


def test_update_bn_takes_plain_means_in_training_mode():
    norm = CountingBatchNorm()
    model = nn.Sequential(norm).eval()
    norm.seen.append("before")
    swa_utils.update_bn([(jtorch.ones(2), 7), jtorch.ones(3)], model)
    assert norm.seen == [(2.0, None, True), (3.0, None, True)]
    assert norm.momentum == 0.1 and not model.training
    swa_utils.update_bn([None], nn.Linear(1, 1))  # nothing to do: the loader is not read


def test_update_bn_equals_pytorch(torch):
    def statistics(lib):
        model = lib.nn.Sequential(lib.nn.BatchNorm1d(3))
        rng = np.random.default_rng(0)
        batches = [lib.tensor(rng.standard_normal((5, 3)).astype(np.float32)) for _ in range(3)]
        lib.optim.swa_utils.update_bn(batches, model)
        assert model[0].momentum == 0.1
        return {k: v.numpy() for k, v in model.state_dict().items()}

    ours, theirs = statistics(jtorch), statistics(torch)
    assert list(ours) == list(theirs)
    for key in ours:
        np.testing.assert_allclose(ours[key], theirs[key], rtol=1e-5, atol=1e-7)


def test_errors():
    optimizer = SGD([jtorch.ones(1, requires_grad=True)])
    with pytest.raises(ValueError, match=r"Invalid decay value 2 provided. Please provide a value in"):
        swa_utils.get_ema_avg_fn(2)
    with pytest.raises(AssertionError, match="Only one of avg_fn and multi_avg_fn"):
        swa_utils.AveragedModel(nn.Linear(1, 1), avg_fn=max, multi_avg_fn=max)
    with pytest.raises(ValueError, match="anneal_strategy must be one of 'cos' or 'linear'"):
        swa_utils.SWALR(optimizer, 0.1, anneal_strategy="no")
    with pytest.raises(ValueError, match="anneal_epochs must be equal or greater than 0, got -1"):
        swa_utils.SWALR(optimizer, 0.1, anneal_epochs=-1)


def test_averages_in_a_compiled_step():
    def train(wrap):
        jtorch.manual_seed(0)
        model = nn.Linear(3, 2)
        average = swa_utils.AveragedModel(model)
        optimizer = jtorch.optim.SGD(model.parameters(), lr=0.1)

        def step(x):
            optimizer.zero_grad()
            loss = model(x).square().mean()
            loss.backward()
            optimizer.step()
            average.update_parameters(model)
            return loss

        step = wrap(step)
        losses = [step(jtorch.randn(4, 3)).item() for _ in range(6)]
        return losses, average, step

    (losses, average, _), (found, compiled_average, step) = map(train, (lambda f: f, jtorch.compile))
    np.testing.assert_allclose(found, losses, rtol=1e-6)
    assert compiled_average.n_averaged.item() == average.n_averaged.item() == 6
    for a, b in zip(compiled_average.parameters(), average.parameters(), strict=True):
        np.testing.assert_allclose(a.detach(), b.detach(), rtol=1e-5)
    assert len(step.retraces) <= 2  # gradients that are there, and the other way
