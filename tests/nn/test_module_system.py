"""Module beyond the basics: every kind of hook, state dicts that subclasses change, buffers, copies."""

from __future__ import annotations

import copy
import pickle

import numpy as np
import pytest

import jtorch
from jtorch import nn
from jtorch.nn import global_hooks


def test_always_called_hooks_see_errors():
    class Fails(nn.Module):
        def forward(self, x):
            raise ZeroDivisionError("here")

    layer, seen = Fails(), []
    layer.register_forward_hook(lambda m, a, out: seen.append("plain"))
    layer.register_forward_hook(lambda m, a, out: seen.append(out), always_call=True)
    layer.register_forward_hook(lambda m, a, k, out: seen.append(k), always_call=True, with_kwargs=True)
    with pytest.raises(ZeroDivisionError, match="here"):
        layer(1)
    assert seen == [None, {}]


def test_hooks_of_all_modules():
    seen = []
    layer = nn.Sequential(nn.ReLU(), nn.Tanh())
    handles = [
        global_hooks.register_module_forward_pre_hook(lambda m, a: seen.append(("pre", type(m).__name__))),
        global_hooks.register_module_forward_hook(lambda m, a, out: seen.append(("post", type(m).__name__))),
        global_hooks.register_module_full_backward_hook(lambda m, gi, go: seen.append(("back", len(gi)))),
    ]
    x = jtorch.ones(2, requires_grad=True)
    layer(x).sum().backward()
    names = ["Sequential", "ReLU", "Tanh"]
    assert [n for kind, n in seen if kind == "pre"] == names
    assert [n for kind, n in seen if kind == "post"] == ["ReLU", "Tanh", "Sequential"]
    assert [n for kind, n in seen if kind == "back"] == [1, 1, 1]
    for handle in handles:
        handle.remove()
    seen.clear()
    layer(x)
    assert not seen and not global_hooks.CALLS


def test_registration_hooks_may_replace():
    def double(module, name, value):
        return nn.Parameter(value.detach() * 2) if name == "special" else None

    with global_hooks.register_module_parameter_registration_hook(double):
        layer = nn.Module()
        layer.special = nn.Parameter(jtorch.ones(2))
        layer.other = nn.Parameter(jtorch.ones(2))
    assert layer.special.tolist() == [2.0, 2.0] and layer.other.tolist() == [1.0, 1.0]
    seen = []
    with global_hooks.register_module_module_registration_hook(lambda m, n, v: seen.append(n)):
        nn.Sequential(nn.ReLU())
    with global_hooks.register_module_buffer_registration_hook(lambda m, n, v: seen.append(n)):
        layer.register_buffer("count", jtorch.zeros(1))
    assert seen == ["0", "count"]


def test_state_dict_hooks():
    layer, seen = nn.Linear(2, 2), []
    layer.register_state_dict_pre_hook(lambda m, prefix, keep: seen.append((prefix, keep)))
    layer.register_state_dict_post_hook(lambda m, d, prefix, meta: d.pop(prefix + "bias") is None)
    with pytest.raises(RuntimeError, match="state_dict post-hook must return None"):
        layer.state_dict(prefix="a.")
    assert seen == [("a.", False)]
    other = nn.Linear(2, 2)
    other._register_state_dict_hook(lambda m, d, prefix, meta: {**d, "version": meta["version"]})
    assert list(other.state_dict()) == ["weight", "bias", "version"]


def test_load_state_dict_hooks():
    layer, seen = nn.Linear(2, 2), []

    def rename(module, state_dict, prefix, metadata, strict, missing, unexpected, errors):
        seen.append(module is not None)
        state_dict[prefix + "weight"] = state_dict.pop(prefix + "old")

    layer.register_load_state_dict_pre_hook(rename)
    layer.register_load_state_dict_post_hook(lambda m, keys: seen.append(m.weight[0, 0].item()))
    given = {"old": jtorch.full((2, 2), 7.0), "bias": jtorch.zeros(2)}
    assert repr(layer.load_state_dict(given)) == "<All keys matched successfully>"
    assert seen == [True, 7.0] and "old" in given


def test_a_post_hook_may_forgive():
    layer = nn.Linear(2, 2)
    layer.register_load_state_dict_post_hook(lambda m, keys: keys.missing_keys.clear())
    layer.load_state_dict({"weight": jtorch.ones(2, 2)})
    assert layer.weight.tolist() == [[1.0, 1.0], [1.0, 1.0]]


class Versioned(nn.Module):
    _version = 2

    def __init__(self):
        super().__init__()
        self.scale = nn.Parameter(jtorch.ones(2))
        self.extra = 5

    def get_extra_state(self):
        return {"extra": self.extra}

    def set_extra_state(self, state):
        self.extra = state["extra"]

    def _load_from_state_dict(self, state_dict, prefix, metadata, *rest):
        if metadata.get("version", 1) < 2:
            state_dict[prefix + "scale"] = state_dict[prefix + "scale"] * 10
        super()._load_from_state_dict(state_dict, prefix, metadata, *rest)


def test_versions_and_extra_state():
    net = nn.Sequential(Versioned())
    kept = net.state_dict()
    assert list(kept) == ["0.scale", "0._extra_state"] and kept["0._extra_state"] == {"extra": 5}
    assert dict(kept._metadata) == {"": {"version": 1}, "0": {"version": 2}}
    kept["0._extra_state"] = {"extra": 8}
    net.load_state_dict(kept)
    assert net[0].extra == 8 and net[0].scale.tolist() == [1.0, 1.0]
    old = {"0.scale": jtorch.ones(2), "0._extra_state": {"extra": 1}}
    net.load_state_dict(old)
    assert net[0].scale.tolist() == [10.0, 10.0]
    with pytest.raises(RuntimeError, match=r'Missing key\(s\) in state_dict: "0._extra_state"'):
        net.load_state_dict({"0.scale": jtorch.ones(2)})
    with pytest.raises(RuntimeError, match=r'Unexpected key\(s\) in state_dict: "_extra_state"'):
        nn.ReLU().load_state_dict({"_extra_state": 3})


def test_positional_arguments_of_state_dict():
    with pytest.warns(FutureWarning, match="Positional args are being deprecated"):
        found = nn.Linear(1, 1).state_dict({}, "a.", True)
    assert list(found) == ["a.weight", "a.bias"] and found["a.weight"].requires_grad


def test_load_errors_are_pytorchs(torch):
    cases = [
        {"weight": (3, 3), "bias": (2,)},
        {"weight": (2, 3)},
        {"weight": (2, 3), "bias": (2,), "more": (1,), "x.y": (1,)},
        {"bias": (5,), "q": (1,)},
    ]
    for shapes in cases:
        messages = []
        for lib in (jtorch, torch):
            with pytest.raises(RuntimeError) as error:
                lib.nn.Linear(3, 2).load_state_dict({k: lib.zeros(*s) for k, s in shapes.items()})
            messages.append(str(error.value))
            found = None
            if "weight" not in shapes or shapes["weight"] == (2, 3):
                fit = {k: lib.zeros(*s) for k, s in shapes.items() if s != (5,)}
                found = repr(lib.nn.Linear(3, 2).load_state_dict(fit, strict=False))
            messages.append(found)
        assert messages[:2] == messages[2:]


def test_buffers_by_assignment():
    net = nn.Module()
    net.mean = nn.Buffer(jtorch.zeros(2))
    net.scratch = nn.Buffer(jtorch.ones(1), persistent=False)
    assert [n for n, _ in net.named_buffers()] == ["mean", "scratch"]
    assert list(net.state_dict()) == ["mean"]
    net.mean = jtorch.ones(2)
    assert net.mean.tolist() == [1.0, 1.0] and list(net.state_dict()) == ["mean"]
    again = copy.deepcopy(nn.Buffer(jtorch.ones(1), persistent=False))
    assert again.persistent is False
    assert pickle.loads(pickle.dumps(again)).persistent is False
    with pytest.raises(AttributeError, match=r"cannot assign buffer before Module.__init__\(\) call"):
        nn.Module.__new__(nn.Module).b = nn.Buffer(jtorch.ones(1))


def test_set_submodule(torch):
    for lib in (jtorch, torch):
        net = lib.nn.Sequential(lib.nn.Sequential(lib.nn.ReLU()))
        net.set_submodule("0.0", lib.nn.Tanh())
        assert type(net[0][0]).__name__ == "Tanh"
        net.set_submodule("0.new", lib.nn.Tanh())
        with pytest.raises(ValueError, match="Cannot set the submodule without a target name!"):
            net.set_submodule("", lib.nn.Tanh())
        with pytest.raises(ValueError, match=r"`module` is not an nn\.Module, found"):
            net.set_submodule("0", 3)
        with pytest.raises(AttributeError, match="Sequential has no attribute `7`"):
            net.set_submodule("0.7", lib.nn.Tanh(), strict=True)
        with pytest.raises(AttributeError, match=r"`training` is not an nn\.Module"):
            net.set_submodule("0.training", lib.nn.Tanh())


def test_copies_keep_hooks_and_values():
    net = nn.Sequential(nn.Linear(2, 2), nn.ReLU())
    net[1].register_forward_hook(_add_one)
    x = jtorch.ones(1, 2)
    for made in (copy.deepcopy(net), pickle.loads(pickle.dumps(net))):
        np.testing.assert_array_equal(made(x).detach().numpy(), net(x).detach().numpy())
        assert made[0].weight is not net[0].weight
        made[0].weight.data.zero_()
    assert net[0].weight.abs().sum().item() > 0


def _add_one(module, args, out):
    return out + 1


def test_types():
    net = nn.Linear(2, 2)
    assert net.type(jtorch.float64).weight.dtype is jtorch.float64
    assert net.bfloat16().weight.dtype is jtorch.bfloat16
    assert net.share_memory() is net and all(p.is_shared() for p in net.parameters())


# -- lazy modules ------------------------------------------------------------------------------------------


@pytest.mark.filterwarnings("ignore:Lazy modules")
def test_lazy_linear():
    layer = nn.LazyLinear(3)
    assert layer.has_uninitialized_params()
    assert repr(layer) == "LazyLinear(in_features=0, out_features=3, bias=True)"
    with pytest.raises(RuntimeError, match="Can't access the shape of an uninitialized parameter or buffer"):
        _ = layer.weight.shape
    weight = layer.weight
    assert layer(jtorch.ones(5, 4)).shape == (5, 3)
    assert type(layer) is nn.Linear and layer.weight is weight and type(weight) is nn.Parameter
    assert repr(layer) == "Linear(in_features=4, out_features=3, bias=True)"
    assert not layer._forward_pre_hooks and not layer._load_state_dict_pre_hooks
    layer(jtorch.ones(2, 4)).sum().backward()
    assert layer.weight.grad.shape == (3, 4)


@pytest.mark.filterwarnings("ignore:Lazy modules")
def test_lazy_modules_load_shapes():
    source = nn.Linear(4, 3)
    layer = nn.LazyLinear(3)
    assert nn.LazyLinear(3).state_dict()["weight"] is not None
    layer.load_state_dict(source.state_dict())
    x = jtorch.ones(2, 4)
    np.testing.assert_array_equal(layer(x).detach().numpy(), source(x).detach().numpy())
    assert type(copy.deepcopy(nn.LazyLinear(3)).weight) is nn.UninitializedParameter
    with pytest.warns(UserWarning, match="Lazy modules are a new feature"):
        nn.LazyLinear(1)


# -- containers --------------------------------------------------------------------------------------------


def test_sequential_arithmetic(torch):
    for lib in (jtorch, torch):
        a, b = lib.nn.Sequential(lib.nn.ReLU()), lib.nn.Sequential(lib.nn.Tanh(), lib.nn.Sigmoid())
        kinds = [type(m).__name__ for m in a + b]
        assert kinds == ["ReLU", "Tanh", "Sigmoid"]
        assert len(b * 2) == len(2 * b) == 4
        assert type(b.pop(0)).__name__ == "Tanh" and len(b) == 1
        b += a
        b *= 2
        assert list(dict(b.named_children())) == ["0", "1"] and len(b) == 4
        with pytest.raises(ValueError, match="Non-positive multiplication factor 0"):
            _ = b * 0
        with pytest.raises(TypeError, match="unsupported operand type"):
            _ = b * 1.5
        with pytest.raises(ValueError, match="add operator supports only objects of Sequential class"):
            _ = b + 3
        with pytest.raises(IndexError, match="Index out of range: 9"):
            b.insert(9, lib.nn.ReLU())


def test_parameter_list_and_dict(torch):
    for lib in (jtorch, torch):
        values = lib.nn.ParameterList([lib.ones(2), lib.zeros(3)])
        values += [lib.ones(1)]
        assert len(values) == 3 and list(values.state_dict()) == ["0", "1", "2"]
        named = lib.nn.ParameterDict({"a": lib.ones(2), "b": 3})
        named.update({"c": lib.zeros(1)})
        assert list(named) == ["a", "b", "c"] and list(named.state_dict()) == ["a", "c"]
        assert isinstance(named["a"], lib.nn.Parameter) and named["b"] == 3 and named.get("z") is None
        assert list(named.copy() | lib.nn.ParameterDict({"d": lib.ones(1)})) == ["a", "b", "c", "d"]
        assert named.popitem()[0] == "c" and named.pop("b") == 3 and "b" not in named
        assert named.setdefault("e", lib.ones(1)).tolist() == [1.0]
        assert list(reversed(named)) == ["e", "a"]
        named.clear()
        assert len(named) == 0
    ours = nn.ParameterDict({"a": jtorch.ones(2, 3), "b": "text"})
    theirs = torch.nn.ParameterDict({"a": torch.ones(2, 3), "b": "text"})
    assert repr(ours) == repr(theirs)
    assert repr(nn.ParameterList([jtorch.ones(2)])) == repr(torch.nn.ParameterList([torch.ones(2)]))


def test_bilinear_and_distances(torch):
    ours, theirs = nn.Bilinear(3, 4, 2).double(), torch.nn.Bilinear(3, 4, 2).double()
    theirs.load_state_dict({k: torch.tensor(v.numpy()) for k, v in ours.state_dict().items()})
    rng = np.random.default_rng(0)
    a, b = rng.standard_normal((5, 3)), rng.standard_normal((5, 4))
    got = ours(jtorch.tensor(a), jtorch.tensor(b)).detach().numpy()
    np.testing.assert_allclose(got, theirs(torch.tensor(a), torch.tensor(b)).detach().numpy(), rtol=1e-12)
    assert repr(ours) == repr(theirs)
    for name in ("CosineSimilarity", "PairwiseDistance"):
        mine, other = getattr(nn, name)(), getattr(torch.nn, name)()
        got = mine(jtorch.tensor(a), jtorch.tensor(b[:, :3])).numpy()
        np.testing.assert_allclose(got, other(torch.tensor(a), torch.tensor(b[:, :3])).numpy(), rtol=1e-12)
        assert repr(mine) == repr(other)
