"""Samplers: the order in which a loader takes the items."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence, Sized
from itertools import islice
from typing import Any, Generic, TypeVar

import numpy as np

import jtorch

T_co = TypeVar("T_co", covariant=True)

_AT_ONCE = 32  # drawn at once with replacement: ``num_samples=int(1e10)`` is how endless training is written


class Sampler(Generic[T_co]):
    """Base class: iterating gives indices (or, for a batch sampler, lists of them).

    >>> import jtorch
    >>> class Backwards(jtorch.utils.data.Sampler):
    ...     def __iter__(self):
    ...         yield from (2, 1, 0)
    >>> [batch.item() for batch in jtorch.utils.data.DataLoader([10, 20, 30], sampler=Backwards())]
    [30, 20, 10]
    """

    def __iter__(self) -> Iterator[Any]:
        raise NotImplementedError


class SequentialSampler(Sampler[int]):
    """0, 1, ..., n - 1.

    >>> import jtorch
    >>> list(jtorch.utils.data.SequentialSampler("abc"))
    [0, 1, 2]
    """

    def __init__(self, data_source: Sized) -> None:
        self.data_source = data_source

    def __iter__(self) -> Iterator[int]:
        return iter(range(len(self.data_source)))

    def __len__(self) -> int:
        return len(self.data_source)


class RandomSampler(Sampler[int]):
    """A fresh random order at each pass, or ``num_samples`` draws with replacement.

    Raises ValueError where there is nothing to draw, TypeError for a ``replacement`` that is no bool.

    >>> import jtorch
    >>> sorted(jtorch.utils.data.RandomSampler("abcd"))
    [0, 1, 2, 3]
    >>> len(list(jtorch.utils.data.RandomSampler("abcd", replacement=True, num_samples=10)))
    10
    """

    def __init__(
        self,
        data_source: Sized,
        replacement: bool = False,
        num_samples: int | None = None,
        generator: Any = None,
    ) -> None:
        self.data_source = data_source
        self.replacement = replacement
        self._num_samples = num_samples
        self.generator = generator
        if not isinstance(replacement, bool):
            raise TypeError(f"replacement should be a boolean value, but got replacement={replacement}")
        if not isinstance(self.num_samples, int) or self.num_samples <= 0:
            raise ValueError(
                f"num_samples should be a positive integer value, but got num_samples={self.num_samples}"
            )

    @property
    def num_samples(self) -> int:
        return len(self.data_source) if self._num_samples is None else self._num_samples

    def __iter__(self) -> Iterator[int]:
        n, count = len(self.data_source), self.num_samples
        if self.replacement:
            for start in range(0, count, _AT_ONCE):
                size = (min(_AT_ONCE, count - start),)
                yield from jtorch.randint(n, size, generator=self.generator).tolist()
            return
        while count > 0:
            order = jtorch.randperm(n, generator=self.generator).tolist()
            yield from order[:count]
            count -= n

    def __len__(self) -> int:
        return self.num_samples


class SubsetRandomSampler(Sampler[int]):
    """The given indices, in a fresh random order at each pass.

    >>> import jtorch
    >>> sorted(jtorch.utils.data.SubsetRandomSampler([5, 2, 9]))
    [2, 5, 9]
    """

    def __init__(self, indices: Sequence[int], generator: Any = None) -> None:
        self.indices = indices
        self.generator = generator

    def __iter__(self) -> Iterator[int]:
        for k in jtorch.randperm(len(self.indices), generator=self.generator).tolist():
            yield self.indices[k]

    def __len__(self) -> int:
        return len(self.indices)


class WeightedRandomSampler(Sampler[int]):
    """``num_samples`` indices at each pass, index k with a probability in proportion to ``weights[k]``.

    Raises ValueError for what is no count, no bool or no row of weights; RuntimeError, at the pass, for
    weights that nothing can be drawn with.

    >>> import jtorch
    >>> list(jtorch.utils.data.WeightedRandomSampler([0.0, 1.0, 0.0], num_samples=3))
    [1, 1, 1]
    """

    def __init__(
        self,
        weights: Sequence[float],
        num_samples: int,
        replacement: bool = True,
        generator: Any = None,
    ) -> None:
        _check_count("num_samples", num_samples)
        if not isinstance(replacement, bool):
            raise ValueError(f"replacement should be a boolean value, but got replacement={replacement}")
        self.weights: Any = jtorch.as_tensor(weights, dtype=jtorch.float64)
        if self.weights.dim() != 1:
            raise ValueError(
                f"weights should be a 1d sequence but given weights have shape {tuple(self.weights.shape)}"
            )
        self.num_samples = num_samples
        self.replacement = replacement
        self.generator = generator

    def __iter__(self) -> Iterator[int]:
        weights = self.weights.numpy()
        _check_weights(weights, self.num_samples, self.replacement)
        if self.replacement:
            draws = jtorch.rand(self.num_samples, dtype=jtorch.float64, generator=self.generator).numpy()
            ends = np.cumsum(weights)
            # searching to the right of equal ends passes over weights of 0
            chosen = np.searchsorted(ends, draws * ends[-1], side="right")
            last = np.flatnonzero(weights)[-1]  # where rounding takes a draw to the very end
            yield from np.minimum(chosen, last).tolist()
            return
        # Exponential races: arrival times with rates w, the earliest win (Efraimidis and Spirakis, 2006).
        draws = jtorch.rand(len(weights), dtype=jtorch.float64, generator=self.generator).numpy()
        with np.errstate(divide="ignore"):
            arrivals = -np.log1p(-draws) / weights
        arrivals[weights == 0] = np.inf
        yield from np.argsort(arrivals, kind="stable")[: self.num_samples].tolist()

    def __len__(self) -> int:
        return self.num_samples


def _check_weights(weights: np.ndarray, count: int, replacement: bool) -> None:
    """Raise what ``torch.multinomial`` would."""
    if not np.all(np.isfinite(weights)) or np.any(weights < 0):
        raise RuntimeError("probability tensor contains either `inf`, `nan` or element < 0")
    if not replacement and count > len(weights):
        raise RuntimeError("cannot sample n_sample > prob_dist.size(-1) samples without replacement")
    if weights.sum() <= 0:
        raise RuntimeError("invalid multinomial distribution (sum of probabilities <= 0)")
    if not replacement and count > np.count_nonzero(weights):
        raise RuntimeError(
            "invalid multinomial distribution (with replacement=False, not enough non-negative category to "
            "sample)"
        )


def _check_count(name: str, value: Any) -> None:
    if not isinstance(value, int) or isinstance(value, bool) or value <= 0:
        raise ValueError(f"{name} should be a positive integer value, but got {name}={value}")


class BatchSampler(Sampler[list[int]]):
    """Lists of ``batch_size`` indices; the last may be shorter, or is dropped.

    >>> import jtorch
    >>> list(jtorch.utils.data.BatchSampler(range(5), batch_size=2, drop_last=False))
    [[0, 1], [2, 3], [4]]
    """

    def __init__(self, sampler: Iterable[Any], batch_size: int, drop_last: bool = False) -> None:
        _check_count("batch_size", batch_size)
        if not isinstance(drop_last, bool):
            raise ValueError(f"drop_last should be a boolean value, but got drop_last={drop_last}")
        self.sampler = sampler
        self.batch_size = batch_size
        self.drop_last = drop_last

    def __iter__(self) -> Iterator[list[int]]:
        indices = iter(self.sampler)
        while batch := list(islice(indices, self.batch_size)):
            if len(batch) < self.batch_size and self.drop_last:
                return
            yield batch

    def __len__(self) -> int:
        n = len(self.sampler)  # type: ignore[arg-type]
        return n // self.batch_size if self.drop_last else -(-n // self.batch_size)
