"""``save``, ``async_save`` and ``load``: checkpoints that several processes write and read together."""

from __future__ import annotations

import os
from collections.abc import Mapping, MutableMapping
from concurrent.futures import Future, ThreadPoolExecutor, wait
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

from jtorch.distributed.checkpoint.flat import check_place, put
from jtorch.distributed.checkpoint.processes import Processes
from jtorch.distributed.checkpoint.reading import Reading
from jtorch.distributed.checkpoint.writing import Saving
from jtorch.distributed.errors import refuse_recording
from jtorch.eager.public import Tensor, from_numpy, no_grad
from jtorch.optim import Optimizer


@runtime_checkable
class Stateful(Protocol):
    """What may stand for its state dict in the dict that is saved, and is given it back when that is loaded.

    Source: https://docs.pytorch.org/docs/stable/distributed.checkpoint.html
    """

    def state_dict(self) -> dict[str, Any]:
        """What is to be kept."""
        ...

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Take it back."""
        ...


class FileSystemWriter:
    """Names the folder to write to, where a script has no ``checkpoint_id``; other options change nothing.

    Source: https://docs.pytorch.org/docs/stable/distributed.checkpoint.html
    """

    def __init__(self, path: str | os.PathLike, **options: Any) -> None:
        self.path = Path(path)


class FileSystemReader(FileSystemWriter):
    """Names the folder to read from.

    Source: https://docs.pytorch.org/docs/stable/distributed.checkpoint.html
    """


class DefaultLoadPlanner:
    """``allow_partial_load``: leave what the checkpoint lacks as it is, instead of an error.

    Source: https://docs.pytorch.org/docs/stable/distributed.checkpoint.html
    """

    def __init__(self, *, allow_partial_load: bool = False) -> None:
        self.allow_partial_load = allow_partial_load


def save(
    state_dict: Mapping[str, Any], *, checkpoint_id: str | os.PathLike | None = None,
    storage_writer: FileSystemWriter | None = None, planner: Any = None, process_group: Any = None,
    no_dist: bool = False, use_collectives: bool = True,
) -> None:  # fmt: skip
    """Write ``state_dict`` into the folder ``checkpoint_id``, each process its parts. All processes call it.

    It holds tensors, sharded and not, and plain values in dicts and lists; and at the top objects that have
    ``state_dict`` and ``load_state_dict``. Of what several processes have alike the first writes its own:
    plain values and ordinary tensors must not differ between them. Names that one process alone has are
    kept, too. The file that lists all others is written last, by a rename, when all of them are on the
    disk; so whoever opens the folder finds the old checkpoint whole, or the new one. Then the files of the
    old one are removed: another job that is still reading them gets a DataError. Two jobs must not write
    into one folder at a time. There is no pickle in it.

    Raises TypeError for what is no plain data, ValueError for parts that don't make up a tensor, OSError
    where a file can't be written, and in other processes CheckpointException; the old checkpoint still
    counts then. Only if the disk fails just after that rename the new one may count.
    Source: https://docs.pytorch.org/docs/stable/distributed.checkpoint.html
    """
    _settle()  # what it writes into the same folder would go with what this one replaces, or the reverse
    _saving("save", state_dict, checkpoint_id, storage_writer, planner, process_group, no_dist).finish()


def async_save(
    state_dict: Mapping[str, Any], *, checkpoint_id: str | os.PathLike | None = None,
    storage_writer: FileSystemWriter | None = None, planner: Any = None, process_group: Any = None,
    no_dist: bool = False, **options: Any,
) -> Future[None]:  # fmt: skip
    """``save`` of a copy that is taken now, written by a thread: its future, of which ``result()`` waits.

    The copy takes as much memory as this process writes. One is written after the other; ``save``, ``load``
    and leaving the process group wait for them. So don't call those in a callback of the future.
    Source: https://docs.pytorch.org/docs/stable/distributed.checkpoint.html
    """
    saving = _saving("async_save", state_dict, checkpoint_id, storage_writer, planner, process_group, no_dist)
    processes = saving.processes.beside()
    future = _thread().submit(saving.finish, processes)
    _Thread.futures = [*(f for f in _Thread.futures if not f.done()), future]
    group = saving.processes.group
    if group is not None and _settle not in group.before_leaving:
        group.before_leaving.append(_settle)
    return future


def load(
    state_dict: dict[str, Any], *, checkpoint_id: str | os.PathLike | None = None,
    storage_reader: FileSystemReader | None = None, planner: Any = None, process_group: Any = None,
    no_dist: bool = False,
) -> None:  # fmt: skip
    """Fill ``state_dict`` from the folder ``checkpoint_id``, in place. All processes call it.

    Tensors are written into, each process its rows, however many processes there were when they were saved;
    an ordinary tensor takes the whole. Other values take the places of those in the dict. What the
    checkpoint has beside them stays there; objects with ``load_state_dict`` get what ``state_dict`` gave.

    Nothing is changed in any process unless all of them have read, and compared with its checksum, all that
    they need, and it fits: nothing is cast, unlike in PyTorch. An error of an object's ``load_state_dict``
    comes after that. Raises FileNotFoundError where there is no whole checkpoint, DataError, naming the
    file, for one that is damaged, and for processes that found different ones, KeyError for a name that is
    not in it, ValueError for a tensor of another shape or dtype, or one that can't be written, and in other
    processes CheckpointException. Reading runs no code.
    Source: https://docs.pytorch.org/docs/stable/distributed.checkpoint.html
    """
    refuse_recording("checkpoint.load")
    _settle()
    partial = bool(getattr(planner, "allow_partial_load", False))
    processes = Processes(process_group, no_dist)

    def opened() -> tuple[dict[str, Any], Reading]:
        if isinstance(state_dict, Mapping) and not isinstance(state_dict, MutableMapping):
            raise TypeError(f"checkpoint.load: a {type(state_dict).__name__} can't be filled; pass a dict")
        return _unfolded("load", state_dict), Reading(_folder("load", checkpoint_id, storage_reader))

    target, reading = processes.together("checkpoint.load", opened)
    reading.check_same(processes.exchanged(reading.metadata.identity))
    found = processes.together("checkpoint.load", lambda: _fitting(reading, target, partial))
    with no_grad():
        for path, leaf, value in found:
            if isinstance(leaf, Tensor):
                leaf.copy_(from_numpy(value))
            else:
                put(target, path, value)
    for name, value in target.items():
        if isinstance(state_dict[name], Mapping) or state_dict[name] is value:
            continue
        if _is_stateful(state_dict[name]):
            state_dict[name].load_state_dict(value)
        else:
            state_dict[name] = value


def _fitting(
    reading: Reading, target: dict[str, Any], partial: bool
) -> list[tuple[tuple[Any, ...], Any, Any]]:
    """What ``reading.read`` gives, when all of it can be put into ``target``."""
    found = reading.read(target, partial)
    for path, leaf, _ in found:
        if not isinstance(leaf, Tensor):
            check_place(target, path)
    return found


def _saving(
    name: str, state_dict: Mapping[str, Any], folder: Any, writer: Any, planner: Any, group: Any, alone: bool
) -> Saving:
    refuse_recording(f"checkpoint.{name}")
    processes = Processes(group, alone)

    def prepared() -> tuple[dict[str, Any], Path]:
        if planner is not None:
            raise NotImplementedError(f"checkpoint.{name}: a planner of its own is not implemented")
        return _unfolded(name, state_dict), _folder(name, folder, writer)

    return Saving(*processes.together(f"checkpoint.{name}", prepared), processes)


def _folder(name: str, checkpoint_id: Any, storage: Any) -> Path:
    if storage is not None and not isinstance(storage, FileSystemWriter):
        raise NotImplementedError(
            f"checkpoint.{name}: {type(storage).__name__} is not implemented: give a folder as checkpoint_id"
        )
    if checkpoint_id is not None:
        return Path(checkpoint_id)
    if storage is None:
        raise ValueError(f"checkpoint.{name}: checkpoint_id, a folder, must be given")
    return storage.path


def _is_stateful(value: Any) -> bool:
    return not isinstance(value, (Tensor, Mapping)) and isinstance(value, Stateful)


def _unfolded(name: str, state_dict: Mapping[str, Any]) -> dict[str, Any]:
    """``state_dict`` with the state dicts of the objects in it."""
    if not isinstance(state_dict, Mapping):
        raise TypeError(f"checkpoint.{name}: a dict was expected, got {type(state_dict).__name__}")
    for key, value in state_dict.items():
        if name == "load" and isinstance(value, Optimizer) and not value.state_dict()["state"]:
            raise TypeError(
                f"checkpoint.load: {key} is an optimizer without a state that could be filled: pass "
                "get_optimizer_state_dict(model, optimizer), and then set_optimizer_state_dict"
            )
    return {key: value.state_dict() if _is_stateful(value) else value for key, value in state_dict.items()}


class _Thread:
    executor: ThreadPoolExecutor | None = None
    futures: list[Future[None]] = []  # noqa: RUF012 - of what it is to write


def _thread() -> ThreadPoolExecutor:
    """The thread that writes, one checkpoint after the other: so all processes write in the same order."""
    if _Thread.executor is None:
        _Thread.executor = ThreadPoolExecutor(1, "jtorch-checkpoint")
    return _Thread.executor


def _settle() -> None:
    """Wait until all that ``async_save`` was given is written, or failed, which its future tells."""
    wait(_Thread.futures)
