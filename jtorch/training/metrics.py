"""Metrics: which of a step's outputs are numbers, and their means over the samples of a validation."""

from __future__ import annotations

from collections.abc import Mapping
from numbers import Real
from typing import Any

import jtorch
from jtorch.training.processes import Alone
from jtorch.training.steps import Outputs


def scalars(outputs: Outputs) -> dict[str, float]:
    """What can be told as a number."""
    return {name: float(value) for name, value in outputs.items() if _is_scalar(value)}


def _is_scalar(value: Any) -> bool:
    return isinstance(value, Real) or (isinstance(value, jtorch.Tensor) and value.numel() == 1)


class Means:
    """Means over the samples of batches, of each metric over those that gave it."""

    def __init__(self) -> None:
        self._sums: dict[str, float] = {}
        self._counts: dict[str, int] = {}

    def add(self, outputs: Outputs, batch: Any) -> None:
        size = samples(batch)
        for name, value in outputs.items():
            self._sums[name] = self._sums.get(name, 0.0) + _mean(name, value, size) * size
            self._counts[name] = self._counts.get(name, 0) + size

    def result(self, processes: Alone) -> dict[str, float]:
        """Over the samples of all processes."""
        sums: dict[str, float] = {}
        counts: dict[str, int] = {}
        for totals, numbers in processes.gathered([self._sums, self._counts]):
            for name, total in totals.items():
                sums[name] = sums.get(name, 0.0) + total
                counts[name] = counts.get(name, 0) + numbers[name]
        return {name: total / counts[name] for name, total in sums.items()}


def _mean(name: str, value: Any, size: int) -> float:
    """Of one batch: a number, or a tensor of one for each of its samples. Raises TypeError for others."""
    if _is_scalar(value):
        return float(value)
    if not isinstance(value, jtorch.Tensor):
        kind = type(value).__name__
    elif value.numel() == size and value.shape[0] == size:
        return float(value.double().mean())
    else:
        kind = f"a tensor of shape {tuple(value.shape)}"
    raise TypeError(
        f"validation_step gave {name!r}, {kind}, for a batch of {size} samples: a metric is a number, or a "
        "tensor with one for each sample. Reduce it in the step, or keep it in an attribute"
    )


def samples(batch: Any) -> int:
    """How many a batch has: the length of the first tensor anywhere in it; 1 where there is none."""
    return _length(batch) or 1


def _length(batch: Any) -> int | None:
    if hasattr(batch, "shape"):
        return int(batch.shape[0]) if len(batch.shape) else None
    if isinstance(batch, Mapping):
        batch = tuple(batch.values())
    if not isinstance(batch, (list, tuple)):
        return None
    return next((found for one in batch if (found := _length(one)) is not None), None)
