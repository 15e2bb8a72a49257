"""State of modules and optimizers that is changed by hand between calls, past their methods."""

import collections
import copy
import gc
import threading
import weakref

import pytest

import jtorch
from jtorch import nn
from jtorch.compile.record import capture
from jtorch.core import watch

# -- what users put into the state of an optimizer ----------------------------------------------------------


def _replaced_by_a_plain_dict(optimizer, p):
    optimizer.state[p] = dict(optimizer.state[p])


def _replaced_whole(optimizer, p):
    optimizer.state = collections.defaultdict(dict, {p: dict(optimizer.state[p])})


def _without_its_buffer(optimizer, p):
    optimizer.state[p] = {}


STATE_CHANGES = {
    "momentum_buffer": lambda state: state.update(momentum_buffer=jtorch.full((3,), 4.0)),
    "None": lambda state: state.update(momentum_buffer=None),
    "deleted": lambda state: state.pop("momentum_buffer", None),
    "elements": lambda state: state["momentum_buffer"].mul_(3),
}


@pytest.mark.slow
def test_plain_dicts_in_the_state_of_an_optimizer():
    for replace in (_replaced_by_a_plain_dict, _replaced_whole, _without_its_buffer):
        for name, change in STATE_CHANGES.items():
            assert _trained(lambda f: jtorch.compile(f), replace, change) == _trained(
                lambda f: f, replace, change
            ), (replace.__name__, name)


def _trained(wrap, replace, change):
    p = nn.Parameter(jtorch.ones(3))
    optimizer = jtorch.optim.SGD([p], lr=0.1, momentum=0.9)

    def step(x):
        optimizer.zero_grad()
        loss = (p * x).pow(2).sum()
        loss.backward()
        optimizer.step()
        return loss

    step, seen = wrap(step), []
    for k in range(6):
        seen.append((step(jtorch.ones(3)).item(), p.tolist()))
        if k == 1:
            replace(optimizer, p)
        if k == 3:
            change(optimizer.state[p])
    return seen


def test_a_step_number_in_a_plain_dict():
    def trained(wrap):
        p = nn.Parameter(jtorch.ones(3))
        optimizer = jtorch.optim.Adam([p], lr=0.1)

        def step(x):
            optimizer.zero_grad()
            (p * x).pow(2).sum().backward()
            optimizer.step()

        step, seen = wrap(step), []
        for k in range(7):
            step(jtorch.ones(3))
            seen.append([round(v, 5) for v in p.tolist()])
            if k == 1:
                optimizer.state[p] = {**optimizer.state[p], "mine": {"deep": [1.0]}}
            if k == 3:
                optimizer.state[p]["step"] = jtorch.tensor(1.0)
            if k == 4:
                optimizer.state[p]["exp_avg"] = jtorch.zeros(3)
        return seen

    assert trained(jtorch.compile) == trained(lambda f: f)


def test_a_plain_dict_in_the_state_costs_no_recording():
    p = nn.Parameter(jtorch.ones(3))
    optimizer = jtorch.optim.SGD([p], lr=0.1, momentum=0.9)

    @jtorch.compile
    def step(x):
        optimizer.zero_grad()
        (p * x).pow(2).sum().backward()
        optimizer.step()

    step(jtorch.ones(3))
    _replaced_by_a_plain_dict(optimizer, p)
    for _ in range(4):
        step(jtorch.ones(3))
    assert sum(map(len, step.plans.values())) <= 2


# -- hooks that are taken out of a module's own dicts -------------------------------------------------------

HOOK_CHANGES = {
    "clear": lambda hooks, k: hooks.clear() if k == 2 else None,
    "popitem": lambda hooks, k: hooks.popitem() if k == 2 else None,
    "del": lambda hooks, k: hooks.__delitem__(next(iter(hooks))) if k == 2 else None,
    "another": lambda hooks, k: hooks.update({99999: lambda *given: None}) if k == 2 else None,
    "order": lambda hooks, k: hooks.move_to_end(next(iter(hooks))) if k == 2 else None,
    "replaced": lambda hooks, k: (
        hooks.__setitem__(next(iter(hooks)), lambda m, args, *out: out[0] - 1 if out else None)
        if k == 2
        else None
    ),
}


def _doubles(module, args, *out):
    return out[0] * 2 if out else (args[0] * 2,)


def _adds(module, args, *out):
    return out[0] + 1 if out else (args[0] + 1,)


@pytest.mark.slow
def test_hooks_that_are_changed_in_the_dicts_of_a_module():
    for name in ("_forward_hooks", "_forward_pre_hooks"):
        for label, change in HOOK_CHANGES.items():
            for deep in (False, True):
                expected = _called(lambda f: f, name, change, deep)
                assert _called(jtorch.compile, name, change, deep) == expected, (name, label, deep)


def _called(wrap, name, change, deep):
    jtorch.manual_seed(0)
    layer = nn.Linear(2, 2)
    register = {"_forward_hooks": layer.register_forward_hook}.get(name, layer.register_forward_pre_hook)
    f, seen = wrap(nn.Sequential(layer, nn.ReLU()) if deep else layer), []
    for k in range(5):
        seen.append([round(v, 5) for v in f(jtorch.ones(2)).tolist()])
        if k == 1:
            register(_doubles)
            register(_adds)
        change(getattr(layer, name), k)
    return seen


def test_modules_with_hooks_are_copied_and_freed():
    module = nn.Linear(2, 2)
    module.register_forward_hook(_doubles)
    twin = copy.deepcopy(module)
    twin._forward_hooks.clear()
    x = jtorch.ones(2)
    assert module(x).tolist() == [2 * v for v in twin(x).tolist()]
    f = jtorch.compile(twin)
    f(x)
    gc.disable()
    try:
        alone, gone = nn.Linear(2, 2), []
        weakref.finalize(alone, gone.append, 1)
        del alone
        assert gone == [1]
    finally:
        gc.enable()


# -- another thread that has made a change, and tells of it when the recording has ended ---------------------


def _mode(model, optimizer):
    model[2].training = False


def _parameter(model, optimizer):
    model[0].weight = nn.Parameter(jtorch.full((2, 2), 2.0))


def _no_bias(model, optimizer):
    model[0].bias = None


def _buffer(model, optimizer):
    model[1].running_mean = jtorch.full((2,), 3.0)


def _module(model, optimizer):
    model[0] = nn.Identity()


def _constant(model, optimizer):
    model[1].eps = 10.0


def _hook(model, optimizer):
    model[0].register_forward_hook(_doubles)


def _state(model, optimizer):
    optimizer.state[model[0].weight]["momentum_buffer"] = jtorch.full((2, 2), 5.0)


def _groups(model, optimizer):
    del optimizer.param_groups[0]["params"][1:]


@pytest.mark.slow
def test_a_change_that_is_told_after_the_recording(monkeypatch):
    for change in (_mode, _parameter, _no_bias, _buffer, _module, _constant, _hook, _state, _groups):
        with monkeypatch.context() as patches:
            got = _told_late(change, jtorch.compile, patches)
        after, before = (_told_late(change, lambda f: f, None, first) for first in (False, True))
        assert got in (after, before), change.__name__


def _told_late(change, wrap, patches, first=False):
    """What three steps give, where ``change`` comes at the end of the first, or ``first``: with ``patches``
    it is made by another thread before the recording looks at what it relies on, and told when the call is
    over."""
    jtorch.manual_seed(0)
    model = nn.Sequential(nn.Linear(2, 2), nn.BatchNorm1d(2), nn.Dropout(0.5))
    optimizer = jtorch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)

    def step(x):
        optimizer.zero_grad()
        loss = model(x).square().sum()
        loss.backward()
        optimizer.step()
        return loss

    step = wrap(step)
    x = jtorch.tensor([[1.0, 2.0], [3.0, 5.0], [2.0, 2.0]])
    step(x)  # makes the state
    model[1].eps = 0.5  # and records once more
    if patches is None:
        if first:
            change(model, optimizer)
        seen = [step(x).item()]
        if not first:
            change(model, optimizer)
    else:
        made, over = threading.Event(), threading.Event()
        other = threading.Thread(target=change, args=(model, optimizer))
        tell, relied_on = watch.tell, capture.relied_on

        def tell_late(*args, **kwargs):
            if threading.current_thread() is other:
                made.set()
                assert over.wait(30)
            tell(*args, **kwargs)

        def look(*args):
            if not made.is_set():
                other.start()
                assert made.wait(30)
            return relied_on(*args)

        patches.setattr(watch, "tell", tell_late)
        patches.setattr(capture, "relied_on", look)
        seen = [step(x).item()]
        patches.setattr(capture, "relied_on", relied_on)
        over.set()
        other.join()
    seen += [step(x).item(), step(x).item()]
    return [round(v, 4) for v in seen]


# -- modules that a call makes -------------------------------------------------------------------------------


class Scaled(nn.Module):
    def __init__(self, by=2.0):
        super().__init__()
        self.by = by

    def forward(self, x):
        return x * self.by


class Around(nn.Module):
    """What is inside was made outside."""

    def __init__(self, inner):
        super().__init__()
        self.inner = inner

    def forward(self, x):
        return self.inner(x)


def test_a_module_made_in_a_call_is_recorded_once():
    outside = nn.Linear(2, 2)
    for f in (
        lambda x: Scaled()(x),
        lambda x: Scaled(3.0).forward(x),
        lambda x: Around(Scaled())(x),
        lambda x: Around(outside)(x),
        lambda x: nn.Sequential(Scaled(), outside)(x),
    ):
        compiled, x = jtorch.compile(f, fullgraph=True), jtorch.ones(1, 2)
        for _ in range(4):
            assert compiled(x).tolist() == f(x).tolist()
        assert not compiled.retraces
    outside.eval()  # what is outside counts
    compiled(x)
    with jtorch.no_grad():
        outside.weight.fill_(1.0)
    outside.bias = None
    assert compiled(x).tolist() == [[4.0, 4.0]]
