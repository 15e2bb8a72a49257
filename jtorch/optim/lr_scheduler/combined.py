"""Schedules made of schedules: one after another, or all at once."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from typing import Any

from jtorch.optim.lr_scheduler.base import LRScheduler, group_values, set_group_value
from jtorch.optim.lr_scheduler.plateau import ReduceLROnPlateau
from jtorch.optim.optimizer import Optimizer


class _Combined(LRScheduler):
    """What holds ``_schedulers``: their states go into its own."""

    _schedulers: Sequence[LRScheduler]

    def _check(self, optimizer: Optimizer) -> None:
        name = type(self).__name__
        for k, scheduler in enumerate(self._schedulers):
            if not hasattr(scheduler, "optimizer"):
                raise TypeError(f"{name} at index {k} should have `optimizer` as its attribute.")
            if isinstance(scheduler, ReduceLROnPlateau):
                raise ValueError(
                    f"{name} does not support `ReduceLROnPlateau` scheduler as it requires additional kwargs "
                    f"to be specified when calling `step`, but got one at index {k} in the given schedulers "
                    "sequence."
                )
            if optimizer is not scheduler.optimizer:
                raise ValueError(
                    f"{name} expects all schedulers to belong to the same optimizer, but got scheduler "
                    f"{type(scheduler).__name__} at index {k} has {scheduler.optimizer}, which is different "
                    f"from {type(optimizer).__name__}."
                )

    def state_dict(self) -> dict[str, Any]:
        """With the states of the schedules inside."""
        state = {k: v for k, v in self.__dict__.items() if k not in ("optimizer", "_schedulers")}
        return state | {"_schedulers": [s.state_dict() for s in self._schedulers]}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        self.__dict__.update({k: v for k, v in state_dict.items() if k != "_schedulers"})
        for scheduler, facts in zip(self._schedulers, state_dict["_schedulers"], strict=True):
            scheduler.load_state_dict(facts)


class SequentialLR(_Combined):
    """One schedule after another, the next from each of the ``milestones`` on.

    Raises ValueError where the schedules are none, not one more than the milestones, or of another optimizer.

    >>> import jtorch
    >>> optimizer = jtorch.optim.SGD([jtorch.zeros(1, requires_grad=True)], lr=1.0)
    >>> warm_up = jtorch.optim.lr_scheduler.LinearLR(optimizer, start_factor=0.5, total_iters=2)
    >>> decay = jtorch.optim.lr_scheduler.ExponentialLR(optimizer, gamma=0.5)
    >>> scheduler = jtorch.optim.lr_scheduler.SequentialLR(optimizer, [warm_up, decay], milestones=[2])
    >>> for _ in range(5):
    ...     print(scheduler.get_last_lr()[0], end=" ")
    ...     optimizer.step()
    ...     scheduler.step()
    0.5 0.75 1.0 0.5 0.25
    """

    def __init__(
        self,
        optimizer: Optimizer,
        schedulers: list[LRScheduler],
        milestones: list[int],
        last_epoch: int = -1,
    ) -> None:
        if len(schedulers) < 1:
            raise ValueError(f"{type(self).__name__} expects at least one scheduler, but got no scheduler.")
        self._schedulers = schedulers
        self._check(optimizer)
        if len(milestones) != len(schedulers) - 1:
            raise ValueError(
                "Sequential Schedulers expects number of schedulers provided to be one more than the number "
                f"of milestone points, but got number of schedulers {len(schedulers)} and the number of "
                f"milestones to be equal to {len(milestones)}"
            )
        self._milestones = milestones
        self.last_epoch = last_epoch + 1
        self.optimizer = optimizer
        # each schedule made its first step when it was built: take all of them back, and do only the first
        for group in optimizer.param_groups:
            set_group_value(group, "lr", group["initial_lr"])
        self.recursive_undo()
        first = schedulers[bisect_right(milestones, 0)]
        first._initial_step()
        self._last_lr = first.get_last_lr()

    def recursive_undo(self, sched: Any = None) -> None:
        """Take back the step that each schedule made when it was built, also inside ``sched``."""
        found = self if sched is None else sched
        if hasattr(found, "_schedulers"):
            for inner in found._schedulers:
                self.recursive_undo(inner)
        elif hasattr(found, "last_epoch"):
            found.last_epoch -= 1

    def step(self) -> None:  # type: ignore[override]
        """Go on by one step of the schedule whose turn it is."""
        self.last_epoch += 1
        turn = bisect_right(self._milestones, self.last_epoch)
        scheduler = self._schedulers[turn]
        if turn > 0 and self._milestones[turn - 1] == self.last_epoch:
            scheduler._update_lr(0)
        else:
            scheduler.step()
        self._last_lr = scheduler.get_last_lr()


class ChainedScheduler(_Combined):
    """All schedules at each step. Raises ValueError where they are none, or of several optimizers.

    >>> import jtorch
    >>> optimizer = jtorch.optim.SGD([jtorch.zeros(1, requires_grad=True)], lr=1.0)
    >>> warm_up = jtorch.optim.lr_scheduler.ConstantLR(optimizer, factor=0.5, total_iters=2)
    >>> decay = jtorch.optim.lr_scheduler.ExponentialLR(optimizer, gamma=0.5)
    >>> scheduler = jtorch.optim.lr_scheduler.ChainedScheduler([warm_up, decay])
    >>> for _ in range(4):
    ...     print(scheduler.get_last_lr()[0], end=" ")
    ...     optimizer.step()
    ...     scheduler.step()
    0.5 0.25 0.25 0.125
    """

    def __init__(self, schedulers: Sequence[LRScheduler], optimizer: Optimizer | None = None) -> None:
        if len(schedulers) < 1:
            raise ValueError(
                f"{type(self).__name__} expects at least one scheduler to be chained, but got no scheduler."
            )
        self._schedulers = schedulers
        optimizer = optimizer or schedulers[0].optimizer
        self._check(optimizer)
        self.optimizer = optimizer
        self._last_lr = group_values(optimizer, "lr")

    def step(self) -> None:  # type: ignore[override]
        """Go on by one step of every schedule."""
        for scheduler in self._schedulers:
            scheduler.step()
        self._last_lr = group_values(self.optimizer, "lr")
