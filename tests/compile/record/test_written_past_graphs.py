"""What requires grad, written into memory from outside past its graph: through ``.data``, ``detach()``."""

from __future__ import annotations

import numpy as np
import pytest

import jtorch
from jtorch import nn
from jtorch.errors import CompileError

ARRAY = np.zeros((3, 2), np.float32)


class Codebook(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(jtorch.full((3, 2), 2.0))
        self.register_buffer("codes", jtorch.zeros(3, 2))
        self.held = jtorch.zeros(3, 2)


def copied(m, h):
    m.codes.data.copy_(h)


def moved(m, h):
    m.codes.data.lerp_(h, 0.25)


def decayed(m, h):
    m.codes.data.mul_(0.5).add_(h, alpha=0.5)


def of_detach(m, h):
    m.codes.detach().add_(h)


def added(m, h):
    m.codes.data += h.detach()
    m.codes.data.__iadd__(h)


def a_row(m, h):
    m.codes.data[0] = h[0]


def a_mask(m, h):
    m.codes.data[h > 4] = h[h > 4]


def of_an_index(m, h):
    m.codes.data.index_copy_(0, jtorch.tensor([0, 2]), h[:2])


def scattered(m, h):
    m.codes.data.scatter_add_(0, jtorch.zeros(3, 2, dtype=jtorch.int64), h)


def through_a_view(m, h):
    m.codes.data[1:].view(-1).add_(h[1:].view(-1))


def of_a_row(m, h):
    m.codes[0].data.copy_(h[0])


def the_parameter(m, h):
    m.weight.data.copy_(m.weight * 0.5 + 1)


def twice(m, h):
    first, second = m.codes.data, m.codes.data
    first.copy_(h)
    second.add_(first)


def of_numpy(m, h):
    jtorch.from_numpy(ARRAY).copy_(h)
    m.codes.add_(jtorch.from_numpy(ARRAY))


def and_read(m, h):
    memory = m.codes.data
    memory.copy_(h)
    (memory * memory).sum().backward()


def off_the_graph_and_kept(m, h):
    memory = m.codes.data
    memory.copy_(h)
    m.held = memory.detach_()


WRITES = [
    copied, moved, decayed, of_detach, added, a_row, a_mask, of_an_index, scattered, through_a_view, of_a_row,
    the_parameter, twice, of_numpy, and_read, off_the_graph_and_kept,
]  # fmt: skip


def history(write, compile):
    ARRAY[...] = 0
    module, seen = Codebook(), []

    @compile
    def step(x):
        h = x * module.weight
        write(module, h)
        loss = (x * module.codes * module.weight).sum()
        return loss, module.codes.sum()

    for k in range(3):
        loss, total = step(jtorch.arange(6.0).reshape(3, 2) + k)
        loss.backward()
        tensors = (loss, total, module.codes, module.weight, module.weight.grad, module.held)
        seen.append([(t.tolist(), t.requires_grad, t._version) for t in tensors])
        seen.append(ARRAY.tolist())
    return seen


@pytest.mark.parametrize("write", WRITES, ids=lambda w: w.__name__)
def test_the_tensor_has_no_graph(write):
    assert history(write, jtorch.compile(fullgraph=True)) == history(write, lambda f: f)


def returned(m, memory):
    return memory


def a_view_returned(m, memory):
    return memory[0]


def kept(m, memory):
    m.held = memory


@pytest.mark.parametrize("leave", [returned, a_view_returned, kept], ids=lambda f: f.__name__)
def test_the_memory_does_not_leave_with_a_graph(leave):
    module = Codebook()

    @jtorch.compile
    def step(x):
        memory = module.codes.data
        memory.copy_(x * module.weight)
        return leave(module, memory)

    with pytest.raises(CompileError, match="memory of a tensor from outside with a graph"):
        step(jtorch.ones(3, 2))
    assert module.codes.tolist() == [[0.0] * 2] * 3 and not module.held.requires_grad


@pytest.mark.parametrize("of", [lambda t: t, lambda t: t[0], lambda t: t.view(-1)], ids=["it", "row", "flat"])
def test_the_tensor_itself_does_not_get_a_graph(of):
    module = Codebook()

    @jtorch.compile
    def step(x):
        of(module.codes).copy_(of(x * module.weight))

    with pytest.raises(CompileError, match="writes a value that requires grad into a tensor from outside"):
        step(jtorch.ones(3, 2))
    assert module.codes.tolist() == [[0.0] * 2] * 3 and not module.codes.requires_grad
