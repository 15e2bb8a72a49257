"""Reads the pickles that CIFAR is published in, and runs nothing that a pickle may ask for.

Those files hold dicts, lists, texts, numbers and arrays of bytes. The three names of NumPy's that an array is
pickled with lead to stand-ins here, which only take bytes and a shape; every other name is an error.
"""

from __future__ import annotations

import io
import math
import pickle
from typing import Any

import numpy as np

from jtorch.core.errors import DataError


class _Array:
    """Stands for ``numpy.ndarray``: filled by the state that NumPy pickles."""

    array: np.ndarray | None = None

    def __setstate__(self, state: Any) -> None:
        _, shape, dtype, fortran, raw = state
        content = raw.encode("latin1") if isinstance(raw, str) else raw
        if not isinstance(dtype, _Dtype) or dtype.name not in ("u1", "|u1") or not isinstance(content, bytes):
            raise pickle.UnpicklingError("an array of something else than bytes")
        if len(content) != math.prod(shape):
            raise pickle.UnpicklingError(f"{len(content)} bytes for an array of shape {shape}")
        flat = np.frombuffer(content, np.uint8)
        self.array = flat.reshape(shape, order="F" if fortran else "C")


class _Dtype:
    """Stands for ``numpy.dtype``."""

    def __init__(self, name: Any, *flags: Any) -> None:
        self.name = name

    def __setstate__(self, state: Any) -> None:
        """Byte order and the like, which say nothing of bytes."""


def _reconstruct(*arguments: Any) -> _Array:
    return _Array()


def _encode(text: str, encoding: str = "latin1") -> bytes:
    """Stands for ``_codecs.encode``, by which Python 3 writes bytes into the old protocols."""
    return str(text).encode("latin1")


_STAND_INS: dict[tuple[str, str], Any] = {
    ("numpy.core.multiarray", "_reconstruct"): _reconstruct,
    ("numpy._core.multiarray", "_reconstruct"): _reconstruct,
    ("numpy", "ndarray"): _Array,
    ("numpy", "dtype"): _Dtype,
    ("_codecs", "encode"): _encode,
}


class _Unpickler(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> Any:
        found = _STAND_INS.get((module, name))
        if found is None:
            raise pickle.UnpicklingError(f"it asks for {module}.{name}")
        return found


def read_batch(content: bytes, where: str) -> dict[str, Any]:
    """The dict in the pickle. Raises DataError, naming ``where``, for anything that is not plain data."""
    try:
        found = _Unpickler(io.BytesIO(content), encoding="latin1").load()
    except Exception as error:  # a damaged pickle can raise almost anything
        raise DataError(f"{where}: not a pickle of plain data: {error}") from None
    if not isinstance(found, dict):
        raise DataError(f"{where}: holds a {type(found).__name__}, expected a dict")
    return {str(key): value.array if isinstance(value, _Array) else value for key, value in found.items()}
