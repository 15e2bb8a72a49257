"""Arrays in files of the IDX format.

Source: LeCun, Cortes and Burges, http://yann.lecun.com/exdb/mnist/, which describes it at its end.
"""

from __future__ import annotations

import math
import struct

import numpy as np

from jtorch.core.errors import DataError

_IDX_DTYPES = {
    0x08: "u1", 0x09: "i1", 0x0B: ">i2", 0x0C: ">i4", 0x0D: ">f4", 0x0E: ">f8",
}  # fmt: skip


def read_idx(content: bytes, where: str = "IDX data") -> np.ndarray:
    """The array in the bytes of an IDX file. Raises DataError, naming ``where``, for anything else.

    The format: two zero bytes, a type code, the number of dims, each dim as a big-endian uint32, the
    elements in row-major order.
    """
    if len(content) < 4 or content[:2] != b"\0\0" or content[2] not in _IDX_DTYPES:
        raise DataError(
            f"{where}: not an IDX file: it begins with {content[:4].hex(' ') or 'nothing'}, expected "
            "00 00, a type code and the number of dims"
        )
    ndim = content[3]
    start = 4 + 4 * ndim
    if len(content) < start:
        raise DataError(f"{where}: cut off in the header: {len(content)} bytes, expected at least {start}")
    shape = struct.unpack(f">{ndim}I", content[4:start])
    dtype = np.dtype(_IDX_DTYPES[content[2]])
    expected = start + math.prod(shape) * dtype.itemsize
    if len(content) != expected:
        raise DataError(
            f"{where}: {len(content)} bytes, expected {expected} for shape {list(shape)} of {dtype.name}"
        )
    elements = np.frombuffer(content, dtype, offset=start).reshape(shape)
    return elements.astype(dtype.newbyteorder("="))
