"""Safetensors files, written with a structure beside the tensors, and read with or without one.

The tensors are the file's tensors, named by their place ("model.0.weight"), so any safetensors reader sees
them; the structure around them is JSON in the file's metadata. Parsing is safetensors' own.
Source of the format: https://github.com/huggingface/safetensors#format
"""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import IO, Any

import numpy as np

from jtorch.core.errors import DataError
from jtorch.serialization.memory import NotPlainError
from jtorch.serialization.placing import Places
from jtorch.serialization.structure import RESERVED, Reader, Writer, check_unfolding
from jtorch.serialization.torch_names import dtype_named

_KEY = "jtorch"  # the metadata entry that holds the structure
_PAIRS = "jtorch.pairs"  # names of tensors that are complex128, which safetensors lacks: stored as pairs
_MOST_TENSORS = 200_000  # each takes 1.9 KB to read, though it may have 52 bytes in the file
_DTYPES = {
    "F64": "float64", "F32": "float32", "F16": "float16", "BF16": "bfloat16", "I64": "int64", "I32": "int32",
    "I16": "int16", "I8": "int8", "U64": "uint64", "U32": "uint32", "U16": "uint16", "U8": "uint8",
    "BOOL": "bool", "C64": "complex64",
}  # fmt: skip


def to_bytes(obj: Any, whole: bool = False) -> bytes:
    """The file that holds ``obj``. Raises TypeError for what it can't hold, or reading would refuse.

    What hangs on a tensor is left out, as safetensors' own writers do, or where ``whole`` a TypeError.
    """
    writer = Writer(whole)
    try:
        return _written(writer, writer.write(obj))
    except ValueError as error:
        raise NotPlainError(
            f"jtorch.save: too much beside the elements of tensors for safetensors: {error}. Make tensors of "
            "long lists of numbers, or save with format='torch'"
        ) from None


def _written(writer: Writer, structure: str) -> bytes:
    from safetensors.numpy import save

    metadata = {_KEY: structure}
    arrays = dict(writer.tensors)
    pairs = [name for name, array in arrays.items() if array.dtype == np.complex128]
    if pairs:
        metadata[_PAIRS] = json.dumps(pairs)
        arrays.update({k: arrays[k][..., np.newaxis].view(np.float64) for k in pairs})
    content = save(arrays, metadata)
    check_unfolding(content[8 : _end(content)])
    _check_count(len(arrays) + 1)
    return content


def read(file: IO[bytes], path: Path | None, where: str, mmap: bool, places: Places) -> Any:
    """The object in the file; where another writer made it, the dict of its tensors."""
    from safetensors import SafetensorError

    size = -1
    try:
        header, content = _open(file, path)
        size = content.size
        arrays = {k: _array(k, v, content, mmap) for k, v in header.items() if k != RESERVED}
        metadata = header.get(RESERVED, {})
        pairs = metadata.get(_PAIRS, "[]")
        check_unfolding(pairs.encode())
        for name in json.loads(pairs):
            arrays[name] = arrays[name].view(np.complex128)[..., 0]
    except NotImplementedError as error:
        raise NotImplementedError(f"{where}: {error}") from None
    except (
        SafetensorError, ValueError, TypeError, LookupError, MemoryError, OSError, RecursionError,
    ) as error:  # fmt: skip
        told = f" ({size} bytes)" if size >= 0 else ""
        raise DataError(f"{where}: can not be read as a safetensors file{told}: {str(error)[:500]}") from None
    if _KEY not in metadata:
        return {name: places.loaded(array, array) for name, array in arrays.items()}
    return Reader(where, arrays, places).read(metadata[_KEY])


def _open(file: IO[bytes], path: Path | None) -> tuple[dict[str, Any], np.ndarray]:
    """(header, the bytes after it), checked by safetensors: names, offsets, overlaps, lengths."""
    from safetensors import deserialize, safe_open

    if path is None:
        data = file.read()
        header = _parsed(data[8 : _end(data)])
        deserialize(data)
        whole = np.frombuffer(bytearray(data), np.uint8)
    else:
        whole = np.memmap(path, np.uint8, mode="c")
        header = _parsed(whole[8 : _end(whole[:8])].tobytes())
        with safe_open(str(path), framework="numpy"):
            pass
    return header, whole[_end(whole[:8]) :]


def _end(content: Any) -> int:
    """Where the header ends that begins with its length; safetensors reads no longer one than this."""
    return 8 + min(int.from_bytes(bytes(content[:8]), "little"), 100_000_001)


def _parsed(text: bytes) -> dict[str, Any]:
    """The header, before safetensors looks at it: which builds an object for each entry, however many."""
    check_unfolding(text)
    header = json.loads(text.decode())  # of bytes it would guess the encoding, and import that
    if not isinstance(header, dict):
        raise ValueError("a header that is no object")
    _check_count(len(header))
    return header


def _check_count(tensors: int) -> None:
    if tensors > _MOST_TENSORS:
        raise ValueError(f"{tensors} tensors")


def _array(name: str, entry: dict[str, Any], content: np.ndarray, mmap: bool) -> np.ndarray:
    dtype = dtype_named(_DTYPES.get(entry["dtype"], entry["dtype"]), f"tensor {name!r}").numpy
    begin, end = entry["data_offsets"]
    shape = tuple(entry["shape"])
    if end - begin != math.prod(shape) * dtype.itemsize:
        raise ValueError(f"tensor {name!r} of shape {shape} in {end - begin} bytes")
    part = content[begin:end]
    if mmap and content.__array_interface__["data"][0] % 8 == 0:
        return part.view(np.ndarray).view(dtype).reshape(shape)
    return np.array(part, subok=False).view(dtype).reshape(shape)  # memory of its own: a storage
