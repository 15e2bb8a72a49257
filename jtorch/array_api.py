"""A subset of the Python array API standard, version 2024.12, over tensors.

``tensor.__array_namespace__()`` is this module, so code written against the standard runs on tensors,
gradients and compiling included. Claimed, with the standard's names and meaning:

* data types and their functions: all real dtypes of the standard but complex ones; ``astype can_cast finfo
  iinfo isdtype result_type``;
* creation: ``arange asarray empty empty_like eye from_dlpack full full_like linspace ones ones_like tril triu
  zeros zeros_like``;
* element by element: the names in ``ELEMENTWISE``;
* ``all any argmax argmin max mean min prod std sum var sort argsort take where matmul matrix_transpose
  vecdot``;
* ``broadcast_to broadcast_arrays concat expand_dims flip moveaxis permute_dims reshape squeeze stack
  unstack``;
* the constants and ``__array_namespace_info__``.

Everything else, the ``linalg`` and ``fft`` extensions among it, is an AttributeError. Dtypes mix by
PyTorch's rules, which agree with the standard's wherever that has one. Source:
https://data-apis.org/array-api/2024.12/
"""

from __future__ import annotations

import builtins
import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

import jtorch
from jtorch.core import dtypes as dt
from jtorch.core.devices import CPU, device
from jtorch.core.dtypes import (
    bool_ as bool,
    float32,
    float64,
    int8,
    int16,
    int32,
    int64,
    uint8,
    uint16,
    uint32,
    uint64,
)
from jtorch.eager.tensor import Tensor

__array_api_version__ = "2024.12"
e, pi, inf, nan, newaxis = math.e, math.pi, math.inf, math.nan, None
_VERSIONS = ("2021.12", "2022.12", "2023.12", "2024.12")

# the standard's name -> jtorch's
ELEMENTWISE = {
    name: name
    for name in (
        "abs", "add", "ceil", "cos", "exp", "expm1", "floor", "isfinite", "isinf", "isnan", "log", "log1p",
        "log2", "log10", "logical_and", "logical_not", "logical_or", "maximum", "minimum", "pow",
        "reciprocal", "remainder", "round", "sign", "sin", "sqrt", "square", "tanh", "trunc",
    )
} | {
    "divide": "div", "equal": "eq", "floor_divide": "floor_divide", "greater": "gt", "greater_equal": "ge",
    "less": "lt", "less_equal": "le", "multiply": "mul", "negative": "neg", "not_equal": "ne",
    "subtract": "sub",
}  # fmt: skip
_SAME = (
    "asarray", "from_dlpack", "full_like", "ones_like", "zeros_like", "empty_like", "where", "arange",
)  # fmt: skip
globals().update({name: getattr(jtorch, ours) for name, ours in ELEMENTWISE.items()})
globals().update({name: getattr(jtorch, name) for name in _SAME})


def check_version(version: str | None) -> None:
    """Raise ValueError for a version of the standard that is not followed here."""
    if version is not None and version not in _VERSIONS:
        raise ValueError(
            f"unsupported version of the array API: {version!r}; there are {', '.join(_VERSIONS)}"
        )


# -- creation ----------------------------------------------------------------------------------------------


def _shape(shape: int | Sequence[int]) -> tuple[int, ...]:
    return (shape,) if isinstance(shape, int) else tuple(shape)


def zeros(shape: Any, *, dtype: Any = None, device: Any = None) -> Tensor:
    return jtorch.zeros(_shape(shape), dtype=dtype, device=device)


def ones(shape: Any, *, dtype: Any = None, device: Any = None) -> Tensor:
    return jtorch.ones(_shape(shape), dtype=dtype, device=device)


def empty(shape: Any, *, dtype: Any = None, device: Any = None) -> Tensor:
    return jtorch.empty(_shape(shape), dtype=dtype, device=device)


def full(shape: Any, fill_value: Any, *, dtype: Any = None, device: Any = None) -> Tensor:
    return jtorch.full(_shape(shape), fill_value, dtype=dtype, device=device)


def eye(
    n_rows: int, n_cols: int | None = None, /, *, k: int = 0, dtype: Any = None, device: Any = None
) -> Tensor:
    """Ones on the ``k``-th diagonal."""
    jtorch.device(device or "cpu")
    columns = n_rows if n_cols is None else n_cols
    return jtorch.tensor(np.eye(n_rows, columns, k), dtype=dtype or dt.get_default_dtype())


def linspace(
    start: float, stop: float, /, num: int, *, dtype: Any = None, device: Any = None, endpoint: Any = True
) -> Tensor:  # fmt: skip
    """``num`` evenly spaced numbers, the last one ``stop`` where ``endpoint``."""
    jtorch.device(device or "cpu")
    values = np.linspace(start, stop, num, endpoint=endpoint)
    return jtorch.tensor(values, dtype=dtype or dt.get_default_dtype())


def tril(x: Tensor, /, *, k: int = 0) -> Tensor:
    return jtorch.tril(x, k)


def triu(x: Tensor, /, *, k: int = 0) -> Tensor:
    return jtorch.triu(x, k)


# -- data types --------------------------------------------------------------------------------------------


class _FloatInfo(NamedTuple):
    bits: int
    eps: float
    max: float
    min: float
    smallest_normal: float
    dtype: dt.dtype


class _IntInfo(NamedTuple):
    bits: int
    max: int
    min: int
    dtype: dt.dtype


_KINDS = {
    "bool": (bool,), "signed integer": (int8, int16, int32, int64),
    "unsigned integer": (uint8, uint16, uint32, uint64),
    "real floating": (float32, float64), "complex floating": (),
}  # fmt: skip
_KINDS["integral"] = _KINDS["signed integer"] + _KINDS["unsigned integer"]
_KINDS["numeric"] = _KINDS["integral"] + _KINDS["real floating"]


def finfo(type: Any, /) -> _FloatInfo:
    """The limits of a floating-point dtype."""
    found = _dtype_of(type)
    facts = np.finfo(found.numpy)
    numbers = [float(v) for v in (facts.eps, facts.max, facts.min, facts.smallest_normal)]
    return _FloatInfo(facts.bits, numbers[0], numbers[1], numbers[2], numbers[3], found)


def iinfo(type: Any, /) -> _IntInfo:
    """The limits of an integer dtype."""
    found = _dtype_of(type)
    facts: Any = np.iinfo(found.numpy)  # type: ignore[type-var]
    return _IntInfo(facts.bits, int(facts.max), int(facts.min), found)


def _dtype_of(value: Any) -> dt.dtype:
    return value.dtype if isinstance(value, Tensor) else value


def isdtype(dtype: dt.dtype, kind: Any) -> Any:
    """Whether ``dtype`` is a dtype, of a kind ("integral", "real floating"...), or any of a tuple of such."""
    if isinstance(kind, tuple):
        return builtins.any(isdtype(dtype, k) for k in kind)
    if isinstance(kind, str):
        if kind not in _KINDS:
            raise ValueError(f"isdtype: unknown kind {kind!r}; there are {', '.join(_KINDS)}")
        return dtype in _KINDS[kind]
    return dtype is kind


def result_type(*arrays_and_dtypes: Any) -> dt.dtype:
    """The dtype that tensors, dtypes and numbers mix to."""
    numbers = [v for v in arrays_and_dtypes if isinstance(v, (int, float))]
    typed = [(_dtype_of(v).numpy, 1) for v in arrays_and_dtypes if not isinstance(v, (int, float))]
    return dt.of(dt.promote(typed, numbers))


def can_cast(from_: Any, to: dt.dtype, /) -> Any:
    """Whether mixing with ``to`` gives ``to``."""
    return result_type(_dtype_of(from_), to) is to


def astype(x: Tensor, dtype: dt.dtype, /, *, copy: Any = True, device: Any = None) -> Tensor:
    return x.to(dtype=dtype, copy=copy, device=device)


# -- over axes ---------------------------------------------------------------------------------------------


def _all_axes(x: Tensor, axis: Any) -> tuple[int, ...]:
    if axis is None:
        return tuple(range(x.ndim))
    return (axis,) if isinstance(axis, int) else tuple(axis)


def _reduced(name: str, x: Tensor, axis: Any, keepdims: Any, **options: Any) -> Tensor:
    """A reduction over one axis, several, none of them or, for None, all."""
    axes = _all_axes(x, axis)
    if not axes:
        return x
    return getattr(jtorch, name)(x, dim=axes, keepdim=keepdims, **options)


def _one_by_one(name: str, x: Tensor, axis: Any, keepdims: Any) -> Tensor:
    """A reduction that jtorch has along one axis only."""
    for k in sorted((a % x.ndim for a in _all_axes(x, axis)), reverse=True):
        x = getattr(jtorch, name)(x, dim=k, keepdim=keepdims)
    return x


def sum(x: Tensor, /, *, axis: Any = None, dtype: Any = None, keepdims: Any = False) -> Tensor:
    return _reduced("sum", _summable(x, dtype), axis, keepdims)


def prod(x: Tensor, /, *, axis: Any = None, dtype: Any = None, keepdims: Any = False) -> Tensor:
    return _one_by_one("prod", _summable(x, dtype), axis, keepdims)


def _summable(x: Tensor, dtype: Any) -> Tensor:
    """Small ints are summed as int64, unsigned ones as uint64: the standard's default."""
    if dtype is None and not x.dtype.is_floating_point:
        dtype = uint64 if x.dtype in _KINDS["unsigned integer"] else int64
    return x if dtype is None else x.to(dtype)


def mean(x: Tensor, /, *, axis: Any = None, keepdims: Any = False) -> Tensor:
    return _reduced("mean", x, axis, keepdims)


def var(x: Tensor, /, *, axis: Any = None, correction: float = 0.0, keepdims: Any = False) -> Tensor:
    return _reduced("var", x, axis, keepdims, correction=correction)


def std(x: Tensor, /, *, axis: Any = None, correction: float = 0.0, keepdims: Any = False) -> Tensor:
    return _reduced("std", x, axis, keepdims, correction=correction)


def max(x: Tensor, /, *, axis: Any = None, keepdims: Any = False) -> Tensor:
    return _reduced("amax", x, axis, keepdims)


def min(x: Tensor, /, *, axis: Any = None, keepdims: Any = False) -> Tensor:
    return _reduced("amin", x, axis, keepdims)


def all(x: Tensor, /, *, axis: Any = None, keepdims: Any = False) -> Tensor:
    return _one_by_one("all", x.bool(), axis, keepdims)


def any(x: Tensor, /, *, axis: Any = None, keepdims: Any = False) -> Tensor:
    return _one_by_one("any", x.bool(), axis, keepdims)


def argmax(x: Tensor, /, *, axis: int | None = None, keepdims: Any = False) -> Tensor:
    return jtorch.argmax(x, dim=axis, keepdim=keepdims)


def argmin(x: Tensor, /, *, axis: int | None = None, keepdims: Any = False) -> Tensor:
    return jtorch.argmin(x, dim=axis, keepdim=keepdims)


def sort(x: Tensor, /, *, axis: int = -1, descending: Any = False, stable: Any = True) -> Tensor:
    return jtorch.sort(x, dim=axis, descending=descending)[0]


def argsort(x: Tensor, /, *, axis: int = -1, descending: Any = False, stable: Any = True) -> Tensor:
    return jtorch.argsort(x, dim=axis, descending=descending)


# -- products and places -----------------------------------------------------------------------------------


def matmul(x1: Tensor, x2: Tensor, /) -> Tensor:
    mixed = result_type(x1, x2)
    return jtorch.matmul(x1.to(mixed), x2.to(mixed))


def matrix_transpose(x: Tensor, /) -> Tensor:
    return jtorch.transpose(x, -2, -1)


def vecdot(x1: Tensor, x2: Tensor, /, *, axis: int = -1) -> Tensor:
    """The dot products of vectors along ``axis``."""
    return jtorch.sum(x1 * x2, dim=axis)


def take(x: Tensor, indices: Tensor, /, *, axis: int | None = None) -> Tensor:
    if axis is None and x.ndim != 1:
        raise ValueError(f"take: axis is needed for {x.ndim} dimensions")
    return jtorch.index_select(x, 0 if axis is None else axis, indices)


def broadcast_to(x: Tensor, /, shape: Sequence[int]) -> Tensor:
    return x.expand(*shape)


def broadcast_arrays(*arrays: Tensor) -> list[Tensor]:
    shape = np.broadcast_shapes(*(tuple(x.shape) for x in arrays))
    return [x.expand(*shape) for x in arrays]


def concat(arrays: Sequence[Tensor], /, *, axis: int | None = 0) -> Tensor:
    mixed = result_type(*arrays)
    same = [x.to(mixed) for x in arrays]
    return jtorch.cat([x.reshape(-1) for x in same] if axis is None else same, 0 if axis is None else axis)


def stack(arrays: Sequence[Tensor], /, *, axis: int = 0) -> Tensor:
    mixed = result_type(*arrays)
    return jtorch.stack([x.to(mixed) for x in arrays], axis)


def unstack(x: Tensor, /, *, axis: int = 0) -> tuple[Tensor, ...]:
    return tuple(jtorch.unbind(x, axis))


def expand_dims(x: Tensor, /, *, axis: int = 0) -> Tensor:
    return jtorch.unsqueeze(x, axis)


def flip(x: Tensor, /, *, axis: Any = None) -> Tensor:
    return jtorch.flip(x, _all_axes(x, axis))


def moveaxis(x: Tensor, source: Any, destination: Any, /) -> Tensor:
    """Axes at ``source`` put at ``destination``, the others in their order."""
    sources = [k % x.ndim for k in _all_axes(x, source)]
    targets = [k % x.ndim for k in _all_axes(x, destination)]
    order = [k for k in range(x.ndim) if k not in sources]
    for target, k in sorted(zip(targets, sources, strict=True)):
        order.insert(target, k)
    return jtorch.permute(x, order)


def permute_dims(x: Tensor, /, axes: Sequence[int]) -> Tensor:
    return jtorch.permute(x, axes)


def reshape(x: Tensor, /, shape: Sequence[int], *, copy: Any = None) -> Tensor:
    """``x`` in another shape. Raises ValueError where ``copy=False`` can't be had."""
    if copy is False:
        try:
            return x.view(*shape)
        except RuntimeError as error:
            raise ValueError(f"reshape: only a copy has the shape {tuple(shape)}: {error}") from None
    return jtorch.reshape(x.clone() if copy else x, tuple(shape))


def squeeze(x: Tensor, /, axis: Any) -> Tensor:
    """Without axes of length 1. Raises ValueError for one that is longer."""
    axes = sorted((k % x.ndim for k in _all_axes(x, axis)), reverse=True)
    for k in axes:
        if x.shape[k] != 1:
            raise ValueError(f"squeeze: axis {k} has length {x.shape[k]}")
        x = jtorch.squeeze(x, k)
    return x


# -- inspection --------------------------------------------------------------------------------------------


class _Info:
    """What this namespace can do. Source: https://data-apis.org/array-api/2024.12/API_specification/inspection.html"""

    def capabilities(self) -> dict[str, Any]:
        return {"boolean indexing": True, "data-dependent shapes": True, "max dimensions": 64}

    def default_device(self) -> device:
        return CPU

    def devices(self) -> list[device]:
        return [CPU]

    def default_dtypes(self, *, device: Any = None) -> dict[str, dt.dtype]:
        real = dt.get_default_dtype()
        return {
            "real floating": real,
            "complex floating": real.to_complex(),
            "integral": int64,
            "indexing": int64,
        }

    def dtypes(self, *, device: Any = None, kind: Any = None) -> dict[str, dt.dtype]:
        claimed = _KINDS["bool"] + _KINDS["numeric"]
        return {d.name: d for d in claimed if kind is None or isdtype(d, kind)}


def __array_namespace_info__() -> _Info:  # noqa: N807 - the standard's name
    return _Info()
