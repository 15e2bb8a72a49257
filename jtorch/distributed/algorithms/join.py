"""Training on uneven inputs: a process that has run out of them takes part in the collectives of the others.

Source: https://docs.pytorch.org/docs/stable/distributed.algorithms.join.html
"""

from __future__ import annotations

import warnings
from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, NamedTuple

import jtorch.distributed as dist
from jtorch.distributed.work import Work
from jtorch.eager.public import ones, zeros


class JoinHook:
    """What a process without inputs does: ``main_hook`` for each step of others, ``post_hook`` at the end.

    Source: https://docs.pytorch.org/docs/stable/distributed.algorithms.join.html
    """

    def main_hook(self) -> None:
        """Take part in the collectives of one step."""

    def post_hook(self, is_last_joiner: bool) -> None:
        """All processes are without inputs; ``is_last_joiner`` in those that had them longest."""


class _Config(NamedTuple):
    enable: bool
    throw_on_early_termination: bool
    is_first_joinable: bool


class Joinable(ABC):
    """Something whose steps use collectives, and that can stand in for them.

    Source: https://docs.pytorch.org/docs/stable/distributed.algorithms.join.html
    """

    DISABLED = _Config(False, False, False)
    _join_config: _Config = DISABLED

    @abstractmethod
    def join_hook(self, **kwargs: Any) -> JoinHook:
        """The hook of this object; ``kwargs`` are those of ``Join``."""

    @property
    @abstractmethod
    def join_device(self) -> Any:
        """The device of its collectives."""

    @property
    @abstractmethod
    def join_process_group(self) -> Any:
        """The group of its collectives."""


class Join:
    """The context in which processes may take different numbers of steps.

    ``throw_on_early_termination`` makes the first that runs out an error in all of them.
    Source: https://docs.pytorch.org/docs/stable/distributed.algorithms.join.html
    """

    def __init__(
        self, joinables: Sequence[Joinable], enable: bool = True, throw_on_early_termination: bool = False,
        **kwargs: Any,
    ) -> None:  # fmt: skip
        if not joinables:
            raise ValueError("The join context manager requires at least one joinable")
        groups = {id(j.join_process_group) for j in joinables}
        if len(groups) > 1:
            raise ValueError("Using join context manager with multiple process groups")
        self._joinables = list(joinables)
        self._hooks = [joinable.join_hook(**kwargs) for joinable in joinables]
        self._enable = enable
        self._throws = throw_on_early_termination
        self._group = joinables[0].join_process_group
        for k, joinable in enumerate(joinables):
            joinable._join_config = _Config(enable, throw_on_early_termination, k == 0)

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: Any, value: Any, traceback: Any) -> None:
        try:
            if self._enable and kind is None:
                self._stand_in()
        finally:
            for joinable in self._joinables:
                joinable._join_config = Joinable.DISABLED

    def _stand_in(self) -> None:
        is_last, steps = True, 0
        while self._count_active() > 0:
            if self._throws:
                dist.all_reduce(ones(1), group=self._group)
                raise RuntimeError(f"Rank {self._group.rank()} exhausted all inputs.")
            for hook in self._hooks:
                hook.main_hook()
            is_last, steps = False, steps + 1
            if steps == 1000:
                warnings.warn(
                    "Detected uneven input skew of greater than 1000. This means that rank "
                    f"{self._group.rank()} has at least 1000 fewer inputs than other currently-active ranks.",
                    stacklevel=3,
                )
        for hook in self._hooks:
            hook.post_hook(is_last)

    def _count_active(self) -> int:
        active = zeros(1)
        dist.all_reduce(active, group=self._group)
        return int(active.item())

    @staticmethod
    def notify_join_context(joinable: Joinable) -> Work | None:
        """Before a step: tell the others that this process has inputs. The work sums up how many have.

        Source: https://docs.pytorch.org/docs/stable/distributed.algorithms.join.html
        """
        config = joinable._join_config
        if not config.enable or not config.is_first_joinable:
            return None
        group = joinable.join_process_group
        work = dist.all_reduce(ones(1), group=group, async_op=True)
        if config.throw_on_early_termination:
            out_of_inputs = zeros(1)
            dist.all_reduce(out_of_inputs, group=group)
            if out_of_inputs.item():
                raise RuntimeError(
                    "Detected at least one rank that exhausted inputs. Throwing across all ranks."
                )
        return work
