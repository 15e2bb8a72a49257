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

from jtorch.eager.creation import from_numpy
from jtorch.errors import DataError
from jtorch.serialization.structure import Reader, Writer
from jtorch.serialization.torch_names import dtype_named

_KEY = "jtorch"  # the metadata entry that holds the structure
_PAIRS = "jtorch.pairs"  # names of tensors that are complex128, which safetensors lacks: stored as pairs
_DTYPES = {
    "F64": "float64", "F32": "float32", "F16": "float16", "BF16": "bfloat16", "I64": "int64", "I32": "int32",
    "I16": "int16", "I8": "int8", "U64": "uint64", "U32": "uint32", "U16": "uint16", "U8": "uint8",
    "BOOL": "bool", "C64": "complex64",
}  # fmt: skip


def to_bytes(obj: Any) -> bytes:
    """The file that holds ``obj``. Raises TypeError for what it can't hold."""
    from safetensors.numpy import save

    writer = Writer()
    metadata = {_KEY: writer.write(obj)}
    arrays = dict(writer.tensors)
    pairs = [name for name, array in arrays.items() if array.dtype == np.complex128]
    if pairs:
        metadata[_PAIRS] = json.dumps(pairs)
        arrays.update({k: arrays[k][..., np.newaxis].view(np.float64) for k in pairs})
    return save(arrays, metadata)


def read(file: IO[bytes], path: Path | None, where: str, mmap: bool) -> Any:
    """The object in the file; where another writer made it, the dict of its tensors."""
    from safetensors import SafetensorError

    size = -1
    try:
        header, content = _open(file, path)
        size = content.size
        arrays = {k: _array(k, v, content, mmap) for k, v in header.items() if k != "__metadata__"}
        metadata = header.get("__metadata__", {})
        for name in json.loads(metadata.get(_PAIRS, "[]")):
            arrays[name] = arrays[name].view(np.complex128)[..., 0]
    except NotImplementedError as error:
        raise NotImplementedError(f"{where}: {error}") from None
    except (
        SafetensorError, ValueError, TypeError, LookupError, MemoryError, OSError, RecursionError,
    ) as error:  # fmt: skip
        told = f" ({size} bytes)" if size >= 0 else ""
        raise DataError(f"{where}: can not be read as a safetensors file{told}: {str(error)[:500]}") from None
    if _KEY not in metadata:
        return {name: from_numpy(array) for name, array in arrays.items()}
    return Reader(where, arrays).read(metadata[_KEY])


def _open(file: IO[bytes], path: Path | None) -> tuple[dict[str, Any], np.ndarray]:
    """(header, the bytes after it), checked by safetensors: names, offsets, overlaps, lengths."""
    from safetensors import deserialize, safe_open

    if path is None:
        data = file.read()
        deserialize(data)
        whole = np.frombuffer(bytearray(data), np.uint8)
    else:
        with safe_open(str(path), framework="numpy"):
            whole = np.memmap(path, np.uint8, mode="c")
    end = 8 + int.from_bytes(whole[:8].tobytes(), "little")
    return json.loads(whole[8:end].tobytes()), whole[end:]


def _array(name: str, entry: dict[str, Any], content: np.ndarray, mmap: bool) -> np.ndarray:
    dtype = dtype_named(_DTYPES.get(entry["dtype"], entry["dtype"]), f"tensor {name!r}").numpy
    begin, end = entry["data_offsets"]
    shape = tuple(entry["shape"])
    if end - begin != math.prod(shape) * dtype.itemsize:
        raise ValueError(f"tensor {name!r} of shape {shape} in {end - begin} bytes")
    part = content[begin:end]
    if mmap and content.__array_interface__["data"][0] % 8 == 0:
        return part.view(np.ndarray).view(dtype).reshape(shape)
    return np.frombuffer(bytearray(part), dtype).reshape(shape)
