"""Reading a checkpoint: the rows that this process has, from whichever files they are in."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from jtorch.core.errors import DataError
from jtorch.distributed.checkpoint import metadata as meta
from jtorch.distributed.checkpoint.flat import leaves, told
from jtorch.distributed.checkpoint.writing import checksum
from jtorch.distributed.sharded import ShardedTensor
from jtorch.eager.public import Tensor
from jtorch.serialization import load


class Reading:
    """A checkpoint that is open. Each chunk is compared with its checksum when it is first used."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        path = folder / meta.NAME
        if not path.is_file():
            raise FileNotFoundError(
                f"no checkpoint at {folder}: there is no file {path}, which is written last; where a save "
                "was interrupted there is none"
            )
        self.metadata = meta.read(path)
        self._files: dict[str, dict[str, Any]] = {}
        self._chunks: dict[tuple[str, str], np.ndarray] = {}

    def check_same(self, identities: list[str]) -> None:
        """Raise DataError where processes have opened different checkpoints, by the identity that each found.

        So it is where the folder is of each machine alone, or was written over between two looks at it.
        """
        groups = {found: [k for k, other in enumerate(identities) if other == found] for found in identities}
        if len(groups) > 1:
            told = "; ".join(f"{found} on rank {', '.join(map(str, of))}" for found, of in groups.items())
            raise DataError(
                f"{self.folder / meta.NAME}: the processes have found different checkpoints here: {told}. "
                "All of them must see one folder, which nobody writes meanwhile"
            )

    def read(self, state: dict[str, Any], partial: bool = False) -> list[tuple[tuple[Any, ...], Any, Any]]:
        """(path, leaf, what it is to become: an array for a tensor) of all that ``state`` holds; with
        ``partial`` of all that the checkpoint has of it, too.

        Raises KeyError for what it lacks, ValueError for other shapes and dtypes and what can't be written
        into, DataError for files that are damaged.
        """
        found = []
        for path, leaf in leaves(state):
            listed: Any = self.metadata.tensors if isinstance(leaf, Tensor) else self.metadata.values
            if path not in listed:
                if partial:
                    continue
                raise KeyError(f"{self.folder}: Missing key in checkpoint state_dict: {told(path)}.")
            entry = listed[path]
            found.append((path, leaf, self._part(entry, leaf) if isinstance(leaf, Tensor) else entry))
        return found

    def _part(self, entry: meta.Entry, leaf: Tensor) -> np.ndarray:
        shape = leaf.sharding.shape if isinstance(leaf, ShardedTensor) else tuple(leaf.shape)
        if shape != entry.shape:
            raise ValueError(
                f"{self.folder}: Size mismatch between saved {list(entry.shape)} and current: {list(shape)} "
                f"for {entry.name}"
            )
        if leaf.dtype.name != entry.dtype:
            raise ValueError(
                f"{self.folder}: {entry.name} was saved as {entry.dtype}, and is {leaf.dtype.name} here: "
                "load casts nothing; load into a tensor of that dtype, and cast it then"
            )
        part = self.rows(entry, *leaf.sharding.rows) if isinstance(leaf, ShardedTensor) else self.whole(entry)
        if tuple(leaf.shape) != part.shape:
            raise ValueError(
                f"{self.folder}: the part of {entry.name} has shape {list(leaf.shape)} here, and its rows of "
                f"this process have {list(part.shape)}"
            )
        if part.size and not _is_writable(leaf):
            raise ValueError(
                f"{self.folder}: {entry.name} can't be loaded into: its memory is read-only, or several of "
                "its elements share one place in it (an expanded tensor); clone() it before"
            )
        return part

    def whole(self, entry: meta.Entry) -> np.ndarray:
        """All rows of a tensor, in memory of their own."""
        return self.rows(entry, 0, entry.shape[0] if entry.shape else 1)

    def rows(self, entry: meta.Entry, begin: int, end: int) -> np.ndarray:
        """These rows of a tensor, in memory of their own."""
        pieces = [
            self._rows_of(entry, chunk, max(begin, chunk.begin), min(end, chunk.end))
            for chunk in entry.chunks
            if chunk.begin < end and begin < chunk.end
        ]
        if not pieces:  # rows without elements are in no file, and are rows still: (5, 0) has five
            return np.empty((end - begin, *entry.shape[1:]), meta.numpy_dtype(entry.dtype))
        return np.concatenate(pieces) if entry.shape else pieces[0].copy()

    def _rows_of(self, entry: meta.Entry, chunk: meta.Chunk, begin: int, end: int) -> np.ndarray:
        array = self._chunk(entry, chunk)
        return array[begin - chunk.begin : end - chunk.begin] if entry.shape else array

    def _chunk(self, entry: meta.Entry, chunk: meta.Chunk) -> np.ndarray:
        key = (chunk.file, entry.name)
        if key not in self._chunks:
            self._chunks[key] = self._checked(entry, chunk)
        return self._chunks[key]

    def _checked(self, entry: meta.Entry, chunk: meta.Chunk) -> np.ndarray:
        where, facts = self.folder / chunk.file, self._file(chunk.file)
        tensor = facts["tensors"].get(entry.name)
        if not isinstance(tensor, Tensor):
            raise DataError(f"{where}: damaged: there is no {entry.name} in it")
        shape = (chunk.end - chunk.begin, *entry.shape[1:]) if entry.shape else ()
        if tuple(tensor.shape) != shape or tensor.dtype.name != entry.dtype:
            raise DataError(
                f"{where}: damaged: {entry.name} is {tensor.dtype.name}{list(tensor.shape)}, and "
                f"{entry.dtype}{list(shape)} is listed"
            )
        array = tensor.detach().numpy()
        crc = facts["crc32"].get(entry.name)
        if type(crc) is not int or crc != checksum(array):
            raise DataError(f"{where}: damaged: the checksum of {entry.name} is wrong")
        return array

    def _file(self, name: str) -> dict[str, Any]:
        """The file of one process, whose elements are read when they are used."""
        if name not in self._files:
            path = self.folder / name
            if not path.is_file():
                raise DataError(f"{path}: missing, and the checkpoint has a part in it")
            facts = load(path, mmap=True)
            parts = isinstance(facts, dict) and facts.keys() == {"identity", "crc32", "tensors"}
            if not parts or not all(isinstance(facts[n], dict) for n in ("crc32", "tensors")):
                raise DataError(f"{path}: no file of a checkpoint's parts")
            if type(facts["identity"]) is not str or facts["identity"] != self.metadata.identity:
                raise DataError(f"{path}: of another checkpoint")
            self._files[name] = facts
        return self._files[name]


def _is_writable(tensor: Tensor) -> bool:
    """Whether each element has a place of its own, that may be written."""
    array = tensor.detach().numpy()
    spread = any(step == 0 and n > 1 for step, n in zip(array.strides, array.shape, strict=True))
    return array.flags.writeable and not spread
