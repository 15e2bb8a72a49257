"""Writing a checkpoint: who writes what, each its file, and the list when all files are there."""

from __future__ import annotations

import contextlib
import secrets
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from jtorch.distributed.checkpoint import metadata as meta
from jtorch.distributed.checkpoint.flat import leaves, told
from jtorch.distributed.checkpoint.processes import CheckpointException, Processes
from jtorch.distributed.sharded import ShardedTensor
from jtorch.eager.public import Tensor
from jtorch.serialization import tensors as safetensors
from jtorch.utils.files import sweep, write_atomically


class _Item(NamedTuple):
    """What a process has of a tensor."""

    path: tuple[Any, ...]
    shape: tuple[int, ...]
    dtype: str
    begin: int
    end: int


class Saving:
    """One checkpoint on its way into a folder. Made, it holds a copy of all that this process writes."""

    def __init__(self, state: dict[str, Any], folder: Path, processes: Processes) -> None:
        self.folder, self.processes = folder, processes
        self._list = b""  # the file that rank 0 writes last
        tensors, values = processes.together("checkpoint.save", lambda: _flattened(state))
        items = [_item(path, tensor) for path, tensor in tensors.items()]
        mine = {"identity": secrets.token_hex(8), "items": [_plain(i) for i in items], "values": values}
        everyone = processes.exchanged(mine)
        self.metadata = processes.together("checkpoint.save", lambda: _planned(everyone))
        self.file = _file(self.metadata.identity, processes.rank)
        self._content = processes.together("checkpoint.save", lambda: self._staged(tensors))

    def _staged(self, tensors: dict[tuple[Any, ...], Tensor]) -> bytes:
        """This process's file. Raises TypeError where reading would refuse what is in it."""
        own = {
            entry.name: tensors[entry.path].detach()
            for entry in self.metadata.tensors.values()
            if any(chunk.file == self.file for chunk in entry.chunks)
        }
        arrays = {name: _local(tensor) for name, tensor in own.items()}
        checksums = {name: checksum(t.numpy()) for name, t in arrays.items()}
        if self.processes.rank == 0:
            self._list = meta.to_bytes(self.metadata)
        facts = {"identity": self.metadata.identity, "crc32": checksums, "tensors": arrays}
        return safetensors.to_bytes(facts, whole=True)

    def finish(self, processes: Processes | None = None) -> None:
        """Write it, with the others: all is there when this returns, or an error says that it is not."""
        processes = processes or self.processes
        try:
            processes.together("checkpoint.save", self._write)
        except CheckpointException:  # which all processes know of: nobody will list this file
            (self.folder / self.file).unlink(missing_ok=True)
            raise
        processes.together("checkpoint.save", lambda: self._commit(processes.rank))

    def _write(self) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        content, self._content = self._content, b""
        write_atomically(self.folder / self.file, content)

    def _commit(self, rank: int) -> None:
        """All files are there: make them the checkpoint, and remove those of the one before."""
        if rank != 0:
            return
        write_atomically(self.folder / meta.NAME, self._list)
        for path in list(self.folder.iterdir()):
            if meta.PART.fullmatch(path.name) and not path.name.startswith(self.metadata.identity):
                with contextlib.suppress(OSError):  # the new one counts already; the next save tries again
                    path.unlink()
        sweep(self.folder)


def checksum(array: np.ndarray) -> int:
    """The CRC-32 of the elements in order."""
    return zlib.crc32(np.ascontiguousarray(array).reshape(-1).view(np.uint8).data)


def _flattened(state: dict[str, Any]) -> tuple[dict[tuple[Any, ...], Tensor], list[list[Any]]]:
    """The tensors of ``state`` by path, and its values. Raises TypeError for one that no file can hold,
    before any travels."""
    found = list(leaves(state))
    values = [[list(path), leaf] for path, leaf in found if not isinstance(leaf, Tensor)]
    for path, leaf in values:
        try:
            safetensors.to_bytes(leaf, whole=True)
        except TypeError as error:
            raise TypeError(f"checkpoint.save: {told(tuple(path))}: {error}") from None
    return {path: leaf for path, leaf in found if isinstance(leaf, Tensor)}, values


def _file(identity: str, rank: int) -> str:
    return f"{identity}-{rank}.safetensors"


def _local(tensor: Tensor) -> Tensor:
    return tensor.to_local() if isinstance(tensor, ShardedTensor) else tensor


def _item(path: tuple[Any, ...], tensor: Tensor) -> _Item:
    if isinstance(tensor, ShardedTensor):
        shape = tensor.sharding.shape
        begin, end = tensor.sharding.rows if meta.rows_in(shape) else (0, 0)
    else:
        shape = tuple(tensor.shape)
        begin, end = 0, meta.rows_in(shape)
    return _Item(path, tuple(shape), tensor.dtype.name, begin, end)


def _plain(item: _Item) -> list[Any]:
    return [list(item.path), list(item.shape), item.dtype, item.begin, item.end]


def _items(everyone: list[dict[str, Any]]) -> Iterator[tuple[int, _Item]]:
    for rank, facts in enumerate(everyone):
        for path, shape, dtype, begin, end in facts["items"]:
            yield rank, _Item(tuple(path), tuple(shape), dtype, begin, end)


def _planned(everyone: list[dict[str, Any]]) -> meta.Metadata:
    """Who writes what, from what all processes have: equal rows of several are written by the first.

    Raises ValueError where they don't make up the tensors.
    """
    identity = everyone[0]["identity"]
    found: dict[tuple[Any, ...], list[tuple[int, _Item]]] = {}
    for rank, item in _items(everyone):
        found.setdefault(item.path, []).append((rank, item))
    names = _names(list(found))
    entries = {path: _entry(names[path], identity, items) for path, items in found.items()}
    values: dict[tuple[Any, ...], Any] = {}
    for facts in everyone:
        for path, value in facts["values"]:
            values.setdefault(tuple(path), value)
    both = [*(found.keys() & values.keys()), *meta.inner_paths([*found, *values])]
    if both:
        raise ValueError(
            f"checkpoint.save: {told(both[0])} is a tensor or a value in one process, and something else, "
            "or a dict or list of others, in another"
        )
    return meta.Metadata(identity, entries, values)


def _entry(name: str, identity: str, items: list[tuple[int, _Item]]) -> meta.Entry:
    first = items[0][1]
    for rank, item in items:
        if (item.shape, item.dtype) != (first.shape, first.dtype):
            raise ValueError(
                f"checkpoint.save: {told(item.path)} is {first.dtype}{list(first.shape)} on rank "
                f"{items[0][0]}, and {item.dtype}{list(item.shape)} on rank {rank}"
            )
    owners: dict[tuple[int, int], int] = {}
    for rank, item in items:
        if item.end > item.begin:
            owners.setdefault((item.begin, item.end), rank)
    chunks = [meta.Chunk(*rows, _file(identity, rank)) for rows, rank in sorted(owners.items())]
    ends = [0, *(chunk.end for chunk in chunks)]
    if [chunk.begin for chunk in chunks] != ends[:-1] or ends[-1] != meta.rows_in(first.shape):
        raise ValueError(
            f"checkpoint.save: the processes have rows {sorted(owners)} of {told(first.path)}, which don't "
            f"make up {list(first.shape)}: all processes that share a tensor save it together"
        )
    return meta.Entry(first.path, name, first.shape, first.dtype, chunks)


def _names(paths: list[tuple[Any, ...]]) -> dict[tuple[Any, ...], str]:
    """A name for each tensor in the files: its path, with a mark where two read alike."""
    names: dict[tuple[Any, ...], str] = {}
    taken: set[str] = set()
    for path in paths:
        name = told(path)
        while name in taken:
            name += "_"
        taken.add(name)
        names[path] = name
    return names
