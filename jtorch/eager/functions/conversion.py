"""Methods that give the elements another type.

Source: https://docs.pytorch.org/docs/stable/tensors.html
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from jtorch.core import dtypes as dt
from jtorch.eager.tensor import Tensor


def _to(dtype: dt.dtype) -> Callable[..., Tensor]:
    def method(self: Tensor, *, memory_format: Any = None) -> Tensor:
        return self.to(dtype) if memory_format is None else self.to(dtype, memory_format=memory_format)

    method.__doc__ = f"This tensor in the dtype {dtype.name}; itself where it is of that."
    return method


def type_as(self: Tensor, other: Tensor) -> Tensor:
    """This tensor in the dtype of ``other``."""
    return self.to(other.dtype)


FUNCTIONS: dict[str, Callable] = {}
METHODS: dict[str, Callable] = {
    "half": _to(dt.float16), "float": _to(dt.float32), "double": _to(dt.float64), "char": _to(dt.int8),
    "short": _to(dt.int16), "int": _to(dt.int32), "long": _to(dt.int64), "byte": _to(dt.uint8),
    "bool": _to(dt.bool_), "bfloat16": _to(dt.bfloat16), "cfloat": _to(dt.complex64),
    "cdouble": _to(dt.complex128), "type_as": type_as,
}  # fmt: skip
