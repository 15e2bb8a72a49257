"""Datasets: things with items.

A dataset may offer ``__getitems__(indices)``: the list of the items at once. Beyond PyTorch, one whose
items are rows of tensors may offer ``get_batch(indices)``: what ``default_collate`` would make of them,
by one indexing per tensor.
"""

from __future__ import annotations

import bisect
import math
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import accumulate
from typing import Any, Generic, TypeVar

import numpy as np

import jtorch
from jtorch.eager.public import Tensor, ops

_rows = ops.index  # t[rows] without looking through all forms an index may have


T_co = TypeVar("T_co", covariant=True)


class Dataset(Generic[T_co]):
    """Base class of datasets with ``__getitem__(index)`` and, usually, ``__len__``.

    >>> import jtorch
    >>> class Squares(jtorch.utils.data.Dataset):
    ...     def __len__(self):
    ...         return 4
    ...     def __getitem__(self, index):
    ...         return index**2
    >>> [batch.tolist() for batch in jtorch.utils.data.DataLoader(Squares(), batch_size=2)]
    [[0, 1], [4, 9]]
    """

    def __getitem__(self, index: Any) -> Any:
        raise NotImplementedError("Subclasses of Dataset should implement __getitem__.")

    def __add__(self, other: Dataset) -> ConcatDataset:
        return ConcatDataset([self, other])


class IterableDataset(Dataset[T_co]):
    """Base class of datasets that are only gone through, by ``__iter__``.

    With worker processes each has a copy: ``get_worker_info()`` tells ``__iter__`` which part is its own.

    >>> import jtorch
    >>> class Countdown(jtorch.utils.data.IterableDataset):
    ...     def __iter__(self):
    ...         yield from (3, 2, 1)
    >>> [batch.tolist() for batch in jtorch.utils.data.DataLoader(Countdown(), batch_size=2)]
    [[3, 2], [1]]
    """

    def __iter__(self) -> Iterator[Any]:
        raise NotImplementedError("Subclasses of IterableDataset should implement __iter__.")

    def __add__(self, other: Dataset) -> ChainDataset:  # type: ignore[override]
        return ChainDataset([self, other])


class TensorDataset(Dataset[tuple[Tensor, ...]]):
    """Item k is the tuple of the k-th rows of all tensors.

    Raises AssertionError unless the tensors have the same first dim.

    >>> import jtorch
    >>> data = jtorch.utils.data.TensorDataset(jtorch.arange(3) * 10, jtorch.arange(3))
    >>> len(data), data[1]
    (3, (tensor(10), tensor(1)))
    """

    def __init__(self, *tensors: Any) -> None:
        lengths = [t.size(0) for t in tensors]
        if any(n != lengths[0] for n in lengths):
            raise AssertionError(f"Size mismatch between tensors: the first dims are {lengths}")
        self.tensors = tensors

    def __getitem__(self, index: Any) -> tuple[Tensor, ...]:
        return tuple(t[index] for t in self.tensors)

    def get_batch(self, indices: list[int]) -> list[Tensor]:
        """One batch: a tensor of rows for each tensor."""
        places = np.array(indices, dtype=np.int64)
        if places.size and places.min() < 0:  # counted from the end, which the op below doesn't know
            places = np.where(places < 0, places + len(self), places)
        rows = jtorch.from_numpy(places)
        return [_rows(t, rows, axes=(0,)) for t in self.tensors]

    def __len__(self) -> int:
        return self.tensors[0].size(0)


class StackDataset(Dataset):
    """Item k is the tuple (or, for keyword arguments, the dict) of the k-th items of all datasets.

    Raises ValueError for datasets of different lengths, for none, and for both kinds of argument.

    >>> import jtorch
    >>> data = jtorch.utils.data.StackDataset(image=[10, 11], label=["a", "b"])
    >>> len(data), data[1]
    (2, {'image': 11, 'label': 'b'})
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        if args and kwargs:
            raise ValueError(
                "Supported either ``tuple``- (via ``args``) or``dict``- (via ``kwargs``) like input/output, "
                "but both types are given."
            )
        self.datasets: Any = args or kwargs
        if not self.datasets:
            raise ValueError("At least one dataset should be passed")
        lengths = [len(dataset) for dataset in args or kwargs.values()]
        if any(n != lengths[0] for n in lengths):
            raise ValueError("Size mismatch between datasets")
        self._length = lengths[0]

    def __getitem__(self, index: Any) -> Any:
        if isinstance(self.datasets, dict):
            return {name: dataset[index] for name, dataset in self.datasets.items()}
        return tuple(dataset[index] for dataset in self.datasets)

    def __getitems__(self, indices: list[int]) -> list[Any]:
        if isinstance(self.datasets, dict):
            columns = [_items(dataset, indices) for dataset in self.datasets.values()]
            return [dict(zip(self.datasets, row, strict=True)) for row in zip(*columns, strict=True)]
        return list(zip(*(_items(dataset, indices) for dataset in self.datasets), strict=True))

    def __len__(self) -> int:
        return self._length


def _items(dataset: Any, indices: list[int]) -> list[Any]:
    """The items at ``indices``, at once where the dataset offers that."""
    many = getattr(dataset, "__getitems__", None)
    if not callable(many):
        return [dataset[k] for k in indices]
    items = many(indices)
    if len(items) != len(indices):
        raise ValueError(f"Nested dataset's output size mismatch. Expected {len(indices)}, got {len(items)}")
    return items


class Subset(Dataset[T_co]):
    """The items of ``dataset`` at ``indices``.

    Raises NotImplementedError for a subclass with a ``__getitem__`` of its own but no ``__getitems__``,
    which a loader would prefer.

    >>> import jtorch
    >>> data = jtorch.utils.data.Subset(["a", "b", "c", "d"], [3, 0])
    >>> len(data), data[0]
    (2, 'd')
    """

    def __init__(self, dataset: Any, indices: Sequence[int]) -> None:
        self.dataset = dataset
        self.indices = indices
        kind = type(self)
        if kind.__getitem__ is not Subset.__getitem__ and kind.__getitems__ is Subset.__getitems__:
            raise NotImplementedError(
                f"{kind.__name__} overrides __getitem__ but not __getitems__. When subclassing Subset and "
                "overriding __getitem__, you must also override __getitems__ to ensure DataLoader works "
                "correctly with your custom logic. A simple implementation:\n\n"
                "def __getitems__(self, indices):\n"
                "    return [self.__getitem__(idx) for idx in indices]"
            )

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, list):
            return self.dataset[[self.indices[k] for k in index]]
        return self.dataset[self.indices[index]]

    def __getitems__(self, indices: list[int]) -> list[Any]:
        places = [self.indices[k] for k in indices]
        many = getattr(self.dataset, "__getitems__", None)
        return many(places) if callable(many) else [self.dataset[k] for k in places]

    @property
    def get_batch(self) -> Callable[[list[int]], Any]:
        """Offered (no AttributeError) only where the dataset below offers it."""
        below = batch_getter(self.dataset)
        if below is None:
            raise AttributeError(f"{type(self.dataset).__name__} has no get_batch")
        return lambda indices: below([self.indices[k] for k in indices])

    def __len__(self) -> int:
        return len(self.indices)


def batch_getter(dataset: Any) -> Callable[[list[int]], Any] | None:
    """``dataset.get_batch``, unless a subclass has changed how items are made and not how batches are."""
    for kind in type(dataset).__mro__:
        if "get_batch" in vars(kind):
            return getattr(dataset, "get_batch", None)
        if "__getitem__" in vars(kind) or "__getitems__" in vars(kind):
            return None
    return None


class ConcatDataset(Dataset[T_co]):
    """Datasets one after the other.

    Raises AssertionError for none and for an IterableDataset; ValueError or IndexError for an index that
    is out of range.

    >>> import jtorch
    >>> data = jtorch.utils.data.ConcatDataset([[1, 2, 3], [10, 20]])
    >>> len(data), data[3]
    (5, 10)
    """

    def __init__(self, datasets: Iterable[Any]) -> None:
        self.datasets = list(datasets)
        if not self.datasets:
            raise AssertionError("datasets should not be an empty iterable")
        if any(isinstance(d, IterableDataset) for d in self.datasets):
            raise AssertionError("ConcatDataset does not support IterableDataset")
        self.cumulative_sizes = self.cumsum(self.datasets)

    @staticmethod
    def cumsum(sequence: Iterable[Any]) -> list[int]:
        return list(accumulate(len(part) for part in sequence))

    def __len__(self) -> int:
        return self.cumulative_sizes[-1]

    def __getitem__(self, index: int) -> Any:
        n = len(self)
        if index < -n:
            raise ValueError("absolute value of index should not exceed dataset length")
        if index >= n:
            raise IndexError(f"index {index} is out of range for {n} items")
        index %= n
        which = bisect.bisect_right(self.cumulative_sizes, index)
        before = self.cumulative_sizes[which - 1] if which else 0
        return self.datasets[which][index - before]


class ChainDataset(IterableDataset[T_co]):
    """Streams one after the other; AssertionError, when gone through, for what is no IterableDataset.

    >>> import jtorch
    >>> class Letters(jtorch.utils.data.IterableDataset):
    ...     def __iter__(self):
    ...         yield from "ab"
    >>> list(jtorch.utils.data.ChainDataset([Letters(), Letters()]))
    ['a', 'b', 'a', 'b']
    """

    def __init__(self, datasets: Iterable[Any]) -> None:
        self.datasets = datasets

    def _streams(self) -> Iterator[Any]:
        for dataset in self.datasets:
            if not isinstance(dataset, IterableDataset):
                raise AssertionError("ChainDataset only supports IterableDataset")
            yield dataset

    def __iter__(self) -> Iterator[Any]:
        for dataset in self._streams():
            yield from dataset

    def __len__(self) -> int:
        return sum(len(dataset) for dataset in self._streams())


def random_split(dataset: Any, lengths: Sequence[int | float], generator: Any = None) -> list[Subset]:
    """Random subsets without overlap, of the given lengths or fractions (which sum to 1).

    Raises ValueError where the lengths don't sum to the dataset's. Warns where a fraction gives nothing.

    >>> import jtorch
    >>> parts = jtorch.utils.data.random_split(range(10), [7, 3])
    >>> [len(part) for part in parts], sorted([*parts[0], *parts[1]])
    ([7, 3], [0, 1, 2, 3, 4, 5, 6, 7, 8, 9])
    """
    n = len(dataset)
    counts = _counts(n, lengths)
    if sum(counts) != n:
        raise ValueError("Sum of input lengths does not equal the length of the input dataset!")
    order = jtorch.randperm(n, generator=generator).tolist()
    ends = list(accumulate(counts))
    return [Subset(dataset, order[end - k : end]) for end, k in zip(ends, counts, strict=True)]


def _counts(n: int, lengths: Sequence[int | float]) -> list[int]:
    """Lengths as they are; fractions as floors, and what is left one by one from the first on."""
    if not math.isclose(sum(lengths), 1) or sum(lengths) > 1:
        return [int(k) for k in lengths]
    for k, fraction in enumerate(lengths):
        if not 0 <= fraction <= 1:
            raise ValueError(f"Fraction at index {k} is not between 0 and 1")
    counts = [math.floor(n * fraction) for fraction in lengths]
    for k in range(n - sum(counts)):
        counts[k % len(counts)] += 1
    for k, count in enumerate(counts):
        if count == 0:
            warnings.warn(
                f"Length of split at index {k} is 0. This might result in an empty dataset.", stacklevel=3
            )
    return counts
