"""Compiled modules are modules: hooks of their own run around the compiled call."""

import pytest

import jtorch
from jtorch import nn
from tests.compile.observe.observing import t


@pytest.mark.parametrize("compile", [lambda m: m, jtorch.compile])
def test_hooks_registered_on_a_compiled_model(compile):
    model, x = nn.Linear(2, 2), t(1, 2)
    plain = model(x)
    compiled, called = compile(model), []
    compiled(x)
    handle = compiled.register_forward_hook(lambda m, args, y: called.append(m) or y * 100)
    assert compiled(x).tolist() == pytest.approx((plain * 100).tolist(), rel=1e-5)
    handle.remove()
    compiled.register_forward_pre_hook(lambda m, args: (args[0] * 0,))
    assert compiled(x).tolist() == pytest.approx(model.bias.tolist())
    assert called == [compiled]


def test_a_container_that_is_compiled_is_one():
    layers, empty = nn.Sequential(nn.Linear(2, 3), nn.Tanh()), jtorch.compile(nn.Sequential())
    made, named = jtorch.compile(layers), jtorch.compile(nn.ModuleDict({"a": layers[0]}))
    assert len(made) == 2 and made[0] is layers[0] and list(made) == list(layers) and made and not empty
    assert "a" in named and "b" not in named and named["a"] is layers[0]
    linear = jtorch.compile(nn.Linear(2, 2))
    assert linear
    with pytest.raises(TypeError, match=r"Linear does not support len\(\)"):
        len(linear)
    with pytest.raises(TypeError, match="not subscriptable"):
        linear[0]
    with pytest.raises(TypeError, match="not iterable"):
        iter(linear)
