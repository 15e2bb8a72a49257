"""Schedules that raise the rate and lower it again, and the momentum the other way round."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from jtorch.optim.lr_scheduler.base import (
    LRScheduler,
    Rate,
    check_optimizer,
    per_group,
    saved_function,
    set_group_value,
)
from jtorch.optim.optimizer import Optimizer


class _Cycling(LRScheduler):
    """What cycles momentum, too: "momentum" or the first of "betas", whichever the optimizer has."""

    cycle_momentum: bool
    use_beta1: bool

    def _start_momentum(self, base: Any, most: Any, last_epoch: int) -> tuple[list[float], list[float]]:
        """(lowest, highest momentum) of each group, which begins with the highest."""
        defaults = self.optimizer.defaults
        if "momentum" not in defaults and "betas" not in defaults:
            raise ValueError("optimizer must support momentum or beta1 with `cycle_momentum` option enabled")
        self.use_beta1 = "betas" in defaults
        lows = per_group("base_momentum", self.optimizer, base)
        highs = per_group("max_momentum", self.optimizer, most)
        if last_epoch == -1:
            for low, high, group in zip(lows, highs, self.optimizer.param_groups, strict=True):
                self._set_momentum(group, high)
                group["max_momentum"] = high
                group["base_momentum"] = low
        return lows, highs

    def _set_momentum(self, group: dict[str, Any], momentum: float) -> None:
        if self.use_beta1:
            group["betas"] = (momentum, *group["betas"][1:])
        else:
            group["momentum"] = momentum


class CyclicLR(_Cycling):
    """From ``base_lr`` to ``max_lr`` and back, in ``step_size_up`` and ``step_size_down`` steps. Smith 2017.

    ``mode`` says how the height falls: "triangular" not at all, "triangular2" by half each cycle,
    "exp_range" by ``gamma`` each step; or give ``scale_fn``, of cycles or "iterations" (``scale_mode``).

    >>> import jtorch
    >>> optimizer = jtorch.optim.SGD([jtorch.zeros(1, requires_grad=True)], lr=1.0, momentum=0.9)
    >>> scheduler = jtorch.optim.lr_scheduler.CyclicLR(optimizer, base_lr=1.0, max_lr=2.0, step_size_up=2)
    >>> for _ in range(6):
    ...     print(scheduler.get_last_lr()[0], end=" ")
    ...     optimizer.step()
    ...     scheduler.step()
    1.0 1.5 2.0 1.5 1.0 1.5
    """

    def __init__(
        self,
        optimizer: Optimizer,
        base_lr: float | list[float],
        max_lr: float | list[float],
        step_size_up: int = 2000,
        step_size_down: int | None = None,
        mode: str = "triangular",
        gamma: float = 1.0,
        scale_fn: Callable[[float], float] | None = None,
        scale_mode: str = "cycle",
        cycle_momentum: bool = True,
        base_momentum: float = 0.8,
        max_momentum: float = 0.9,
        last_epoch: int = -1,
    ) -> None:
        check_optimizer(optimizer)
        self.optimizer = optimizer
        base_lrs = per_group("base_lr", optimizer, base_lr)
        if last_epoch == -1:
            for lr, group in zip(base_lrs, optimizer.param_groups, strict=True):
                set_group_value(group, "lr", lr)
        self.max_lrs = per_group("max_lr", optimizer, max_lr)
        up = float(step_size_up)
        self.total_size = up + (up if step_size_down is None else float(step_size_down))
        self.step_ratio = up / self.total_size
        if mode not in ("triangular", "triangular2", "exp_range") and scale_fn is None:
            raise ValueError("mode is invalid and scale_fn is None")
        self.mode = mode
        self.gamma = gamma
        self._scale_fn_custom = scale_fn
        self.scale_mode = scale_mode
        self._choose_scale_mode()
        self.cycle_momentum = cycle_momentum
        if cycle_momentum:
            found = self._start_momentum(base_momentum, max_momentum, last_epoch)
            self.base_momentums, self.max_momentums = found
        super().__init__(optimizer, last_epoch)
        self.base_lrs = base_lrs

    def _choose_scale_mode(self) -> None:
        if self._scale_fn_custom is None:
            self.scale_mode = "iterations" if self.mode == "exp_range" else "cycle"

    def scale_fn(self, x: float) -> float:
        """The height of cycle (or step) ``x``."""
        if self._scale_fn_custom is not None:
            return self._scale_fn_custom(x)
        if self.mode == "triangular2":
            return 1 / 2.0 ** (x - 1)
        return self.gamma**x if self.mode == "exp_range" else 1.0

    def get_lr(self) -> list[Rate]:
        """The rates at ``last_epoch``; also sets the momenta."""
        self._warn_outside_step()
        cycle = math.floor(1 + self.last_epoch / self.total_size)
        x = 1.0 + self.last_epoch / self.total_size - cycle
        rising = x <= self.step_ratio
        height = x / self.step_ratio if rising else (x - 1) / (self.step_ratio - 1)
        scale = self.scale_fn(cycle if self.scale_mode == "cycle" else self.last_epoch)
        if self.cycle_momentum:
            groups = self.optimizer.param_groups
            for group, low, high in zip(groups, self.base_momentums, self.max_momentums, strict=True):
                self._set_momentum(group, high - (high - low) * height * scale)
        pairs = zip(self.base_lrs, self.max_lrs, strict=True)
        return [low + (high - low) * height * scale for low, high in pairs]

    def state_dict(self) -> dict[str, Any]:
        """Without a plain ``scale_fn``; of a callable object its attributes."""
        custom = self._scale_fn_custom
        return super().state_dict() | {"_scale_fn_custom": None if custom is None else saved_function(custom)}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        facts = state_dict["_scale_fn_custom"]
        self.__dict__.update({k: v for k, v in state_dict.items() if k != "_scale_fn_custom"})
        if facts is not None and self._scale_fn_custom is not None:
            self._scale_fn_custom.__dict__.update(facts)
        self._choose_scale_mode()


class OneCycleLR(_Cycling):
    """One rise from ``max_lr / div_factor`` to ``max_lr``, then down to almost nothing. Smith 2018.

    Its length is ``total_steps`` or ``epochs * steps_per_epoch``; ``pct_start`` of it is the rise.
    ``three_phase`` puts the way down symmetric to the rise before the last phase. Raises ValueError for
    options out of range and for a step beyond the end.

    >>> import jtorch
    >>> optimizer = jtorch.optim.SGD([jtorch.zeros(1, requires_grad=True)], lr=1.0, momentum=0.9)
    >>> scheduler = jtorch.optim.lr_scheduler.OneCycleLR(optimizer, max_lr=1.0, total_steps=5, pct_start=0.4)
    >>> for _ in range(5):
    ...     print(round(scheduler.get_last_lr()[0], 3), end=" ")
    ...     optimizer.step()
    ...     scheduler.step()
    0.04 1.0 0.75 0.25 0.0
    """

    def __init__(
        self,
        optimizer: Optimizer,
        max_lr: float | list[float],
        total_steps: int | None = None,
        epochs: int | None = None,
        steps_per_epoch: int | None = None,
        pct_start: float = 0.3,
        anneal_strategy: str = "cos",
        cycle_momentum: bool = True,
        base_momentum: float | list[float] = 0.85,
        max_momentum: float | list[float] = 0.95,
        div_factor: float = 25.0,
        final_div_factor: float = 1e4,
        three_phase: bool = False,
        last_epoch: int = -1,
    ) -> None:
        check_optimizer(optimizer)
        self.optimizer = optimizer
        self.total_steps = _length(total_steps, epochs, steps_per_epoch)
        if pct_start < 0 or pct_start > 1 or not isinstance(pct_start, float):
            raise ValueError(f"Expected float between 0 and 1 pct_start, but got {pct_start}")
        self._schedule_phases = _phases(pct_start, self.total_steps, three_phase)
        if anneal_strategy not in ("cos", "linear"):
            raise ValueError(
                f"anneal_strategy must be one of 'cos' or 'linear', instead got {anneal_strategy}"
            )
        self._anneal_func_type = anneal_strategy
        max_lrs = per_group("max_lr", optimizer, max_lr)
        if last_epoch == -1:
            for group, most in zip(optimizer.param_groups, max_lrs, strict=True):
                group["initial_lr"] = most / div_factor
                group["max_lr"] = most
                group["min_lr"] = group["initial_lr"] / final_div_factor
        self.cycle_momentum = cycle_momentum
        if cycle_momentum:
            self._start_momentum(base_momentum, max_momentum, last_epoch)
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[Rate]:
        """The rates at ``last_epoch``; also sets the momenta."""
        self._warn_outside_step()
        if self.last_epoch > self.total_steps:
            raise ValueError(
                f"Tried to step {self.last_epoch} times. The specified number of total steps is "
                f"{self.total_steps}"
            )
        start, phase = 0.0, self._schedule_phases[0]
        for following in self._schedule_phases[1:]:
            if self.last_epoch <= phase["end_step"]:
                break
            start, phase = phase["end_step"], following
        done = (self.last_epoch - start) / (phase["end_step"] - start)
        rates = []
        for group in self.optimizer.param_groups:
            rates.append(self._between(group[phase["start_lr"]], group[phase["end_lr"]], done))
            if self.cycle_momentum:
                ends = group[phase["start_momentum"]], group[phase["end_momentum"]]
                self._set_momentum(group, self._between(*ends, done))
        return rates

    def _between(self, start: Any, end: Any, done: float) -> Any:
        if self._anneal_func_type == "linear":
            return (end - start) * done + start
        return end + (start - end) / 2.0 * (math.cos(math.pi * done) + 1)


def _length(total_steps: int | None, epochs: int | None, steps_per_epoch: int | None) -> int:
    facts = {"total_steps": total_steps}
    if total_steps is None:
        facts = {"epochs": epochs, "steps_per_epoch": steps_per_epoch}
        if epochs is None or steps_per_epoch is None:
            raise ValueError("You must define either total_steps OR (epochs AND steps_per_epoch)")
    for name, value in facts.items():
        if not isinstance(value, int) or value <= 0:
            raise ValueError(f"Expected positive integer {name}, but got {value}")
    return math.prod(v for v in facts.values() if v is not None)


def _phases(pct_start: float, total_steps: int, three_phase: bool) -> list[dict[str, Any]]:
    """Where each phase ends, and the group's keys between which it moves."""

    def phase(end: float, lr: tuple[str, str], momentum: tuple[str, str]) -> dict[str, Any]:
        return {
            "end_step": end, "start_lr": lr[0], "end_lr": lr[1],
            "start_momentum": momentum[0], "end_momentum": momentum[1],
        }  # fmt: skip

    down, up = ("max_momentum", "base_momentum"), ("base_momentum", "max_momentum")
    rise = phase(float(pct_start * total_steps) - 1, ("initial_lr", "max_lr"), down)
    if not three_phase:
        return [rise, phase(total_steps - 1, ("max_lr", "min_lr"), up)]
    return [
        rise,
        phase(float(2 * pct_start * total_steps) - 2, ("max_lr", "initial_lr"), up),
        phase(total_steps - 1, ("initial_lr", "min_lr"), ("max_momentum", "max_momentum")),
    ]
