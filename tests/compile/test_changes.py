"""Modules, optimizers and tensors that library code changes inside: an error, and nothing is left changed."""

import pytest

import jtorch
from jtorch import nn
from jtorch.errors import CompileError
from tests.compile.observing import t


def _optimizer():
    return jtorch.optim.SGD([nn.Parameter(t(1))], lr=0.1)


CHANGES = {
    "register_forward_hook": (nn.Identity, lambda m: m.register_forward_hook(lambda *a: None)),
    "register_forward_pre_hook": (nn.Identity, lambda m: m.register_forward_pre_hook(lambda *a: None)),
    "register_buffer": (nn.Identity, lambda m: m.register_buffer("b", t(1))),
    "register_parameter": (nn.Identity, lambda m: m.register_parameter("p", nn.Parameter(t(1)))),
    "add_module": (nn.Identity, lambda m: m.add_module("m", nn.Identity())),
    "append": (nn.Sequential, lambda m: m.append(nn.Identity())),
    "extend": (nn.ModuleList, lambda m: m.extend([nn.Identity()])),
    "insert": (nn.ModuleList, lambda m: m.insert(0, nn.Identity())),
    "__setitem__": (lambda: nn.Sequential(nn.Identity()), lambda m: m.__setitem__(0, nn.ReLU())),
    "an item": (lambda: nn.ModuleDict({"a": nn.Identity()}), lambda m: operator_setitem(m, "b", nn.ReLU())),
    "update": (nn.ModuleDict, lambda m: m.update({"a": nn.Identity()})),
    "add_param_group": (_optimizer, lambda o: o.add_param_group({"params": [nn.Parameter(t(2))]})),
    "register_hook": (lambda: nn.Parameter(t(1)), lambda p: p.register_hook(lambda g: g)),
}


def operator_setitem(owner, key, value):
    owner[key] = value


def _state(owner):
    if isinstance(owner, jtorch.Tensor):
        return len(owner._hooks or {})
    if isinstance(owner, nn.Module):
        hooks = len(owner._forward_hooks) + len(owner._forward_pre_hooks)
        return list(map(repr, owner._modules.items())), [*owner._parameters], [*owner._buffers], hooks
    return len(owner.param_groups)


@pytest.mark.parametrize("name", CHANGES)
def test_a_change_is_an_error_and_is_taken_back(name):
    make, change = CHANGES[name]
    owner = make()
    before = _state(owner)

    def f(x):
        change(owner)
        return x * 2

    compiled = jtorch.compile(f)
    for _ in range(2):
        with pytest.raises(CompileError, match=r"test_changes.py:\d+.*which changes it at each call"):
            compiled(t(1))
        assert _state(owner) == before
    change(owner)
    assert _state(owner) != before


def test_a_hook_that_is_removed_again_is_no_change():
    m = nn.Identity()

    def f(x):
        handle = m.register_forward_hook(lambda module, args, out: out * 2)
        y = m(x)
        handle.remove()
        return y

    compiled = jtorch.compile(f)
    assert [compiled(t(1)).tolist() for _ in range(3)] == [[2.0]] * 3


def test_what_is_made_inside_may_be_changed():
    def f(x):
        net = nn.Sequential()
        net.append(nn.ReLU())
        return net(x)

    compiled = jtorch.compile(f)
    assert [compiled(t(-1, 2)).tolist() for _ in range(2)] == [[0.0, 2.0]] * 2
