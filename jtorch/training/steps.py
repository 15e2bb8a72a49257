"""The functions that a fit is made of: one for a batch, one for what is left of an accumulation.

The whole of a step is one function, so that compiled it is one native call: gradients dropped, forward,
backward, clipping, updates.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import jtorch
from jtorch.amp import GradScaler, autocast
from jtorch.nn import Module
from jtorch.nn.utils import clip_grad_norm_, clip_grad_value_
from jtorch.optim import LBFGS, Optimizer
from jtorch.training.processes import Alone

Outputs = dict[str, Any]
_CLIP: dict[str, Callable[..., Any]] = {"norm": clip_grad_norm_, "value": clip_grad_value_}
_PRECISIONS = {"32-true": None, "16-mixed": jtorch.float16, "bf16-mixed": jtorch.bfloat16}


@dataclass(frozen=True)
class Options:
    """What of a trainer's options decides about the numbers of a step."""

    compile: bool
    accumulate_grad_batches: int
    gradient_clip_val: float | None
    gradient_clip_algorithm: str
    precision: str

    def __post_init__(self) -> None:
        if self.accumulate_grad_batches < 1:
            raise ValueError(f"accumulate_grad_batches is 1 or more, got {self.accumulate_grad_batches}")
        if self.gradient_clip_algorithm not in _CLIP:
            algorithm = self.gradient_clip_algorithm
            raise ValueError(f"gradient_clip_algorithm is one of {[*_CLIP]}, got {algorithm!r}")
        if self.precision not in _PRECISIONS:
            raise ValueError(f"precision is one of {[*_PRECISIONS]}, got {self.precision!r}")

    def autocasting(self, task: Module) -> autocast:
        """The block for steps of ``task``, where its parameters lie."""
        device = "cuda" if any(p.is_cuda for p in task.parameters()) else "cpu"
        return autocast(device, _PRECISIONS[self.precision], enabled=self.precision != "32-true")

    def scaler(self) -> GradScaler:
        """The one that goes with the precision: float16 alone needs scaled losses."""
        return GradScaler("cpu", enabled=self.precision == "16-mixed")

    def compiled(self, function: Callable) -> Callable:
        return jtorch.compile(function) if self.compile else function


def outputs_of(returned: Any, method: str, name: str) -> Outputs:
    """What a step of the task returned, by name and without graph: of a tensor alone, under ``name``.

    Raises TypeError for what is neither a tensor nor a dict.
    """
    if isinstance(returned, jtorch.Tensor):
        returned = {name: returned}
    if not isinstance(returned, dict):
        raise TypeError(f"{method} returns a tensor or a dict of them, got {type(returned).__name__}")
    if name == "loss" and name not in returned:
        raise TypeError(f"{method} returns a dict with the key 'loss', got {sorted(returned)}")
    return {k: v.detach() if isinstance(v, jtorch.Tensor) else v for k, v in returned.items()}


class Steps:
    """``batch(batch, first, last)`` and ``update()``, compiled where the options say so.

    ``first``: gradients are dropped before; ``last``: parameters are updated after. Both are part of what is
    compiled: an accumulation has three recordings.
    """

    def __init__(
        self, task: Module, optimizers: Sequence[Optimizer], scaler: GradScaler, options: Options,
        processes: Alone,
    ) -> None:  # fmt: skip
        self._processes, self._training_step = processes, processes.step_of(task)
        self._task, self._optimizers, self._scaler, self._options = task, optimizers, scaler, options
        self._scaling, self._autocasting = scaler.is_enabled(), options.autocasting(task)
        if any(isinstance(one, LBFGS) for one in optimizers):
            self._closed = options.compiled(self._clipped)
            self.batch = self._by_closure
            self._check_closure()
        else:
            self.batch = options.compiled(self._whole)
        self.update = options.compiled(self._late)

    def _gradients(self, batch: Any, first: bool, last: bool = True) -> tuple[Any, Outputs]:
        """The gradients of one batch, added to those that are there; the loss, and what is told outside."""
        if first:
            self._task.zero_grad()
        with self._autocasting:
            returned = self._training_step(batch, last)
        outputs = outputs_of(returned, "training_step", "loss")
        loss = returned["loss"] if isinstance(returned, dict) else returned
        count = self._options.accumulate_grad_batches
        self._scaler.scale(loss / count if count > 1 else loss).backward()
        return loss, outputs

    def _step(self) -> None:
        for one in self._optimizers:
            if self._scaling and self._options.gradient_clip_val is not None:
                self._scaler.unscale_(one)
            self._clip(one)
        for one in self._optimizers:
            self._scaler.step(one)

    def _late(self) -> None:
        """A step with the gradients of fewer batches than make one, which nobody has averaged."""
        self._processes.average_gradients(self._task)
        self._step()

    def _clip(self, optimizer: Optimizer) -> None:
        limit = self._options.gradient_clip_val
        if limit is not None:
            parameters = [p for group in optimizer.param_groups for p in group["params"]]
            _CLIP[self._options.gradient_clip_algorithm](parameters, limit)

    def _whole(self, batch: Any, first: bool, last: bool) -> Outputs:
        _, outputs = self._gradients(batch, first, last)
        if last:
            self._step()
        return outputs

    # -- LBFGS, which evaluates a step several times ------------------------------------------------------

    def _check_closure(self) -> None:
        if self._processes.count > 1:
            raise NotImplementedError(
                "LBFGS in several processes: each would evaluate its own loss, as often as that takes"
            )
        if len(self._optimizers) > 1 or self._scaling or self._options.accumulate_grad_batches > 1:
            raise ValueError(
                "LBFGS evaluates each batch several times: it is the only optimizer of a task, with "
                'accumulate_grad_batches=1 and precision="32-true"'
            )

    def _clipped(self, batch: Any) -> Outputs:
        _, outputs = self._gradients(batch, True)
        self._clip(self._optimizers[0])
        return outputs

    def _by_closure(self, batch: Any, first: bool, last: bool) -> Outputs:
        evaluated: list[Outputs] = []

        def closure() -> Any:
            evaluated.append(self._closed(batch))
            return evaluated[-1]["loss"]

        self._optimizers[0].step(closure)
        return evaluated[0]


def evaluation(task: Module, options: Options) -> Callable[[Any], Outputs]:
    """``validation_step`` without a graph, compiled where the options say so."""
    autocasting = options.autocasting(task)

    def evaluate(batch: Any) -> Outputs:
        with jtorch.no_grad(), autocasting:
            returned = task.validation_step(batch)  # type: ignore[operator]
            return outputs_of(returned, "validation_step", "val_loss")

    return options.compiled(evaluate)
