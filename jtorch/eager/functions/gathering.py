"""Reading along a dim at places that a tensor of integers names.

Source: https://docs.pytorch.org/docs/stable/torch.html#indexing-slicing-joining-mutating-ops
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from jtorch.core.dtypes import int64
from jtorch.eager.binding import APPLY
from jtorch.eager.functions.places import as_long, at_places, counted_from_start, dtype_name, lifted
from jtorch.eager.tensor import Tensor
from jtorch.ops import axes as ax


def gather(input: Tensor, dim: int, index: Tensor, *, sparse_grad: bool = False) -> Tensor:
    """``out[i, j] = input[index[i, j], j]`` for dim 0, and so on. ``index`` is int64 or int32."""
    if sparse_grad:
        raise NotImplementedError("gather(): sparse_grad=True is not there: its gradient is dense")
    axis = ax.one(dim, input.ndim)
    index = as_long(index, "gather", may_be_empty=True)
    wrong = _misfit(index._data.shape, input._data.shape, axis)
    if wrong and index.numel() == 0:  # which reads nothing: any shape will do
        nothing = at_places("gather", RuntimeError, input.reshape(-1), index.reshape(-1), axis=0)
        return nothing.reshape(index.shape)
    if wrong:
        raise RuntimeError(wrong)
    return at_places("gather", RuntimeError, input, index, axis=axis)


def _misfit(shape: tuple[int, ...], of: tuple[int, ...], axis: int) -> str:
    """What is wrong with an index of this shape into a tensor, as PyTorch says it; "" for nothing."""
    if len(shape) != len(of):
        return "Index tensor must have the same number of dimensions as input tensor"
    for k, n in enumerate(shape):
        if k != axis and n > of[k]:
            return (
                f"Size does not match at dimension {k} expected index {list(shape)} to be no larger "
                f"than self {list(of)} apart from dimension {axis}"
            )
    return ""


def take_along_dim(input: Tensor, indices: Tensor, dim: int | None = None) -> Tensor:
    """``gather`` with ``input`` and ``indices`` broadcast along the other dims; flat without ``dim``."""
    if dim is None:
        return gather(input.reshape(-1), 0, counted_from_start(indices.reshape(-1), input.numel()))
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
    return gather(wide[0], axis, counted_from_start(wide[1], input.shape[axis]))


def take(input: Tensor, index: Tensor) -> Tensor:
    """The elements of the flattened ``input`` at ``index``, in the shape of ``index``."""
    if index.dtype is not int64:
        raise RuntimeError(f"take(): Expected a long tensor for index, but got {dtype_name(index)}")
    n = input.numel()
    flat = counted_from_start(index.reshape(-1), n)
    try:
        return APPLY["index_select"](input.reshape(-1), flat, axis=0).reshape(index.shape)
    except IndexError as error:
        wrong = str(error).split()[1]
        raise IndexError(
            f"out of range: tried to access index {wrong} on a tensor of {n} elements."
        ) from None


def index_select(input: Tensor, dim: int, index: Tensor) -> Tensor:
    """The positions ``index`` (a vector of int64 or int32) of ``dim``."""
    axis = ax.one(dim, input.ndim)
    if index.ndim > 1:
        raise IndexError("index_select(): Index is supposed to be a vector")
    index = as_long(index, "index_select", "Expected dtype int32 or int64 for index")
    try:
        return APPLY["index_select"](input, index, axis=axis)
    except IndexError as error:
        if axis == 1:  # where PyTorch has another loop
            wrong = str(error).split()[1]
            raise RuntimeError(
                f"INDICES element is out of DATA bounds, id={wrong} axis_dim={input.shape[1]}"
            ) from None
        raise IndexError("index out of range in self") from None


FUNCTIONS: dict[str, Callable] = {
    "gather": lifted(gather, shape_of_index=True),
    "index_select": lifted(index_select),
    "take_along_dim": take_along_dim,
    "take": take,
}
METHODS: dict[str, Any] = dict(FUNCTIONS)
