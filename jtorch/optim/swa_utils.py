"""Averages of a model's weights over training: stochastic weight averaging and moving averages.

Source: https://docs.pytorch.org/docs/stable/optim.html#weight-averaging-swa-and-ema
"""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Iterable, Sequence
from itertools import chain
from typing import Any

from jtorch.core.dtypes import int64
from jtorch.eager.public import Tensor, no_grad, tensor
from jtorch.nn.module import Module
from jtorch.optim.lr_scheduler.base import LRScheduler, Rate, per_group
from jtorch.optim.optimizer import Optimizer


def get_ema_multi_avg_fn(decay: float = 0.999) -> Callable[..., None]:
    """A function that moves a list of averages by ``1 - decay`` of the way to the current tensors.

    >>> import jtorch
    >>> averages = [jtorch.zeros(2), jtorch.zeros(1)]
    >>> move = jtorch.optim.swa_utils.get_ema_multi_avg_fn(decay=0.75)
    >>> move(averages, [jtorch.full((2,), 4.0), jtorch.ones(1)], 1)
    >>> averages
    [tensor([1., 1.]), tensor([0.2500])]
    """
    average = get_ema_avg_fn(decay)
    return lambda averages, currents, n: _each(average, averages, currents, n)


def get_swa_multi_avg_fn() -> Callable[..., None]:
    """A function that updates a list of means of ``num_averaged`` tensors by one more each.

    >>> import jtorch
    >>> averages = [jtorch.tensor(1.0), jtorch.tensor(2.0)]
    >>> jtorch.optim.swa_utils.get_swa_multi_avg_fn()(averages, [jtorch.tensor(3.0), jtorch.tensor(8.0)], 1)
    >>> averages
    [tensor(2.), tensor(5.)]
    """
    average = get_swa_avg_fn()
    return lambda averages, currents, n: _each(average, averages, currents, n)


@no_grad()
def _each(average: Callable, averages: Sequence[Tensor], currents: Sequence[Tensor], n: Any) -> None:
    for mean, current in zip(averages, currents, strict=True):
        mean.copy_(average(mean, current, n))


def get_ema_avg_fn(decay: float = 0.999) -> Callable[..., Tensor]:
    """A function of (average, current tensor, count) that gives the next moving average.

    Raises ValueError for a ``decay`` outside [0, 1].

    >>> import jtorch
    >>> moved = jtorch.optim.swa_utils.get_ema_avg_fn(decay=0.75)
    >>> moved(jtorch.tensor(0.0), jtorch.tensor(4.0), 1)
    tensor(1.)
    """
    if decay < 0.0 or decay > 1.0:
        raise ValueError(f"Invalid decay value {decay} provided. Please provide a value in [0,1] range.")

    @no_grad()
    def ema_update(ema_param: Tensor, current_param: Tensor, num_averaged: Any) -> Tensor:
        return decay * ema_param + (1 - decay) * current_param

    return ema_update


def get_swa_avg_fn() -> Callable[..., Tensor]:
    """A function of (average, current tensor, count) that gives the mean with one more.

    >>> import jtorch
    >>> jtorch.optim.swa_utils.get_swa_avg_fn()(jtorch.tensor(1.0), jtorch.tensor(4.0), 2)  # of 1, 1 and 4
    tensor(2.)
    """

    @no_grad()
    def swa_update(averaged_param: Tensor, current_param: Tensor, num_averaged: Any) -> Tensor:
        return averaged_param + (current_param - averaged_param) / (num_averaged + 1)

    return swa_update


class AveragedModel(Module):
    """A copy of ``model`` whose parameters are averages: by ``avg_fn`` (of one tensor), ``multi_avg_fn`` (of
    lists, in place) or the mean of all. Buffers are copied, or averaged with ``use_buffers``.

    "n_averaged" (0-d int64) counts the updates. Izmailov et al. 2018.

    >>> import jtorch
    >>> model = jtorch.nn.Linear(1, 1, bias=False)
    >>> average = jtorch.optim.swa_utils.AveragedModel(model)
    >>> for value in (1.0, 3.0):
    ...     model.weight.data = jtorch.tensor([[value]])
    ...     average.update_parameters(model)
    >>> average.module.weight.item()
    2.0
    """

    n_averaged: Tensor

    def __init__(
        self,
        model: Module,
        device: Any = None,
        avg_fn: Callable[..., Tensor] | None = None,
        multi_avg_fn: Callable[..., None] | None = None,
        use_buffers: bool = False,
    ) -> None:
        super().__init__()
        if avg_fn is not None and multi_avg_fn is not None:
            raise AssertionError("Only one of avg_fn and multi_avg_fn should be provided")
        self.module = copy.deepcopy(model)
        if device is not None:
            self.module = self.module.to(device)
        self.register_buffer("n_averaged", tensor(0, dtype=int64, device=device))
        self.avg_fn = avg_fn
        self.multi_avg_fn = multi_avg_fn
        self.use_buffers = use_buffers

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        return self.module(*args, **kwargs)

    @no_grad()
    def update_parameters(self, model: Module) -> None:
        """Take the parameters of ``model`` into the averages; the first ones are copied."""
        pairs = list(zip(self._averaged(self.module), self._averaged(model), strict=False))
        if self.n_averaged == 0:  # of a tensor: in a compiled step a branch
            for mean, current in pairs:
                mean.copy_(current)
        elif self.avg_fn is not None:
            for mean, current in pairs:
                mean.copy_(self.avg_fn(mean, current, self.n_averaged))
        else:
            update = self.multi_avg_fn or get_swa_multi_avg_fn()
            by_dtype: dict[Any, list[tuple[Tensor, Tensor]]] = {}
            for mean, current in pairs:
                by_dtype.setdefault(mean.dtype, []).append((mean, current))
            for group in by_dtype.values():
                means, currents = zip(*group, strict=True)
                update(list(means), list(currents), self.n_averaged)
        if not self.use_buffers:
            for mean, current in zip(self.module.buffers(), model.buffers(), strict=True):
                mean.copy_(current)
        self.n_averaged.add_(1)

    def _averaged(self, model: Module) -> Iterable[Tensor]:
        if not self.use_buffers:
            return (p.detach() for p in model.parameters())
        return (p.detach() for p in chain(model.parameters(), model.buffers()))


def _is_batch_norm(module: Module) -> bool:
    """By its own or an inherited name: instance norms have running statistics, too."""
    return any("BatchNorm" in cls.__name__ for cls in type(module).__mro__)


@no_grad()
def update_bn(loader: Iterable[Any], model: Module, device: Any = None) -> None:
    """Make the running statistics of all batch norms anew: plain means over the batches of ``loader``.

    >>> import jtorch
    >>> model = jtorch.nn.BatchNorm1d(1)
    >>> jtorch.optim.swa_utils.update_bn([jtorch.full((4, 1), 2.0), jtorch.full((4, 1), 4.0)], model)
    >>> model.running_mean
    tensor([3.])
    """
    norms: dict[Any, Any] = {m: m.momentum for m in model.modules() if _is_batch_norm(m)}
    if not norms:
        return
    was_training = model.training
    model.train()
    for module in norms:
        module.reset_running_stats()
        module.momentum = None
    for batch in loader:
        batch = batch[0] if isinstance(batch, (list, tuple)) else batch
        model(batch if device is None else batch.to(device))
    for module, momentum in norms.items():
        module.momentum = momentum
    model.train(was_training)


class SWALR(LRScheduler):
    """From the rate of each group to ``swa_lr`` in ``anneal_epochs`` steps, then constant.

    >>> import jtorch
    >>> optimizer = jtorch.optim.SGD([jtorch.zeros(1, requires_grad=True)], lr=1.0)
    >>> scheduler = jtorch.optim.swa_utils.SWALR(optimizer, 0.5, anneal_epochs=2, anneal_strategy="linear")
    >>> for _ in range(4):
    ...     optimizer.step()
    ...     scheduler.step()
    ...     print(scheduler.get_last_lr()[0], end=" ")
    0.75 0.5 0.5 0.5
    """

    def __init__(
        self,
        optimizer: Optimizer,
        swa_lr: float | list[float],
        anneal_epochs: int = 10,
        anneal_strategy: str = "cos",
        last_epoch: int = -1,
    ) -> None:
        for rate, group in zip(per_group("swa_lr", optimizer, swa_lr), optimizer.param_groups, strict=True):
            group["swa_lr"] = rate
        if anneal_strategy not in ("cos", "linear"):
            raise ValueError(
                f"anneal_strategy must be one of 'cos' or 'linear', instead got {anneal_strategy}"
            )
        self._anneal_strategy = anneal_strategy
        if not isinstance(anneal_epochs, int) or anneal_epochs < 0:
            raise ValueError(f"anneal_epochs must be equal or greater than 0, got {anneal_epochs}")
        self.anneal_epochs = anneal_epochs
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[Rate]:
        self._warn_outside_step()
        step = self._step_count - 1
        if self.anneal_epochs == 0:
            step = max(1, step)
        before, now = self._share(step - 1), self._share(step)
        rates = []
        for group in self.optimizer.param_groups:
            goal = group["swa_lr"]
            # where the annealing began, from where it has come to
            start = goal if before == 1 else (group["lr"] - before * goal) / (1 - before)
            rates.append(goal * now + start * (1 - now))
        return rates

    def _share(self, step: int) -> float:
        t = max(0, min(1, step / max(1, self.anneal_epochs)))
        return (1 - math.cos(math.pi * t)) / 2 if self._anneal_strategy == "cos" else t
