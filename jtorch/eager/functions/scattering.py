"""Writing along a dim at places that a tensor of integers names.

Source: https://docs.pytorch.org/docs/stable/torch.html#indexing-slicing-joining-mutating-ops
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from jtorch.core.dtypes import int32, int64
from jtorch.core.number_ranges import check_number, check_real, element, whole
from jtorch.eager.autocasting import autocasts
from jtorch.eager.binding import APPLY
from jtorch.eager.functions.places import (
    as_long,
    at_places,
    counted_from_start,
    dtype_name,
    filled,
    lifted,
    positions,
)
from jtorch.eager.indexing import index_put, index_put_
from jtorch.eager.inplace import in_place_function
from jtorch.eager.messages import long_name
from jtorch.eager.sixteen_bits import in_float32, is_half
from jtorch.eager.tensor import Tensor
from jtorch.ops import axes as ax
from jtorch.ops.contraction import as_numbers
from jtorch.ops.indexing import OUT_OF_RANGE
from jtorch.ops.placing import extreme_of

# -- one place per element ---------------------------------------------------------------------------------


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


def _prepared(name: str, input: Tensor, dim: int, index: Tensor, src: Any) -> tuple[int, Tensor, Tensor]:
    """(axis, index as int64, the part of ``src`` that ``index`` uses)"""
    axis = ax.one(dim, input.ndim)
    index = as_long(index, name, may_be_empty=True)
    other = index.ndim != input.ndim or (isinstance(src, Tensor) and src.ndim != index.ndim)
    if other and index.numel() == 0:  # which sends nothing: any shape will do
        index = index.reshape((0,) * input.ndim)
        if isinstance(src, Tensor):
            src = APPLY["slice"](src.reshape(-1), start=(0,), stop=(0,), step=(1,)).reshape(index.shape)
    if not isinstance(src, Tensor) or (name == "scatter" and src.ndim == 0 and input.ndim):
        _check_scatter(name, input, axis, index, None)
        return axis, index, filled(index.shape, src, input)
    _check_scatter(name, input, axis, index, src)
    if src.shape != index.shape:
        stop = tuple(index.shape)
        src = APPLY["slice"](src, start=(0,) * src.ndim, stop=stop, step=(1,) * src.ndim)
    return axis, index, src


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
        return at_places("scatter_add", RuntimeError, input, index, part, axis=axis)
    if reduce == "multiply":
        return _combined(input, axis, index, part, "prod", True)
    return at_places("scatter", RuntimeError, input, index, part, axis=axis)


@autocasts(cuda="promote")
def scatter_add(input: Tensor, dim: int, index: Tensor, src: Tensor) -> Tensor:
    """``input`` with ``src[i, j]`` added at ``[index[i, j], j]`` for dim 0, and so on."""
    axis, index, part = _prepared("scatter", input, dim, index, src)
    return at_places("scatter_add", RuntimeError, input, index, part, axis=axis)


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
        return at_places("scatter_reduce", RuntimeError, input, index, part, **facts)
    return _combined(input, axis, index, part, reduce, include_self)


def _combined(
    input: Tensor, axis: int, index: Tensor, src: Tensor, reduce: str, include_self: bool
) -> Tensor:
    if is_half(input._data):  # the gradient counts those that tie
        return in_float32(_combined, input, axis, index, src, reduce, include_self)
    places = [index if k == axis else positions(index.shape, k) for k in range(index.ndim)]
    axes = tuple(range(len(places)))
    if not include_self:
        neutral = 1 if reduce == "prod" else extreme_of(input._data.dtype, reduce)
        start = filled(index.shape, neutral, input)
        input = at_places("index_put", RuntimeError, input, start, *places, axes=axes)
    facts = {"axes": axes, "reduce": reduce, "include_self": include_self}
    return at_places("index_combine", RuntimeError, input, src, *places, **facts)


def put(input: Tensor, index: Tensor, source: Tensor, accumulate: bool = False) -> Tensor:
    """``input`` with its flattened elements at ``index`` replaced by ``source`` (or added to)."""
    if index.dtype is not int64:
        raise RuntimeError(f"put_(): Expected a long tensor for index, but got {dtype_name(index)}")
    if source.dtype is not input.dtype:
        raise RuntimeError(
            "put_(): self and source expected to have the same dtype, but got self.dtype = "
            f"{dtype_name(input)} and source.dtype = {dtype_name(source)}"
        )
    if index.numel() != source.numel():
        raise IndexError(
            "put_(): Expected source and index to have the same number of elements, but got source.numel() = "
            f"{source.numel()}, index.numel() = {index.numel()}"
        )
    flat, places = input.reshape(-1), counted_from_start(index.reshape(-1), input.numel())
    values = source.reshape(-1)
    if accumulate:
        out = APPLY["index_accumulate"](flat, places, values, axis=0, alpha=1)
    else:
        out = APPLY["index_copy"](flat, places, values, axis=0)
    return out.reshape(input.shape)


# -- one place per position of a dim -----------------------------------------------------------------------


def index_add(input: Tensor, dim: int, index: Tensor, source: Tensor, *, alpha: Any = 1) -> Tensor:
    """``input`` with ``alpha source[i]`` added at position ``index[i]`` of ``dim``."""
    axis = ax.one(dim, input.ndim)
    index = as_long(index, "index_add_", "Expected dtype int32/int64 for index")
    if index.ndim > 1:
        raise IndexError(f"index_add_(): Index is supposed to be a vector, but got dim: {index.ndim}")
    if source.dtype is not input.dtype:
        raise RuntimeError(
            f"index_add_(): self ({dtype_name(input)}) and source "
            f"({dtype_name(source)}) must have the same scalar type"
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
    if alpha.__class__ is not int or alpha != 1:
        (alpha,) = as_numbers("index_add", alpha=alpha)
        alpha = _factor(alpha, input)
    try:
        return APPLY["index_accumulate"](input, index, source, axis=axis, alpha=alpha)
    except IndexError as error:
        if input.ndim > 1 and axis in (0, input.ndim - 1):  # where PyTorch scatters
            raise RuntimeError(str(error)) from None
        raise IndexError(OUT_OF_RANGE) from None


def _factor(alpha: Any, input: Tensor) -> Any:
    """``alpha`` as an element of ``input``: its whole part among integers. Raises what PyTorch raises for a
    number that is none."""
    dtype = input._data.dtype
    if dtype.kind == "b":
        return bool(alpha)
    check_number(alpha, dtype)
    if dtype.kind != "c":
        check_real(alpha, dtype)
    return element(whole(alpha), dtype) if dtype.kind in "iu" else alpha


def _without(tensor: Tensor, axis: int) -> tuple[int, ...]:
    return tuple(n for k, n in enumerate(tensor.shape) if k != axis)


@autocasts(cpu="promote")
def index_copy(input: Tensor, dim: int, index: Tensor, source: Tensor) -> Tensor:
    """``input`` with position ``index[i]`` of ``dim`` replaced by ``source[i]``."""
    axis = ax.one(dim, input.ndim)
    if index.ndim > 1:
        raise IndexError(f"index_copy_(): Index should have dimension 1 or 0 (got {index.ndim})")
    if index.dtype is not int64:
        raise IndexError("index_copy_(): Expected a long tensor for index, but got " + dtype_name(index))
    if source.dtype is not input.dtype:
        raise RuntimeError(
            "index_copy_(): self and source expected to have the same dtype, but got (self) "
            f"{dtype_name(input)} and (source) {dtype_name(source)}"
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


def index_reduce(
    input: Tensor, dim: int, index: Tensor, source: Tensor, reduce: str, *, include_self: bool = True
) -> Tensor:
    """What ``source[i]`` sends to position ``index[i]`` of ``dim``, reduced by "prod", "mean", "amax" or
    "amin".

    Without ``include_self`` what stood at a position that something is sent to takes no part.
    """
    if reduce not in ("prod", "mean", "amax", "amin"):
        raise RuntimeError(
            f"index_reduce(): Expected reduce to be one of prod, mean, amax or amin but got {reduce}."
        )
    axis = ax.one(dim, input.ndim)
    if index.ndim > 1:
        kind = long_name(index._data.dtype)
        raise IndexError(
            f"index_reduce_(): Index is supposed to be a vector, but got dim: {index.ndim} with type: "
            f"{kind} and "
            f"size: {list(index.shape)}"
        )
    words = f"Expected dtype int32/int64 for index but got: {long_name(index._data.dtype)}"
    index = as_long(index, "index_reduce_", words)
    if source.dtype is not input.dtype:
        raise RuntimeError(
            f"index_reduce_(): self ({dtype_name(input)}) and source ({dtype_name(source)}) must have the "
            f"same "
            "scalar type"
        )
    if source.ndim == input.ndim and source.shape[axis] != index.numel():
        raise RuntimeError(
            f"index_reduce_(): Number of indices ({index.numel()}) should be equal to source.size(dim): "
            f"({source.shape[axis]}), for dim: {dim}"
        )
    if source.ndim != input.ndim or _without(source, axis) != _without(input, axis):
        raise RuntimeError(
            "source tensor shape must match self tensor shape, excluding the specified dimension. Got "
            f"self.shape = {list(input.shape)} source.shape = {list(source.shape)}"
        )
    wide = index.reshape([-1 if k == axis else 1 for k in range(input.ndim)]).expand(source.shape)
    try:
        if reduce == "mean":
            facts = {"axis": axis, "mean": True, "include_self": include_self}
            return APPLY["scatter_reduce"](input, wide, source, **facts)
        return _combined(input, axis, wide, source, reduce, include_self)
    except (IndexError, RuntimeError) as error:
        if "out of" in str(error):
            raise IndexError(OUT_OF_RANGE) from None
        raise


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
    places = counted_from_start(index.to(int64), input.shape[axis])
    # by a mask: each place takes the value once, however often it is named, and so does the gradient
    shape = tuple(n if k == axis else 1 for k, n in enumerate(input.shape))
    named = (*shape[:axis], index.numel(), *shape[axis + 1 :])
    mask = APPLY["index_copy"](filled(shape, 0, index), places, filled(named, 1, index), axis=axis) != 0
    return APPLY["where"](mask, filled(tuple(input.shape), value, input), input)


FUNCTIONS: dict[str, Callable] = {
    f.__name__: lifted(f) for f in (scatter, scatter_add, scatter_reduce, index_add, index_copy, index_reduce)
} | {"index_fill": lifted(index_fill, source_too=False), "put": put, "index_put": index_put}
METHODS: dict[str, Any] = dict(FUNCTIONS)
METHODS |= {f"{name}_": in_place_function(f) for name, f in FUNCTIONS.items() if name != "index_put"}
METHODS["index_put_"] = index_put_
