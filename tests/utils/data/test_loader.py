"""DataLoader, samplers and collation."""

from __future__ import annotations

from collections import namedtuple

import numpy as np
import pytest

import jtorch
from jtorch.utils.data import (
    BatchSampler,
    DataLoader,
    IterableDataset,
    RandomSampler,
    SequentialSampler,
    Subset,
    SubsetRandomSampler,
    TensorDataset,
    default_collate,
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
    with pytest.raises(ValueError, match="no sampler"):
        DataLoader(Stream(), sampler=[1])


def test_empty_dataset():
    empty = TensorDataset(jtorch.zeros(0, 3))
    assert list(DataLoader(empty, 2)) == list(DataLoader(empty, 2, shuffle=True)) == []


@pytest.mark.parametrize(
    ("options", "error", "text"),
    [
        ({"num_workers": 2}, NotImplementedError, "use num_workers=0"),
        ({"pin_memory": True}, NotImplementedError, "pin_memory"),
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


def test_samplers():
    assert list(SequentialSampler("abc")) == [0, 1, 2]
    jtorch.manual_seed(0)
    assert sorted(RandomSampler("abcd")) == [0, 1, 2, 3]
    assert len(list(RandomSampler("abcd", num_samples=10))) == 10
    draws = list(RandomSampler("ab", replacement=True, num_samples=50))
    assert len(draws) == 50 and set(draws) == {0, 1}
    assert sorted(SubsetRandomSampler([5, 7])) == [5, 7]
    assert list(BatchSampler([1, 2, 3], 2)) == [[1, 2], [3]]
    assert len(BatchSampler([1, 2, 3], 2, drop_last=True)) == 1
    with pytest.raises(ValueError, match="num_samples=0"):
        RandomSampler("ab", num_samples=0)


Point = namedtuple("Point", "x y")


@pytest.mark.parametrize(
    "batch",
    [
        [1, 2],
        [1.5, 2.5],
        [True, False],
        [np.float32(1), np.float32(2)],
        [np.ones(2), np.zeros(2)],
        ["a", "b"],
        [(1, 2.0), (3, 4.0)],
        [[1, 2], [3, 4]],
        [{"a": 1, "b": (2, 3)}, {"a": 4, "b": (5, 6)}],
        [Point(1, 2), Point(3, 4)],
    ],
    ids=str,
)
def test_default_collate_equals_pytorch(batch):
    torch = pytest.importorskip("torch", reason="compares with PyTorch, which is not installed")
    from torch.utils.data import default_collate as theirs

    def plain(tree):
        if isinstance(tree, (jtorch.Tensor, torch.Tensor)):
            return tree.tolist(), str(tree.dtype).split(".")[1]
        if isinstance(tree, dict):
            return {k: plain(v) for k, v in tree.items()}
        if isinstance(tree, (list, tuple)):
            return type(tree).__name__, [plain(v) for v in tree]
        return tree

    assert plain(default_collate(batch)) == plain(theirs(batch))


def test_collate_errors():
    with pytest.raises(RuntimeError, match="should be of equal size"):
        default_collate([(1, 2), (3,)])
    with pytest.raises(TypeError, match="found <class 'object'>"):
        default_collate([object()])
    with pytest.raises(RuntimeError, match="stack expects each tensor to be equal size"):
        default_collate([jtorch.ones(2), jtorch.ones(3)])
