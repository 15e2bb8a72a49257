"""Passes that another process goes on with, and how much a worker may have in hand."""

from __future__ import annotations

import json
import random

import numpy as np
import pytest

import jtorch
from jtorch.utils.data import (
    BatchSampler,
    DataLoader,
    Dataset,
    DistributedSampler,
    IterableDataset,
    RandomSampler,
    Sampler,
    SequentialSampler,
    TensorDataset,
    progress,
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


@pytest.mark.slow
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


def state(given=1, generators=((0, 0),), epoch=None):
    return {"given": given, "generators": [list(one) for one in generators], "epoch": epoch}


def test_a_loaded_state_is_the_state_until_the_next_pass_has_begun():
    def make():
        return DataLoader(Numbers(9), 2, shuffle=True, generator=jtorch.Generator())

    loader = make()
    batches = iter(loader)
    next(batches), next(batches)
    saved = loader.state_dict()
    assert saved["given"] == 2
    for _ in range(2):
        loader = make()
        loader.load_state_dict(json.loads(json.dumps(saved)))
        assert loader.state_dict() == saved
    again = iter(loader)
    assert loader.state_dict() == saved
    assert [b.tolist() for b in again] == [b.tolist() for b in batches]
    assert loader.state_dict()["given"] == 0


def test_a_state_of_between_passes_is_kept_too():
    data = Numbers(8)
    loader = DataLoader(data, 2, sampler=DistributedSampler(data, 2, 0))
    loader.load_state_dict(state(0, (), 3))
    assert loader.state_dict() == state(0, (), 3) and loader.sampler.epoch == 3


@pytest.mark.parametrize(
    ("found", "message"),
    [
        ({"a": 1}, "no state of a DataLoader"),
        (None, "no state of a DataLoader"),
        (state(-1), "'given' should be a count of batches, but is -1"),
        (state(True), "'given' should be a count of batches, but is True"),
        (state(1.0), "'given' should be a count of batches, but is 1.0"),
        (state(1, [[1]]), "'generators' should be"),
        (state(1, [[1, -1]]), "'generators' should be"),
        (state(1, [[-1, 1]]), "'generators' should be"),
        (state(1, [[0.5, 1]]), "'generators' should be"),
        (state() | {"generators": 5}, "'generators' should be"),
        (state(1, [(0, 0)] * 3), "other generators"),
        (state(1, []), "other generators"),
        (state(1, epoch=2), "epochs"),
        (state(4), "4 batches into a pass, but a pass has only 3"),
    ],
)
def test_a_state_that_cannot_be_gone_on_from_is_refused_and_changes_nothing(found, message):
    loader = DataLoader(Numbers(3))
    loader.load_state_dict(state(2))
    with pytest.raises(ValueError, match=rf"^DataLoader\.load_state_dict: .*{message}"):
        loader.load_state_dict(found)
    assert loader.state_dict()["given"] == 2 and [b.tolist() for b in loader] == [[2]]


def test_a_state_at_the_very_end_has_no_batches_left():
    loader = DataLoader(Numbers(3))
    loader.load_state_dict(state(3))
    assert list(loader) == [] and len(list(loader)) == 3


class Odd(Sampler):
    """Yields more or fewer than it says."""

    def __init__(self, n):
        self.n = n

    def __iter__(self):
        return iter(range(self.n))

    def __len__(self):
        return 3


@pytest.mark.parametrize("workers", [0, 1])
def test_data_that_have_become_shorter_are_an_error_and_the_state_is_kept(workers):
    for loader in (
        DataLoader(Stream(), 5, num_workers=workers),
        DataLoader(Numbers(9), sampler=Odd(4), num_workers=workers),
    ):
        loader.load_state_dict(state(6))
        with pytest.raises(RuntimeError, match="6 batches into a pass, but a pass has only 4 now"):
            iter(loader)
        assert loader.state_dict() == state(6)
    longer = DataLoader(Numbers(9), sampler=Odd(8), num_workers=workers)  # a length may be a guess
    longer.load_state_dict(state(6))
    assert [b.tolist() for b in longer] == [[6], [7]]


def test_batches_out_of_order_have_no_state():
    loader = DataLoader(Numbers(5), num_workers=1, in_order=False)
    with pytest.raises(RuntimeError, match=r"state_dict: .*in_order=True"):
        loader.state_dict()
    with pytest.raises(RuntimeError, match=r"load_state_dict: .*in_order=True"):
        loader.load_state_dict(state())
    here = DataLoader(Numbers(5), in_order=False)  # without workers all come in order
    next(iter(here))
    assert here.state_dict()["given"] == 1


class Foreign(SequentialSampler):
    def __init__(self, data):
        super().__init__(data)
        self.generator = np.random.default_rng(0)


def test_a_sampler_with_a_generator_of_another_kind_has_no_state():
    data = Numbers(3)
    for loader in (
        DataLoader(data, sampler=Foreign(data)),
        DataLoader(data, batch_sampler=BatchSampler(Foreign(data), 1)),
    ):
        assert [b.tolist() for b in loader] == [[0], [1], [2]]
        with pytest.raises(RuntimeError, match=r"Foreign .*jtorch\.Generator\(\)"):
            loader.state_dict()


class Buckets(Sampler):
    """A batch sampler with epochs of its own, as an attribute alone."""

    epoch = 0

    def __iter__(self):
        return iter([[self.epoch + k] for k in range(3)])


def test_the_epoch_of_a_batch_sampler_comes_back():
    loader = DataLoader(Numbers(9), batch_sampler=Buckets())
    loader.batch_sampler.epoch = 5
    next(iter(loader))
    again = DataLoader(Numbers(9), batch_sampler=Buckets())
    again.load_state_dict(loader.state_dict())
    assert [b.tolist() for b in again] == [[6], [7]]


class Interrupted(Sampler):
    """Ctrl-C comes when its order is first asked for."""

    def __init__(self, n, generator):
        self.n = n
        self.generator = generator
        self.times = 1

    def __iter__(self):
        for k in jtorch.randperm(self.n, generator=self.generator).tolist():
            if self.times:
                self.times -= 1
                raise KeyboardInterrupt
            yield k


@pytest.mark.parametrize("own", [True, False])
def test_an_interrupted_resumption_can_be_tried_again(own):
    def make(times):
        sampler = Interrupted(8, jtorch.Generator() if own else None)
        sampler.times = times
        return DataLoader(Numbers(8), sampler=sampler)

    loader = make(0)
    batches = iter(loader)
    next(batches)
    saved = loader.state_dict()
    again = make(1)
    again.load_state_dict(saved)
    before = jtorch.get_rng_state(), [one.position() for one in progress.generators(again)]
    with pytest.raises(KeyboardInterrupt):
        iter(again)
    assert jtorch.equal(jtorch.get_rng_state(), before[0])
    assert [one.position() for one in progress.generators(again)] == before[1]
    assert again.state_dict() == saved
    assert [b.tolist() for b in again] == [b.tolist() for b in batches]


@pytest.mark.slow
@pytest.mark.parametrize("in_order", [True, False])
def test_many_batches_ahead_do_not_lock(in_order):
    data = TensorDataset(jtorch.arange(1500))
    loader = DataLoader(data, num_workers=1, prefetch_factor=600, in_order=in_order, timeout=60)
    assert sorted(int(x) for (x,) in loader) == list(range(1500))


@pytest.mark.parametrize("sampler_alone", [False, True])
def test_own_generators_come_back_between_passes(sampler_alone):
    def make():
        data, generator = Numbers(9), jtorch.Generator().manual_seed(4)
        if sampler_alone:  # the base seed is the program's then
            return DataLoader(data, 2, sampler=RandomSampler(data, generator=generator))
        return DataLoader(data, 2, shuffle=True, generator=generator)

    loader = make()
    first = [b.tolist() for b in loader]
    saved, program = json.loads(json.dumps(loader.state_dict())), jtorch.get_rng_state()
    second = [b.tolist() for b in loader]
    again = make()
    again.load_state_dict(saved)
    assert again.state_dict() == saved
    jtorch.set_rng_state(program)
    assert [b.tolist() for b in again] == second != first
    assert jtorch.equal(jtorch.get_rng_state(), program) == (not sampler_alone)


def test_a_place_within_a_pass_needs_all_generators():
    data = Numbers(9)
    loader = DataLoader(data, sampler=RandomSampler(data, generator=jtorch.Generator()))
    with pytest.raises(ValueError, match="other generators"):
        loader.load_state_dict({"given": 1, "generators": [None, [0, 0]], "epoch": None})


class Augmented(Dataset):
    """Items with noise from every source of it."""

    def __len__(self):
        return 12

    def __getitem__(self, k):
        return k, random.random(), float(np.random.rand()), jtorch.rand(1).item()


@pytest.mark.slow
@pytest.mark.parametrize("persistent", [False, True])
def test_random_items_of_workers_come_again_whatever_their_number(persistent):
    def make(workers):
        return DataLoader(
            Augmented(), 2, shuffle=True, num_workers=workers, persistent_workers=persistent, collate_fn=list
        )

    jtorch.manual_seed(0)
    loader = make(2)
    list(loader)
    batches = iter(loader)
    given = [next(batches) for _ in range(3)]
    saved, program, rest = loader.state_dict(), jtorch.get_rng_state(), list(batches)
    for workers in (1, 2):
        again = make(workers)
        again.load_state_dict(saved)
        jtorch.set_rng_state(program)
        assert list(again) == rest
    noise = [item[1:] for batch in given + rest for item in batch]
    assert len(set(noise)) == 12
