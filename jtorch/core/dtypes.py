"""Data types: PyTorch's names over NumPy's dtypes, and PyTorch's promotion.

A Python number is *weak*: it takes part with its category (bool < integer < float) and not with its
width, so ``float32_tensor * 2.0`` stays float32. A 0-d tensor is weak against tensors with axes of the
same category. Source: https://docs.pytorch.org/docs/stable/tensor_attributes.html
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import ml_dtypes
import numpy as np

from jtorch.core import watch

NAMESPACE = "jtorch"  # what dtypes print before their name; "torch" in a script run by jtorch.as_torch


class dtype:  # noqa: N801 - the name users of PyTorch know
    """One element type. ``dtype.numpy`` is the NumPy dtype that holds it."""

    __slots__ = ("is_complex", "is_floating_point", "is_signed", "itemsize", "name", "numpy")

    def __init__(self, name: str, numpy: type) -> None:
        self.name = name
        self.numpy = np.dtype(numpy)
        self.itemsize = self.numpy.itemsize
        self.is_floating_point = self.numpy.kind in "fV"
        self.is_complex = self.numpy.kind == "c"
        self.is_signed = self.numpy.kind not in "ub"

    def __repr__(self) -> str:
        return f"{NAMESPACE}.{self.name}"

    def __reduce__(self) -> str:
        return self.name

    def to_complex(self) -> dtype:
        """The complex dtype whose parts have this precision."""
        return self if self.is_complex else complex128 if self is float64 else complex64

    def to_real(self) -> dtype:
        """The dtype of the parts of this complex dtype."""
        return {complex64: float32, complex128: float64}.get(self, self)


float16 = dtype("float16", np.float16)
bfloat16 = dtype("bfloat16", ml_dtypes.bfloat16)  # to NumPy an extension type: its kind is "V"
float32 = dtype("float32", np.float32)
float64 = dtype("float64", np.float64)
complex64 = dtype("complex64", np.complex64)
complex128 = dtype("complex128", np.complex128)
int8 = dtype("int8", np.int8)
int16 = dtype("int16", np.int16)
int32 = dtype("int32", np.int32)
int64 = dtype("int64", np.int64)
uint8 = dtype("uint8", np.uint8)
uint16 = dtype("uint16", np.uint16)
uint32 = dtype("uint32", np.uint32)
uint64 = dtype("uint64", np.uint64)
bool_ = dtype("bool", np.bool_)

ALL = (
    float16, bfloat16, float32, float64, complex64, complex128, int8, int16, int32, int64, uint8, uint16,
    uint32, uint64, bool_,
)  # fmt: skip
OF_NUMPY = {d.numpy: d for d in ALL}
BFLOAT16 = bfloat16.numpy
HALVES = frozenset((float16.numpy, BFLOAT16))  # floats of 16 bits

_CATEGORY = {"b": 0, "i": 1, "u": 1, "f": 2, "V": 2, "c": 3}
_default = float32


def get_default_dtype() -> dtype:
    """The dtype of floats made from Python numbers; float32 unless changed."""
    return _default


def set_default_dtype(d: dtype) -> None:
    """Make ``d`` the default float. Raises TypeError for anything but a floating-point dtype."""
    global _default
    if not isinstance(d, dtype) or not d.is_floating_point:
        raise TypeError("only floating-point types are supported as the default type")
    before, _default = _default, d
    watch.tell_all("the default dtype", lambda: _default is before)


def of(numpy_dtype: np.dtype) -> dtype:
    """The jtorch dtype of a NumPy dtype. Raises TypeError where there is none."""
    try:
        return OF_NUMPY[numpy_dtype]
    except KeyError:
        names = ", ".join(d.name for d in ALL)
        raise TypeError(
            f"can't convert np.ndarray of type {numpy_dtype}. The only supported types are: {names}."
        ) from None


def to_numpy(d: dtype | np.dtype | type | None) -> np.dtype | None:
    """NumPy's dtype for a jtorch dtype, a NumPy dtype or one of Python's number types."""
    if d is None:
        return None
    if isinstance(d, dtype):
        return d.numpy
    return of(np.dtype(d)).numpy


def plain(value: Any) -> Any:
    """A number of NumPy's as Python's, which is weak beside tensors as it is in PyTorch; else ``value``."""
    return value.item() if isinstance(value, np.generic) else value


def of_number(value: bool | int | float | complex) -> np.dtype:
    """The dtype a Python number takes when a tensor is made of it alone."""
    if isinstance(value, bool):
        return np.dtype(np.bool_)
    if isinstance(value, complex):
        return _default.to_complex().numpy
    return np.dtype(np.int64) if isinstance(value, int) else _default.numpy


def promote(
    arrays: Iterable[tuple[np.dtype, int]], numbers: Iterable[bool | int | float | complex] = ()
) -> np.dtype:
    """PyTorch's result type of ``(dtype, ndim)`` pairs and Python numbers.

    Operands are ranked: tensors with axes, 0-d tensors, Python numbers. A lower rank decides only
    where its category is higher than all ranks above it.
    """
    dimensioned: np.dtype | None = None
    zero_dim: np.dtype | None = None
    for d, ndim in arrays:
        if ndim:
            dimensioned = d if dimensioned is None else _promote_pair(dimensioned, d)
        else:
            zero_dim = d if zero_dim is None else _promote_pair(zero_dim, d)
    result = _prefer(dimensioned, zero_dim)
    for number in numbers:
        result = _prefer(result, of_number(number))
    assert result is not None
    return result


def is_float(dtype: np.dtype) -> bool:
    """Whether it is one of floats: bfloat16 is of NumPy's kind "V"."""
    return dtype.kind == "f" or dtype == BFLOAT16


def promoted_by_numpy(dtypes: list[np.dtype]) -> np.dtype:
    """NumPy's result type where it has one; of bfloat16, which it lacks, PyTorch's."""
    if any(d.kind == "V" for d in dtypes):
        return promote((d, 1) for d in dtypes)
    return np.dtype(np.result_type(*dtypes))


def _prefer(strong: np.dtype | None, weak: np.dtype | None) -> np.dtype | None:
    if strong is None or weak is None:
        return weak if strong is None else strong
    if _CATEGORY[weak.kind] <= _CATEGORY[strong.kind]:
        return strong
    if weak.kind == "c" and _CATEGORY[strong.kind] == 2:  # float64 times 1j is complex128
        return OF_NUMPY[strong].to_complex().numpy
    return weak


def _promote_pair(a: np.dtype, b: np.dtype) -> np.dtype:
    if a is b:
        return a
    category_a, category_b = _CATEGORY[a.kind], _CATEGORY[b.kind]
    if category_a != category_b and (category_a, category_b) not in ((2, 3), (3, 2)):
        # int64 with float32 is float32, where NumPy says float64
        return a if category_a > category_b else b
    if BFLOAT16 in (a, b):  # with float16 neither holds the other
        return np.promote_types(np.float32, b if a is BFLOAT16 else a)
    return np.promote_types(a, b)


def to_float(d: np.dtype) -> np.dtype:
    """``d`` where it is a float or complex, else the default float: the rule of exp, div, mean..."""
    return d if d.kind in "fcV" else _default.numpy


# the names of dtypes in PyTorch's errors and of its early tensor types
LONG_NAMES = {
    "float16": "Half", "float32": "Float", "float64": "Double", "int64": "Long", "int32": "Int",
    "int16": "Short", "int8": "Char", "uint8": "Byte", "bool": "Bool", "uint64": "UInt64",
    "uint16": "UInt16", "uint32": "UInt32", "bfloat16": "BFloat16", "complex64": "ComplexFloat",
    "complex128": "ComplexDouble",
}  # fmt: skip
