"""The processes that train together: what a ``Trainer`` asks of the others, and what each has for itself.

All go through as many batches, steps and epochs side by side. What decides where a run goes on, a metric or
a signal, is made the same in all of them first; what each has for itself, its generators, its place in the
data and its buffers, is kept for each.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from typing import Any

import jtorch
from jtorch.nn import Module
from jtorch.training import state

_OWN = (
    "other_buffers", "gradients", "train_loader", "val_loader", "callbacks", "epoch_generators", "generators",
    "should_stop",
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

    def any(self, *flags: bool) -> list[bool]:
        """Of each whether it is set in any process."""
        return list(flags)

    def gathered(self, thing: Any) -> list[Any]:
        """That of all processes, in the order of ranks; plain data. All wait for each other."""
        return [thing]

    def from_first(self, make: Callable[[], Any]) -> Any:
        """What the first process makes, for all; where it raises, all do."""
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
            # else it would hang on the forward before this one, which a run that goes on has not seen
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
        mark = zlib.crc32("\n".join(names).encode())
        flag, highest, lowest = self._largest(interrupted, mark, -mark)
        if highest != -lowest:  # a step gave other metrics in another process
            everywhere = self.gathered(metrics)
            names = sorted(set.intersection(*map(set, everywhere)))
            sums = [sum(theirs[name] for theirs in everywhere) for name in names]
        else:
            sums = self._reduced(self._dist.ReduceOp.SUM, [metrics[name] for name in names])
        return flag > 0, {name: total / self.count for name, total in zip(names, sums, strict=True)}

    def any(self, *flags: bool) -> list[bool]:
        return [flag > 0 for flag in self._largest(*flags)]

    def _largest(self, *numbers: float) -> list[float]:
        return self._reduced(self._dist.ReduceOp.MAX, numbers)

    def _reduced(self, op: Any, numbers: Sequence[float]) -> list[float]:
        """In the order of ranks: the same bits in all processes, and when the run is gone on with."""
        tensor = jtorch.tensor([float(x) for x in numbers], dtype=jtorch.float64)
        if numbers:
            self._dist.ordered_all_reduce(tensor, op)
        return tensor.tolist()

    def gathered(self, thing: Any) -> list[Any]:
        found = [None] * self.count
        self._dist.all_gather_object(found, thing)
        return found

    def from_first(self, make: Callable[[], Any]) -> Any:
        raised: Exception | None = None
        found: list[Any] = [None, ""]
        if self.rank == 0:
            try:
                found[0] = make()
            except Exception as error:
                raised, found[1] = error, f"{type(error).__name__}: {error}"
        self._dist.broadcast_object_list(found, 0)
        if raised is not None:
            raise raised
        if found[1]:
            raise RuntimeError(f"the first process has met {found[1]}")
        return found[0]

    def check_loader(self, loader: Any) -> None:
        lengths = self.gathered(state.length(loader))
        if len(set(lengths)) > 1:
            raise ValueError(
                f"the processes have {lengths} batches an epoch, by rank: they would wait for each other. A "
                "DistributedSampler gives all of them as many"
            )
        batches = getattr(loader, "batch_sampler", None)
        samplers = [getattr(loader, "sampler", None), batches, getattr(batches, "sampler", None)]
        shared_out = any(hasattr(one, "num_replicas") for one in samplers)
        has_order = samplers[0] is not None and state.length(loader) is not None
        if self.count > 1 and has_order and not shared_out:
            raise ValueError(
                f"each of {self.count} processes would train on all batches of this "
                f"{type(loader).__name__}: give it sampler=DistributedSampler(dataset) in place of shuffle"
            )

    def state_dict(self, whole: dict[str, Any]) -> dict[str, Any]:
        buffers = {name: b for name, b in whole["state_dict"].items() if name not in whole["requires_grad"]}
        own = {**{key: whole[key] for key in _OWN}, "buffers": buffers}
        parts: list[Any] | None = [None] * self.count if self.rank == 0 else None
        self._dist.gather_object(own, parts)
        return {**whole, "processes": parts or [own]}

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
