"""Datasets, subsets and random_split."""

from __future__ import annotations

import pytest

import jtorch
from jtorch.utils.data import (
    ChainDataset,
    ConcatDataset,
    DataLoader,
    Dataset,
    IterableDataset,
    StackDataset,
    Subset,
    TensorDataset,
    random_split,
)


def numbers(n=10):
    return TensorDataset(jtorch.arange(n), jtorch.arange(n) * 10.0)


def test_tensor_dataset():
    data = numbers()
    assert len(data) == 10
    assert [t.item() for t in data[3]] == [3, 30.0]
    rows, scaled = data.get_batch([4, 0, -1])
    assert rows.tolist() == [4, 0, 9] and scaled.tolist() == [40.0, 0.0, 90.0]
    with pytest.raises(AssertionError, match=r"Size mismatch between tensors: the first dims are \[2, 3\]"):
        TensorDataset(jtorch.ones(2), jtorch.ones(3))
    with pytest.raises(IndexError):
        data.get_batch([10])
    with pytest.raises(IndexError):
        data.get_batch([0, -11])


def test_batches_are_copies():
    source = jtorch.zeros(3, 2)
    (batch,) = TensorDataset(source).get_batch([0, 1, 2])
    batch.add_(1)
    assert source.tolist() == [[0.0, 0.0]] * 3


class Squares(Dataset):
    def __len__(self):
        return 5

    def __getitem__(self, k):
        return k * k


def test_subset():
    part = Subset(numbers(), [7, 2])
    assert [t.item() for t in part[0]] == [7, 70.0] and len(part) == 2
    assert part.get_batch([1, 0])[0].tolist() == [2, 7]
    inner = Subset(part, [1])
    assert inner.get_batch([0])[0].tolist() == [2]
    plain = Subset(Squares(), [3, 1])
    assert not hasattr(plain, "get_batch")
    assert plain.__getitems__([0, 1]) == [9, 1]


def test_concatenation():
    data = Squares() + Subset(Squares(), [4])
    assert [data[k] for k in range(6)] == [0, 1, 4, 9, 16, 16]
    assert data[-1] == 16 and data[-6] == 0
    with pytest.raises(IndexError, match="index 6 is out of range for 6 items"):
        data[6]
    with pytest.raises(ValueError, match="absolute value of index should not exceed dataset length"):
        data[-7]
    assert data.cumulative_sizes == [5, 6]
    with pytest.raises(AssertionError, match="datasets should not be an empty iterable"):
        ConcatDataset([])
    with pytest.raises(AssertionError, match="ConcatDataset does not support IterableDataset"):
        ConcatDataset([IterableDataset()])


@pytest.mark.parametrize(
    ("lengths", "expected"),
    [((7, 3), [7, 3]), ((0.5, 0.25, 0.25), [6, 2, 2]), ((1.0,), [10]), ((0, 10), [0, 10])],
)
def test_random_split(lengths, expected):
    parts = random_split(numbers(), lengths, generator=jtorch.Generator().manual_seed(1))
    assert [len(p) for p in parts] == expected
    seen = [p[k][0].item() for p in parts for k in range(len(p))]
    assert sorted(seen) == list(range(10))
    again = random_split(numbers(), lengths, generator=jtorch.Generator().manual_seed(1))
    assert [p.indices for p in parts] == [p.indices for p in again]


def test_random_split_errors():
    with pytest.raises(ValueError, match="Sum of input lengths does not equal"):
        random_split(numbers(), [3, 3])
    with pytest.raises(ValueError, match="Fraction at index 0 is not between 0 and 1"):
        random_split(numbers(), [1.5, -0.5])


def test_base_classes_say_what_is_missing():
    with pytest.raises(NotImplementedError, match="should implement __getitem__"):
        Dataset()[0]
    with pytest.raises(NotImplementedError, match="should implement __iter__"):
        iter(IterableDataset())


def test_a_split_of_nothing_is_warned_of():
    with pytest.warns(UserWarning, match="Length of split at index 1 is 0"):
        assert len(random_split(numbers(), [1.0, 0.0])[1]) == 0


class Count(IterableDataset):
    def __init__(self, n):
        self.n = n

    def __iter__(self):
        return iter(range(self.n))

    def __len__(self):
        return self.n


def test_chain():
    chain = Count(2) + Count(3)
    assert isinstance(chain, ChainDataset) and list(chain) == [0, 1, 0, 1, 2] and len(chain) == 5
    for use in (list, len):
        with pytest.raises(AssertionError, match="ChainDataset only supports IterableDataset"):
            use(ChainDataset([Squares()]))


def test_stack():
    pair = StackDataset(Squares(), Subset(Squares(), [4, 3, 2, 1, 0]))
    assert pair[1] == (1, 9) and pair.__getitems__([0, 2]) == [(0, 16), (4, 4)] and len(pair) == 5
    named = StackDataset(x=Squares(), y=Squares())
    assert named[2] == {"x": 4, "y": 4} and named.__getitems__([3]) == [{"x": 9, "y": 9}]
    assert [b.tolist() for b in next(iter(DataLoader(pair, 2)))] == [[0, 1], [16, 9]]
    for arguments, names, text in (
        ((), {}, "At least one dataset should be passed"),
        ((Squares(),), {"x": Squares()}, "both types are given"),
        ((Squares(), Count(3)), {}, "Size mismatch between datasets"),
    ):
        with pytest.raises(ValueError, match=text):
            StackDataset(*arguments, **names)

    class Short(Squares):
        def __getitems__(self, indices):
            return [0]

    with pytest.raises(ValueError, match=r"output size mismatch. Expected 2, got 1"):
        StackDataset(Short()).__getitems__([0, 1])


def test_a_subclass_that_changes_items_gets_no_quick_batches():
    class Negated(TensorDataset):
        def __getitem__(self, index):
            return tuple(-t for t in super().__getitem__(index))

    data = Negated(jtorch.arange(3))
    for dataset in (data, Subset(data, [0, 1, 2])):
        assert next(iter(DataLoader(dataset, 3)))[0].tolist() == [0, -1, -2]
    assert not hasattr(Subset(data, [0]), "get_batch")


def test_a_subset_that_changes_items_must_change_batches():
    class Doubled(Subset):
        def __getitem__(self, index):
            return 2 * super().__getitem__(index)

    with pytest.raises(NotImplementedError, match="Doubled overrides __getitem__ but not __getitems__"):
        Doubled(Squares(), [1])


def test_classes_take_type_parameters():
    class Typed(Dataset[int]):
        def __getitem__(self, index):
            return index

    assert Typed()[3] == 3
