"""NumPy's .npy and .npz files.

Source: https://numpy.org/doc/stable/reference/generated/numpy.lib.format.html
"""

from __future__ import annotations

import io
import math
import tokenize
from typing import IO, Any

import numpy as np

from jtorch.eager.creation import from_numpy
from jtorch.eager.tensor import Tensor
from jtorch.errors import DataError
from jtorch.serialization.zipped import Archive

_LONGEST_HEADER = 10_000  # what NumPy takes by itself; no array of numbers needs more


def read_array(file: IO[bytes], where: str) -> Tensor:
    """The array of a .npy file as a tensor. Raises DataError for objects and for damage."""
    try:
        shape, dtype, fortran = _header(file)
        content = file.read()
        if len(content) != math.prod(shape) * dtype.itemsize:
            raise ValueError(f"{len(content)} bytes for {shape} elements of {dtype}")
        flat = np.frombuffer(bytearray(content), dtype)
        array = flat.reshape(shape, order="F" if fortran else "C")
        array = array.astype(dtype.newbyteorder("="), copy=False)
        return from_numpy(array)
    except (
        ValueError, TypeError, OverflowError, MemoryError, EOFError, SyntaxError, tokenize.TokenError,
    ) as error:  # fmt: skip
        raise DataError(f"{where}: can not be read as a .npy file: {error}") from None


def _header(file: IO[bytes]) -> tuple[tuple[int, ...], np.dtype, bool]:
    version = np.lib.format.read_magic(file)
    if version not in ((1, 0), (2, 0)):
        raise ValueError(f"format version {version}")
    read = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
    shape, fortran, dtype = read(file, max_header_size=_LONGEST_HEADER)
    if dtype.hasobject:
        raise ValueError("Python objects, which would be read by pickle")
    if dtype.fields or any(n < 0 for n in shape):
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
        found[name[:-4]] = read_array(io.BytesIO(archive.read(name)), f"{archive.where}: {name}")
    return found
