"""Functions that pick or order elements, put together from ops.

Source: https://docs.pytorch.org/docs/stable/torch.html#indexing-slicing-joining-mutating-ops
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from jtorch import op as op_module
from jtorch.eager.binding import APPLY
from jtorch.eager.functions.reductions import MaxMin
from jtorch.eager.functions.shape import narrow
from jtorch.eager.tensor import Tensor
from jtorch.ops import axes as ax

_INT = np.dtype(np.int64)


def _positions(shape: Any, axis: int) -> Tensor:
    """The position along ``axis``, in ``shape``."""
    return Tensor(op_module.CONTEXT.get().xp.iota(shape=tuple(shape), axis=axis, dtype=_INT))


def gather(input: Tensor, dim: int, index: Tensor) -> Tensor:
    """``out[i, j] = input[index[i, j], j]`` for dim 0, and so on. ``index`` is int64."""
    axis = ax.one(dim, input.ndim)
    if index.ndim != input.ndim:
        raise RuntimeError("Index tensor must have the same number of dimensions as input tensor")
    for k, (n, m) in enumerate(zip(index.shape, input.shape, strict=True)):
        if n > m and k != axis:
            raise RuntimeError(
                f"Size does not match at dimension {k} expected index {list(index.shape)} to be no "
                f"larger than self {list(input.shape)} apart from dimension {axis}"
            )
    places = [index if k == axis else _positions(index.shape, k) for k in range(input.ndim)]
    return input[tuple(places)] if places else input.clone()


def index_select(input: Tensor, dim: int, index: Tensor) -> Tensor:
    """The positions ``index`` (1-D, int64) of ``dim``."""
    axis = ax.one(dim, input.ndim)
    if index.ndim > 1:
        raise IndexError("index_select(): Index is supposed to be a vector")
    return input[(slice(None),) * axis + (index.reshape(-1),)]


def masked_fill(input: Tensor, mask: Tensor, value: Any) -> Tensor:
    """``input`` with ``value`` where ``mask`` (bool, broadcast) holds."""
    if mask._data.dtype.kind != "b":
        raise RuntimeError(f"masked_fill_ only supports boolean masks, but got mask with dtype {mask.dtype}")
    value = value.to(input.dtype) if isinstance(value, Tensor) else value
    return APPLY["where"](mask, value, input)


def masked_select(input: Tensor, mask: Tensor) -> Tensor:
    """The elements where ``mask`` holds, as a vector."""
    return input[mask.expand(*input.shape)]


def _triangle(input: Tensor, diagonal: int, lower: bool) -> Tensor:
    if input.ndim < 2:
        raise RuntimeError("tril/triu: input tensor must have at least 2 dimensions")
    shape = input.shape[-2:]
    above = _positions(shape, 1) - _positions(shape, 0)
    return APPLY["where"](above <= diagonal if lower else above >= diagonal, input, 0)


def tril(input: Tensor, diagonal: int = 0) -> Tensor:
    """Zeros above the ``diagonal``-th diagonal of the last two dims."""
    return _triangle(input, diagonal, lower=True)


def triu(input: Tensor, diagonal: int = 0) -> Tensor:
    """Zeros below the ``diagonal``-th diagonal of the last two dims."""
    return _triangle(input, diagonal, lower=False)


def argsort(input: Tensor, dim: int = -1, descending: bool = False, stable: bool = True) -> Tensor:
    """The positions along ``dim`` that put the elements in order; equal ones keep theirs."""
    axis = ax.one(dim, input.ndim)
    if not input.ndim:
        return Tensor(np.zeros((), _INT))
    if not descending:
        return APPLY["sort_order"](input, axis=axis)
    # backwards twice, so that equal elements stay in their order
    order = APPLY["sort_order"](input.detach().flip(axis), axis=axis)
    return (input.shape[axis] - 1 - order).flip(axis)


def sort(input: Tensor, dim: int = -1, descending: bool = False, stable: bool = True) -> Any:
    """(the elements in order along ``dim``, where they came from)"""
    order = argsort(input, dim, descending, stable)
    return MaxMin((gather(input, dim, order), order))


def topk(input: Tensor, k: int, dim: int = -1, largest: bool = True, sorted: bool = True) -> Any:
    """(the ``k`` largest or smallest elements along ``dim``, in order; where they came from)"""
    n = input.shape[ax.one(dim, input.ndim)] if input.ndim else 1
    if not 0 <= k <= n:
        raise RuntimeError("selected index k out of range")
    order = narrow(argsort(input, dim, largest), dim, 0, k)
    return MaxMin((gather(input, dim, order), order))


FUNCTIONS: dict[str, Callable] = {
    f.__name__: f
    for f in (
        gather, index_select, masked_fill, masked_select, tril, triu, argsort, sort, topk,
    )
}  # fmt: skip
METHODS = FUNCTIONS
