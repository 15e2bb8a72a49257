"""What library code changes in modules and optimizers while a function is recorded: as in eager mode."""

from __future__ import annotations

import copy
import itertools
import operator
from collections.abc import Callable

import pytest

import jtorch
from jtorch import nn
from jtorch.nn.utils import parametrizations, parametrize
from tests.each import each


@pytest.fixture(autouse=True)
def _in_parts(monkeypatch):
    """What cannot be recorded runs eagerly."""
    monkeypatch.delenv("JTORCH_FULLGRAPH", raising=False)


class Net(nn.Module):
    """With one of each that can be changed, and numbers that tell them apart."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("b", jtorch.zeros(2))
        self.first, self.second = nn.Linear(2, 2), nn.Linear(2, 2)
        self.norm, self.part = nn.BatchNorm1d(2), self.first
        self.layers = nn.Sequential(nn.Tanh(), nn.ReLU())
        self.listed = nn.ModuleList([nn.Tanh()])
        self.numbers = nn.ParameterList([nn.Parameter(jtorch.ones(2))])
        self.named = nn.ParameterDict({"a": nn.Parameter(jtorch.ones(2))})
        self.counts = [0]
        with jtorch.no_grad():
            for k, p in enumerate(self.parameters()):
                p.fill_(0.25 + k / 8)
        self.optimizer = jtorch.optim.SGD(self.first.parameters(), 1.0)


class Twice(nn.Module):
    def forward(self, w):
        return w * 2


def _other(m):
    return m.second if m._modules["part"] is m.first else m.first


def _replace_weight(m, x):
    m.first._parameters["weight"] = m.first.weight * x


def _scheduler(m, x):
    jtorch.optim.lr_scheduler.ConstantLR(m.optimizer, 0.5, 10)


def _steps_of_scheduler(m, x):
    scheduler = jtorch.optim.lr_scheduler.ExponentialLR(m.optimizer, 0.5)
    m.optimizer.zero_grad()
    m.first(x).sum().backward()
    m.optimizer.step()
    scheduler.step()


def _parametrized_once(m, x):
    if not parametrize.is_parametrized(m.first):
        parametrize.register_parametrization(m.first, "weight", Twice())


def _parametrized_again(m, x):
    if not parametrize.is_parametrized(m.second, "bias"):
        parametrize.register_parametrization(m.second, "bias", Twice())


def _normed_once(apply):
    def change(m, x):
        if not hasattr(m, "normed"):
            apply(m.first)
            m.normed = True

    return change


CHANGES: dict[str, Callable] = {
    "an entry of the buffers": lambda m, x: m._buffers.__setitem__("b", m._buffers["b"] + x),
    "buffers, by a statement": lambda m, x: exec("m._buffers['b'] = x", {}, {"m": m, "x": x}),
    "buffers, updated": lambda m, x: m._buffers.update(b=x),
    "buffers, by |=": lambda m, x: operator.ior(m._buffers, {"b": x}),
    "an entry of the parameters": _replace_weight,
    "an entry of the modules": lambda m, x: m._modules.__setitem__("part", _other(m)),
    "another module": lambda m, x: m._modules.__setitem__("norm", nn.Identity()),
    "a buffer that is gone": lambda m, x: m._buffers.pop("b", None),
    "cleared hooks": lambda m, x: m._forward_hooks.clear(),
    "a module that is added": lambda m, x: operator.iadd(m.listed, [nn.Tanh()]),
    "a sequence, repeated": lambda m, x: m.layers.__imul__(2),
    "a parameter that is added": lambda m, x: operator.iadd(m.numbers, [m.first.bias]),
    "named parameters, merged": lambda m, x: m.named.__ior__({str(len(m.named)): m.first.bias}),
    "map(append)": lambda m, x: list(map(m.listed.append, [nn.Tanh()])),
    "starmap(add_module)": lambda m, x: list(
        itertools.starmap(m.add_module, [(f"n{len(m._modules)}", nn.Tanh())])
    ),
    "methodcaller(append)": lambda m, x: operator.methodcaller("append", nn.Tanh())(m.listed),
    "map(register_forward_hook)": lambda m, x: list(map(m.register_forward_hook, [lambda *_: None])),
    "__init__ again": lambda m, x: m.norm.__init__(2),
    "a copy that shares its parameters": lambda m, x: setattr(copy.copy(m.first), "bias", m.second.bias),
    "a copy that shares a list": lambda m, x: copy.copy(m).counts.__setitem__(0, m.counts[0] + 1),
    "a copy that shares its buffers": lambda m, x: setattr(copy.copy(m.norm), "running_mean", x),
    "swapped tensors": lambda m, x: jtorch.utils.swap_tensors(m.first.bias, m.second.bias),
    "a scheduler": _scheduler,
    "steps of a scheduler": _steps_of_scheduler,
    "a parametrization": _parametrized_once,
    "another parametrization": _parametrized_again,
    "the last parametrization removed": lambda m, x: (
        parametrize.remove_parametrizations(m.second, "weight")
        if parametrize.is_parametrized(m.second, "weight")
        else None
    ),
    "a hook of an optimizer": lambda m, x: m.optimizer.register_step_post_hook(lambda *_: None),
    "weight_norm": _normed_once(nn.utils.weight_norm),
    "spectral_norm": _normed_once(nn.utils.spectral_norm),
    "weight_norm, parametrized": _normed_once(parametrizations.weight_norm),
    "spectral_norm, parametrized": _normed_once(parametrizations.spectral_norm),
    "orthogonal": _normed_once(parametrizations.orthogonal),
    "pruning": _normed_once(lambda layer: nn.utils.prune.l1_unstructured(layer, "weight", 1)),
    "a buffer that is registered": lambda m, x: m.register_buffer(f"b{len(m._buffers)}", x * 2),
    "a parameter that is registered": lambda m, x: m.register_parameter("p", nn.Parameter(x * 2)),
    "dtypes": lambda m, x: m.norm.double() if m.norm.weight.dtype == jtorch.float32 else m.norm.float(),
}


def _state(m):
    tensors = {n: (t.tolist(), str(t.dtype)) for n, t in (*m.named_parameters(), *m.named_buffers())}
    modules = [(n, type(c).__name__, len(c._forward_hooks)) for n, c in m.named_modules()]
    groups = [(g["lr"], len(g["params"])) for g in m.optimizer.param_groups]
    hooks = [len(hooks) for hooks in m.optimizer._hooks.values()]
    return tensors, modules, groups, hooks, m.counts, m._modules["part"] is m.first, list(m.first._parameters)


def _run(compiled, change, ends):
    jtorch.manual_seed(0)
    m, found = Net(), []
    parametrize.register_parametrization(m.second, "weight", Twice())

    @compiled
    def step(x):
        change(m, x)
        if ends:
            raise ValueError("after it")
        return m.first(x) + m.second(x), len(m.listed), None if m.b is None else m.b + 1

    for k in range(3):
        try:
            y, n, b = step(jtorch.full((2,), k + 1.0))
            found.append((y.tolist(), n, b.tolist()))
        except (ValueError, AttributeError) as error:
            found.append(type(error))
        found.append(_state(m))
    return found


@each("name", CHANGES)
@pytest.mark.filterwarnings("ignore::jtorch.errors.EagerWarning", "ignore:.*weight_norm:FutureWarning")
def test_changes_are_those_of_eager_mode(name):
    for ends in (False, True):
        assert _run(jtorch.compile, CHANGES[name], ends) == _run(lambda f: f, CHANGES[name], ends), ends


def test_the_refusal_says_what_is_changed():
    m = Net()

    @jtorch.compile(fullgraph=True)
    def step(x):
        m.listed += [nn.Tanh()]
        return x + 1

    with pytest.raises(
        jtorch.errors.CompileError, match=r"changes '1' in '_modules' of a ModuleList from outs"
    ):
        step(jtorch.ones(2))
    assert len(m.listed) == 1


def test_hooks_of_several_leaves_run_in_the_order_of_eager_mode():
    def run(compiled):
        m, log = nn.Sequential(nn.Linear(2, 2), nn.Tanh(), nn.Linear(2, 1)), []
        for name, p in m.named_parameters():
            p.register_hook(lambda g, name=name: log.append(name))
            p.register_post_accumulate_grad_hook(lambda p, name=name: log.append(f"{name} is there"))
        compiled(lambda x: m(x).sum() + m[0].bias.sum())(jtorch.ones(1, 2)).backward()
        return log

    assert run(jtorch.compile) == run(lambda f: f)


@pytest.mark.parametrize("given", ["probs", "logits"])
def test_a_distribution_from_outside_keeps_what_it_computes_once(given):
    def run(compiled):
        numbers = jtorch.tensor([0.25, 0.5, 0.25])
        d = jtorch.distributions.Categorical(**{given: numbers})
        other = "logits" if given == "probs" else "probs"
        step = compiled(lambda x: getattr(d, other) * x)
        found = [step(jtorch.ones(1)).tolist()]
        getattr(d, given).fill_(0.5)
        return [*found, step(jtorch.ones(1)).tolist(), getattr(d, other).tolist()]

    assert run(jtorch.compile) == run(lambda f: f)


class Silent(nn.Module):
    """Sets its attributes without telling anybody."""

    def __init__(self):
        super().__init__()
        self.factor = 1

    def __setattr__(self, name, value):
        object.__setattr__(self, name, value)


def test_attributes_that_a_class_sets_in_its_own_way_are_seen():
    m = Silent()
    step = jtorch.compile(lambda x: x * m.factor)
    for factor in (1, 2, 3):
        m.factor = factor
        assert step(jtorch.ones(1)).tolist() == [factor]


def _step(m, x):
    m.optimizer.zero_grad()
    m.first(x).sum().backward()
    m.optimizer.step()


def _digits(x):
    return str(round(x.sum().item()))  # which cannot be recorded: the call runs eagerly


READ_AFTER = {
    "the state": lambda m, s, x: (_step(m, x), len(m.optimizer.state), _digits(x)),
    "a step's number": lambda m, s, x: (_step(m, x), m.optimizer.state[m.first.bias]["step"], _digits(x)),
    "a state dict": lambda m, s, x: (_step(m, x), m.optimizer.state_dict()["state"].keys(), _digits(x)),
    "a copy of the state": lambda m, s, x: (_step(m, x), copy.deepcopy(m.optimizer.state_dict())),
    "a state that is loaded": lambda m, s, x: (
        m.optimizer.load_state_dict(m.optimizer.state_dict()),
        _step(m, x),
    ),
    "a schedule that is loaded": lambda m, s, x: (_step(m, x), s.load_state_dict(s.state_dict()), _digits(x)),
    "a state that is cleared": lambda m, s, x: (
        m.optimizer.state.clear(),
        _step(m, x),
        len(m.optimizer.state),
    ),
    "hooks": lambda m, s, x: (m.register_forward_hook(print), len(m._forward_hooks), _digits(x)),
    "groups": lambda m, s, x: (
        m.optimizer.add_param_group({"params": [nn.Parameter(jtorch.ones(1))]}),
        len(m.optimizer.param_groups),
        _digits(x),
    ),
    "all of it": lambda m, s, x: (m.optimizer.__setstate__(m.optimizer.__getstate__()), _digits(x)),
}


@each("name", READ_AFTER)
@pytest.mark.filterwarnings("ignore::jtorch.errors.EagerWarning")
def test_what_is_read_after_it_was_changed_does_not_keep_the_call_from_running_eagerly(name):
    def run(compiled):
        jtorch.manual_seed(0)
        m, found = Net(), []
        m.optimizer = jtorch.optim.Adam(m.first.parameters(), 0.5)
        schedule = jtorch.optim.lr_scheduler.StepLR(m.optimizer, 1)
        step = compiled(lambda x: READ_AFTER[name](m, schedule, x)[1:] and None)
        for k in range(3):
            step(jtorch.full((2,), k + 1.0))
            state = m.optimizer.state_dict()["state"]
            found += [_state(m), [[v.tolist() for v in s.values()] for s in state.values()]]
        return found

    assert run(jtorch.compile) == run(lambda f: f)


@pytest.mark.filterwarnings("ignore::jtorch.errors.EagerWarning")
def test_a_warning_about_the_order_of_steps_is_given_by_the_eager_call():
    def run(compiled):
        m = Net()
        schedule = jtorch.optim.lr_scheduler.StepLR(m.optimizer, 1)

        @compiled
        def step(x):
            schedule.step()
            _step(m, x)
            return _digits(x)

        with pytest.warns(UserWarning, match="before `optimizer.step"):
            step(jtorch.ones(2))

    run(lambda f: f)
    run(jtorch.compile)
