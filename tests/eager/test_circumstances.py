"""Eager programs that run out of memory, or that are interrupted."""

from __future__ import annotations

import pytest

import jtorch
from jtorch.core import op


@pytest.mark.parametrize(
    "compute",
    [
        lambda x: x + 1, lambda x: x.relu(), lambda x: x.clone(), lambda x: x.contiguous(), lambda x: x.exp(),
        lambda x: jtorch.cat([x, x]), lambda x: jtorch.stack([x, x]), lambda x: x.double(),
        lambda x: x == 1,
        lambda x: jtorch.randn(1 << 50), lambda x: jtorch.full((1 << 50,), 1.0),
        lambda x: jtorch.arange(1 << 50),
    ],
)  # fmt: skip
def test_more_memory_than_there_is(compute):
    with pytest.raises(MemoryError, match="allocate"):
        compute(jtorch.ones(1).expand(1 << 50))


def test_more_memory_than_there_is_for_a_gradient():
    x = jtorch.ones(1, requires_grad=True)
    with pytest.raises(MemoryError):
        x.expand(1 << 50).relu()


class Interrupted:
    """The context variable, with Ctrl-C right after its first change: where Python looks for signals."""

    def __init__(self, real):
        self.get, self.reset, self.change = real.get, real.reset, real.set
        self.count = 0

    def set(self, value):
        token = self.change(value)
        self.count += 1
        if self.count == 1:
            raise KeyboardInterrupt
        return token


@jtorch.no_grad()
def _decorated():
    return jtorch.ones(2)


def _inside():
    with jtorch.no_grad():
        pass


def _backward():
    w = jtorch.ones(2, requires_grad=True)
    (w * 2).sum().backward()


@pytest.mark.parametrize("function", [_decorated, _inside, _backward])
def test_ctrl_c_leaves_the_grad_mode_as_it_was(function, monkeypatch):
    real, before = op.CONTEXT, op.CONTEXT.get()
    monkeypatch.setattr(op, "CONTEXT", Interrupted(real))
    with pytest.raises(KeyboardInterrupt):
        function()
    monkeypatch.undo()
    assert real.get() is before
    function()
