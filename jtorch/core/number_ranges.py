"""Which of Python's numbers a dtype can hold, and PyTorch's error for the others.

What is computed with a number wraps around or becomes infinite, as in NumPy; PyTorch refuses it where the
number is turned into an element first: what fills, bounds, scales and exponents of integers.
"""

from __future__ import annotations

import math
from typing import Any

import ml_dtypes
import numpy as np

from jtorch.core import dtypes as dt

_C_NAMES = {
    "float16": "c10::Half",
    "bfloat16": "c10::BFloat16",
    "float32": "float",
    "float64": "double",
    "int32": "int",
}
_LIMITS: dict[np.dtype, Any] = {
    d.numpy: float(ml_dtypes.finfo(d.numpy).max) for d in (dt.float16, dt.bfloat16, dt.float32)
}
_LIMITS |= {np.dtype(f"{kind}{n}"): int(np.iinfo(f"{kind}{n}").max) for kind in "iu" for n in (1, 2, 4, 8)}
_FLOAT32 = np.dtype(np.float32)
PLAIN: frozenset[Any] = frozenset((int, float))  # of these, numbers from -128 to 127 fit nearly everywhere

_NUMBERS = (int, float, complex, np.number, np.bool_, ml_dtypes.bfloat16)


def number_type(value: Any) -> type:
    """The type of a number, or of the one that what a recording handles stands for."""
    found: type = getattr(value, "as_runtime_scalar", value).__class__  # a symbol's is int or float
    return found


def is_number(value: Any) -> bool:
    """Whether ``value`` is a real number of Python's, or stands for one in a recording: of the latter
    ``isinstance(value, float)`` is False in jtorch's own code, and what is checked after it would be lost."""
    return isinstance(value, (int, float)) or hasattr(value, "as_runtime_scalar")


def is_one_number(value: Any) -> bool:
    """The same of NumPy's real numbers, too: whether an op can check its range."""
    return (
        is_number(value) or isinstance(value, (np.floating, np.integer)) or getattr(value, "is_number", False)
    )


def is_operand(value: Any) -> bool:
    """Whether it is a number or holds some: NumPy makes numbers of other things, and of None nan."""
    dtype = getattr(value, "dtype", None)
    if dtype is not None:
        return getattr(dtype, "kind", "f") not in "OSUMm"
    return isinstance(value, (int, float, complex)) or hasattr(value, "as_runtime_scalar")


def answers_first(value: Any, method: str, kind: type) -> bool:
    """Whether Python asks ``value``, on the right of a number of this ``kind``, before it, or it alone:
    one of a class derived from its, or from float, which has a reflected ``method`` of its own."""
    cls = type(value)
    if cls in PLAIN or issubclass(cls, np.generic):
        return False
    base = next((b for b in (kind, float) if issubclass(cls, b)), None)
    return base is not None and getattr(cls, method) is not getattr(base, method)


def whole(value: Any) -> Any:
    """A number without what stands behind its point, as integers take it; of what is an integer nothing is
    asked, which a recording may not know."""
    return value if number_type(value) is int else int(value)


def check_number(value: Any, dtype: np.dtype) -> None:
    """Raise PyTorch's error for a number that no element of ``dtype`` can be: as the fill value of a mask,
    -1e9 would be -inf in float16. Infinities are numbers of floats alone; a negative integer wraps around in
    an unsigned dtype."""
    if value.__class__ in PLAIN and 0 <= value <= 127:  # nearly all that fill anything
        return
    if not fits(value, dtype):
        raise RuntimeError(f"value cannot be converted to type {c_name(dtype)} without overflow")


def fits(value: Any, dtype: np.dtype) -> bool:
    """Whether an element of ``dtype`` can be ``value``, a number or something else."""
    if value.__class__ not in PLAIN:
        if isinstance(value, complex):
            return dtype.kind == "c"
        kind = number_type(value)
        if kind is not float and (kind is not int or dtype.itemsize == 8):
            return True  # no number, or an integer of a recording's, which has 64 bits itself
    limit = _LIMITS.get(dtype)
    if limit is None:
        return True
    least = _least(limit, dtype.kind, value)
    floats = dtype.kind in "fV"
    if hasattr(value, "in_range"):
        return bool(value.in_range(least, limit, or_infinite=floats))
    return least <= value <= limit or (floats and not math.isfinite(value))


def _least(limit: Any, kind: str, value: Any) -> Any:
    if kind == "u" and number_type(value) is float:
        return 0
    return -limit - 1 if kind == "i" else -limit


def c_name(dtype: np.dtype) -> str:
    return _C_NAMES.get(dtype.name, f"{dtype.name}_t")


def check_factor(value: Any, dtype: np.dtype) -> None:
    """The same for a factor of what is computed in float32 where ``dtype`` has 16 bits."""
    check_number(value, _FLOAT32 if dtype.kind in "fV" and dtype.itemsize == 2 else dtype)


def rounded_number(value: float, dtype: np.dtype) -> float:
    """``value`` as a number that takes part in what is computed in ``dtype``, or in float32 for 16 bits:
    infinite where it is beyond."""
    if dtype.itemsize >= 8 or abs(value) <= _LIMITS[_FLOAT32]:
        return value
    return math.copysign(math.inf, value) if value == value else value


def require_number(value: Any, place: str = "the value") -> None:
    """Raise PyTorch's TypeError for what is no number: to NumPy None is NaN, and "1" is 1."""
    if value.__class__ not in PLAIN and not issubclass(number_type(value), _NUMBERS):
        raise TypeError(f"{place} must be Number, not {type(value).__name__}")


def element(value: Any, dtype: np.dtype, place: str = "the value") -> Any:
    """``value``, a number, as NumPy takes it for an element of ``dtype``. Raises as ``require_number`` and
    ``check_number`` do."""
    require_number(value, place)
    check_number(value, dtype)
    if dtype.kind == "u" and value.__class__ is int and value < 0:
        return value + 2 ** (8 * dtype.itemsize)
    return value


def check_parameters(tensor: Any, *numbers: Any) -> None:
    """The same for numbers that a formula of floats is computed with."""
    for value in numbers:
        if not (value.__class__ in PLAIN and -128 <= value <= 127):
            dtype = tensor.dtype.numpy
            if dtype.kind in "fV":
                check_real(value, dtype)
                check_factor(value, dtype)


def check_real(value: Any, dtype: np.dtype) -> None:
    """Raise PyTorch's RuntimeError for a complex number, which no element of ``dtype`` can be."""
    if number_type(value) is complex:
        raise RuntimeError(f"value cannot be converted to type {c_name(dtype)} without overflow")


def largest(dtype: np.dtype) -> float:
    """The largest finite number of a dtype of floats."""
    return _LIMITS.get(dtype, float(np.finfo(np.float64).max))


def check_scalar(value: Any, dtype: np.dtype) -> None:
    """The same for what PyTorch makes a 0-d tensor of first, where it does not look at 16 bits."""
    if not (dtype.kind in "fV" and dtype.itemsize == 2):
        check_number(value, dtype)


def check_beside(tensor: Any, *numbers: Any) -> None:
    """The same for numbers that become elements of the dtype that they have together with ``tensor``; None
    and tensors among them are not looked at."""
    given = [n for n in numbers if number_type(n) in (int, float)]
    if given:
        shown = [getattr(n, "as_runtime_scalar", n) for n in given]
        target = dt.promote([(tensor.dtype.numpy, 1)], shown)
        for number in given:
            check_number(number, target)
