"""``torch.jit``: classes and methods that are marked for TorchScript stay Python."""

from __future__ import annotations

import pytest

import jtorch
from jtorch import nn


class Mixing(jtorch.jit.ScriptModule):
    """As the first implementations of RWKV are written."""

    def __init__(self):
        super().__init__()
        self.key = nn.Linear(3, 3, bias=False)
        self.rate = nn.Parameter(jtorch.full((3,), 0.5))

    @jtorch.jit.script_method
    def mixed(self, x, state, i: int):
        out = self.key(x * self.rate + state[i] * (1 - self.rate))
        state[i] = x
        return out

    def forward(self, x, state):
        return self.mixed(x, state, 1)


def test_a_script_module_is_a_module():
    module = Mixing()
    assert isinstance(module, nn.Module)
    assert sorted(module.state_dict()) == ["key.weight", "rate"]
    x, state = jtorch.tensor([1.0, 2.0, 3.0]), jtorch.ones(2, 3)
    assert jtorch.allclose(module(x, state), module.key((x + 1) / 2))
    assert state.tolist() == [[1, 1, 1], [1, 2, 3]]


def test_it_is_compiled_as_others_are():
    module, x = Mixing(), jtorch.tensor([1.0, 2.0, 3.0])
    step = jtorch.compile(module, fullgraph=True)
    states = jtorch.ones(2, 3), jtorch.ones(2, 3)
    for k in range(3):
        assert jtorch.allclose(step(x + k, states[0]), module(x + k, states[1]))
    assert jtorch.equal(*states)


def test_what_there_is_no_torchscript_for_raises():
    with pytest.raises(NotImplementedError, match=r"ScriptModule\.save.*state_dict"):
        Mixing().save("module.pt")
    with pytest.raises(NotImplementedError, match="ScriptFunction"):
        jtorch.jit.ScriptFunction()
    with pytest.raises(NotImplementedError, match=r"script\(Linear\)"):
        jtorch.jit.script(nn.Linear(1, 1))
