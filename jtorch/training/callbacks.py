"""Callbacks: what is called between steps, and has a state that is kept with the run's.

The methods have the arguments of Lightning's. Source:
https://lightning.ai/docs/pytorch/stable/extensions/callbacks.html
"""

from __future__ import annotations

import math
import sys
import time
from typing import TYPE_CHECKING, Any

from jtorch.nn import Module

if TYPE_CHECKING:
    from jtorch.training.trainer import Trainer


class Callback:
    """Base class: override what you need.

    What changes during a run belongs into ``state_dict``, as plain data, or a run that is gone on with
    differs. Two callbacks of one class need a ``state_key`` each.
    """

    @property
    def state_key(self) -> str:
        return type(self).__qualname__

    @property
    def stopping(self) -> bool:
        """Whether the run should end after this epoch; asked again by a process that goes on with it."""
        return False

    def state_dict(self) -> dict[str, Any]:
        return {}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        pass

    def on_fit_start(self, trainer: Trainer, pl_module: Module) -> None:
        """Before the first step of this process; a state is loaded by then."""

    def on_train_batch_end(
        self, trainer: Trainer, pl_module: Module, outputs: dict[str, Any], batch: Any, batch_idx: int
    ) -> None:
        """After each batch; ``outputs`` is what ``training_step`` returned, without graph."""

    def on_validation_end(self, trainer: Trainer, pl_module: Module) -> None:
        """``trainer.callback_metrics`` has the means by then."""

    def on_train_epoch_end(self, trainer: Trainer, pl_module: Module) -> None:
        """After validation and schedulers."""

    def on_fit_end(self, trainer: Trainer, pl_module: Module) -> None:
        """When ``fit`` ends, unless by an exception."""


class EarlyStopping(Callback):
    """Stops after ``patience`` epochs without a metric that is better by more than ``min_delta``.

    It looks after each epoch, at a metric of validation after those that validate alone; with
    ``check_finite`` inf and NaN stop at once. ``mode`` "min" or "max" says what is better. Raises KeyError
    when it first looks for a metric that is not there.
    Source: https://lightning.ai/docs/pytorch/stable/api/lightning.pytorch.callbacks.EarlyStopping.html
    """

    def __init__(
        self,
        monitor: str,
        min_delta: float = 0.0,
        patience: int = 3,
        mode: str = "min",
        check_finite: bool = True,
    ) -> None:
        self.monitor, self.min_delta, self.patience = monitor, abs(min_delta), patience
        self.mode, self.check_finite = checked_mode(mode), check_finite
        self.wait_count = 0
        self.best_score: float | None = None
        self._finite = True

    @property
    def state_key(self) -> str:
        return f"EarlyStopping(monitor={self.monitor!r}, mode={self.mode!r})"

    def state_dict(self) -> dict[str, Any]:
        return {"wait_count": self.wait_count, "best_score": self.best_score, "finite": self._finite}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        self.wait_count, self.best_score = state_dict["wait_count"], state_dict["best_score"]
        self._finite = state_dict["finite"]

    @property
    def stopping(self) -> bool:
        return self.wait_count >= self.patience or not self._finite

    def on_train_epoch_end(self, trainer: Trainer, pl_module: Module) -> None:
        score = trainer.metric_of_epoch(self.monitor, "EarlyStopping")
        if score is None:
            return
        self._finite = math.isfinite(score) or not self.check_finite
        if self.best_score is None or is_better(score, self.best_score, self.mode, self.min_delta):
            self.wait_count, self.best_score = 0, score
        else:
            self.wait_count += 1


def checked_mode(mode: str) -> str:
    if mode not in ("min", "max"):
        raise ValueError(f"mode is 'min' or 'max', got {mode!r}")
    return mode


def is_better(score: float, best: float, mode: str, by: float = 0.0) -> bool:
    """NaN is worse than any number."""
    if math.isnan(best):
        return not math.isnan(score)
    return score < best - by if mode == "min" else score > best + by


class ProgressBar(Callback):
    """One line in ``stream`` (stderr) that tells epoch, batch, scalars of the step and batches a second."""

    def __init__(self, stream: Any = None, refresh: float = 0.1) -> None:
        self._stream = sys.stderr if stream is None else stream
        self._refresh = refresh
        self._shown, self._batches = time.monotonic(), 0

    @staticmethod
    def on_terminal() -> bool:
        return sys.stderr is not None and sys.stderr.isatty()

    def on_train_batch_end(
        self, trainer: Trainer, pl_module: Module, outputs: dict[str, Any], batch: Any, batch_idx: int
    ) -> None:
        self._batches += 1
        passed = time.monotonic() - self._shown
        if passed < self._refresh:
            return
        metrics = "".join(f", {name} {value:.4g}" for name, value in trainer.callback_metrics.items())
        rate = self._batches / passed
        self._show(f"epoch {trainer.current_epoch}, batch {batch_idx + 1}{metrics}, {rate:.0f} batches/s")
        self._shown, self._batches = time.monotonic(), 0

    def on_fit_end(self, trainer: Trainer, pl_module: Module) -> None:
        self._stream.write("\n")

    def _show(self, text: str) -> None:
        self._stream.write(f"\r{text}\x1b[K")  # and nothing of a longer line before it
        self._stream.flush()
