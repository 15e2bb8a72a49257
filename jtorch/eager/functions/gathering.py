"""Reading and writing along a dim at places that a tensor of integers names.

Source: https://docs.pytorch.org/docs/stable/torch.html#indexing-slicing-joining-mutating-ops
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np

from jtorch import dtypes as dt
from jtorch import op as op_module
from jtorch.dtypes import bool_, int32, int64
from jtorch.eager.binding import APPLY
from jtorch.eager.indexing import index_put, index_put_
from jtorch.eager.inplace import in_place_function
from jtorch.eager.messages import long_name
from jtorch.eager.tensor import Tensor, _concrete, wrap
from jtorch.ops import axes as ax
from jtorch.ops.placing import extreme_of

_INT = np.dtype(np.int64)


def positions(shape: Any, axis: int) -> Tensor:
    """The position along ``axis``, in ``shape``."""
    return wrap(op_module.CONTEXT.get().xp.iota(shape=tuple(shape), axis=axis, dtype=_INT))


def _long(index: Tensor, name: str, words: str = "Expected dtype int32/int64 for index") -> Tensor:
    if index.dtype is int64:
        return index
    if index.dtype is not int32:
        raise RuntimeError(f"{name}(): {words}")
    return index.to(int64)


def _place(name: str, error: type[Exception], *arrays: Any, **statics: Any) -> Tensor:
    """The op ``name``, whose complaint about an index comes as ``error``."""
    try:
        return APPLY[name](*arrays, **statics)
    except IndexError as wrong:
        raise error(str(wrong)) from None


def _lifted(function: Callable) -> Callable:
    """``function(input, dim, index, ...)`` for tensors without dims, too: they count as having one."""

    def lifted(input: Tensor, dim: int, index: Tensor, *rest: Any, **options: Any) -> Tensor:
        if input.ndim and index.ndim:
            return function(input, dim, index, *rest, **options)
        given = [t.reshape(1) if isinstance(t, Tensor) and not t.ndim else t for t in (input, index, *rest)]
        options = {k: t.reshape(1) if isinstance(t, Tensor) and not t.ndim else t for k, t in options.items()}
        out = function(given[0], dim, given[1], *given[2:], **options)
        scalar = not index.ndim if function is gather else not input.ndim
        return out.reshape(()) if scalar else out

    lifted.__name__ = lifted.__qualname__ = function.__name__
    lifted.__doc__ = function.__doc__
    return lifted


# -- one place per element -----------------------------------------------------------------------------------


def gather(input: Tensor, dim: int, index: Tensor, *, sparse_grad: bool = False) -> Tensor:
    """``out[i, j] = input[index[i, j], j]`` for dim 0, and so on. ``index`` is int64 or int32.

    >>> import jtorch
    >>> rows = jtorch.tensor([[10, 20], [30, 40]])
    >>> jtorch.gather(rows, 1, jtorch.tensor([[1], [0]])).tolist()
    [[20], [30]]
    """
    if sparse_grad:
        raise NotImplementedError("gather(): sparse_grad=True: jtorch has no sparse tensors")
    axis = ax.one(dim, input.ndim)
    index = _long(index, "gather")
    if index.ndim != input.ndim:
        raise RuntimeError("Index tensor must have the same number of dimensions as input tensor")
    for k, (n, m) in enumerate(zip(index.shape, input.shape, strict=True)):
        if n > m and k != axis:
            raise RuntimeError(
                f"Size does not match at dimension {k} expected index {list(index.shape)} to be no larger "
                f"than self {list(input.shape)} apart from dimension {axis}"
            )
    return _place("gather", RuntimeError, input, index, axis=axis)


def _check_scatter(name: str, input: Tensor, axis: int, index: Tensor, src: Tensor | None) -> None:
    if index.ndim != input.ndim:
        raise RuntimeError("Index tensor must have the same number of dimensions as self tensor")
    if src is not None:
        if src.dtype is not input.dtype:
            raise RuntimeError(f"{name}(): Expected self.dtype to be equal to src.dtype")
        if src.ndim != index.ndim:
            raise RuntimeError("Index tensor must have the same number of dimensions as src tensor")
    if not index.numel():
        return
    larger = any(n > m for k, (n, m) in enumerate(zip(index.shape, input.shape, strict=True)) if k != axis)
    beyond = src is not None and any(n > m for n, m in zip(index.shape, src.shape, strict=True))
    if larger or beyond:
        tail = f" and to be no larger size than src {list(src.shape)}" if src is not None else ""
        raise RuntimeError(
            f"Expected index {list(index.shape)} to be no larger than self {list(input.shape)} apart from "
            f"dimension {axis}{tail}"
        )


def _prepared(
    name: str, input: Tensor, dim: int, index: Tensor, src: Any
) -> tuple[int, Tensor, Tensor]:
    """(axis, index as int64, the part of ``src`` that ``index`` uses)"""
    axis = ax.one(dim, input.ndim)
    index = _long(index, name)
    if not isinstance(src, Tensor) or (name == "scatter" and src.ndim == 0 and input.ndim):
        _check_scatter(name, input, axis, index, None)
        return axis, index, _filled(index.shape, src, input)
    _check_scatter(name, input, axis, index, src)
    if src.shape != index.shape:
        stop = tuple(index.shape)
        src = APPLY["slice"](src, start=(0,) * src.ndim, stop=stop, step=(1,) * src.ndim)
    return axis, index, src


def _filled(shape: Any, value: Any, like: Tensor) -> Tensor:
    if isinstance(value, Tensor):
        return value.to(like.dtype).expand(*shape)
    xp = op_module.CONTEXT.get().xp
    return wrap(xp.full(value, shape=tuple(shape), dtype=like._data.dtype))


def scatter(
    input: Tensor, dim: int, index: Tensor, src: Any = None, *, value: Any = None, reduce: str | None = None
) -> Tensor:
    """``input`` with ``out[index[i, j], j] = src[i, j]`` for dim 0, and so on; ``src`` may be one number.

    ``reduce`` is None, "add" or "multiply". Where places repeat, the last value stays.
    """
    src = value if src is None else src
    if reduce not in (None, "add", "multiply"):
        raise RuntimeError("reduce argument must be either add or multiply.")
    axis, index, part = _prepared("scatter", input, dim, index, src)
    if reduce == "add":
        return _place("scatter_add", RuntimeError, input, index, part, axis=axis)
    if reduce == "multiply":
        return _combined(input, axis, index, part, "prod", True)
    return _place("scatter", RuntimeError, input, index, part, axis=axis)


def scatter_add(input: Tensor, dim: int, index: Tensor, src: Tensor) -> Tensor:
    """``input`` with ``src[i, j]`` added at ``[index[i, j], j]`` for dim 0, and so on."""
    axis, index, part = _prepared("scatter", input, dim, index, src)
    return _place("scatter_add", RuntimeError, input, index, part, axis=axis)


def scatter_reduce(
    input: Tensor, dim: int, index: Tensor, src: Tensor, reduce: str, *, include_self: bool = True
) -> Tensor:
    """What ``src`` sends to each place, reduced by "sum", "prod", "mean", "amax" or "amin".

    Without ``include_self`` what stood at a place that something is sent to takes no part.
    """
    if reduce not in ("sum", "prod", "mean", "amax", "amin"):
        raise RuntimeError(f"reduce argument must be either sum, prod, mean, amax or amin, got {reduce}")
    axis, index, part = _prepared("scatter", input, dim, index, src)
    if reduce in ("sum", "mean"):
        facts = {"axis": axis, "mean": reduce == "mean", "include_self": include_self}
        return _place("scatter_reduce", RuntimeError, input, index, part, **facts)
    return _combined(input, axis, index, part, reduce, include_self)


def _combined(
    input: Tensor, axis: int, index: Tensor, src: Tensor, reduce: str, include_self: bool
) -> Tensor:
    places = [index if k == axis else positions(index.shape, k) for k in range(index.ndim)]
    axes = tuple(range(len(places)))
    if not include_self:
        neutral = 1 if reduce == "prod" else extreme_of(input._data.dtype, reduce)
        start = _filled(index.shape, neutral, input)
        input = _place("index_put", RuntimeError, input, start, *places, axes=axes)
    return _place("index_combine", RuntimeError, input, src, *places, axes=axes, reduce=reduce)


def take_along_dim(input: Tensor, indices: Tensor, dim: int | None = None) -> Tensor:
    """``gather`` with ``input`` and ``indices`` broadcast along the other dims; flat without ``dim``."""
    if dim is None:
        return gather(input.reshape(-1), 0, _wrapped(indices.reshape(-1), input.numel()))
    axis = ax.one(dim, input.ndim)
    if input.ndim != indices.ndim:
        raise RuntimeError(
            f"torch.take_along_dim(): input and indices should have the same number of dimensions, but got "
            f"{input.ndim} dimensions for input, and {indices.ndim} dimensions for indices"
        )
    common = np.broadcast_shapes(
        *(tuple(1 if k == axis else n for k, n in enumerate(t.shape)) for t in (input, indices))
    )
    wide = [t.expand(*common[:axis], t.shape[axis], *common[axis + 1 :]) for t in (input, indices)]
    return gather(wide[0], axis, wide[1])


def _wrapped(index: Tensor, n: int) -> Tensor:
    """Indices with the negative ones counted from the end."""
    return APPLY["where"](APPLY["lt"](index, 0), index + n, index)


def take(input: Tensor, index: Tensor) -> Tensor:
    """The elements of the flattened ``input`` at ``index``, in the shape of ``index``."""
    if index.dtype is not int64:
        raise RuntimeError(f"take(): Expected a long tensor for index, but got {_long_of(index)}")
    n = input.numel()
    flat = _wrapped(index.reshape(-1), n)
    try:
        return APPLY["index_select"](input.reshape(-1), flat, axis=0).reshape(index.shape)
    except IndexError as error:
        wrong = str(error).split()[1]
        raise IndexError(
            f"out of range: tried to access index {wrong} on a tensor of {n} elements."
        ) from None


def _put(input: Tensor, index: Tensor, source: Tensor, accumulate: bool = False) -> Tensor:
    """``input`` with its flattened elements at ``index`` replaced by ``source`` (or added to)."""
    if index.dtype is not int64:
        raise RuntimeError(f"put_(): Expected a long tensor for index, but got {_long_of(index)}")
    if source.dtype is not input.dtype:
        raise RuntimeError(
            "put_(): self and source expected to have the same dtype, but got self.dtype = "
            f"{long_name(input._data.dtype)} and source.dtype = {long_name(source._data.dtype)}"
        )
    if index.numel() != source.numel():
        raise IndexError(
            "put_(): Expected source and index to have the same number of elements, but got source.numel() = "
            f"{source.numel()}, index.numel() = {index.numel()}"
        )
    flat, places = input.reshape(-1), _wrapped(index.reshape(-1), input.numel())
    values = source.reshape(-1)
    if accumulate:
        out = APPLY["index_accumulate"](flat, places, values, axis=0, alpha=1)
    else:
        out = APPLY["index_copy"](flat, places, values, axis=0)
    return out.reshape(input.shape)


def put(input: Tensor, index: Tensor, source: Tensor, accumulate: bool = False) -> Tensor:
    """``input`` with its flattened elements at ``index`` replaced by ``source`` (or added to)."""
    return _put(input, index, source, accumulate)


# -- one place per position of a dim
# ---------------------------------------------------------------------------


def index_select(input: Tensor, dim: int, index: Tensor) -> Tensor:
    """The positions ``index`` (a vector of int64 or int32) of ``dim``."""
    axis = ax.one(dim, input.ndim)
    if index.ndim > 1:
        raise IndexError("index_select(): Index is supposed to be a vector")
    index = _long(index, "index_select", "Expected dtype int32 or int64 for index")
    try:
        return APPLY["index_select"](input, index, axis=axis)
    except IndexError:
        raise IndexError("index out of range in self") from None


def index_add(input: Tensor, dim: int, index: Tensor, source: Tensor, *, alpha: Any = 1) -> Tensor:
    """``input`` with ``alpha source[i]`` added at position ``index[i]`` of ``dim``."""
    axis = ax.one(dim, input.ndim)
    index = _long(index, "index_add_", "Expected dtype int32/int64 for index")
    if index.ndim > 1:
        raise IndexError(f"index_add_(): Index is supposed to be a vector, but got dim: {index.ndim}")
    if source.dtype is not input.dtype:
        raise RuntimeError(
            f"index_add_(): self ({long_name(input._data.dtype)}) and source "
            f"({long_name(source._data.dtype)}) must have the same scalar type"
        )
    if source.shape[axis] != index.numel():
        raise RuntimeError(
            f"index_add_(): Number of indices ({index.numel()}) should be equal to source.size(dim): "
            f"({source.shape[axis]}), for dim: {dim}"
        )
    if _without(source, axis) != _without(input, axis):
        raise RuntimeError(
            "source tensor shape must match self tensor shape, excluding the specified dimension. Got "
            f"self.shape = {list(input.shape)} source.shape = {list(source.shape)}"
        )
    return _place("index_accumulate", RuntimeError, input, index, source, axis=axis, alpha=alpha)


def _without(tensor: Tensor, axis: int) -> tuple[int, ...]:
    return tuple(n for k, n in enumerate(tensor.shape) if k != axis)


def index_copy(input: Tensor, dim: int, index: Tensor, source: Tensor) -> Tensor:
    """``input`` with position ``index[i]`` of ``dim`` replaced by ``source[i]``."""
    axis = ax.one(dim, input.ndim)
    if index.ndim > 1:
        raise IndexError(f"index_copy_(): Index should have dimension 1 or 0 (got {index.ndim})")
    if index.dtype is not int64:
        raise IndexError("index_copy_(): Expected a long tensor for index, but got " + _long_of(index))
    if source.dtype is not input.dtype:
        raise RuntimeError(
            "index_copy_(): self and source expected to have the same dtype, but got (self) "
            f"{_long_of(input)} and (source) {_long_of(source)}"
        )
    if source.shape[axis] != index.numel():
        raise IndexError(
            f"index_copy_(): Number of indices ({index.numel()}) should be equal to source.size(dim) "
            f"({source.shape[axis]})"
        )
    if _without(source, axis) != _without(input, axis):
        raise RuntimeError(
            "index_copy_(): Source/destination tensor must have same slice shapes. Destination slice shape: "
            f"{' '.join(map(str, _without(input, axis)))} at dimension {axis} and source slice shape: "
            f"{' '.join(map(str, _without(source, axis)))} at dimension {axis}."
        )
    try:
        return APPLY["index_copy"](input, index, source, axis=axis)
    except IndexError as error:
        raise IndexError(f"index_copy_(): {error}") from None


def _long_of(tensor: Tensor) -> str:
    return long_name(tensor._data.dtype)


def index_fill(input: Tensor, dim: int, index: Tensor, value: Any) -> Tensor:
    """``input`` with the number ``value`` (or 0-d tensor) at the positions ``index`` of ``dim``."""
    axis = ax.one(dim, input.ndim)
    if isinstance(value, Tensor) and value.ndim:
        raise RuntimeError(
            f"index_fill_ only supports a 0-dimensional value tensor, but got tensor with {value.ndim} "
            "dimension(s)."
        )
    if index.dtype not in (int64, int32):
        raise IndexError("index_fill_(): Expected dtype int64 for index.")
    if index.ndim > 1:
        raise IndexError("Index has to be a vector/scalar")
    shape = (*input.shape[:axis], index.numel(), *input.shape[axis + 1 :])
    places = _wrapped(index.to(int64), input.shape[axis])
    return APPLY["index_copy"](input, places, _filled(shape, value, input), axis=axis)


# -- masks
# -----------------------------------------------------------------------------------------------------


def masked_fill(input: Tensor, mask: Tensor, value: Any) -> Tensor:
    """``input`` with ``value`` where ``mask`` (bool, broadcast) holds."""
    if mask.dtype is not bool_:
        name = {"int32": "int", "uint8": "unsigned char", "int64": "long int", "float32": "float"}.get(
            mask.dtype.name, mask.dtype.name
        )
        raise RuntimeError(f"masked_fill_ only supports boolean masks, but got mask with dtype {name}")
    if isinstance(value, Tensor):
        if value.ndim:
            raise RuntimeError(
                f"masked_fill_ only supports a 0-dimensional value tensor, but got tensor with {value.ndim} "
                "dimension(s)."
            )
        value = value.to(input.dtype)
    elif not input.is_floating_point() and isinstance(value, float):
        if input.dtype is not bool_ and (value != int(value) if math.isfinite(value) else True):
            raise RuntimeError(f"value cannot be converted to type {input.dtype.name}_t without overflow")
        value = bool(value) if input.dtype is bool_ else int(value)
    if input.dtype is bool_ and not isinstance(value, Tensor):
        value = bool(value)
    return APPLY["where"](mask, value, input)


def masked_select(input: Tensor, mask: Tensor) -> Tensor:
    """The elements where ``mask`` holds, as a vector; both are broadcast."""
    if mask.dtype is not bool_:
        raise RuntimeError("masked_select: expected BoolTensor for mask")
    shape = np.broadcast_shapes(tuple(input.shape), tuple(mask.shape))
    return input.expand(*shape)[mask.expand(*shape)]


def masked_scatter(input: Tensor, mask: Tensor, source: Tensor) -> Tensor:
    """``input`` with the elements of ``source``, in order, where ``mask`` (bool, broadcast) holds."""
    if mask.dtype is not bool_:
        raise RuntimeError(
            f"masked_scatter_ only supports boolean masks, but got mask with dtype {_long_of(mask)}"
        )
    if source.dtype is not input.dtype:
        raise RuntimeError(
            "masked_scatter_: expected self and source to have same dtypes but got "
            f"{_long_of(input)} and {_long_of(source)}"
        )
    shape = np.broadcast_shapes(tuple(input.shape), tuple(mask.shape))
    places = np.flatnonzero(_concrete(mask.expand(*shape), "masked_scatter()"))
    if places.size > source.numel():
        raise RuntimeError("Number of elements of source < number of ones in mask")
    values = source.reshape(-1)[: places.size]
    flat = input.expand(*shape).reshape(-1)
    return APPLY["index_copy"](flat, wrap(places), values, axis=0).reshape(shape)


def nonzero(input: Tensor, *, as_tuple: bool = False) -> Any:
    """The positions of elements that are not 0: (count, ndim) of int64, or one vector a dim."""
    found = np.nonzero(np.atleast_1d(_concrete(input, "nonzero()")))
    if as_tuple:
        return tuple(wrap(p) for p in found)
    if not input.ndim:
        return wrap(np.zeros((found[0].size, 0), _INT))
    return wrap(np.stack(found, 1)) if input.ndim else wrap(found[0][:, None])


def argwhere(input: Tensor) -> Tensor:
    """The positions of elements that are not 0, as (count, ndim) of int64."""
    return nonzero(input)


def where(condition: Tensor, input: Any = None, other: Any = None) -> Any:
    """``input`` where ``condition`` holds, else ``other``; with ``condition`` alone its ``nonzero``."""
    if input is None and other is None:
        return nonzero(condition, as_tuple=True)
    if condition._data.dtype.kind != "b":
        if condition._data.dtype != np.uint8:
            raise RuntimeError(
                "where expected condition to be a boolean tensor, but got a tensor with dtype "
                f"{_long_of(condition)}"
            )
        warnings.warn(
            "where received a uint8 condition tensor. This behavior is deprecated and will be removed in a "
            "future version of PyTorch. Use a boolean condition instead.",
            UserWarning,
            stacklevel=2,
        )
        condition = condition.to(bool_)
    if not isinstance(input, Tensor) and not isinstance(other, Tensor):  # two numbers alone are not weak
        input = wrap(np.full((), input, dt.promote((), (input, other))))
    return APPLY["where"](condition, input, other)


def isin(
    elements: Any, test_elements: Any, *, assume_unique: bool = False, invert: bool = False
) -> Tensor:
    """Whether each of ``elements`` is among ``test_elements``; either may be one number."""
    if not isinstance(elements, Tensor):
        elements = wrap(np.asarray(elements))
    if not isinstance(test_elements, Tensor):
        test_elements = wrap(np.asarray(test_elements))
    found = APPLY["isin"](elements, test_elements)
    return APPLY["logical_not"](found) if invert else found


_ALONG = {f.__name__: _lifted(f) for f in (
    gather, scatter, scatter_add, scatter_reduce, index_select, index_add, index_copy, index_fill,
)}  # fmt: skip
FUNCTIONS: dict[str, Callable] = _ALONG | {
    f.__name__: f
    for f in (
        take_along_dim, take, put, masked_fill, masked_select, masked_scatter, nonzero, argwhere, where, isin,
        index_put,
    )
}  # fmt: skip


def _where_method(self: Tensor, condition: Tensor, other: Any) -> Tensor:
    """This tensor where ``condition`` holds, else ``other``."""
    return where(condition, self, other)


METHODS: dict[str, Any] = {k: f for k, f in FUNCTIONS.items() if k != "isin"} | {"where": _where_method}
METHODS["index_put_"] = index_put_
for _name in (
    "scatter", "scatter_add", "scatter_reduce", "index_add", "index_copy", "index_fill", "masked_fill",
    "masked_scatter", "put",
):  # fmt: skip
    METHODS[f"{_name}_"] = in_place_function(FUNCTIONS[_name])
