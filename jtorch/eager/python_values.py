"""Python's numbers and nested lists as what ops compute with: weak operands, and arrays for new tensors."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from jtorch.core import dtypes as dt
from jtorch.core.dim import is_symbolic
from jtorch.eager.data_errors import check_fits, refusal
from jtorch.eager.tensor import Tensor

_LIMITS = {
    np.dtype(f"{kind}{size}"): (int(np.iinfo(f"{kind}{size}").min), int(np.iinfo(f"{kind}{size}").max))
    for kind in "iu"
    for size in (1, 2, 4)
}


def wrap_number(value: bool | int | float | complex, target: np.dtype) -> Any:
    """A Python number as an operand next to arrays of ``target``: NumPy keeps it weak by itself."""
    if is_symbolic(value):
        return value
    if target.kind == "f":
        return float(value)  # type: ignore[arg-type]
    if target.kind in "Vc":  # what is weak beside NumPy's own dtypes is not beside ml_dtypes'
        return target.type(value)
    if target.kind == "b":
        return value
    value = int(value)  # type: ignore[arg-type]
    limits = _LIMITS.get(target)
    if limits is None or limits[0] <= value <= limits[1]:
        return value
    if not -(2**63) <= value < 2**63:
        sign = "int too big to convert" if value > 0 else "can't convert negative int to unsigned"
        raise OverflowError(sign)
    low, high = limits  # it wraps, as in PyTorch: 300 beside uint8 is 44, where NumPy would raise
    return (value - low) % (high - low + 1) + low


def as_tensor_data(value: Any, dtype: Any = None) -> np.ndarray:
    """A NumPy array of PyTorch's dtype for nested numbers: float32 and int64 by default."""
    wanted = dt.to_numpy(dtype)
    if isinstance(value, (np.ndarray, np.generic)) and value.dtype.kind in "OSUMm":
        dt.of(value.dtype)  # raises: to NumPy None is NaN, and "1" is 1
    if isinstance(value, np.ndarray):
        return np.array(value, dtype=wanted or dt.of(value.dtype).numpy)
    if isinstance(value, np.generic):
        return np.array(value, dtype=wanted)
    if isinstance(value, Sequence) and not isinstance(value, (list, tuple, str)):
        value = list(value)  # a range, and whatever else has numbers in order
    plain = _plain(value)
    try:
        array = np.asarray(plain)
    except ValueError:
        raise refusal(value) from None
    if array.dtype.kind not in "biufc":
        numbers = _with_numbers(value)
        if numbers is value:
            raise refusal(value)
        return as_tensor_data(numbers, dtype)
    if wanted is None:
        found = _element_dtypes(value) if array.size else {dt.get_default_dtype().numpy}
        wanted = dt.of(dt.promote((d, 1) for d in found)).numpy
        if array.dtype.kind == "u" and array.dtype.itemsize == 8 and wanted.kind == "i":
            raise ValueError("Overflow when unpacking long long")
    check_fits(array, wanted)
    return np.array(array, dtype=wanted)


def _with_numbers(value: Any) -> Any:
    """Nested lists with the numbers of this recording in the places of runtime scalars."""
    if isinstance(value, (list, tuple)):
        parts = [_with_numbers(v) for v in value]
        return value if all(a is b for a, b in zip(parts, value, strict=True)) else parts
    return float(value) if hasattr(value, "as_runtime_scalar") else value


def _element_dtypes(value: Any) -> set[np.dtype]:
    """The dtypes in nested lists: arrays, tensors and NumPy's numbers have their own."""
    if isinstance(value, (list, tuple)):
        kinds = set(map(type, value))
        if kinds <= {bool, int, float, complex}:  # the long ones, without a look at every element
            return {dt.of_number(kind()) for kind in kinds}
        return {d for v in value for d in _element_dtypes(v)}
    if isinstance(value, Tensor):
        return {value._data.dtype}
    return {value.dtype if hasattr(value, "dtype") else dt.of_number(value)}


def _plain(value: Any) -> Any:
    """Nested lists with tensors in them as nested lists of numbers."""
    if isinstance(value, Tensor):
        return value.tolist()
    if isinstance(value, (list, tuple)):
        rows = len(value) > 0 and isinstance(value[0], (list, tuple, np.ndarray))
        return [_number(v) if isinstance(v, Tensor) and not rows else _plain(v) for v in value]
    return value


def _number(element: Tensor) -> Any:
    """What a tensor stands for among numbers: ``tensor([tensor([1.0]), 2.0])`` has two."""
    if element._data.size != 1:
        raise ValueError("only one element tensors can be converted to Python scalars")
    return element.item()
