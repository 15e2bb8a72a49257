"""What a checkpoint is made of: a folder with one file of parts for each process, and a file that lists them.

That file, ``.metadata``, comes last and at once, by a rename. A folder without it is no checkpoint, and while
one is replaced it names the files of the old one, which are removed after the rename. All files
are safetensors files of ``jtorch.save``: nothing in them is code.
"""

from __future__ import annotations

import io
import re
import zlib
from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple, NoReturn

import numpy as np

from jtorch.core.dtypes import ALL
from jtorch.core.errors import DataError
from jtorch.eager.public import Tensor, from_numpy
from jtorch.serialization import load, tensors as safetensors

NAME = ".metadata"
_FORMAT, _VERSION = "jtorch.distributed.checkpoint", 2  # 1 had no checksum of the list
PART = re.compile(r"[0-9a-f]{16}-\d{1,6}\.safetensors")
_DTYPES = {dtype.name: dtype for dtype in ALL}


class Chunk(NamedTuple):
    """Rows ``begin`` to ``end`` of a tensor, and the file that they are in. A 0-d tensor is one row."""

    begin: int
    end: int
    file: str


class Entry(NamedTuple):
    """One tensor: its path, the name that its chunks have in their files, what it is, and where it lies."""

    path: tuple[Any, ...]
    name: str
    shape: tuple[int, ...]
    dtype: str
    chunks: list[Chunk]


class Metadata(NamedTuple):
    """The list of a checkpoint's tensors, and its other values by path."""

    identity: str  # what the names of its files begin with
    tensors: dict[tuple[Any, ...], Entry]
    values: dict[tuple[Any, ...], Any]


def rows_in(shape: tuple[int, ...]) -> int:
    """How many rows a tensor has: one without an axis, none where it has no elements."""
    if not shape:
        return 1
    return shape[0] if all(shape) else 0


def numpy_dtype(name: str) -> np.dtype:
    """NumPy's dtype of the elements of an entry."""
    return _DTYPES[name].numpy


def to_bytes(metadata: Metadata) -> bytes:
    """The file ``.metadata``: the list as a safetensors file of its own, in the outer one with its checksum,
    since one digit of a value that changed would make another value."""
    content = safetensors.to_bytes(_plain(metadata), whole=True)
    facts = {
        "format": _FORMAT, "version": _VERSION, "crc32": zlib.crc32(content),
        "list": from_numpy(np.frombuffer(content, np.uint8).copy()),
    }  # fmt: skip
    return safetensors.to_bytes(facts, whole=True)


def read(path: Path) -> Metadata:
    """What ``to_bytes`` made and ``path`` holds; DataError for what no writer of it made."""
    check, facts = _Check(path), load(path)
    check(isinstance(facts, dict) and facts.get("format") == _FORMAT, "not the list of a checkpoint")
    check(facts.get("version") == _VERSION, f"of version {facts.get('version')!r}, expected {_VERSION}")
    array = facts.get("list")
    check(isinstance(array, Tensor) and array.dtype.name == "uint8" and array.dim() == 1, "there is no list")
    content = array.numpy().tobytes()
    crc = facts.get("crc32")
    check(type(crc) is int and crc == zlib.crc32(content), "the checksum of the list is wrong")
    try:
        inner = load(io.BytesIO(content))
    except DataError as error:
        check.fail(str(error))
    return _parsed(inner, check)


def _plain(metadata: Metadata) -> dict[str, Any]:
    tensors = [
        {
            **entry._asdict(), "path": list(entry.path), "shape": list(entry.shape),
            "chunks": [list(chunk) for chunk in entry.chunks],
        }
        for entry in metadata.tensors.values()
    ]  # fmt: skip
    values = [[list(path), value] for path, value in metadata.values.items()]
    return {"identity": metadata.identity, "tensors": tensors, "values": values}


def _parsed(facts: Any, check: _Check) -> Metadata:
    check(isinstance(facts, dict), "its list is no dict")
    identity = facts.get("identity")
    check(isinstance(identity, str) and re.fullmatch("[0-9a-f]{16}", identity), "it has no identity")
    for name in ("tensors", "values"):
        check(isinstance(facts.get(name), list), f"its {name} are no list")
    entries = [check.entry(each, identity) for each in facts["tensors"]]
    values = [check.value(each) for each in facts["values"]]
    tensors = {entry.path: entry for entry in entries}
    names = {entry.name for entry in entries}
    check(len(tensors) == len(entries) == len(names), "a tensor is listed twice")
    paths = [*tensors, *(path for path, _ in values)]
    check(len(set(paths)) == len(paths), "a value is listed twice")
    check(not inner_paths(paths), "a tensor or value has others in it")
    return Metadata(identity, tensors, dict(values))


def inner_paths(paths: Iterable[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
    """Those under which other paths lie, which no one dict can have."""
    ends = set(paths)
    above = {path[:k] for path in ends for k in range(1, len(path))}
    return [path for path in ends if path in above]


class _Check:
    """Refuses what is not as ``_plain`` makes it, by a DataError that names the file."""

    def __init__(self, where: Path) -> None:
        self.where = where

    def __call__(self, holds: Any, why: str) -> None:
        if not holds:
            self.fail(why)

    def fail(self, why: str) -> NoReturn:
        raise DataError(f"{self.where}: damaged, or no file of a checkpoint: {why}")

    def entry(self, facts: Any, identity: str) -> Entry:
        self(isinstance(facts, dict) and facts.keys() == set(Entry._fields), "a tensor without its facts")
        path, name = self.path(facts["path"]), facts["name"]
        self(isinstance(name, str), "a tensor without a name")
        shape = facts["shape"]
        sizes = isinstance(shape, list) and all(type(n) is int and n >= 0 for n in shape)
        self(sizes, f"the shape of {name}")
        self(isinstance(facts["dtype"], str) and facts["dtype"] in _DTYPES, f"the dtype of {name}")
        self(isinstance(facts["chunks"], list), f"the chunks of {name}")
        chunks = [self.chunk(each, name, identity) for each in facts["chunks"]]
        self.cover(chunks, rows_in(tuple(shape)), name)
        return Entry(path, name, tuple(shape), facts["dtype"], chunks)

    def path(self, steps: Any) -> tuple[Any, ...]:
        own = isinstance(steps, list) and steps and all(type(s) in (str, int) for s in steps)
        self(own, "a path without steps, or of other ones than strings and ints")
        return tuple(steps)

    def chunk(self, facts: Any, name: str, identity: str) -> Chunk:
        self(isinstance(facts, list) and len(facts) == 3, f"a chunk of {name}")
        begin, end, file = facts
        self(type(begin) is int and type(end) is int, f"the rows of a chunk of {name}")
        own = isinstance(file, str) and PART.fullmatch(file) and file.startswith(identity)
        self(own, f"the file of a chunk of {name}")  # nothing outside the folder can be named
        return Chunk(begin, end, file)

    def cover(self, chunks: list[Chunk], rows: int, name: str) -> None:
        place = 0
        for chunk in chunks:
            self(chunk.begin == place and chunk.end > place, f"the chunks of {name} don't follow each other")
            place = chunk.end
        self(place == rows, f"the chunks of {name} have {place} rows of {rows}")

    def value(self, facts: Any) -> tuple[tuple[Any, ...], Any]:
        self(isinstance(facts, list) and len(facts) == 2, "a value without its path")
        return self.path(facts[0]), facts[1]
