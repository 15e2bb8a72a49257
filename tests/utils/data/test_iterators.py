"""Where a pass stands after errors, deaths and Ctrl-C, and in persistent workers: nothing is lost."""

from __future__ import annotations

import os
import random
import sys

import pytest

import jtorch
from jtorch.utils.data import DataLoader, Dataset, IterableDataset, Sampler, get_worker_info, iterators

pytestmark = [
    pytest.mark.skipif(sys.platform == "win32", reason="workers need a system that passes descriptors"),
    pytest.mark.filterwarnings("ignore:This DataLoader will create:UserWarning"),
    pytest.mark.usefixtures("forked"),
]


class Bad(Dataset):
    """0 to 5; item 1 raises ``error``."""

    def __init__(self, error):
        self.error = error

    def __len__(self):
        return 6

    def __getitem__(self, k):
        if k == 1 and self.error is not None:
            raise self.error
        return k


class BadStream(IterableDataset):
    """An iterator that goes on after the error of item 1; of two workers each reads every second item."""

    def __init__(self, error):
        self.error = error

    def __iter__(self):
        self.k, self.step = -1, 1
        return self

    def __next__(self):
        self.k += 1
        if self.k == 1:
            raise self.error
        if self.k > 5:
            raise StopIteration
        return self.k


class Mortal(IterableDataset):
    """Even items by worker 0, odd ones by worker 1, which dies at ``death``."""

    def __init__(self, death=None):
        self.death = death

    def __iter__(self):
        for k in range(get_worker_info().id, 12, 2):
            if k == self.death:
                os._exit(3)
            yield k


class MortalItems(Dataset):
    def __init__(self, *deaths):
        self.deaths = deaths

    def __len__(self):
        return 8

    def __getitem__(self, k):
        if k in self.deaths:
            os._exit(3)
        return k


class Shuffled(IterableDataset):
    """A stream in an order that Python's generator gives it."""

    def __iter__(self):
        return iter(random.sample(range(12), 12))


def some(batches, count):
    """What the next ``count`` calls give: values, and for an error None."""
    found = []
    for _ in range(count):
        try:
            found.append(int(next(batches)))
        except (KeyError, StopIteration, RuntimeError):
            found.append(None)
    return found


def resumed(loader, make):
    again = make()
    again.load_state_dict(loader.state_dict())
    return [int(batch) for batch in again]


@pytest.mark.slow
@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.parametrize("error", [KeyError("one"), StopIteration()], ids=["KeyError", "StopIteration"])
def test_a_batch_that_raised_is_not_gone_on_from_twice(workers, error):
    def make():
        return DataLoader(Bad(error), None, num_workers=workers)

    loader = make()
    batches = iter(loader)
    assert some(batches, 2) == [0, None]
    assert loader.state_dict()["given"] == 2 and resumed(loader, make) == [2, 3, 4, 5]
    assert some(batches, 1) == [2]
    assert loader.state_dict()["given"] == 3 and resumed(loader, make) == [3, 4, 5]


@pytest.mark.slow
@pytest.mark.parametrize("workers", [0, 1])
def test_nor_is_one_of_a_stream(workers):
    def make():
        return DataLoader(BadStream(KeyError("one")), None, num_workers=workers)

    loader = make()
    batches = iter(loader)
    for count, rest in ((2, [2, 3, 4, 5]), (2, [4, 5])):
        some(batches, count)
        assert resumed(loader, make) == rest


def test_ctrl_c_while_a_batch_is_made_costs_no_batch():
    data = Bad(KeyboardInterrupt())
    loader = DataLoader(data, None)
    batches = iter(loader)
    assert next(batches) == 0
    with pytest.raises(KeyboardInterrupt):
        next(batches)
    assert loader.state_dict()["given"] == 1
    data.error = None
    assert list(batches) == [1, 2, 3, 4, 5]


class Unreadable:
    def __init__(self, k):
        self.k = k

    def __reduce__(self):
        return (int, ("one",)) if self.k == 1 else (int, (self.k,))


def unreadable(k):
    return Unreadable(k)


def test_a_batch_that_cannot_be_read_on_arrival_is_an_error_and_the_pass_goes_on():
    loader = DataLoader(Bad(None), None, num_workers=1, collate_fn=unreadable, timeout=30)
    batches = iter(loader)
    assert next(batches) == 0
    with pytest.raises(ValueError, match="on its way from a DataLoader worker process"):
        next(batches)
    assert loader.state_dict()["given"] == 2 and list(batches) == [2, 3, 4, 5]


class FailingSampler(Sampler):
    def __init__(self, error):
        self.error = error

    def __iter__(self):
        yield from range(4)
        if self.error is not None:
            raise self.error
        yield 5


@pytest.mark.slow
@pytest.mark.parametrize("error", [KeyError("four"), KeyboardInterrupt()], ids=["KeyError", "Ctrl-C"])
@pytest.mark.parametrize(("workers", "at"), [(0, 4), (1, 2)])  # workers are asked for two batches ahead
def test_a_sampler_that_fails_costs_no_batch(workers, at, error):
    def make(error=None):
        return DataLoader(Bad(None), None, sampler=FailingSampler(error), num_workers=workers)

    loader = make(error)
    batches = iter(loader)
    assert some(batches, at) == list(range(at))
    with pytest.raises(type(error)):
        next(batches)
    assert resumed(loader, make) == [*range(at, 4), 5]
    assert list(batches) == list(range(at, 4))
    assert resumed(loader, make) == [*range(at, 4), 5]


def test_workers_that_fail_to_start_leave_the_loaded_state(monkeypatch):
    def failing(*args):
        raise OSError("no more processes")

    state = {"given": 4, "generators": [[0, 0]], "epoch": None}
    loader = DataLoader(Bad(None), None, num_workers=1)
    loader.load_state_dict(state)
    with monkeypatch.context() as patch:
        patch.setattr(iterators._MultiProcessingDataLoaderIter, "_start_worker", failing)
        with pytest.raises(OSError, match="no more processes"):
            iter(loader)
    assert loader.state_dict() == state and list(loader) == [4, 5]


def test_a_batch_that_a_worker_died_of_is_given_up():
    loader = DataLoader(MortalItems(2), None, num_workers=2)
    batches = iter(loader)
    assert some(batches, 4) == [0, 1, None, 3]
    assert resumed(loader, lambda: DataLoader(MortalItems(), None)) == [4, 5, 6, 7]


def test_the_death_of_all_is_not_the_end_of_the_pass():
    loader = DataLoader(MortalItems(2), None, num_workers=1)
    batches = iter(loader)
    assert some(batches, 5) == [0, 1, None, None, None]
    assert resumed(loader, lambda: DataLoader(MortalItems(), None)) == [3, 4, 5, 6, 7]


@pytest.mark.slow
def test_after_a_death_the_state_of_a_stream_stays_there():
    """What the dead worker would have read is missing from what follows: counts don't tell its place."""

    def make():
        return DataLoader(Mortal(), None, num_workers=2)

    loader = DataLoader(Mortal(5), None, num_workers=2)
    batches = iter(loader)
    assert some(batches, 6) == [0, 1, 2, 3, 4, None]
    assert resumed(loader, make) == [5, 6, 7, 8, 9, 10, 11]
    assert some(batches, 5) == [6, 8, 10, None, None]
    assert resumed(loader, make) == [5, 6, 7, 8, 9, 10, 11]


def test_a_death_while_resuming_is_raised_and_the_state_is_kept():
    loader = DataLoader(Mortal(3), None, num_workers=2)
    state = {"given": 6, "generators": [[0, 0]], "epoch": None}
    loader.load_state_dict(state)
    with pytest.raises(RuntimeError, match="exited unexpectedly: exit code 3"):
        iter(loader)
    assert loader.state_dict() == state


def orders(loader, count):
    return [[batch.tolist() for batch in loader] for _ in range(count)]


def shuffled(own, **options):
    generator = jtorch.Generator().manual_seed(4) if own else None
    return DataLoader(jtorch.arange(12), 2, shuffle=True, generator=generator, **options)


@pytest.mark.parametrize("own", [False, True])
def test_persistent_workers_change_no_order(own):
    jtorch.manual_seed(1)
    expected = orders(shuffled(own), 3)
    jtorch.manual_seed(1)
    assert orders(shuffled(own, num_workers=1, persistent_workers=True), 3) == expected


@pytest.mark.slow
@pytest.mark.parametrize("own", [False, True])
@pytest.mark.parametrize("passes", [0, 1, 2])
@pytest.mark.parametrize("persistent", [False, True])
def test_a_later_pass_of_persistent_workers_is_gone_on_with(own, passes, persistent):
    loader = shuffled(own, num_workers=1, persistent_workers=True)
    orders(loader, passes)
    batches = iter(loader)
    next(batches), next(batches)
    state = loader.state_dict()
    again = shuffled(own, num_workers=1, persistent_workers=persistent)
    if persistent:
        orders(again, 1)
    again.load_state_dict(state)
    assert orders(again, 1)[0] == [batch.tolist() for batch in batches]


def test_a_stream_that_shuffles_in_persistent_workers_is_gone_on_with():
    """Its order hangs on the worker's seed, so that is a new one at each pass, as without persistence."""

    def make():
        return DataLoader(Shuffled(), None, num_workers=1, persistent_workers=True)

    loader = make()
    assert list(loader) != list(loader)
    batches = iter(loader)
    some(batches, 3)
    state = loader.state_dict()
    again = make()
    again.load_state_dict(state)
    assert list(again) == list(batches)


def seed_with_seven(worker):
    random.seed(7)


@pytest.mark.slow
def test_what_an_init_function_has_seeded_stays_so():
    def draws():
        loader = DataLoader(
            Shuffled(), None, num_workers=1, persistent_workers=True, worker_init_fn=seed_with_seven
        )
        return list(loader), list(loader)

    assert draws() == draws()


@pytest.mark.slow
def test_ctrl_c_between_two_passes_of_persistent_workers(monkeypatch):
    loader = shuffled(True, num_workers=2, persistent_workers=True)
    reference = shuffled(True)
    assert orders(loader, 1) == orders(reference, 1)
    batches = iter(reference)
    next(batches)
    loader.load_state_dict(reference.state_dict())

    def interrupted(*args):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(iterators, "take", interrupted)
        with pytest.raises(KeyboardInterrupt):
            iter(loader)
    assert loader.state_dict() == reference.state_dict()
    assert orders(loader, 1)[0] == [batch.tolist() for batch in batches]
