"""Pinned memory with the tests' device, which reads it as late as a device may."""

from __future__ import annotations

from collections import namedtuple

import numpy as np
import pytest

import jtorch
from jtorch import nn
from jtorch.utils.data import DataLoader

pytestmark = pytest.mark.usefixtures("cuda")


def test_a_tensor_is_pinned():
    x = jtorch.arange(6.0).reshape(2, 3).t()
    assert not x.is_pinned()
    pinned = x.pin_memory()
    assert pinned.is_pinned() and pinned.pin_memory() is pinned and not pinned.is_cuda
    assert pinned.tolist() == x.tolist() and pinned.stride() == x.stride()
    assert pinned[1:].is_pinned() and np.shares_memory(pinned.numpy(), pinned[1:].numpy())
    assert not pinned.clone().is_pinned() and not jtorch.zeros(0).pin_memory().is_pinned()
    pinned.add_(1.0)
    assert pinned.cuda().tolist() == (x + 1.0).tolist()


def test_only_memory_of_the_host_is_pinned():
    with pytest.raises(RuntimeError, match=r"cannot pin 'torch\.cuda\.FloatTensor' only dense CPU tensors"):
        jtorch.ones(2, device="cuda").pin_memory()
    assert not jtorch.ones(2, device="cuda").is_pinned()


def test_factories_pin():
    for made in (
        jtorch.zeros(3, pin_memory=True),
        jtorch.tensor([1.0], pin_memory=True),
        jtorch.tensor(jtorch.ones(2), pin_memory=True),
        jtorch.scalar_tensor(1.0, pin_memory=True),
        jtorch.randn(2, pin_memory=True),
    ):
        assert made.is_pinned()


def test_a_gradient_goes_through():
    x = jtorch.ones(2, requires_grad=True)
    (x.pin_memory() * 3.0).sum().backward()
    assert x.grad.tolist() == [3.0, 3.0]


def test_without_non_blocking_it_has_been_read(cuda):
    x = jtorch.ones(4).pin_memory()
    there = x.cuda()
    x.zero_()
    assert there.tolist() == [1.0] * 4


def test_with_non_blocking_it_is_read_later(cuda):
    x = jtorch.ones(4).pin_memory()
    there = x.to("cuda", non_blocking=True)
    assert cuda.pinned.is_read and not any("pinned" in name for name in cuda.fake.ran)
    jtorch.cuda.synchronize()
    assert there.tolist() == [1.0] * 4 and not cuda.pinned.is_read
    later = x.cuda(non_blocking=True)
    x.zero_()  # what a program may not do
    assert later.tolist() == [0.0] * 4


def test_memory_is_not_given_out_again_before_it_was_read():
    there = [jtorch.full((100,), float(k)).pin_memory().to("cuda", non_blocking=True) for k in range(4)]
    assert [t[0].item() for t in there] == [0.0, 1.0, 2.0, 3.0]


def test_what_is_freed_is_used_again_and_given_back(cuda):
    first = jtorch.ones(100).pin_memory().data_ptr()
    assert jtorch.zeros(100).pin_memory().data_ptr() == first and len(cuda.fake.pinned) == 1
    jtorch.cuda.empty_cache()
    assert not cuda.fake.pinned


def test_pageable_memory_is_read_at_once():
    x = jtorch.ones(3)
    there = x.to("cuda", non_blocking=True)
    x.zero_()
    assert there.tolist() == [1.0] * 3
    there.copy_(x, non_blocking=True)
    assert there.to("cpu", non_blocking=True).tolist() == [0.0] * 3


Pair = namedtuple("Pair", "left right")


class Own:
    def pin_memory(self):
        return "pinned"


def test_batches_are_pinned():
    class Data(jtorch.utils.data.Dataset):
        def __len__(self):
            return 4

        def __getitem__(self, k):
            return {
                "x": jtorch.full((2,), float(k)),
                "pair": Pair(jtorch.tensor(k), [jtorch.ones(1)]),
                "n": "a",
            }

    batches = list(DataLoader(Data(), batch_size=2, pin_memory=True))
    assert batches[1]["x"].tolist() == [[2.0, 2.0], [3.0, 3.0]] and batches[0]["n"] == ["a", "a"]
    for batch in batches:
        assert type(batch["pair"]) is Pair
        assert (
            batch["x"].is_pinned() and batch["pair"].left.is_pinned() and batch["pair"].right[0].is_pinned()
        )
    loader = DataLoader([1, 2], batch_size=2, pin_memory=True, collate_fn=lambda items: Own())
    assert list(loader) == ["pinned"]
    assert not next(iter(DataLoader(Data(), batch_size=2)))["x"].is_pinned()


@pytest.mark.slow
def test_batches_of_workers_are_pinned():
    data = jtorch.utils.data.TensorDataset(jtorch.arange(6.0))
    loader = DataLoader(data, batch_size=3, num_workers=1, pin_memory=True)
    found = [batch for (batch,) in loader]
    assert [b.tolist() for b in found] == [[0.0, 1.0, 2.0], [3.0, 4.0, 5.0]]
    assert all(b.is_pinned() for b in found)


def test_packed_sequences_are_pinned():
    packed = nn.utils.rnn.pack_sequence([jtorch.ones(2), jtorch.ones(3)], enforce_sorted=False)
    assert not packed.is_pinned()
    pinned = packed.pin_memory()
    assert (
        pinned.is_pinned() and pinned.sorted_indices.is_pinned() and pinned.batch_sizes.tolist() == [2, 2, 1]
    )
