"""NumPy's .npy and .npz files.

Source: https://numpy.org/doc/stable/reference/generated/numpy.lib.format.html
"""

from __future__ import annotations

import io
import math
import os
import tokenize
from typing import IO, Any

import numpy as np

from jtorch.core.errors import DataError
from jtorch.eager.public import Tensor, from_numpy
from jtorch.serialization.zipped import Archive

_LONGEST_HEADER = 10_000  # what NumPy takes by itself; no array of numbers needs more


def read_array(file: IO[bytes], where: str) -> Tensor:
    """The array of a .npy file as a tensor. Raises DataError for objects and for damage."""
    start = file.tell()
    content = bytearray(file.seek(0, os.SEEK_END) - start)
    file.seek(start)
    view = memoryview(content)
    filled = 0
    while filled < len(content):
        n = file.readinto(view[filled:]) if hasattr(file, "readinto") else 0
        if not n:
            view[filled:] = file.read(len(content) - filled).ljust(len(content) - filled, b"\0")
            break
        filled += n
    return read_record(content, where)


def read_record(content: bytearray | memoryview, where: str) -> Tensor:
    """The same for a file that is in memory: the tensor's elements stay where they are.

    So that memory is taken once, whatever the byte order: a compressed file can unpack to much.
    """
    try:
        view = memoryview(content)
        stream = io.BytesIO(view[: _LONGEST_HEADER + 16])
        shape, dtype, fortran = _header(stream)
        start, count = stream.tell(), math.prod(shape)
        if len(content) - start != count * dtype.itemsize:
            raise ValueError(f"{len(content) - start} bytes for {shape} elements of {dtype}")
        if start % dtype.alignment:
            view[: len(content) - start] = view[start:]
            start = 0
        flat = np.frombuffer(view, dtype, count, start) if count else np.empty(0, dtype)
        if not dtype.isnative:
            flat = flat.byteswap(inplace=True).view(dtype.newbyteorder("="))
        return from_numpy(flat.reshape(shape, order="F" if fortran else "C"))
    except (
        ValueError, TypeError, OverflowError, MemoryError, EOFError, SyntaxError, tokenize.TokenError,
        LookupError, AttributeError, RecursionError,
    ) as error:  # fmt: skip
        raise DataError(f"{where}: can not be read as a .npy file: {str(error)[:500]}") from None


def _header(file: IO[bytes]) -> tuple[tuple[int, ...], np.dtype, bool]:
    version = np.lib.format.read_magic(file)
    if version not in ((1, 0), (2, 0)):
        raise ValueError(f"format version {version}")
    read = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
    shape, fortran, dtype = read(file, max_header_size=_LONGEST_HEADER)
    if dtype.hasobject:
        raise ValueError("Python objects, which would be read by pickle")
    if dtype.fields or dtype.subdtype or any(n < 0 for n in shape):
        raise ValueError(f"an array of dtype {dtype} and shape {shape}")
    return shape, dtype, fortran


def read_arrays(archive: Archive) -> dict[str, Any]:
    """The tensors of a .npz file by name."""
    found = {}
    for name in archive.names:
        if not name.endswith(".npy"):
            raise DataError(
                f"{archive.where}: a zip file with {name!r} in it: neither .npz nor PyTorch's .pt"
            )
        found[name[:-4]] = read_record(archive.read(name).data, f"{archive.where}: {name}")
    return found
