"""The range and precision of dtypes, and what a value is: ``finfo``, ``iinfo``, ``is_tensor``...

Source: https://docs.pytorch.org/docs/stable/type_info.html
"""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np

from jtorch.core import dtypes as dt
from jtorch.eager.storage import UntypedStorage
from jtorch.eager.tensor import Tensor


class finfo:  # noqa: N801 - the name users of PyTorch know
    """The limits of a floating-point dtype; those of its parts for a complex one. TypeError for others."""

    __slots__ = ("bits", "dtype", "eps", "max", "min", "resolution", "smallest_normal", "tiny")

    def __init__(self, type: dt.dtype | None = None) -> None:
        real = (dt.get_default_dtype() if type is None else type).to_real()
        if not real.is_floating_point:
            raise TypeError(
                "torch.finfo() requires a floating point input type. Use torch.iinfo to handle 'torch.finfo'"
            )
        info: Any = ml_dtypes.finfo(real.numpy) if real is dt.bfloat16 else np.finfo(real.numpy)
        self.bits = 8 * real.itemsize
        self.dtype = real.name
        self.eps, self.max, self.min = float(info.eps), float(info.max), float(info.min)
        self.smallest_normal = self.tiny = float(info.smallest_normal)
        self.resolution = float(f"{float(info.resolution):.0e}")

    def __repr__(self) -> str:
        names = ("resolution", "min", "max", "eps", "smallest_normal", "tiny")
        values = ", ".join(f"{name}={getattr(self, name):g}" for name in names)
        return f"finfo({values}, dtype={self.dtype})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, finfo) and self.dtype == other.dtype

    def __hash__(self) -> int:
        return hash(("finfo", self.dtype))


class iinfo:  # noqa: N801
    """The limits of an integer dtype. Raises TypeError for others."""

    __slots__ = ("bits", "dtype", "max", "min")

    def __init__(self, type: dt.dtype) -> None:
        if type is dt.bool_:
            raise TypeError("torch.bool is not supported by torch.iinfo")
        if type.numpy.kind not in "iu":
            raise TypeError(
                "torch.iinfo() requires an integer input type. Use torch.finfo to handle 'torch.iinfo'"
            )
        limits: Any = np.iinfo
        info = limits(type.numpy)
        self.bits, self.dtype = info.bits, type.name
        self.max, self.min = int(info.max), int(info.min)

    def __repr__(self) -> str:
        return f"iinfo(min={self.min:g}, max={self.max:g}, dtype={self.dtype})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, iinfo) and self.dtype == other.dtype

    def __hash__(self) -> int:
        return hash(("iinfo", self.dtype))


def is_storage(obj: Any, /) -> bool:
    """Whether ``obj`` is the memory under a tensor.

    >>> import jtorch
    >>> jtorch.is_storage(jtorch.tensor([1]).untyped_storage()), jtorch.is_storage(jtorch.tensor([1]))
    (True, False)
    """
    return isinstance(obj, UntypedStorage)


def typename(obj: Any, /) -> str:
    """The name of the type of ``obj``; of a tensor, that of its elements: "torch.FloatTensor".

    >>> import jtorch
    >>> jtorch.typename(jtorch.tensor([1])), jtorch.typename("a")
    ('torch.LongTensor', 'str')
    """
    if isinstance(obj, Tensor):
        return str(obj.type())
    kind = obj if hasattr(obj, "__qualname__") else type(obj)
    module = getattr(kind, "__module__", None) or ""
    return kind.__qualname__ if module in ("", "builtins") else f"{module}.{kind.__qualname__}"


def _result_type(value: Any) -> tuple[list, list]:
    if isinstance(value, Tensor):
        return [(value._data.dtype, value.ndim)], []
    return [], [value]


def result_type(
    tensor: Any = None, other: Any = None, *, scalar: Any = None, scalar1: Any = None, scalar2: Any = None
) -> dt.dtype:
    """The dtype of an arithmetic result of two tensors or numbers.

    By keyword they are ``tensor`` and ``other``, ``scalar`` and ``tensor``, or ``scalar1`` and ``scalar2``.

    >>> import jtorch
    >>> jtorch.result_type(jtorch.tensor([1, 2]), 1.5) == jtorch.float32
    True
    """
    given = [v for v in (tensor, other, scalar, scalar1, scalar2) if v is not None]
    if len(given) != 2:
        raise TypeError(f"result_type() takes two tensors or numbers, got {len(given)}")
    tensor1, tensor2 = given
    arrays, numbers = zip(*map(_result_type, (tensor1, tensor2)), strict=True)
    return dt.of(dt.promote([a for found in arrays for a in found], [n for found in numbers for n in found]))


def promote_types(type1: dt.dtype, type2: dt.dtype) -> dt.dtype:
    """The smallest dtype that holds what both do.

    >>> import jtorch
    >>> jtorch.promote_types(jtorch.int64, jtorch.float32) == jtorch.float32
    True
    """
    return dt.of(dt.promote([(type1.numpy, 1), (type2.numpy, 1)]))


_ORDER = {"b": 0, "u": 1, "i": 1, "f": 2, "V": 2, "c": 3}


def can_cast(from_: dt.dtype, to: dt.dtype) -> bool:
    """Whether results of ``from_`` may be written to ``to``: never to a lower category.

    >>> import jtorch
    >>> jtorch.can_cast(jtorch.int64, jtorch.float32), jtorch.can_cast(jtorch.float32, jtorch.int64)
    (True, False)
    """
    return _ORDER[from_.numpy.kind] <= _ORDER[to.numpy.kind]
