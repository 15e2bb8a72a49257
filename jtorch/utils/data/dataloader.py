"""DataLoader: goes through a dataset in batches."""

from __future__ import annotations

import multiprocessing
import os
import socket
import warnings
from collections.abc import Callable, Iterable, Iterator
from itertools import repeat
from multiprocessing.context import BaseContext
from typing import Any

from jtorch.core import threads
from jtorch.utils.data.collate import default_collate, default_convert
from jtorch.utils.data.dataset import IterableDataset
from jtorch.utils.data.fetch import Recipe
from jtorch.utils.data.iterators import (
    _BaseDataLoaderIter,
    _MultiProcessingDataLoaderIter,
    _SingleProcessDataLoaderIter,
)
from jtorch.utils.data.progress import Progress, check_replayable, generators_kept
from jtorch.utils.data.sampler import BatchSampler, RandomSampler, Sampler, SequentialSampler

_FIXED = ("batch_size", "batch_sampler", "sampler", "drop_last", "dataset", "persistent_workers")


class _InfiniteConstantSampler(Sampler[None]):
    """The indices for a stream, which has none: they only count."""

    def __iter__(self) -> Iterator[None]:
        return repeat(None)


class DataLoader:
    """Batches of ``dataset``, in order or shuffled anew at each pass.

    ``batch_size=None`` gives single items. Items are put together by ``collate_fn``. With ``num_workers`` > 0
    that many processes make the batches, ``prefetch_factor`` ahead each; they are started at each pass, or
    once with ``persistent_workers``. Batches come in order unless ``in_order=False``. Worker k is seeded with
    a number drawn at the beginning of the pass (from ``generator``) plus k: ``random``, NumPy and jtorch. So
    are persistent workers at each pass. Where items have indices workers are seeded for each batch, by its
    number, too: random items are the same whatever the number of workers, and when a pass is gone on with.
    Neither is done where there is a ``worker_init_fn``, which may have seeded them.
    An exception in a worker is raised here with its traceback; a worker that dies or is silent for
    ``timeout`` seconds is a RuntimeError. With ``pin_memory`` the tensors of a batch are pinned
    (``Tensor.pin_memory``); without a CUDA device that has no effect but a warning.

    Raises ValueError for options that exclude one another, TypeError for a ``multiprocessing_context`` that
    is none, NotImplementedError for workers where processes cannot pass on descriptors (Windows).

    >>> import jtorch
    >>> data = jtorch.utils.data.TensorDataset(jtorch.arange(5))
    >>> [batch.tolist() for (batch,) in jtorch.utils.data.DataLoader(data, batch_size=2)]
    [[0, 1], [2, 3], [4]]

    Source: https://docs.pytorch.org/docs/stable/data.html#torch.utils.data.DataLoader
    """

    _initialized = False

    def __init__(
        self,
        dataset: Any,
        batch_size: int | None = 1,
        shuffle: bool | None = None,
        sampler: Iterable[Any] | None = None,
        batch_sampler: Iterable[list[Any]] | None = None,
        num_workers: int = 0,
        collate_fn: Callable[[Any], Any] | None = None,
        pin_memory: bool = False,
        drop_last: bool = False,
        timeout: float = 0,
        worker_init_fn: Callable[[int], Any] | None = None,
        multiprocessing_context: str | BaseContext | None = None,
        generator: Any = None,
        *,
        prefetch_factor: int | None = None,
        persistent_workers: bool = False,
        pin_memory_device: str = "",
        in_order: bool = True,
    ) -> None:
        _check_workers(num_workers, timeout, prefetch_factor, persistent_workers)
        _check_order(dataset, shuffle, sampler, batch_sampler)
        _check_batches(batch_size, shuffle, sampler, batch_sampler, drop_last)
        self.dataset = dataset
        self.num_workers = num_workers
        self.prefetch_factor = 2 if num_workers > 0 and prefetch_factor is None else prefetch_factor
        self.pin_memory = pin_memory
        self.pin_memory_device = pin_memory_device
        self.timeout = timeout
        self.worker_init_fn = worker_init_fn
        self.multiprocessing_context = multiprocessing_context
        self.in_order = in_order
        self.generator = generator
        self.drop_last = drop_last
        self.persistent_workers = persistent_workers
        self.batch_size = batch_size if batch_sampler is None else None
        self.sampler: Any = sampler if sampler is not None else self._default_sampler(shuffle)
        if batch_sampler is None and batch_size is not None:
            batch_sampler = BatchSampler(self.sampler, batch_size, drop_last)
        self.batch_sampler: Any = batch_sampler
        convert = default_convert if batch_sampler is None else default_collate
        self.collate_fn = convert if collate_fn is None else collate_fn
        self._stream_length: int | None = None
        self._iterator: _MultiProcessingDataLoaderIter | None = None
        self._progress = Progress()
        self._initialized = True
        self.check_worker_number_rationality()

    def _default_sampler(self, shuffle: bool | None) -> Sampler:
        if isinstance(self.dataset, IterableDataset):
            return _InfiniteConstantSampler()
        if shuffle:
            return RandomSampler(self.dataset, generator=self.generator)
        return SequentialSampler(self.dataset)

    def __setattr__(self, name: str, value: Any) -> None:
        if self._initialized and name in _FIXED:
            raise ValueError(f"{name} attribute should not be set after {type(self).__name__} is initialized")
        if name == "multiprocessing_context":
            value = _context(value, self.num_workers)
        super().__setattr__(name, value)

    @property
    def _index_sampler(self) -> Any:
        return self.sampler if self.batch_sampler is None else self.batch_sampler

    def _recipe(self) -> Recipe:
        return Recipe(self.dataset, self.collate_fn, self.batch_sampler is not None, self.drop_last)

    def _context(self) -> Any:
        return self.multiprocessing_context or multiprocessing.get_context()

    def __iter__(self) -> _BaseDataLoaderIter:
        if self._progress.waiting:
            with generators_kept(self):
                begun = self._new_pass()
                begun._catch_up()
        else:
            begun = self._new_pass()
        self._progress = begun._progress  # only now: where that failed, a loaded state is still to go on from
        return begun

    def state_dict(self) -> dict[str, Any]:
        """Where the pass stands, as plain data: for ``load_state_dict`` of a loader made in the same way.

        It counts the batches that were given out, and those whose making raised an error here; those that
        workers had made ahead are made again. After the death of a worker that read a stream the state stays
        where that was noticed: what is given since comes again. Raises RuntimeError for an order that can't
        be had again: that of some samplers, and of workers with ``in_order=False``.

        >>> import jtorch
        >>> data = jtorch.utils.data.DataLoader(jtorch.arange(4), batch_size=2, shuffle=True)
        >>> batches = iter(data)
        >>> first, state = next(batches), data.state_dict()
        >>> data.load_state_dict(state)
        >>> [bool((batch == next(batches)).all()) for batch in data]
        [True]
        """
        check_replayable(self, "state_dict")
        return self._progress.state(self)

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Let the next pass begin where the one of ``state`` stood, in its order.

        Items of a dataset with indices are passed by without being read, those of a stream are read again.
        A state of between passes brings the epoch and the loader's own generators, at once.
        The generator of the whole program is left as it is: restore it by ``jtorch.set_rng_state``. The
        order of a sampler of your own is had again if it draws from its attribute ``generator``, a
        ``jtorch.Generator``, or depends on its attribute ``epoch``. Until the pass has begun ``state_dict``
        gives the loaded state. Raises ValueError for what is no state of such a loader, RuntimeError for an
        order that can't be had again; and the pass does, as it begins, where a stream has become shorter.
        """
        check_replayable(self, "load_state_dict")
        self._progress = Progress.loaded(self, state)

    def _new_pass(self) -> _BaseDataLoaderIter:
        if self.num_workers == 0:
            return _SingleProcessDataLoaderIter(self)
        if not hasattr(socket, "send_fds"):
            raise NotImplementedError(
                f"DataLoader(num_workers={self.num_workers}): worker processes need a system that passes "
                "descriptors between processes (Linux, macOS); use num_workers=0"
            )
        if not self.persistent_workers:
            return _MultiProcessingDataLoaderIter(self)
        if self._iterator is None or not self._iterator._reset():
            self._iterator = _MultiProcessingDataLoaderIter(self)
        return self._iterator

    def __len__(self) -> int:
        if not isinstance(self.dataset, IterableDataset):
            return len(self._index_sampler)
        n = self._stream_length = len(self.dataset)  # type: ignore[arg-type]
        if self.batch_size is None:
            return n
        return n // self.batch_size if self.drop_last else -(-n // self.batch_size)

    def check_worker_number_rationality(self) -> None:
        """Warn of more workers than this process has cores."""
        affinity, cores = hasattr(os, "sched_getaffinity"), threads.cores()
        if self.num_workers <= cores:
            return
        caveat = "" if affinity else " (`cpuset` is not taken into account)"
        warnings.warn(
            f"This DataLoader will create {self.num_workers} worker processes in total. Our suggested max "
            f"number of worker in current system is {cores}{caveat}, which is smaller than what this "
            "DataLoader is going to create. Please be aware that excessive worker creation might get "
            "DataLoader running slow or even freeze, lower the worker number to avoid potential "
            "slowness/freeze if necessary.",
            stacklevel=3,
        )


def _check_workers(
    num_workers: int, timeout: float, prefetch_factor: int | None, persistent_workers: bool
) -> None:
    if num_workers < 0:
        raise ValueError(
            "num_workers option should be non-negative; use num_workers=0 to disable multiprocessing."
        )
    if timeout < 0:
        raise ValueError("timeout option should be non-negative")
    if num_workers == 0 and prefetch_factor is not None:
        raise ValueError(
            "prefetch_factor option could only be specified in multiprocessing."
            "let num_workers > 0 to enable multiprocessing, otherwise set prefetch_factor to None."
        )
    if prefetch_factor is not None and prefetch_factor < 0:
        raise ValueError("prefetch_factor option should be non-negative")
    if num_workers > 0 and prefetch_factor == 0:
        raise ValueError("prefetch_factor must be greater than 0 where there are workers")
    if persistent_workers and num_workers == 0:
        raise ValueError("persistent_workers option needs num_workers > 0")
    if num_workers == 0 and timeout != 0:
        raise ValueError("timeout option needs num_workers > 0: batches made here are not waited for")


def _check_order(dataset: Any, shuffle: Any, sampler: Any, batch_sampler: Any) -> None:
    if isinstance(dataset, IterableDataset):
        given = "shuffle" if shuffle else "sampler" if sampler is not None else "batch_sampler"
        value = {"shuffle": shuffle, "sampler": sampler, "batch_sampler": batch_sampler}[given]
        if shuffle or value is not None:
            raise ValueError(
                f"DataLoader with IterableDataset: expected unspecified {given} option, but got "
                f"{given}={value}"
            )
    if sampler is not None and shuffle:
        raise ValueError("sampler option is mutually exclusive with shuffle")


def _check_batches(batch_size: Any, shuffle: Any, sampler: Any, batch_sampler: Any, drop_last: bool) -> None:
    if batch_sampler is not None:
        if batch_size != 1 or shuffle or sampler is not None or drop_last:
            raise ValueError(
                "batch_sampler option is mutually exclusive with batch_size, shuffle, sampler, and drop_last"
            )
    elif batch_size is None and drop_last:
        raise ValueError(
            "batch_size=None option disables auto-batching and is mutually exclusive with drop_last"
        )


def _context(context: Any, num_workers: int) -> BaseContext | None:
    """The context of this name. Raises ValueError for an unknown one, TypeError for what is none."""
    if context is None:
        return None
    if num_workers == 0:
        raise ValueError(
            "multiprocessing_context can only be used with multi-process loading (num_workers > 0), but got "
            f"num_workers={num_workers}"
        )
    if isinstance(context, str):
        methods = multiprocessing.get_all_start_methods()
        if context not in methods:
            raise ValueError(
                f"multiprocessing_context option should specify a valid start method in {methods!r}, but got "
                f"multiprocessing_context={context!r}"
            )
        context = multiprocessing.get_context(context)
    if not isinstance(context, BaseContext):
        raise TypeError(
            "multiprocessing_context option should be a valid context object or a string specifying the "
            f"start method, but got multiprocessing_context={context}"
        )
    return context
