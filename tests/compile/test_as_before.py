"""What plans were told of and was put back since leaves them as they are; what another thread tells meanwhile
counts.
"""

from __future__ import annotations

import threading

import numpy as np
import pytest

import jtorch
from jtorch import nn
from jtorch.compile import api, recorder
from jtorch.compile.run import compiled


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


def _entries(net):
    net.note = [1]
    net.layer.register_buffer("more", jtorch.ones(1))
    del net.layer.more


def _hook_removed(net):
    net.layer.register_forward_hook(lambda module, args, out: out * 2).remove()


def _submodule_back(net):
    layer, net.layer = net.layer, nn.Linear(4, 4)
    net.layer = layer


def _default_dtype(net):
    jtorch.set_default_dtype(jtorch.float64)
    jtorch.set_default_dtype(jtorch.float32)


@pytest.mark.parametrize("change", [_entries, _hook_removed, _submodule_back, _default_dtype])
def test_structure_that_is_put_back_costs_no_recording(change):
    test_what_is_put_back_costs_no_recording(change)


# -- another thread ------------------------------------------------------------------------------------------


def _elsewhere(change):
    thread = threading.Thread(target=change)
    thread.start()
    thread.join()


class Scaled(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer, self.scale = nn.Linear(4, 4), 1

    def forward(self, x):
        return self.layer(x).tanh() * (0 if self.training else self.scale)


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
    net = Scaled().eval()
    net.scale = jtorch.tensor([1.0])
    f = jtorch.compile(lambda x: net(x) + len(net.name), fullgraph=False)
    net.name = "a"
    real, made = recorder.capture, []

    def restless(*args, **kwargs):
        made.append(real(*args, **kwargs))
        _elsewhere(lambda: setattr(net, "name", net.name + "a"))
        return made[-1]

    monkeypatch.setattr(recorder, "capture", restless)
    x = jtorch.ones(2, 4)
    with pytest.warns(jtorch.errors.EagerWarning, match="each of 10 recordings goes by"):
        found = f(x).detach().numpy()
    np.testing.assert_allclose(found, net(x).detach().numpy() + len(net.name), rtol=1e-5)
    assert len(made) == api._LOOKS
    f(x)  # runs eagerly from now on, instead of being recorded as often
    assert len(made) == api._LOOKS
