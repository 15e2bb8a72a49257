"""LRScheduler: what all schedules share."""

from __future__ import annotations

import functools
import types
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from jtorch.core import op
from jtorch.eager.public import Tensor
from jtorch.optim.optimizer import Optimizer

Rate = Any  # a float, or a tensor of one element where the optimizer was given one

EPOCH_DEPRECATION_WARNING = (
    "The epoch parameter in `scheduler.step()` was not necessary and is being deprecated where possible. "
    "Please use `scheduler.step()` to step the scheduler. During the deprecation, if epoch is different "
    "from None, the closed form is used instead of the new chainable form, where available. Please open an "
    "issue if you are unable to replicate your use case: "
    "https://github.com/pytorch/pytorch/issues/new/choose."
)
_MORE = "See more details at https://pytorch.org/docs/stable/optim.html#how-to-adjust-learning-rate"


def check_optimizer(optimizer: Any) -> None:
    if not isinstance(optimizer, Optimizer):
        raise TypeError(f"{type(optimizer).__name__} is not an Optimizer")


def copied(value: Any) -> Any:
    return value.clone() if isinstance(value, Tensor) else value


def per_group(name: str, optimizer: Optimizer, value: Any) -> list[Any]:
    """One value for each group, from a list of them or one for all."""
    groups = len(optimizer.param_groups)
    if not isinstance(value, (list, tuple)):
        return [copied(value) for _ in range(groups)]
    if len(value) != groups:
        raise ValueError(
            f"{name} must have the same length as optimizer.param_groups. "
            f"{name} has {len(value)} values, param_groups has {groups}."
        )
    return [copied(v) for v in value]


def group_values(optimizer: Optimizer, key: str) -> list[Any]:
    """``key`` of each group; tensors as copies, which later steps leave alone."""
    return [copied(group[key]) for group in optimizer.param_groups]


def set_group_value(group: dict[str, Any], key: str, value: Any) -> None:
    """Replace a number; fill a tensor, which the user or a compiled step may hold."""
    before = group[key]
    if isinstance(before, Tensor):
        before.fill_(float(value))
    else:
        group[key] = value


def put_off(step: Callable) -> Callable:
    """``step`` of a scheduler, which a compiled function calls when it has ended: no recording knows which
    branch the next step takes."""

    @functools.wraps(step)
    def stepped(self: LRScheduler, *args: Any, **kwargs: Any) -> Any:
        afterwards = op.CONTEXT.get().evaluator.afterwards
        if afterwards is None or self._is_initial:
            return step(self, *args, **kwargs)
        return afterwards(step, self, args, kwargs, self._changed_by_step)

    return stepped


class LRScheduler:
    """Base class: subclasses say in ``get_lr`` what the rates are after ``last_epoch`` steps.

    Warns when it is stepped before the optimizer ever was.

    >>> import jtorch
    >>> class Halved(jtorch.optim.lr_scheduler.LRScheduler):
    ...     def get_lr(self):
    ...         return [lr * 0.5**self.last_epoch for lr in self.base_lrs]
    >>> optimizer = jtorch.optim.SGD([jtorch.zeros(1, requires_grad=True)], lr=1.0)
    >>> Halved(optimizer, last_epoch=-1).get_last_lr()
    [1.0]

    Source: https://docs.pytorch.org/docs/stable/generated/torch.optim.lr_scheduler.LRScheduler.html
    """

    _reads_through_evaluator = frozenset({"step"})  # what a recording follows by itself

    _get_lr_called_within_step: bool = False
    _is_initial: bool = False
    optimizer: Optimizer
    base_lrs: list[Rate]
    last_epoch: int
    _last_lr: list[Rate]

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if "step" in cls.__dict__:  # a schedule that steps in its own way
            cls.step = put_off(cls.__dict__["step"])  # type: ignore[method-assign]

    def __init__(self, optimizer: Optimizer, last_epoch: int = -1) -> None:
        check_optimizer(optimizer)
        self.optimizer = optimizer
        for k, group in enumerate(optimizer.param_groups):
            if last_epoch == -1:
                group.setdefault("initial_lr", copied(group["lr"]))
            elif "initial_lr" not in group:
                raise KeyError(
                    f"param 'initial_lr' is not specified in param_groups[{k}] when resuming scheduler "
                    "with last_epoch >= 0.\nThis typically happens when:\n1. You're trying to resume "
                    "training from a checkpoint but haven't properly loaded the optimizer state\n2. You're "
                    "using last_epoch >= 0 for a fresh training run (not recommended)"
                )
        self.base_lrs = group_values(optimizer, "initial_lr")
        self.last_epoch = last_epoch
        # a step that the user puts on the instance later would not tell us that it ran
        optimizer.__dict__.setdefault("_step_seen", optimizer.__dict__.get("step"))
        self._initial_step()

    def _initial_step(self) -> None:
        self._step_count = 0
        self._is_initial = True
        try:
            self.step()
        finally:
            self._is_initial = False

    def get_lr(self) -> list[Rate]:
        """The rate of each group at step ``last_epoch``; users want ``get_last_lr``."""
        raise NotImplementedError

    def get_last_lr(self) -> list[Rate]:
        """The rate that each group has now."""
        return self._last_lr

    def _changed_by_step(self) -> list[dict[str, Any]]:
        """The dicts in which ``step`` changes something."""
        inner = [facts for s in getattr(self, "_schedulers", ()) for facts in s._changed_by_step()]
        return [self.__dict__, *self.optimizer.param_groups, *inner]

    @put_off
    def step(self, epoch: int | None = None) -> None:
        """Go on by one step (usually an epoch) and set the rates. ``epoch`` is deprecated: go there."""
        if self._step_count == 1:
            self._check_order()
        self._step_count += 1
        if epoch is not None:
            warnings.warn(EPOCH_DEPRECATION_WARNING, UserWarning, stacklevel=3)
        self._update_lr(epoch)

    def _check_order(self) -> None:
        facts = self.optimizer.__dict__
        if facts.get("step") is not facts.get("_step_seen"):
            warnings.warn(
                "Seems like `optimizer.step()` has been overridden after learning rate scheduler "
                "initialization. Please, make sure to call `optimizer.step()` before "
                f"`lr_scheduler.step()`. {_MORE}",
                UserWarning,
                stacklevel=4,
            )
        elif not self.optimizer._opt_called:
            warnings.warn(
                "Detected call of `lr_scheduler.step()` before `optimizer.step()`. "
                "In PyTorch 1.1.0 and later, you should call them in the opposite order: "
                "`optimizer.step()` before `lr_scheduler.step()`.  Failure to do this "
                "will result in PyTorch skipping the first value of the learning rate schedule. "
                f"{_MORE}",
                UserWarning,
                stacklevel=4,
            )

    def _update_lr(self, epoch: int | None = None) -> None:
        with self._asking():
            if epoch is None:
                self.last_epoch += 1
                rates = self.get_lr()
            else:
                self.last_epoch = epoch
                closed: Callable[[], list[Rate]] = getattr(self, "_get_closed_form_lr", self.get_lr)
                rates = closed()
        self._set_rates(rates)

    def _set_rates(self, rates: Sequence[Rate]) -> None:
        for group, lr in zip(self.optimizer.param_groups, rates, strict=True):
            set_group_value(group, "lr", lr)
        self._last_lr = group_values(self.optimizer, "lr")

    @contextmanager
    def _asking(self) -> Iterator[None]:
        self._get_lr_called_within_step = True
        try:
            yield
        finally:
            self._get_lr_called_within_step = False

    def _warn_outside_step(self) -> None:
        if not self._get_lr_called_within_step:
            warnings.warn(
                "To get the last learning rate computed by the scheduler, please use `get_last_lr()`.",
                UserWarning,
                stacklevel=3,
            )

    def state_dict(self) -> dict[str, Any]:
        """Everything but the optimizer."""
        return {k: v for k, v in self.__dict__.items() if k != "optimizer"}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        self.__dict__.update(state_dict)

    def _rates(self) -> list[Rate]:
        return group_values(self.optimizer, "lr")

    def _rates_times(self, factor: float) -> list[Rate]:
        return [group["lr"] * factor for group in self.optimizer.param_groups]

    def _base_rates_times(self, factor: float) -> list[Rate]:
        return [base * factor for base in self.base_lrs]


class _LRScheduler(LRScheduler):
    """The old name, which some programs subclass."""


def saved_function(function: Any) -> dict[str, Any] | None:
    """What of a function goes into a state dict: an object's attributes; nothing of a plain function."""
    return None if isinstance(function, types.FunctionType) else function.__dict__.copy()
