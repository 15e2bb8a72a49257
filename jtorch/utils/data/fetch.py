"""From indices to a batch: the same in the loader's own process and in a worker."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Any

from jtorch.utils.data.collate import default_collate
from jtorch.utils.data.dataset import IterableDataset, batch_getter


@dataclass(frozen=True, slots=True)
class Recipe:
    """What it takes to make batches; goes to each worker."""

    dataset: Any
    collate_fn: Callable[[Any], Any]
    batched: bool  # indices come in lists
    drop_last: bool

    def start(self) -> Callable[[Any], Any]:
        """A function from an index (or a list of them) to an item (or a batch), for one pass.

        For an IterableDataset the indices only count, and StopIteration says that there is no more.
        """
        if isinstance(self.dataset, IterableDataset):
            return self._from_stream(iter(self.dataset))
        return self._by_batches() if self.batched else self._by_items()

    def _by_items(self) -> Callable[[Any], Any]:
        dataset, collate = self.dataset, self.collate_fn
        return lambda index: collate(dataset[index])

    def _by_batches(self) -> Callable[[Any], Any]:
        """The cheapest way that this dataset offers."""
        dataset, collate = self.dataset, self.collate_fn
        whole = batch_getter(dataset)
        if collate is default_collate and whole is not None:
            return whole
        many = getattr(dataset, "__getitems__", None)
        if many:
            return lambda indices: collate(many(indices))
        return lambda indices: collate([dataset[k] for k in indices])

    def _from_stream(self, items: Iterator[Any]) -> Callable[[Any], Any]:
        if not self.batched:
            return lambda index: self.collate_fn(next(items))

        def batch(indices: list[Any]) -> Any:
            found = list(islice(items, len(indices)))
            if not found or (self.drop_last and len(found) < len(indices)):
                raise StopIteration
            return self.collate_fn(found)

        return batch
