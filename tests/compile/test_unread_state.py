"""State that a function does not read costs it nothing; all that it reads is noticed, by value.

What modules and optimizers tell of reaches those plans alone that rely on it: no news is no work.
"""

from __future__ import annotations

import copy
import functools
import gc
import math
import operator
import threading

import pytest

import jtorch
from jtorch import nn
from jtorch.core import watch
from jtorch.nn.utils import parametrize
from jtorch.utils.checkpoint import checkpoint


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4), nn.Dropout(0.0))
        self.layers = nn.ModuleList([nn.Linear(4, 4) for _ in range(2)])
        self.cell = nn.LSTM(4, 4)
        self.scale, self.data, self.n = 2.0, [], 0
        self.register_buffer("mean", jtorch.zeros(4))
        self.register_buffer("seen", jtorch.zeros(4))
        self.others = nn.ModuleDict({"a": nn.Linear(4, 4)})

    def forward(self, x):
        y = self.body(x) * self.scale + self.mean
        for layer in self.layers:
            y = layer(y)
        return self.cell(y[None])[0]

    def unused(self):
        return self.n


def _made():
    jtorch.manual_seed(0)
    net = Net()
    return net, jtorch.optim.Adam(net.parameters(), lr=1e-3)


def _step(net, optimizer):
    @jtorch.compile
    def step(x):
        optimizer.zero_grad()
        loss = net(x).square().sum()
        loss.backward()
        optimizer.step()
        return loss

    return step


def _eager_step_of_others():
    layer = nn.Linear(4, 4)
    optimizer = jtorch.optim.RMSprop(layer.parameters(), momentum=0.5)
    layer(jtorch.ones(1, 4)).sum().backward()
    optimizer.step()
    optimizer.load_state_dict(optimizer.state_dict())
    layer.register_forward_hook(lambda *a: None).remove()
    layer.eval()
    layer.requires_grad_(False)


class Counted(jtorch.autograd.Function):
    calls = 0

    @staticmethod
    def forward(ctx, x):
        Counted.calls += 1
        return x * 2

    @staticmethod
    def backward(ctx, g):
        return g * 2


UNREAD = {
    "a list of the module's own": lambda net, o: setattr(net, "data", []),
    "a number of the module's own": lambda net, o: setattr(net, "n", net.n + 1),
    "a new attribute": lambda net, o: setattr(net, "fresh", object()),
    "an attribute that goes": lambda net, o: (setattr(net, "gone", 1), delattr(net, "gone")),
    "a new attribute of a layer": lambda net, o: setattr(net.body[0], "note", object()),
    "a new attribute of a container": lambda net, o: setattr(net.layers, "note", object()),
    "a new attribute of a recurrent layer": lambda net, o: setattr(net.cell, "hidden", jtorch.zeros(1)),
    "an attribute of the optimizer": lambda net, o: setattr(o, "note", object()),
    "a rate": lambda net, o: o.param_groups[0].update(lr=1e-4),
    "a buffer that is replaced": lambda net, o: setattr(net, "seen", jtorch.ones(4)),
    "a new buffer": lambda net, o: net.register_buffer("more", jtorch.ones(1)),
    "a new parameter": lambda net, o: setattr(net, "extra", nn.Parameter(jtorch.ones(1))),
    "a new layer": lambda net, o: net.add_module("extra layer", nn.Linear(1, 1)),
    "a layer that is not called": lambda net, o: net.others.update({"b": nn.Linear(1, 1)}),
    "its parameter": lambda net, o: setattr(net.others["a"], "bias", nn.Parameter(jtorch.zeros(4))),
    "its mode": lambda net, o: net.others.train(not net.others.training),
    "its hook": lambda net, o: net.others["a"].register_forward_hook(lambda *a: None),
    "another module": lambda net, o: setattr(OTHER, "scale", object()),
    "modules that are made": lambda net, o: Net(),
    "an optimizer that is made": lambda net, o: jtorch.optim.SGD(net.parameters(), lr=1.0),
    "another network's step": lambda net, o: _eager_step_of_others(),
    "state dicts": lambda net, o: (net.state_dict(), o.state_dict()),
    "a state dict that is loaded": lambda net, o: net.load_state_dict(copy.deepcopy(net.state_dict())),
    "a copy": lambda net, o: copy.deepcopy(net).eval(),
    "an evaluation in between": lambda net, o: (net.eval(), net(jtorch.ones(2, 4)), net.train()),
    "the same values": lambda net, o: (setattr(net, "scale", float("2")), net.train()),
    "a counter of a Function": lambda net, o: (
        Counted.apply(jtorch.ones(1, requires_grad=True)).sum().backward()
    ),
    "anomaly detection": lambda net, o: jtorch.autograd.set_detect_anomaly(True).__exit__(),
    "a hook of all modules that is removed": lambda net, o: nn.modules.module.register_module_forward_hook(
        lambda *a: None
    ).remove(),
    "cached parametrizations": lambda net, o: _cached(),
}
OTHER = nn.Linear(2, 2)


def _cached():
    with parametrize.cached():
        pass


def test_what_is_not_read_costs_no_recording():
    net, optimizer = _made()
    step = _step(net, optimizer)
    x = jtorch.ones(3, 4)
    step(x)
    step(x)
    retraces, failures = len(step.retraces), []
    for what, change in UNREAD.items():
        for _ in range(2):
            change(net, optimizer)
            step(x)
        if len(step.retraces) != retraces:
            failures.append(f"{what}: {step.retraces[-1]}")
            retraces = len(step.retraces)
    assert not failures, "\n".join(failures)


def test_what_is_not_read_is_not_even_heard():
    net, optimizer = _made()
    step = _step(net, optimizer)
    step(jtorch.ones(3, 4))
    for what in ("a list of the module's own", "a new attribute", "another module", "modules that are made"):
        UNREAD[what](net, optimizer)
        assert not step._latest.news, what


def test_a_method_compiled_hears_what_it_reads_of_its_module():
    net, _ = _made()
    f = jtorch.compile(net.unused)
    g = jtorch.compile(lambda x: x * net.scale)
    x = jtorch.ones(2)
    assert f() == 0 and g(x).tolist() == [2.0, 2.0]
    net.n = 7
    assert f() == 7 and not g._latest.news
    net.scale = 3.0
    assert g(x).tolist() == [3.0, 3.0] and f() == 7
    assert len(f.retraces) == 1 and len(g.retraces) == 1


# -- what is read is noticed ---------------------------------------------------------------------------------


def _absent(net, x):
    return x * getattr(net, "absent", 1.0)


def _has(net, x):
    return x * (2.0 if hasattr(net, "absent") else 1.0)


def _listed(net, x):
    return x * len(vars(net))


def _counted(net, x):
    return x * sum(1 for _ in net.modules())


def _named(net, x):
    return x * len(dict(net.named_parameters())) + len(net.layers)


def _mode(net, x):
    return x * (2.0 if net.training else 1.0)


def _text(net, x):
    return x * len(repr(net))


def _copied(net, x):
    return x * copy.copy(net).scale


def _in_library_code(net, x):
    return net.body(x)


def _handed(net, x):
    return jtorch.func.functional_call(net.layers[1], {}, (x,))


def _mapped(net, x):
    return sum(map(net.layers[0], [x, x]))


vmapped = {}


def _through_vmap(net, x):
    if id(net) not in vmapped:
        return net.layers[0](x)
    return vmapped[id(net)](x)


READ = {
    "an absent attribute": (_absent, lambda net: setattr(net, "absent", 5.0)),
    "whether there is one": (_has, lambda net: setattr(net, "absent", None)),
    "the own dict": (_listed, lambda net: setattr(net, "absent", None)),
    "modules": (_counted, lambda net: setattr(net, "another", nn.Tanh())),
    "modules below": (_counted, lambda net: net.body.append(nn.Tanh())),
    "parameters": (_named, lambda net: net.body[0].register_parameter("more", nn.Parameter(jtorch.ones(1)))),
    "layers": (_named, lambda net: net.layers.append(nn.Linear(4, 4))),
    "the mode": (_mode, lambda net: net.eval()),
    "its text": (_text, lambda net: net.body.append(nn.Tanh())),
    "a copy's number": (_copied, lambda net: setattr(net, "scale", 9.0)),
    "eps of a layer": (_in_library_code, lambda net: setattr(net.body[1], "eps", 3.0)),
    "forward of a layer": (
        _in_library_code,
        lambda net: setattr(net.body[0], "forward", lambda x: x * 3),
    ),
    "the class of a layer": (_in_library_code, lambda net: setattr(net.body[2], "__class__", nn.Tanh)),
    "a hook": (_in_library_code, lambda net: net.body[0].register_forward_hook(lambda m, a, out: out * 3)),
    "a hook's keywords": (
        _in_library_code,
        lambda net: net.body[0].register_forward_pre_hook(
            lambda m, args, kwargs: ((args[0] * 3,), kwargs), with_kwargs=True
        ),
    ),
    "a layer that is replaced": (_in_library_code, lambda net: net.body.__setitem__(2, nn.Softmax(-1))),
    "a parameter that is replaced": (
        _in_library_code,
        lambda net: setattr(net.body[0], "weight", nn.Parameter(jtorch.ones(4, 4))),
    ),
    "a parameter that goes": (_in_library_code, lambda net: setattr(net.body[0], "bias", None)),
    "memory of a parameter": (
        _in_library_code,
        lambda net: setattr(net.body[0].weight, "data", jtorch.ones(4, 4)),
    ),
    "a layer that is handed on": (_handed, lambda net: setattr(net.layers[1], "bias", None)),
    "a mapped layer": (_mapped, lambda net: setattr(net.layers[0], "bias", None)),
    "a wrapped layer": (_through_vmap, lambda net: setattr(net.layers[0], "bias", None)),
    "a wrapped layer's hook": (
        _through_vmap,
        lambda net: net.layers[0].register_forward_hook(lambda m, a, out: out * 3),
    ),
}


@pytest.mark.slow
def test_what_is_read_is_noticed():
    failures = []
    for what, (function, change) in READ.items():
        net, _ = _made()
        vmapped[id(net)] = jtorch.func.vmap(net.layers[0])
        f = jtorch.compile(lambda x, function=function, net=net: function(net, x))
        x = jtorch.arange(12.0).reshape(3, 4)
        before = f(x)
        f(x)
        change(net)
        want, got = function(net, x), f(x)
        if not jtorch.allclose(want, got, atol=1e-5) or jtorch.equal(got, before):
            failures.append(f"{what}: {got.flatten()[:3].tolist()}, want {want.flatten()[:3].tolist()}")
    assert not failures, "\n".join(failures)


class Block(nn.Module):
    """A module of the user's, with another one in it."""

    def __init__(self):
        super().__init__()
        self.lin = nn.Linear(3, 3)
        self.register_buffer("k", jtorch.ones(3))

    def forward(self, x):
        return self.lin(x) * self.k


class Nested(nn.Module):
    def __init__(self):
        super().__init__()
        self.block, self.seq, self.sub = (
            Block(),
            nn.Sequential(Block(), nn.Tanh()),
            nn.ModuleDict({"a": Block()}),
        )
        self.register_buffer("seen", jtorch.zeros(3))

    @property
    def doubled(self):
        return self.seen * 2


ENTRIES = {
    "parameters": lambda n, x: x * sum(p.sum() for p in n.parameters()),
    "parameters of the class": lambda n, x: x * len(list(nn.Module.parameters(n))),
    "parameters by map": lambda n, x: x * sum(len(list(g)) for g in map(nn.Module.parameters, [n])),
    "parameters by a partial": lambda n, x: x * len(list(functools.partial(n.parameters)())),
    "parameters by methodcaller": lambda n, x: x * len(list(operator.methodcaller("parameters")(n))),
    "parameters of super": lambda n, x: x * len(list(super(Nested, n).parameters())),
    "parameters below": lambda n, x: x * len(list(n.block.parameters())),
    "modules": lambda n, x: x * len(list(n.modules())),
    "children": lambda n, x: x * len(list(n.children())),
    "buffers": lambda n, x: x + sum(b.sum() for b in n.buffers()),
    "state_dict": lambda n, x: x * len(n.state_dict()),
    "_buffers": lambda n, x: x + sum(b.sum() for b in n._buffers.values()),
    "_modules": lambda n, x: x * len(n._modules),
    "vars": lambda n, x: x * len(vars(n)["_buffers"]),
    "dir": lambda n, x: x * len(dir(n)),
    "in _parameters": lambda n, x: x * (2 if "extra" in n._parameters else 1),
    "hasattr": lambda n, x: x * (2 if hasattr(n, "extra") else 1),
    "getattr": lambda n, x: x * (2 if getattr(n, "more", None) is not None else 1),
    "a property": lambda n, x: x + n.doubled,
    "attrgetter": lambda n, x: x + operator.attrgetter("seen")(n),
    "get_buffer": lambda n, x: x + n.get_buffer("seen"),
    "get_submodule": lambda n, x: n.get_submodule("block")(x),
    "repr": lambda n, x: x * len(repr(n)),
    "a copy": lambda n, x: copy.copy(n).block(x),
    "a call": lambda n, x: n.block(x),
    "calls in order": lambda n, x: n.seq(x),
    "vmap": lambda n, x: jtorch.func.vmap(n.block)(x),
    "checkpoint": lambda n, x: checkpoint(n.block, x, use_reentrant=False),
}
CHANGES = {
    "a buffer": lambda n: setattr(n, "seen", jtorch.ones(3)),
    "a new buffer": lambda n: n.register_buffer("more", jtorch.ones(1)),
    "a new parameter": lambda n: setattr(n, "extra", nn.Parameter(jtorch.ones(2))),
    "a new layer": lambda n: n.add_module("extra", nn.Linear(2, 2)),
    "a buffer that goes": lambda n: delattr(n, "seen"),
    "layers that go": lambda n: delattr(n, "sub"),
    "a buffer below": lambda n: setattr(n.block, "k", jtorch.ones(3) * 5),
    "a layer below": lambda n: setattr(n.block, "lin", nn.Identity()),
    "a buffer in a Sequential": lambda n: setattr(n.seq[0], "k", jtorch.ones(3) * 5),
    "a layer in a Sequential": lambda n: setattr(n.seq[0], "lin", nn.Identity()),
    "a further layer": lambda n: n.seq.append(nn.ReLU()),
    "a hook below": lambda n: n.block.lin.register_forward_hook(lambda m, a, out: out * 2),
    "a hook of the user's": lambda n: n.block.register_forward_hook(lambda m, a, out: out * 2),
}


def _outcome(f, x):
    try:
        return f(x).detach()
    except Exception as error:
        return type(error)


@pytest.mark.slow
@pytest.mark.usefixtures("unjitted")
def test_whatever_reads_the_entries_of_modules_sees_them_change():
    failures = []
    for reads, function in ENTRIES.items():
        for what, change in CHANGES.items():
            net, x = Nested(), jtorch.ones(2, 3)
            f = jtorch.compile(functools.partial(function, net))
            f(x), f(x)
            change(net)
            got, want = _outcome(f, x), _outcome(functools.partial(function, net), x)
            if got is not want and (isinstance(want, type) or not jtorch.allclose(got, want)):
                failures.append(f"{reads}, {what}: {got}, want {want}")
    assert not failures, "\n".join(failures)


def _global_hook(net):
    return nn.modules.module.register_module_forward_hook(lambda m, args, out: out * 2).remove


def _own_hook(net):
    return net.body[0].register_forward_hook(lambda m, args, out: out * 2).remove


def _pre_hook(net):
    return net.body[0].register_forward_pre_hook(lambda m, args: (args[0] * 2,)).remove


def _double(net):
    jtorch.set_default_dtype(jtorch.float64)
    return lambda: jtorch.set_default_dtype(jtorch.float32)


def _evaluating(net):
    net.body[2].p = 0.999
    net.eval()
    return lambda: net.train()


def _instance_forward(net):
    net.body[0].forward = lambda x: x * 2
    return lambda: delattr(net.body[0], "forward")


def _other_class(net):
    net.body[2].__class__ = nn.Tanh
    return lambda: setattr(net.body[2], "__class__", nn.Identity)


def _other_function(net):
    before, nn.functional.linear = nn.functional.linear, lambda x, weight, bias: x * 5
    return lambda: setattr(nn.functional, "linear", before)


@pytest.mark.slow
def test_what_is_undone_after_the_recording_is_noticed():
    """It is as it was before, but not as it was when it was recorded."""
    failures = []
    for setting in (
        _global_hook, _own_hook, _pre_hook, _double, _evaluating, _instance_forward, _other_class,
        _other_function,
    ):  # fmt: skip
        net, _ = _made()
        f = jtorch.compile(lambda x, net=net: net.body(x) + jtorch.tensor([1.0]))
        x = jtorch.arange(12.0).reshape(3, 4)
        undo = setting(net)
        try:
            f(x)
            f(x)
        finally:
            undo()
        jtorch.manual_seed(3)
        got = f(x)
        jtorch.manual_seed(3)
        want = net.body(x) + jtorch.tensor([1.0])
        if got.dtype is not want.dtype or not jtorch.allclose(got, want, atol=1e-4):
            failures.append(
                f"{setting.__name__}: {got.flatten()[:3].tolist()}, want {want.flatten()[:3].tolist()}"
            )
    assert not failures, "\n".join(failures)


VALUES = (0.0, -0.0, 1, True, 1.0, math.nan, "1", b"1", None, (0.0,), (-0.0,), (1,), (True,), 1 + 0j)


def _told(value):
    return f"{type(value).__name__} {value!r}"


def test_equal_values_of_another_kind_are_another_value():
    """0.0 and -0.0, 1 and True and 1.0 are equal, and functions give something else for them."""
    net, _ = _made()
    f = jtorch.compile(lambda x: (x, _told(net.scale), 1 / x * 0 if net.scale is None else x))
    failures = []
    for before in VALUES:
        for after in VALUES:
            net.scale = before
            f(jtorch.ones(1))
            net.scale = after
            got = f(jtorch.ones(1))[1]
            if got != _told(after):
                failures.append(f"{_told(before)} -> {_told(after)}: {got}")
    assert not failures, "\n".join(failures)


def test_the_sign_of_zero_counts():
    net = nn.Linear(1, 1)
    net.low = 0.0
    f = jtorch.compile(lambda x: 1 / (x * net.low))
    assert f(jtorch.ones(1)).item() == math.inf
    net.low = -0.0
    assert f(jtorch.ones(1)).item() == -math.inf


def test_accumulating_into_gradients_that_go_records_once_for_each_form():
    net, optimizer = _made()

    @jtorch.compile
    def accumulate(x):
        loss = net(x).square().sum()
        loss.backward()
        return loss

    for _ in range(4):
        for _ in range(3):
            accumulate(jtorch.ones(3, 4))
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        net.load_state_dict(copy.deepcopy(net.state_dict()))
    assert len(accumulate.retraces) == 1  # gradients that are None, and gradients that are there


def test_another_thread_s_foreign_state_disturbs_nobody():
    net, _ = _made()
    f = jtorch.compile(lambda x: net(x).sum())
    x = jtorch.ones(3, 4)
    net.eval()
    want = f(x).item()
    stop = threading.Event()

    def disturb():
        while not stop.is_set():
            setattr(net, "data", [])  # noqa: B010 - as others write it
            OTHER.eval()
            OTHER.train()

    thread = threading.Thread(target=disturb)
    thread.start()
    try:
        assert all(f(x).item() == pytest.approx(want) for _ in range(200))
    finally:
        stop.set()
        thread.join()
    assert not f.retraces


def test_plans_that_are_gone_are_told_nothing():
    net, _ = _made()
    f = jtorch.compile(lambda x: net.body(x))
    f(jtorch.ones(3, 4))
    subscribed = len(watch._subscribers)
    for _ in range(3):
        other, _ = _made()
        g = jtorch.compile(lambda x, other=other: other.body(x))
        g(jtorch.ones(3, 4))
        del g, other
    gc.collect()
    assert len(watch._subscribers) <= subscribed


def test_what_is_put_back_alone_is_not_all_that_changed():
    """Another tensor over the same memory, a flag or a hook that changed while the memory lay elsewhere,
    which buffers are saved: each is a change of its own."""
    failures = []

    def compare(what, function, change):
        f = jtorch.compile(function)
        x = jtorch.ones(3)
        f(x)
        change()
        got, want = f(x), function(x)
        if got.requires_grad is not want.requires_grad or not jtorch.equal(got.detach(), want.detach()):
            failures.append(f"{what}: {got}, want {want}")

    w, v, u, k = (jtorch.ones(3, requires_grad=True) for _ in range(4))
    twin, other = w.detach(), v.detach()

    def by_a_twin():
        twin.requires_grad_(True)
        w.requires_grad_(False)
        twin.requires_grad_(False)

    def memory_of_a_twin():
        data = other.data
        other.data = jtorch.zeros(3)
        v.data = jtorch.full((3,), 5.0)
        other.data = data

    def while_elsewhere():
        data = u.data
        u.data = jtorch.zeros(3)
        u.requires_grad_(False)
        u.data = data

    compare("a twin's flag", lambda x: (x * w).sum(), by_a_twin)
    compare("a twin's memory", lambda x: (x * v).sum(), memory_of_a_twin)
    compare("a flag while the memory is elsewhere", lambda x: (x * u).sum(), while_elsewhere)
    compare("detach_", lambda x: (x * k).sum(), lambda: k.detach_())
    net = nn.BatchNorm1d(3)
    compare(
        "a buffer that is not saved",
        lambda x: x * len(net.state_dict()),
        lambda: net.register_buffer("running_mean", net.running_mean, persistent=False),
    )
    assert not failures, "\n".join(failures)


@pytest.mark.parametrize("norm", [nn.utils.weight_norm, nn.utils.spectral_norm])
@pytest.mark.filterwarnings("ignore::FutureWarning")
def test_what_hooks_of_the_library_set_at_each_call_is_no_news(norm):
    """They compute the weight anew, and hang it on the module, before each call."""

    def made():
        jtorch.manual_seed(0)
        net = nn.Sequential(norm(nn.Linear(4, 4)), nn.Tanh(), nn.Linear(4, 1))
        return net, jtorch.optim.SGD(net.parameters(), lr=0.1)

    (net, optimizer), (eager, its) = made(), made()
    step, x = _step(net, optimizer), jtorch.ones(3, 4)
    settled = []
    for k in range(8):
        settled.append(len(step.retraces))
        if k == 4:
            net[2].bias, eager[2].bias = (nn.Parameter(jtorch.zeros(1)) for _ in range(2))
        loss = step(x)
        its.zero_grad()
        expected = eager(x).square().sum()
        expected.backward()
        its.step()
        assert jtorch.allclose(loss, expected, rtol=1e-4), k
        assert jtorch.allclose(net[0].weight, eager[0].weight, atol=1e-5), k
    assert settled[2] == settled[4] and settled[6] == len(step.retraces)
    assert [entry.outcome for entry in step.retraces].count(
        "recorded"
    ) == 2  # the bias: no gradient yet, and one
