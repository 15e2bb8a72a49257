"""What plans were told of and was put back since leaves them as they are; what another thread tells meanwhile
counts.
"""

from __future__ import annotations

import gc
import threading

import numpy as np
import pytest

import jtorch
from jtorch import nn
from jtorch.compile import api
from jtorch.compile.run import compiled
from jtorch.core import watch


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer, self.dropout, self.norm = nn.Linear(4, 4), nn.Dropout(0.5), nn.BatchNorm1d(4)
        self.scale, self.name = 2, "a"

    def forward(self, x):
        y = self.dropout(self.norm(self.layer(x))) * self.scale
        return y if self.name == "a" else -y


def _modes(net):
    net.eval()
    net.train()


def _frozen(net):
    net.requires_grad_(False)
    net.requires_grad_(True)


def _one_frozen(net):
    net.layer.weight.requires_grad = False
    net.layer.weight.requires_grad = True


def _number(net):
    net.scale = 3
    net.scale = 2


def _text(net):
    net.name = "b"
    net.name = "a"


@pytest.mark.parametrize("change", [_modes, _frozen, _one_frozen, _number, _text])
def test_what_is_put_back_costs_no_recording(change):
    net = Net()
    f = jtorch.compile(lambda x: net(x).sum())
    x = jtorch.ones(3, 4)
    f(x)
    for _ in range(3):
        change(net)
        f(x)
    assert len(f.retraces) == 0


def _other_number(net):
    net.scale = 3
    net.scale = 5


def _half_back(net):
    net.eval()
    net.norm.train()
    net.dropout.train()
    net.layer.weight.requires_grad_(False)


def _number_of_another_kind(net):
    net.scale = 3
    net.scale = 2.5


def _replaced(net):
    net.eval()
    net.layer = nn.Linear(4, 4)
    net.train()


def _hooked(net):
    net.eval()
    net.layer.register_forward_hook(lambda module, args, out: out * 2)
    net.train()


def _deleted(net):
    net.note = 1
    del net.note
    net.scale = 7


NOT_BACK = [_other_number, _half_back, _number_of_another_kind, _replaced, _hooked, _deleted]


@pytest.mark.parametrize("change", NOT_BACK)
def test_what_is_not_put_back_counts(change):
    jtorch.manual_seed(0)
    net = Net()
    net.dropout.p = 0.0

    def run(x):
        return net(x).sum()

    f = jtorch.compile(run)
    x = jtorch.rand(3, 4)
    f(x)
    change(net)
    state = {k: v.clone() for k, v in net.state_dict().items()}
    got = f(x)
    net.load_state_dict(state)
    want = run(x)
    assert got.requires_grad == want.requires_grad
    assert got.item() == pytest.approx(want.item(), abs=1e-5)


def test_each_mode_has_its_plan_over_epochs_and_sizes():
    net = Net()
    step, evaluate = jtorch.compile(lambda x: net(x).sum()), jtorch.compile(lambda x: net(x).mean())
    for _ in range(4):
        net.train()
        step(jtorch.ones(4, 4)), step(jtorch.ones(3, 4))
        net.eval()
        evaluate(jtorch.ones(4, 4)), evaluate(jtorch.ones(3, 4))
    assert [len(f.retraces) for f in (step, evaluate)] == [1, 1]  # the other size


def test_more_steps_than_are_kept_are_not_as_before(monkeypatch):
    net = Net()
    f = jtorch.compile(lambda x: net(x).sum())
    x = jtorch.ones(3, 4)
    f(x)
    for _ in range(watch._steps.maxlen + 10):
        watch.advance(net, "scale", net.scale)
    f(x)
    assert [entry.outcome for entry in f.retraces] == ["confirmed"]


def test_an_owner_that_is_gone_tells_nothing():
    net, other = Net(), Net()
    f = jtorch.compile(lambda x: net(x).sum())
    f(jtorch.ones(3, 4))
    other.eval()
    other.train()
    assert watch.is_as_before(f._latest.epoch)
    del other
    gc.collect()
    assert not watch.is_as_before(f._latest.epoch)


# -- another thread ------------------------------------------------------------------------------------------


def _elsewhere(change):
    thread = threading.Thread(target=change)
    thread.start()
    thread.join()


class Scaled(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(4, 4)

    def forward(self, x):
        return self.layer(x).tanh() * (0 if self.training else 1)


def test_what_another_thread_changes_while_a_plan_is_made_is_seen(monkeypatch):
    net = Scaled()
    f = jtorch.compile(lambda x: net(x))
    real, turns = compiled.compile_graph, [1]

    def slow(*args, **options):
        if turns:
            turns.pop()
            _elsewhere(net.eval)
        return real(*args, **options)

    monkeypatch.setattr(compiled, "compile_graph", slow)
    x = jtorch.ones(2, 4)
    for _ in range(2):
        np.testing.assert_allclose(f(x).detach().numpy(), net(x).detach().numpy(), rtol=1e-5)


def test_where_another_thread_never_rests_the_call_runs_eagerly(monkeypatch):
    net = Scaled()
    f = jtorch.compile(lambda x: net(x) + 1)
    real, made = api.capture, []

    def restless(*args):
        made.append(real(*args))
        _elsewhere(lambda: net.train(not net.training))
        return made[-1]

    monkeypatch.setattr(api, "capture", restless)
    x = jtorch.ones(2, 4)
    np.testing.assert_allclose(f(x).detach().numpy(), net(x).detach().numpy() + 1, rtol=1e-5)
    assert len(made) == api._LOOKS
