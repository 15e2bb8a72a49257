"""The processes that write or read a checkpoint together, and what they tell each other."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import jtorch.distributed as dist
from jtorch.distributed.world import beside

_T = TypeVar("_T")


class CheckpointException(RuntimeError):  # noqa: N818 - PyTorch's name
    """Other processes failed; ``failures`` says how, by rank. Nothing was loaded then, and on the disk
    the checkpoint from before still counts.

    Source: https://docs.pytorch.org/docs/stable/distributed.checkpoint.html
    """

    def __init__(self, what: str, failures: dict[int, str]) -> None:
        self.failures = failures
        told = "; ".join(f"rank {rank}: {why}" for rank, why in failures.items())
        super().__init__(f"{what} failed in other processes, so nothing was done in any: {told}")


class Processes:
    """A process group, or this process alone where there is none."""

    def __init__(self, group: Any = None, alone: bool = False) -> None:
        self.group = None if alone else group if group is not None else dist.group.WORLD
        self.rank = 0 if self.group is None else self.group.rank()
        self.size = 1 if self.group is None else self.group.size()

    def exchanged(self, mine: Any) -> list[Any]:
        """What all processes have, in the order of ranks: plain data."""
        if self.group is None:
            return [mine]
        everyone: list[Any] = [None] * self.size
        dist.all_gather_object(everyone, mine, self.group)
        return everyone

    def together(self, what: str, work: Callable[[], _T]) -> _T:
        """What ``work`` gives here, if it succeeded in all processes. Raises its own error here, and
        CheckpointException where it failed elsewhere."""
        error: Exception | None = None
        try:
            found = work()
        except Exception as raised:
            error = raised
        told = self.exchanged("" if error is None else f"{type(error).__name__}: {error}")
        if error is not None:
            raise error
        failures = {rank: why for rank, why in enumerate(told) if why}
        if failures:
            raise CheckpointException(what, failures)
        return found

    def beside(self) -> Processes:
        """The same processes, for a thread that works while others talk, too."""
        return self if self.group is None else Processes(beside(self.group))
