"""The part of a dataset that one of several training processes goes through."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import jtorch
from jtorch.utils.data.sampler import Sampler


class DistributedSampler(Sampler[int]):
    """Every ``num_replicas``-th index of one order that all processes agree on, from the ``rank``-th on.

    The order depends on ``seed`` and the epoch alone: call ``set_epoch`` before each pass for a new one. Each
    process gets as many indices: some come twice, or with ``drop_last`` the tail is left out.
    ``num_replicas`` and ``rank`` are those of the default process group where they are left out; without
    one, that is a RuntimeError. ValueError for a rank out of range.

    >>> import jtorch
    >>> list(jtorch.utils.data.DistributedSampler(range(6), num_replicas=2, rank=1, shuffle=False))
    [1, 3, 5]

    Source: https://docs.pytorch.org/docs/stable/data.html#torch.utils.data.distributed.DistributedSampler
    """

    def __init__(
        self,
        dataset: Any,
        num_replicas: int | None = None,
        rank: int | None = None,
        shuffle: bool = True,
        seed: int = 0,
        drop_last: bool = False,
    ) -> None:
        if num_replicas is None or rank is None:
            size, own = _in_the_world()
            num_replicas = size if num_replicas is None else num_replicas
            rank = own if rank is None else rank
        if rank >= num_replicas or rank < 0:
            raise ValueError(f"Invalid rank {rank}, rank should be in the interval [0, {num_replicas - 1}]")
        self.dataset = dataset
        self.num_replicas = num_replicas
        self.rank = rank
        self.epoch = 0
        self.drop_last = drop_last
        n = len(dataset)
        self.num_samples = n // num_replicas if drop_last else math.ceil(n / num_replicas)
        self.total_size = self.num_samples * num_replicas
        self.shuffle = shuffle
        self.seed = seed

    def __iter__(self) -> Iterator[int]:
        n = len(self.dataset)
        indices = list(range(n))
        if self.shuffle:
            generator = jtorch.Generator().manual_seed(self.seed + self.epoch)
            indices = jtorch.randperm(n, generator=generator).tolist()
        while indices and len(indices) < self.total_size:
            indices += indices[: self.total_size - len(indices)]
        return iter(indices[self.rank : self.total_size : self.num_replicas])

    def __len__(self) -> int:
        return self.num_samples

    def set_epoch(self, epoch: int) -> None:
        """Choose the order of the passes from now on."""
        self.epoch = epoch


def _in_the_world() -> tuple[int, int]:
    """(how many processes there are, which of them this is)"""
    import jtorch.distributed as dist

    if not dist.is_initialized():
        raise RuntimeError(
            "Requires distributed package to be available: there is no process group to ask, pass "
            "num_replicas and rank, or call init_process_group"
        )
    return dist.get_world_size(), dist.get_rank()
