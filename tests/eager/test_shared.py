"""Tensors in memory that child processes see: forked ones, and those that are sent it."""

from __future__ import annotations

import copy
import multiprocessing
import pickle

import numpy as np
import pytest

import jtorch
from jtorch import nn
from jtorch.eager import shared


def shared_net():
    net = nn.Sequential(nn.Conv2d(1, 2, 3), nn.BatchNorm2d(2), nn.Flatten(), nn.Linear(2, 1))
    net.tied = net[3].weight
    return net.share_memory()


def train(net, message):
    """One step of SGD and of the running statistics; tells what a child alone can see."""
    optimizer = jtorch.optim.SGD(net.parameters(), lr=0.5, momentum=0.9)
    net(jtorch.arange(18.0).reshape(2, 1, 3, 3)).sum().backward()
    optimizer.step()
    message.put((net.tied is net[3].weight, all(t.is_shared() for t in net.state_dict().values())))


def answer(inbox, outbox):
    x, y = inbox.get()
    y.add_(1)
    outbox.put((x.tolist(), x))
    inbox.get()  # what was put lives until it is taken


METHODS = [m for m in ("fork", "spawn") if m in multiprocessing.get_all_start_methods()]


@pytest.mark.slow
@pytest.mark.parametrize("method", METHODS)
def test_a_child_trains_the_model_of_its_parent(method):
    context = multiprocessing.get_context(method)
    net, expected = shared_net(), shared_net()
    expected.load_state_dict(net.state_dict())
    message = context.Queue()
    child = context.Process(target=train, args=(net, message))
    child.start()
    assert message.get(timeout=60) == (True, True)
    child.join(60)
    assert child.exitcode == 0
    optimizer = jtorch.optim.SGD(expected.parameters(), lr=0.5, momentum=0.9)
    expected(jtorch.arange(18.0).reshape(2, 1, 3, 3)).sum().backward()
    optimizer.step()
    for key, ours in net.state_dict().items():
        np.testing.assert_allclose(ours.numpy(), expected.state_dict()[key].numpy(), rtol=1e-6)
    assert net[3].weight.grad is None  # gradients are each process's own


def test_queues_carry_the_memory():
    context = multiprocessing.get_context("fork")
    inbox, outbox = context.Queue(), context.Queue()
    child = context.Process(target=answer, args=(inbox, outbox))
    child.start()
    x = jtorch.zeros(4).share_memory_()
    inbox.put((x, x[1:3]))
    told, back = outbox.get(timeout=60)
    inbox.put(None)
    child.join(60)
    assert told == [0.0, 1.0, 1.0, 0.0] == x.tolist()
    back.fill_(7)
    assert x.tolist() == [7.0] * 4


TENSORS = {
    "vector": lambda: jtorch.arange(5), "scalar": lambda: jtorch.tensor(2.5),
    "empty": lambda: jtorch.zeros(0), "bfloat16": lambda: jtorch.ones(3, dtype=jtorch.bfloat16),
    "complex": lambda: jtorch.ones(2, dtype=jtorch.complex64),
    "columns": lambda: jtorch.arange(6).reshape(2, 3).t().clone(), "large": lambda: jtorch.ones(5_000_000),
    "parameter": lambda: nn.Parameter(jtorch.ones(2)),
    "buffer": lambda: nn.Buffer(jtorch.ones(2), persistent=False),
}  # fmt: skip


@pytest.mark.parametrize("name", TENSORS)
def test_only_the_place_changes(name):
    x, same = TENSORS[name](), TENSORS[name]()
    assert not x.is_shared() and not x.untyped_storage().is_shared()
    assert x.share_memory_() is x and x.is_shared() and x.untyped_storage().is_shared()
    assert x.share_memory_() is x
    assert type(x) is type(same) and x.dtype is same.dtype
    assert x.stride() == same.stride() or not x.numel()
    assert x.requires_grad == same.requires_grad and x.is_leaf and jtorch.equal(x, same)
    sent = pickle.loads(shared.ForkingPickler.dumps(x))
    assert type(sent) is type(x) and sent.stride() == x.stride() and sent.dtype is x.dtype
    assert getattr(sent, "persistent", None) == getattr(x, "persistent", None)
    with jtorch.no_grad():
        sent.zero_()
    assert not x.any()


def test_views_of_shared_tensors_and_copies():
    x = jtorch.arange(6).share_memory_()
    row = x.reshape(2, 3)[1]
    assert row.is_shared() and row.storage_offset() == 3
    assert row.untyped_storage().data_ptr() == x.untyped_storage().data_ptr()
    row.zero_()
    assert x.tolist() == [0, 1, 2, 0, 0, 0]
    for alone in (x.clone(), copy.deepcopy(x), pickle.loads(pickle.dumps(x))):
        assert not alone.is_shared() and jtorch.equal(alone, x)
    assert not pickle.loads(shared.ForkingPickler.dumps(jtorch.ones(1))).is_shared()


def test_memory_that_others_are_over_is_refused():
    x = jtorch.ones(4)
    y = x[1:]
    array = np.ones(3)
    of_bytes = np.frombuffer(bytes(8), np.int64)
    for tensor in (x, y, y.data, jtorch.from_numpy(array), jtorch.from_numpy(of_bytes)):
        with pytest.raises(NotImplementedError, match=r"would not move with it.*clone\(\)"):
            tensor.share_memory_()
        assert not tensor.is_shared()
    z = x.clone().share_memory_()
    z.zero_()
    assert x.tolist() == [1.0] * 4 and array.tolist() == [1.0] * 3


def test_tensors_lie_apart_in_one_map():
    tensors = [jtorch.full((k % 5 + 1,), float(k)).share_memory_() for k in range(300)]
    assert [t[0].item() for t in tensors] == list(map(float, range(300)))
    assert len({id(shared_root(t)) for t in tensors}) <= 2


def shared_root(tensor):
    array = tensor.numpy()
    while isinstance(array.base, np.ndarray):
        array = array.base
    return array.base


def test_compiled_code_reads_shared_memory():
    layer, x = nn.Linear(2, 1), jtorch.ones(1, 2)
    before = layer(x).item()
    layer.share_memory()
    step = jtorch.compile(layer)
    assert [round(step(x).item() - before, 5) for _ in range(3)] == [0.0] * 3
    with jtorch.no_grad():
        pickle.loads(shared.ForkingPickler.dumps(layer.weight)).add_(1)  # as another process would
    assert abs(step(x).item() - before - 2) < 1e-6


def test_what_compiled_code_points_into_stays():
    layer = nn.Linear(2, 1)
    step = jtorch.compile(layer)
    for _ in range(3):
        step(jtorch.ones(1, 2))
    with pytest.raises(NotImplementedError, match="compiled functions"):
        layer.share_memory()
