"""DataLoader: goes through a dataset in batches."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from typing import Any

from jtorch.utils.data.collate import default_collate
from jtorch.utils.data.dataset import IterableDataset
from jtorch.utils.data.sampler import BatchSampler, RandomSampler, SequentialSampler


class DataLoader:
    """Batches of ``dataset``, in order or shuffled anew at each pass.

    ``batch_size=None`` gives single items. Items are put together by ``collate_fn``. Batches are made in
    this process: ``num_workers`` other than 0 raises NotImplementedError.

    >>> import jtorch
    >>> data = jtorch.utils.data.TensorDataset(jtorch.arange(5))
    >>> [batch.tolist() for (batch,) in jtorch.utils.data.DataLoader(data, batch_size=2)]
    [[0, 1], [2, 3], [4]]

    Source: https://docs.pytorch.org/docs/stable/data.html#torch.utils.data.DataLoader
    """

    def __init__(
        self,
        dataset: Any,
        batch_size: int | None = 1,
        shuffle: bool | None = None,
        sampler: Iterable[int] | None = None,
        batch_sampler: Iterable[list[int]] | None = None,
        num_workers: int = 0,
        collate_fn: Callable[[list[Any]], Any] | None = None,
        pin_memory: bool = False,
        drop_last: bool = False,
        *,
        generator: Any = None,
    ) -> None:
        if num_workers != 0:
            raise NotImplementedError(
                f"DataLoader(num_workers={num_workers}): worker processes are not there yet; use "
                "num_workers=0"
            )
        if pin_memory:
            raise NotImplementedError(
                "DataLoader(pin_memory=True): this build runs on the CPU alone"
            )
        self._check(dataset, batch_size, shuffle, sampler, batch_sampler, drop_last)
        self.dataset = dataset
        self.generator = generator
        self.drop_last = drop_last
        self.num_workers = num_workers
        self.sampler = sampler
        self.batch_sampler = batch_sampler
        self.batch_size = batch_size if batch_sampler is None else None
        self.collate_fn = collate_fn
        if isinstance(dataset, IterableDataset):
            return
        if batch_sampler is None and sampler is None:
            self.sampler = (
                RandomSampler(dataset, generator=generator)
                if shuffle
                else SequentialSampler(dataset)
            )
        if batch_sampler is None and batch_size is not None:
            self.batch_sampler = BatchSampler(self.sampler, batch_size, drop_last)  # type: ignore[arg-type]

    @staticmethod
    def _check(
        dataset: Any,
        batch_size: Any,
        shuffle: Any,
        sampler: Any,
        batch_sampler: Any,
        drop_last: bool,
    ) -> None:
        if isinstance(dataset, IterableDataset):
            if shuffle:
                raise ValueError(
                    "DataLoader with IterableDataset: expected unspecified shuffle option, but got "
                    f"shuffle={shuffle}"
                )
            if sampler is not None or batch_sampler is not None:
                raise ValueError(
                    "DataLoader with IterableDataset: expected no sampler and no batch_sampler"
                )
        if sampler is not None and shuffle:
            raise ValueError("sampler option is mutually exclusive with shuffle")
        if batch_sampler is not None:
            if batch_size != 1 or shuffle or sampler is not None or drop_last:
                raise ValueError(
                    "batch_sampler option is mutually exclusive with batch_size, shuffle, sampler, and "
                    "drop_last"
                )
        elif batch_size is None:
            if drop_last:
                raise ValueError(
                    "batch_size=None option disables auto-batching and is mutually exclusive with drop_last"
                )
        elif not isinstance(batch_size, int) or batch_size <= 0:
            raise ValueError(
                f"batch_size should be a positive integer value, but got batch_size={batch_size}"
            )

    def __iter__(self) -> Iterator[Any]:
        if isinstance(self.dataset, IterableDataset):
            return self._stream()
        if self.batch_sampler is None:
            convert = self.collate_fn or _same
            return (convert(self.dataset[k]) for k in self.sampler)  # type: ignore[union-attr]
        return map(self._batch_maker(), self.batch_sampler)

    def _batch_maker(self) -> Callable[[list[int]], Any]:
        """The cheapest way from a list of indices to a batch that this dataset offers."""
        dataset, collate = self.dataset, self.collate_fn or default_collate
        if collate is default_collate and hasattr(dataset, "get_batch"):
            return dataset.get_batch
        if hasattr(dataset, "__getitems__"):
            return lambda indices: collate(dataset.__getitems__(indices))
        return lambda indices: collate([dataset[k] for k in indices])

    def _stream(self) -> Iterator[Any]:
        items = iter(self.dataset)
        if self.batch_size is None:
            yield from map(self.collate_fn or _same, items)
            return
        collate = self.collate_fn or default_collate
        while batch := list(islice(items, self.batch_size)):
            if len(batch) == self.batch_size or not self.drop_last:
                yield collate(batch)

    def __len__(self) -> int:
        if not isinstance(self.dataset, IterableDataset):
            return len(self.sampler if self.batch_sampler is None else self.batch_sampler)  # type: ignore[arg-type]
        n = len(self.dataset)  # type: ignore[arg-type]
        if self.batch_size is None:
            return n
        return n // self.batch_size if self.drop_last else -(-n // self.batch_size)


def _same(item: Any) -> Any:
    return item
