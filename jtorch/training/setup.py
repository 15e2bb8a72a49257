"""What ``configure_optimizers`` of a task may give, and which optimizers and schedules that means."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from jtorch.nn import Module
from jtorch.optim import Optimizer
from jtorch.optim.lr_scheduler import ReduceLROnPlateau

_FORMS = (
    "an optimizer, a list of them, two lists ([optimizers], [schedulers]), or a dict with 'optimizer' and "
    "'lr_scheduler'"
)
_OPTIONS = {"scheduler", "interval", "monitor"}


@dataclass
class Schedule:
    """A scheduler, and when it is stepped: after each "step" or "epoch", with the metric ``monitor``."""

    scheduler: Any
    interval: str = "epoch"
    monitor: str | None = None

    def __post_init__(self) -> None:
        if self.interval not in ("step", "epoch"):
            raise ValueError(f"lr_scheduler: 'interval' is 'step' or 'epoch', got {self.interval!r}")
        if isinstance(self.scheduler, ReduceLROnPlateau) and self.monitor is None:
            raise ValueError(
                "lr_scheduler: ReduceLROnPlateau needs the name of a metric: give "
                "{'scheduler': scheduler, 'monitor': 'val_loss'}"
            )

    def step(self, look: Callable[[str, str], float | None]) -> None:
        """``look(name, who)`` gives the metric, or None where there is no new one: the scheduler waits."""
        if self.monitor is None:
            self.scheduler.step()
        elif (value := look(self.monitor, type(self.scheduler).__name__)) is not None:
            self.scheduler.step(value)


def metric(metrics: Mapping[str, float], name: str, who: str) -> float:
    """The metric of this name. Raises KeyError that lists those there are."""
    if name not in metrics:
        raise KeyError(
            f"{who}(monitor={name!r}): no such metric. training_step and validation_step gave "
            f"{', '.join(sorted(metrics)) or 'none'}"
        )
    return metrics[name]


def optimizers_of(task: Module) -> tuple[list[Optimizer], list[Schedule]]:
    """Ask the task. Raises TypeError for what is none of the forms, ValueError for a foreign parameter."""
    given = task.configure_optimizers()  # type: ignore[operator]
    optimizers, schedules = _split(given)
    if not optimizers or not all(isinstance(one, Optimizer) for one in optimizers):
        raise TypeError(f"configure_optimizers() gives {_FORMS}; this one gave {given!r}")
    own = {id(p) for p in task.parameters()}
    for one in optimizers:
        if any(id(p) not in own for group in one.param_groups for p in group["params"]):
            raise ValueError(
                f"{type(one).__name__} has a parameter that is none of {type(task).__name__}.parameters(): "
                "no checkpoint would hold it. Register it: an attribute that is a Module or Parameter"
            )
    return optimizers, [_schedule(one) for one in schedules]


def _split(given: Any) -> tuple[list[Any], list[Any]]:
    if isinstance(given, Mapping) and "optimizer" in given:
        return [given["optimizer"]], [given["lr_scheduler"]] if "lr_scheduler" in given else []
    if not isinstance(given, (list, tuple)):
        return [given], []
    if len(given) == 2 and all(isinstance(part, (list, tuple)) for part in given):
        return list(given[0]), list(given[1])
    return list(given), []


def _schedule(given: Any) -> Schedule:
    if not isinstance(given, Mapping):
        return Schedule(given)
    if unknown := sorted(given.keys() - _OPTIONS):
        raise ValueError(f"lr_scheduler: unknown option {unknown[0]!r}; there are {sorted(_OPTIONS)}")
    return Schedule(**given)
