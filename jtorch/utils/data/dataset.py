"""Datasets: things with items.

A dataset may offer ``__getitems__(indices)``: the list of the items at once. Beyond PyTorch, one whose
items are rows of tensors may offer ``get_batch(indices)``: what ``default_collate`` would make of them,
by one indexing per tensor.
"""

from __future__ import annotations

import bisect
import math
from collections.abc import Iterable, Iterator, Sequence
from itertools import accumulate
from typing import Any

import numpy as np

from jtorch.eager.binding import APPLY
from jtorch.eager.creation import from_numpy, randperm
from jtorch.eager.tensor import Tensor

_rows = APPLY["index"]  # t[rows] without looking through all forms an index may have


class Dataset:
    """Base class of datasets with ``__getitem__(index)`` and, usually, ``__len__``."""

    def __getitem__(self, index: Any) -> Any:
        raise NotImplementedError("Subclasses of Dataset should implement __getitem__.")

    def __add__(self, other: Dataset) -> ConcatDataset:
        return ConcatDataset([self, other])


class IterableDataset(Dataset):
    """Base class of datasets that are only gone through, by ``__iter__``."""

    def __iter__(self) -> Iterator[Any]:
        raise NotImplementedError("Subclasses of IterableDataset should implement __iter__.")


class TensorDataset(Dataset):
    """Item k is the tuple of the k-th rows of all tensors.

    Raises ValueError unless the tensors have the same first dim.
    """

    def __init__(self, *tensors: Any) -> None:
        lengths = [len(t) for t in tensors]
        if any(n != lengths[0] for n in lengths):
            raise ValueError(f"Size mismatch between tensors: the first dims are {lengths}")
        self.tensors = tensors

    def __getitem__(self, index: Any) -> tuple[Tensor, ...]:
        return tuple(t[index] for t in self.tensors)

    def get_batch(self, indices: list[int]) -> list[Tensor]:
        """One batch: a tensor of rows for each tensor."""
        rows = from_numpy(np.array(indices, dtype=np.int64))
        return [_rows(t, rows, axes=(0,)) for t in self.tensors]

    def __len__(self) -> int:
        return len(self.tensors[0])


class Subset(Dataset):
    """The items of ``dataset`` at ``indices``."""

    def __init__(self, dataset: Dataset, indices: Sequence[int]) -> None:
        self.dataset = dataset
        self.indices = indices
        if hasattr(dataset, "get_batch"):  # offered only where the dataset below does
            self.get_batch = self._get_batch

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, list):
            return self.dataset[[self.indices[k] for k in index]]
        return self.dataset[self.indices[index]]

    def __getitems__(self, indices: list[int]) -> list[Any]:
        places = [self.indices[k] for k in indices]
        many = getattr(self.dataset, "__getitems__", None)
        return many(places) if many is not None else [self.dataset[k] for k in places]

    def _get_batch(self, indices: list[int]) -> Any:
        return self.dataset.get_batch([self.indices[k] for k in indices])  # type: ignore[attr-defined]

    def __len__(self) -> int:
        return len(self.indices)


class ConcatDataset(Dataset):
    """Datasets one after the other."""

    def __init__(self, datasets: Iterable[Dataset]) -> None:
        self.datasets = list(datasets)
        if not self.datasets:
            raise ValueError("datasets should not be an empty iterable")
        if any(isinstance(d, IterableDataset) for d in self.datasets):
            raise TypeError("ConcatDataset does not support IterableDataset")
        self.cumulative_sizes = list(accumulate(len(d) for d in self.datasets))  # type: ignore[arg-type]

    def __len__(self) -> int:
        return self.cumulative_sizes[-1]

    def __getitem__(self, index: int) -> Any:
        n = len(self)
        if not -n <= index < n:
            raise IndexError(f"index {index} is out of range for {n} items")
        index %= n
        which = bisect.bisect_right(self.cumulative_sizes, index)
        before = self.cumulative_sizes[which - 1] if which else 0
        return self.datasets[which][index - before]


def random_split(
    dataset: Dataset, lengths: Sequence[int | float], generator: Any = None
) -> list[Subset]:
    """Random subsets without overlap, of the given lengths or fractions (which sum to 1).

    Raises ValueError where the lengths don't sum to the dataset's.
    """
    n = len(dataset)  # type: ignore[arg-type]
    counts = _counts(n, lengths)
    if sum(counts) != n:
        raise ValueError("Sum of input lengths does not equal the length of the input dataset!")
    order = randperm(n, generator=generator).tolist()
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
    return counts
