"""Passes that another process goes on with, and how much a worker may have in hand."""

from __future__ import annotations

import pytest

import jtorch
from jtorch.utils.data import (
    DataLoader,
    Dataset,
    DistributedSampler,
    IterableDataset,
    RandomSampler,
    TensorDataset,
)


class Numbers(Dataset):
    def __init__(self, n):
        self.n = n
        self.read = []

    def __len__(self):
        return self.n

    def __getitem__(self, k):
        self.read.append(k)
        return k


class Stream(IterableDataset):
    def __iter__(self):
        return iter(range(20))


def interrupted(make, k):
    """Batches of a whole pass, and those that a new loader gives after k of them."""
    jtorch.manual_seed(3)
    whole = [batch.tolist() for batch in make()]
    jtorch.manual_seed(3)
    loader = make()
    batches = iter(loader)
    first = [next(batches).tolist() for _ in range(k)]
    state = loader.state_dict()
    jtorch.manual_seed(99)
    jtorch.rand(5)
    again = make()
    again.load_state_dict(state)
    rest = [batch.tolist() for batch in again]
    return whole, first + rest


@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.parametrize("own", [False, True])
@pytest.mark.parametrize("data", [Numbers(20), Stream()], ids=["items", "stream"])
def test_a_pass_goes_on_where_it_stood(workers, own, data):
    def make():
        generator = jtorch.Generator().manual_seed(1) if own else None
        shuffle = None if isinstance(data, Stream) else True
        return DataLoader(data, 3, shuffle=shuffle, num_workers=workers, generator=generator)

    for k in (0, 1, 4):
        whole, resumed = interrupted(make, k)
        assert resumed == whole


def test_items_that_were_given_are_not_read_again():
    data = Numbers(20)
    loader = DataLoader(data, 2)
    loader.load_state_dict({"given": 7, "generators": [(0, 0)], "epoch": None})
    assert [batch.tolist() for batch in loader] == [[14, 15], [16, 17], [18, 19]]
    assert data.read == list(range(14, 20))
    assert len(list(loader)) == 10  # and the pass after it is whole


def test_the_programs_generator_stays_where_it_was_set():
    loader = DataLoader(Numbers(9), shuffle=True)
    next(iter(loader))
    loader.load_state_dict(loader.state_dict())
    jtorch.manual_seed(5)
    before = jtorch.get_rng_state()
    next(iter(loader))
    assert jtorch.equal(jtorch.get_rng_state(), before)


def test_after_a_whole_pass_the_next_begins():
    loader = DataLoader(Numbers(4), 2)
    list(loader)
    state = loader.state_dict()
    assert state["given"] == 0
    other = DataLoader(Numbers(4), 2)
    other.load_state_dict(state)
    assert len(list(other)) == 2


def test_the_epoch_of_a_distributed_sampler_comes_back():
    def make():
        data = Numbers(12)
        return DataLoader(data, 2, sampler=DistributedSampler(data, 2, 1))

    loader = make()
    loader.sampler.set_epoch(4)
    batches = iter(loader)
    next(batches)
    again = make()
    again.load_state_dict(loader.state_dict())
    assert [b.tolist() for b in again] == [b.tolist() for b in batches]


@pytest.mark.parametrize("options", [{"replacement": True}, {"num_samples": 20}])
def test_an_order_that_cannot_be_had_again_is_an_error(options):
    data = Numbers(5)
    with pytest.raises(RuntimeError, match="one of its own"):
        DataLoader(data, sampler=RandomSampler(data, **options)).state_dict()

    def make():
        generator = jtorch.Generator().manual_seed(2)
        return DataLoader(data, sampler=RandomSampler(data, generator=generator, **options))

    whole, resumed = interrupted(make, 3)
    assert resumed == whole


def test_states_of_something_else():
    with pytest.raises(ValueError, match="no state of a DataLoader"):
        DataLoader(Numbers(3)).load_state_dict({"a": 1})
    with pytest.raises(ValueError, match="other generators"):
        DataLoader(Numbers(3)).load_state_dict({"given": 1, "generators": [(0, 0)] * 3, "epoch": None})


@pytest.mark.parametrize("in_order", [True, False])
def test_many_batches_ahead_do_not_lock(in_order):
    data = TensorDataset(jtorch.arange(1500))
    loader = DataLoader(data, num_workers=1, prefetch_factor=600, in_order=in_order, timeout=60)
    assert sorted(int(x) for (x,) in loader) == list(range(1500))
