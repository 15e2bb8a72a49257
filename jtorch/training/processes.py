"""The processes that train together: what a ``Trainer`` asks of the others, and what each has for itself.

All go through as many batches, steps and epochs side by side. What decides where a run goes on, a metric or
a signal, is made the same in all of them first; what each has for itself, its generators, its place in the
data and its buffers, is kept for each.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from typing import Any

import jtorch
from jtorch.nn import Module
from jtorch.training import state

_OWN = (
    "other_buffers", "gradients", "train_loader", "val_loader", "callbacks", "epoch_generators", "generators"
)  # fmt: skip


class Alone:
    """One process, which asks nobody."""

    rank, count = 0, 1

    def step_of(self, task: Module) -> Callable[[Any, bool], Any]:
        """``(batch, last) -> what training_step gives``; where ``last``, backward averages gradients."""
        return lambda batch, last: task.training_step(batch)  # type: ignore[operator]

    def average_gradients(self, task: Module) -> None:
        """Of what is there, where no backward pass has done so."""

    def agreed(self, interrupted: bool, metrics: dict[str, float]) -> tuple[bool, dict[str, float]]:
        """Whether any was interrupted, and the means of the metrics that all of them have."""
        return interrupted, metrics

    def gathered(self, thing: Any) -> list[Any]:
        """That of all processes, in the order of ranks; plain data."""
        return [thing]

    def from_first(self, make: Callable[[], Any]) -> Any:
        """What the first process makes, for all."""
        return make()

    def check_loader(self, loader: Any) -> None:
        """Raise ValueError for a loader with which the processes would not keep step."""

    def state_dict(self, whole: dict[str, Any]) -> dict[str, Any]:
        """``whole``, with what is each process's own; complete in the first one alone."""
        return whole

    def own(self, given: dict[str, Any]) -> dict[str, Any]:
        """The part of this process. Raises ValueError for the checkpoint of another number of processes."""
        if (was := len(given.get("processes", [None]))) != self.count:
            raise ValueError(
                f"the checkpoint is that of a run of {was} processes, and here are {self.count}: where each "
                "stood in its part of the data can't be found again. Go on with as many, or begin anew from "
                "jtorch.load(path)['state_dict']"
            )
        return given


class Together(Alone):
    """Those of the default process group, which is made where there is none."""

    def __init__(self) -> None:
        import jtorch.distributed as dist

        if not dist.is_initialized():
            dist.init_process_group()
        self._dist = dist
        self.rank, self.count = dist.get_rank(), dist.get_world_size()

    def step_of(self, task: Module) -> Callable[[Any, bool], Any]:
        model = jtorch.nn.parallel.DistributedDataParallel(_Step(task))

        def step(batch: Any, last: bool) -> Any:
            # buffers, too: not as the forward before it had it, of which a run that goes on knows nothing
            model.require_forward_param_sync = last
            with nullcontext() if last else model.no_sync():
                return model(batch)

        return step

    def average_gradients(self, task: Module) -> None:
        for p in task.parameters():
            if p.grad is not None:
                self._dist.all_reduce(p.grad, self._dist.ReduceOp.AVG)

    def agreed(self, interrupted: bool, metrics: dict[str, float]) -> tuple[bool, dict[str, float]]:
        names = sorted(metrics)
        numbers = jtorch.tensor([float(interrupted), *(metrics[n] for n in names)], dtype=jtorch.float64)
        self._dist.ordered_all_reduce(numbers)
        flag, *sums = numbers.tolist()
        return flag > 0, dict(zip(names, (s / self.count for s in sums), strict=True))

    def gathered(self, thing: Any) -> list[Any]:
        found = [None] * self.count
        self._dist.all_gather_object(found, thing)
        return found

    def from_first(self, make: Callable[[], Any]) -> Any:
        found = [make() if self.rank == 0 else None]
        self._dist.broadcast_object_list(found, 0)
        return found[0]

    def check_loader(self, loader: Any) -> None:
        lengths = self.gathered(state.length(loader))
        if len(set(lengths)) > 1:
            raise ValueError(
                f"the processes have {lengths} batches an epoch, by rank: they would wait for each other. A "
                "DistributedSampler gives all of them as many"
            )
        sampler = getattr(loader, "sampler", None)
        orders_all = sampler is not None and not hasattr(sampler, "num_replicas")
        if self.count > 1 and orders_all and state.length(loader) is not None:
            raise ValueError(
                f"each of {self.count} processes would train on all batches of this "
                f"{type(loader).__name__}: give it sampler=DistributedSampler(dataset) in place of shuffle"
            )

    def state_dict(self, whole: dict[str, Any]) -> dict[str, Any]:
        buffers = {name: b for name, b in whole["state_dict"].items() if name not in whole["requires_grad"]}
        own = {**{key: whole[key] for key in _OWN}, "buffers": buffers}
        return {**whole, "processes": self.gathered(own)}

    def own(self, given: dict[str, Any]) -> dict[str, Any]:
        given = super().own(given)
        if "processes" not in given:
            return given
        mine = dict(given["processes"][self.rank])
        tensors = {**given["state_dict"], **mine.pop("buffers")}
        return {**given, **mine, "state_dict": tensors}


class _Step(Module):
    """The training step of a task as the forward of a module: what DistributedDataParallel wraps."""

    def __init__(self, task: Module) -> None:
        super().__init__()
        self.task = task

    def forward(self, batch: Any) -> Any:
        return self.task.training_step(batch)  # type: ignore[operator]
