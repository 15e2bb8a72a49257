"""Module: attributes, walking the tree, modes, dtypes, and what compiled plans are told."""

from __future__ import annotations

import copy
import pickle

import pytest

import jtorch
from jtorch import nn
from jtorch.core import watch


class Net(nn.Module):
    def __init__(self, lib=jtorch):
        super().__init__()
        self.first = nn.Linear(2, 3)
        self.rest = nn.Sequential(nn.ReLU(), nn.Linear(3, 1))
        self.scale = nn.Parameter(jtorch.ones(1))
        self.register_buffer("mean", jtorch.zeros(2))
        self.register_buffer("scratch", jtorch.zeros(1), persistent=False)
        self.steps = 0

    def forward(self, x):
        return self.rest(self.first(x - self.mean)) * self.scale


def test_names_in_pytorch_order(torch):
    class Theirs(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.first = torch.nn.Linear(2, 3)
            self.rest = torch.nn.Sequential(torch.nn.ReLU(), torch.nn.Linear(3, 1))
            self.scale = torch.nn.Parameter(torch.ones(1))
            self.register_buffer("mean", torch.zeros(2))
            self.register_buffer("scratch", torch.zeros(1), persistent=False)

    ours, theirs = Net(), Theirs()
    for method in ("named_parameters", "named_buffers", "named_modules", "named_children"):
        assert [n for n, _ in getattr(ours, method)()] == [n for n, _ in getattr(theirs, method)()]
    assert list(ours.state_dict()) == list(theirs.state_dict())
    assert [n for n, _ in ours.named_parameters(prefix="p", recurse=False)] == ["p.scale"]


def test_getters():
    net = Net()
    assert net.get_submodule("rest.1") is net.rest[1]
    assert net.get_submodule("") is net
    assert net.get_parameter("rest.1.bias") is net.rest[1].bias
    assert net.get_buffer("mean") is net.mean
    with pytest.raises(AttributeError, match=r"Sequential has no attribute `7`"):
        net.get_submodule("rest.7")
    with pytest.raises(AttributeError, match=r"`scale` is not an nn\.Module"):
        net.get_submodule("scale")
    with pytest.raises(AttributeError, match=r"`mean` is not an nn\.Parameter"):
        net.get_parameter("mean")
    with pytest.raises(AttributeError, match="'Net' object has no attribute 'nothing'"):
        _ = net.nothing


ATTRIBUTE_ERRORS = [
    (lambda n, x: setattr(n, "weight", x.ones(2)), "as parameter 'weight'"),
    (lambda n, x: setattr(n, "weight", 3), "cannot assign 'int' as parameter 'weight'"),
    (lambda n, x: n.register_parameter("q", 3), "cannot assign 'int' object to parameter 'q'"),
    (lambda n, x: n.register_parameter("a.b", None), 'parameter name can\'t contain "."'),
    (lambda n, x: n.register_parameter("", None), "parameter name can't be empty"),
    (lambda n, x: n.register_parameter("forward", None), "attribute 'forward' already exists"),
    (lambda n, x: n.register_buffer("weight", None), "attribute 'weight' already exists"),
    (lambda n, x: n.register_buffer(3, None), "buffer name should be a string. Got int"),
    (lambda n, x: n.add_module("m", 3), "int is not a Module subclass"),
    (lambda n, x: n.train(1), "training mode is expected to be boolean"),
    (lambda n, x: n.to(x.int64), "only accepts floating point"),
    (lambda n, x: n.load_state_dict(3), "Expected state_dict to be dict-like, got"),
]


@pytest.mark.parametrize(("act", "text"), ATTRIBUTE_ERRORS, ids=[text for _, text in ATTRIBUTE_ERRORS])
def test_errors_are_pytorch_s(torch, act, text):
    with pytest.raises((TypeError, KeyError, ValueError, AttributeError)) as ours:
        act(nn.Linear(2, 2), jtorch)
    with pytest.raises(type(ours.value)) as theirs:
        act(torch.nn.Linear(2, 2), torch)
    assert text in ours.value.args[0]
    assert text in theirs.value.args[0]


def test_assignment_before_init():
    class Early(nn.Module):
        def __init__(self):
            self.layer = nn.Linear(1, 1)

    with pytest.raises(AttributeError, match=r"cannot assign module before Module.__init__\(\) call"):
        Early()


def test_reassignment_moves_between_kinds():
    net = nn.Linear(2, 2)
    net.bias = None
    assert net.bias is None and [n for n, _ in net.named_parameters()] == ["weight"]
    net.note = 3
    net.note = nn.ReLU()
    assert "note" not in net.__dict__ and [n for n, _ in net.named_children()] == ["note"]
    net.note = nn.Parameter(jtorch.ones(1))
    assert [n for n, _ in net.named_children()] == []
    del net.note
    assert not hasattr(net, "note")
    assert "weight" in dir(net)


def test_missing_forward():
    with pytest.raises(NotImplementedError, match=r'Module \[Module\] is missing the required "forward"'):
        nn.Module()(1)


def test_modes_and_freezing():
    net = Net()
    assert net.eval() is net and not any(m.training for m in net.modules())
    assert net.train() is net and all(m.training for m in net.modules())
    net.requires_grad_(False)
    assert not any(p.requires_grad for p in net.parameters())


def test_zero_grad():
    net = Net()
    net(jtorch.ones(1, 2)).sum().backward()
    kept = net.scale.grad
    net.zero_grad(set_to_none=False)
    assert net.scale.grad.tolist() == [0.0] and kept.tolist() == [0.0]
    net.zero_grad()
    assert all(p.grad is None for p in net.parameters())


def test_to_changes_floats_and_keeps_identity():
    net = Net()
    net.register_buffer("count", jtorch.tensor(3))
    net(jtorch.ones(1, 2)).sum().backward()
    weight = net.first.weight
    net.double()
    assert net.first.weight is weight
    assert weight.dtype is jtorch.float64 and weight.grad.dtype is jtorch.float64
    assert net.mean.dtype is jtorch.float64 and net.count.dtype is jtorch.int64
    net(jtorch.ones(1, 2, dtype=jtorch.float64)).sum().backward()
    assert net.float().scale.dtype is jtorch.float32
    with pytest.raises(RuntimeError, match="CUDA"):
        net.cuda()


def test_apply_visits_children_first():
    seen = []
    net = Net()
    assert net.apply(lambda m: seen.append(type(m).__name__)) is net
    assert seen == ["Linear", "ReLU", "Linear", "Sequential", "Net"]


@pytest.mark.parametrize("clone", [copy.deepcopy, lambda m: pickle.loads(pickle.dumps(m))])
def test_copies_are_independent(clone):
    layer = nn.Linear(2, 2)
    tied = nn.Sequential(layer, nn.Tanh(), layer)
    other = clone(tied)
    assert other[0] is other[2]
    assert isinstance(other[0].weight, nn.Parameter) and other[0].weight.requires_grad
    x = jtorch.ones(1, 2)
    assert other(x).tolist() == tied(x).tolist()
    with jtorch.no_grad():
        layer.weight.zero_()
    assert other(x).tolist() != tied(x).tolist()


CHANGES = {
    "plain attribute": lambda n: setattr(n, "steps", n.steps + 1),
    "new attribute": lambda n: setattr(n, "fresh", 1),
    "parameter": lambda n: setattr(n, "scale", nn.Parameter(jtorch.ones(1))),
    "parameter to None": lambda n: setattr(n, "scale", None),
    "buffer": lambda n: setattr(n, "mean", jtorch.zeros(2)),
    "submodule": lambda n: setattr(n, "first", nn.Linear(2, 3)),
    "deletion": lambda n: delattr(n, "mean"),
    "registration": lambda n: n.register_buffer("more", None),
    "mode": lambda n: n.eval(),
    "hook": lambda n: n.register_forward_hook(lambda *a: None),
    "pre-hook": lambda n: n.register_forward_pre_hook(lambda *a: None),
    "backward hook": lambda n: n.register_full_backward_hook(lambda *a: None),
    "container": lambda n: n.rest.append(nn.Tanh()),
    "container item": lambda n: n.rest.__delitem__(0),
    "dtype": lambda n: n.double(),
    "assigning load": lambda n: n.load_state_dict(n.state_dict(), assign=True),
}
NO_CHANGES = {
    "same plain value": lambda n: setattr(n, "steps", 0),
    "same parameter": lambda n: setattr(n, "scale", n.scale),
    "same submodule": lambda n: setattr(n, "first", n.first),
    "same buffer": lambda n: setattr(n, "mean", n.mean),
    "same mode": lambda n: n.train(),
    "in place": lambda n: n.mean.add_(1),
    "copying load": lambda n: n.load_state_dict(n.state_dict()),
    "call": lambda n: n(jtorch.ones(1, 2)),
    "zero_grad": lambda n: n.zero_grad(),
    "same dtype": lambda n: n.mean.float(),
}


@pytest.mark.parametrize("what", CHANGES)
def test_plans_hear_of_a_change(what):
    net = Net()
    with watch.listening() as listener:
        CHANGES[what](net)
    assert listener.heard


@pytest.mark.parametrize("what", NO_CHANGES)
def test_plans_are_left_alone(what):
    net = Net()
    with watch.listening() as listener:
        NO_CHANGES[what](net)
    assert not listener.heard


def test_removing_a_hook_is_heard():
    net = Net()
    handle = net.register_forward_hook(lambda *a: None)
    with watch.listening() as listener:
        handle.remove()
    assert listener.heard
