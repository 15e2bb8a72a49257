"""Why nested data cannot be a tensor's, in PyTorch's words."""

from __future__ import annotations

from typing import Any

import numpy as np


def refusal(data: Any) -> Exception:
    """The error for nested data that NumPy made no array of numbers of."""
    if isinstance(data, str):
        return TypeError("new(): invalid data type 'str'")
    lengths = []
    inner = data
    while isinstance(inner, (list, tuple)) and len(inner):
        lengths.append(len(inner))
        inner = inner[0]
    return (
        _ragged(data, lengths, 0)
        or _no_number(data)
        or ValueError(f"could not make a tensor of {type(data).__name__}: not numbers of one shape")
    )


def _ragged(data: Any, lengths: list[int], dim: int) -> Exception | None:
    """The first list whose length is not that of the first ones at its depth."""
    if dim == len(lengths):
        return None
    if not isinstance(data, (list, tuple)):
        return TypeError(f"expected a sequence at dim {dim}, got {type(data).__name__}")
    if len(data) != lengths[dim]:
        return ValueError(f"expected sequence of length {lengths[dim]} at dim {dim} (got {len(data)})")
    found = (_ragged(part, lengths, dim + 1) for part in data)
    return next((error for error in found if error is not None), None)


def _no_number(data: Any) -> Exception | None:
    if isinstance(data, (list, tuple)):
        found = (_no_number(part) for part in data)
        return next((error for error in found if error is not None), None)
    if isinstance(data, str):
        return ValueError(f"too many dimensions '{type(data).__name__}'")
    if isinstance(data, int):  # too large a one, or it would have been an array
        return ValueError("Overflow when unpacking long long")
    return (
        None
        if isinstance(data, (float, complex))
        else RuntimeError(f"Could not infer dtype of {type(data).__name__}")
    )


def check_fits(array: np.ndarray, wanted: np.dtype) -> None:
    """Raise where Python's numbers don't fit ``wanted``: NumPy would wrap them around.

    A negative integer in an unsigned type wraps, as in PyTorch.
    """
    if array.dtype.kind == "c" and wanted.kind in "fViu":
        raise TypeError("must be real number, not complex")
    if wanted.kind not in "iu" or array.dtype == wanted or not array.size or array.dtype.kind == "b":
        return
    most = int(np.iinfo(wanted).max)
    least = int(np.iinfo(wanted).min)
    if wanted.kind == "u" and array.dtype.kind in "iu":
        least = -most
    low, high = array.min().item(), array.max().item()
    if not (least <= low and high <= most):
        raise RuntimeError(f"value cannot be converted to type {wanted.name} without overflow")
