"""Buffers that a function gives new tensors, which its later calls go on from."""

from __future__ import annotations

import pytest

import jtorch
from jtorch import nn


class Statistics(nn.Module):
    """Running statistics as many write them, without detach()."""

    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(jtorch.ones(3))
        self.register_buffer("mean", jtorch.zeros(3))
        self.register_buffer("square", jtorch.ones(3))

    def forward(self, x):
        scaled = x * self.weight
        self.mean = 0.9 * self.mean + 0.1 * scaled.mean(0)
        self.square = 0.9 * self.square + 0.1 * scaled.square().mean(0)
        return scaled


def trained(compiled):
    module, seen = Statistics(), []

    def step(x):
        module.weight.grad = None
        loss = module(x).square().mean()
        loss.backward()
        return loss

    step = jtorch.compile(step, fullgraph=True) if compiled else step
    for k in range(5):
        loss = step(jtorch.arange(6.0).reshape(2, 3) + k)
        seen.append((loss.item(), module.weight.grad.tolist(), module.mean.tolist(), module.square.tolist()))
    return seen, step


def test_two_that_keep_their_graph_are_one_program():
    expected, _ = trained(compiled=False)
    found, step = trained(compiled=True)
    assert found == expected
    assert len(step.retraces) == 1  # the first of all had no graph


def test_a_recording_that_is_given_up_leaves_them_as_they_were():
    module = Statistics()
    before = dict(module.named_buffers())

    @jtorch.compile(fullgraph=True)
    def step(x):
        return round(module(x).sum().item())

    with pytest.raises(jtorch.errors.CompileError, match="round"):
        step(jtorch.ones(2, 3))
    after = dict(module.named_buffers())
    assert list(after) == list(before)
    assert all(after[name] is before[name] for name in before)
