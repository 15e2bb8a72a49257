"""What a run is at a moment, beside its own counters: tensors by name, and generators of random numbers."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

import jtorch
from jtorch.nn import Module
from jtorch.optim import Optimizer
from jtorch.utils.data import IterableDataset


def seed_everything(seed: int) -> int:
    """Start the generators of jtorch, NumPy and Python with ``seed``; call it before the task is made.

    Source: https://lightning.ai/docs/pytorch/stable/api/lightning.fabric.utilities.seed.html

    >>> import jtorch
    >>> from jtorch.training import seed_everything
    >>> numbers = [jtorch.rand(1).item() for _ in range(2) if seed_everything(7)]
    >>> numbers[0] == numbers[1]
    True
    """
    random.seed(seed)
    np.random.seed(seed % 2**32)
    jtorch.manual_seed(seed)
    return seed


def generators_state() -> dict[str, Any]:
    """Where the generators of the whole program stand, as plain data."""
    version, words, gauss = random.getstate()
    name, key, *rest = np.random.get_state()
    return {
        "jtorch": jtorch.get_rng_state(),
        "numpy": [name, jtorch.from_numpy(np.array(key)), *rest],
        "python": [version, list(words), gauss],
    }


def set_generators(state: dict[str, Any]) -> None:
    """Put them there."""
    version, words, gauss = state["python"]
    name, key, *rest = state["numpy"]
    random.setstate((version, tuple(words), gauss))
    np.random.set_state((name, key.numpy(), *rest))
    jtorch.set_rng_state(state["jtorch"])


def task_state(task: Module) -> dict[str, Any]:
    """All tensors of a task, those buffers that its state dict leaves out, too; and what callbacks may have
    changed: which modules are in training mode, which parameters are trained.
    """
    tensors = task.state_dict()
    others = {name: buffer for name, buffer in task.named_buffers() if name not in tensors}
    return {
        "state_dict": tensors,
        "other_buffers": others,
        "modes": {name: module.training for name, module in task.named_modules()},
        "requires_grad": {name: p.requires_grad for name, p in task.named_parameters()},
    }


def load_task(task: Module, state: dict[str, Any]) -> None:
    """Raises RuntimeError, as ``load_state_dict`` does, where the task is another one."""
    task.load_state_dict(state["state_dict"])
    buffers = dict(task.named_buffers())
    if missing := state["other_buffers"].keys() - buffers.keys():
        raise RuntimeError(f"{type(task).__name__} has no buffer {min(missing)!r}, which the checkpoint has")
    with jtorch.no_grad():
        for name, content in state["other_buffers"].items():
            buffers[name].copy_(content)
    for name, module in task.named_modules():
        module.training = state["modes"].get(name, module.training)
    for name, p in task.named_parameters():
        p.requires_grad_(state["requires_grad"].get(name, p.requires_grad))


def gradients(task: Module) -> dict[str, Any]:
    """Those that are there, by the names of their parameters."""
    return {name: p.grad.detach() for name, p in task.named_parameters() if p.grad is not None}


def load_gradients(task: Module, state: dict[str, Any]) -> None:
    for name, p in task.named_parameters():
        p.grad = state.get(name)


def loader_state(loader: Any) -> Any:
    """Where a loader stands, and what its place is counted in; None for an iterable that can't tell."""
    if not hasattr(loader, "state_dict"):
        return None
    return {"place": loader.state_dict(), "batch_size": _batch_size(loader), "length": length(loader)}


def load_loader(loader: Any, state: Any, batch: int) -> None:
    """Let its next pass begin ``batch`` batches later. Raises ValueError for a loader of other batches."""
    if state is None or not hasattr(loader, "load_state_dict"):
        return
    now = {"batch_size": _batch_size(loader), "length": length(loader)}
    was = {name: state[name] for name in now}
    if batch and now != was:
        raise ValueError(
            f"the checkpoint is {batch} batches into an epoch of a loader with {was}; this one has {now}, "
            "where the place can't be found. Go on with the loader that it was made with"
        )
    loader.load_state_dict(state["place"])


def _batch_size(loader: Any) -> Any:
    sampler = getattr(loader, "batch_sampler", None)
    return getattr(sampler, "batch_size", getattr(loader, "batch_size", None))


def length(loader: Any) -> int | None:
    """None for what has none, and for a stream, whose length may be a guess."""
    if isinstance(getattr(loader, "dataset", None), IterableDataset):
        return None
    try:
        return len(loader)
    except (TypeError, NotImplementedError):
        return None


def set_epoch(loader: Any, epoch: int) -> None:
    """Tell the samplers that order by it, as DistributedSampler does."""
    for name in ("sampler", "batch_sampler"):
        sampler: Any = getattr(loader, name, None)
        if hasattr(sampler, "set_epoch"):
            sampler.set_epoch(epoch)


def options_of(optimizers: Sequence[Optimizer]) -> dict[str, Any]:
    """The plain options of all groups by ``"Adam[0] lr"``, as the task has set them."""
    return {
        f"{type(one).__name__}[{k}] {name}": list(value) if isinstance(value, tuple) else value
        for one in optimizers
        for k, group in enumerate(one.param_groups)
        for name, value in group.items()
        if name != "params" and isinstance(value, (int, float, str, bool, tuple, type(None)))
    }


def changes(before: dict[str, Any], now: dict[str, Any]) -> str:
    """``lr was 0.1 and is 0.2`` for what differs; empty for nothing."""
    names = [name for name in now if name in before and before[name] != now[name]]
    return ", ".join(f"{name} was {before[name]!r} and is {now[name]!r}" for name in names)


@contextmanager
def modes_kept(task: Module) -> Iterator[None]:
    """Modules that were evaluating, or training, do so again afterwards."""
    modes = [(module, module.training) for module in task.modules()]
    try:
        yield
    finally:
        for module, training in modes:
            module.training = training
