"""DataLoader in one process."""

from __future__ import annotations

import numpy as np
import pytest

import jtorch
from jtorch.utils.data import (
    DataLoader,
    IterableDataset,
    Subset,
    TensorDataset,
)

DATA = TensorDataset(jtorch.arange(10), jtorch.arange(10) * 10.0)


def first_column(loader):
    return [batch[0].tolist() for batch in loader]


def test_in_order():
    loader = DataLoader(DATA, batch_size=4)
    assert first_column(loader) == [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9]]
    assert first_column(loader) == first_column(loader) and len(loader) == 3
    assert first_column(DataLoader(DATA, batch_size=4, drop_last=True)) == [
        [0, 1, 2, 3],
        [4, 5, 6, 7],
    ]
    assert len(DataLoader(DATA, batch_size=4, drop_last=True)) == 2
    assert all(isinstance(b, list) and b[1].dtype is jtorch.float32 for b in loader)


def test_shuffled_anew_each_pass_and_seeded():
    def passes():
        loader = DataLoader(DATA, 3, shuffle=True, generator=jtorch.Generator().manual_seed(5))
        return [[k for batch in first_column(loader) for k in batch] for _ in range(2)]

    first, second = passes()
    assert sorted(first) == sorted(second) == list(range(10))
    assert first != second and first != list(range(10))
    assert passes() == [first, second]


def test_the_quick_path_and_the_item_path_agree():
    items = [DATA[k] for k in range(10)]  # a plain list has neither get_batch nor __getitems__
    for data in (DATA, Subset(DATA, range(10))):
        for quick, slow in zip(DataLoader(data, 4), DataLoader(items, 4), strict=True):
            for a, b in zip(quick, slow, strict=True):
                assert a.tolist() == b.tolist() and a.dtype is b.dtype


def test_getitems_is_used():
    class Many:
        def __len__(self):
            return 3

        def __getitems__(self, indices):
            return [100 + k for k in indices]

    assert [b.tolist() for b in DataLoader(Many(), 2)] == [[100, 101], [102]]


def test_collate_fn_and_single_items():
    assert list(DataLoader([1, 2, 3], 2, collate_fn=sum)) == [3, 3]
    assert list(DataLoader([1, 2, 3], batch_size=None)) == [1, 2, 3]
    assert len(DataLoader([1, 2, 3], batch_size=None)) == 3


def test_batch_sampler_and_sampler():
    loader = DataLoader(DATA, batch_sampler=[[1, 2], [9]])
    assert first_column(loader) == [[1, 2], [9]] and len(loader) == 2
    assert first_column(DataLoader(DATA, 2, sampler=[3, 1, 0])) == [[3, 1], [0]]


def test_iterable_dataset():
    class Stream(IterableDataset):
        def __iter__(self):
            return iter(range(5))

    assert [b.tolist() for b in DataLoader(Stream(), 2)] == [[0, 1], [2, 3], [4]]
    assert [b.tolist() for b in DataLoader(Stream(), 2, drop_last=True)] == [[0, 1], [2, 3]]
    assert list(DataLoader(Stream(), batch_size=None)) == [0, 1, 2, 3, 4]
    with pytest.raises(ValueError, match="unspecified shuffle"):
        DataLoader(Stream(), shuffle=True)
    with pytest.raises(ValueError, match=r"unspecified sampler option, but got sampler=\[1\]"):
        DataLoader(Stream(), sampler=[1])
    with pytest.raises(ValueError, match="unspecified batch_sampler option"):
        DataLoader(Stream(), batch_sampler=[[1]])


def test_a_stream_longer_than_it_says_is_warned_of():
    class Liar(IterableDataset):
        def __iter__(self):
            return iter(range(3))

        def __len__(self):
            return 2

    loader = DataLoader(Liar(), batch_size=None)
    assert list(loader) == [0, 1, 2]  # nobody has asked
    assert len(loader) == 2
    with pytest.warns(UserWarning, match=r"was reported to be 2\(when .*, but 3 samples have been fetched"):
        assert list(loader) == [0, 1, 2]


def test_empty_dataset():
    empty = TensorDataset(jtorch.zeros(0, 3))
    assert list(DataLoader(empty, 2)) == []
    with pytest.raises(ValueError, match="positive integer value, but got num_samples=0"):
        DataLoader(empty, 2, shuffle=True)


@pytest.mark.parametrize(
    ("options", "error", "text"),
    [
        ({"num_workers": -1}, ValueError, "num_workers option should be non-negative"),
        ({"timeout": -1}, ValueError, "timeout option should be non-negative"),
        ({"prefetch_factor": 2}, ValueError, "could only be specified in multiprocessing"),
        ({"prefetch_factor": -1, "num_workers": 1}, ValueError, "prefetch_factor option should be non-neg"),
        ({"persistent_workers": True}, ValueError, "persistent_workers option needs num_workers > 0"),
        ({"multiprocessing_context": "fork"}, ValueError, r"but got num_workers=0"),
        (
            {"multiprocessing_context": "thread", "num_workers": 1},
            ValueError,
            "should specify a valid start method in",
        ),
        ({"multiprocessing_context": 3, "num_workers": 1}, TypeError, "should be a valid context"),
        ({"batch_size": 0}, ValueError, "positive integer value, but got batch_size=0"),
        ({"shuffle": True, "sampler": [1]}, ValueError, "mutually exclusive with shuffle"),
        (
            {"batch_sampler": [[1]], "batch_size": 2},
            ValueError,
            "mutually exclusive with batch_size",
        ),
        ({"batch_size": None, "drop_last": True}, ValueError, "mutually exclusive with drop_last"),
    ],
)
def test_errors(options, error, text):
    with pytest.raises(error, match=text):
        DataLoader(DATA, **options)


def test_options_are_fixed():
    loader = DataLoader(DATA)
    for name in ("batch_size", "sampler", "dataset", "drop_last"):
        with pytest.raises(ValueError, match=f"{name} attribute should not be set after DataLoader"):
            setattr(loader, name, 3)


def test_pin_memory_has_no_effect_but_a_warning():
    with pytest.warns(UserWarning, match="no accelerator is found"):
        assert first_column(DataLoader(DATA, 10, pin_memory=True)) == [list(range(10))]


def test_single_items_are_converted():
    (item,) = DataLoader([{"a": np.ones(2), "b": "text", "c": (1, 2.0)}], batch_size=None)
    assert item["a"].tolist() == [1, 1] and item["b"] == "text" and item["c"] == [1, 2.0]
