"""Sorting, and what is found by it: the largest, the middle, the most frequent elements.

Values are gathered at the indices that a search on the elements gives, so gradients flow to those places.
Source: https://docs.pytorch.org/docs/stable/torch.html#comparison-ops
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from jtorch.core import op as op_module
from jtorch.core.return_types import ALL as RESULTS
from jtorch.core.sizes import index, real
from jtorch.eager.autocasting import autocasts
from jtorch.eager.binding import APPLY
from jtorch.eager.placement import beside
from jtorch.eager.tensor import Tensor, wrap
from jtorch.ops import axes as ax

_INT = np.dtype(np.int64)


def argsort(input: Tensor, dim: int = -1, descending: bool = False, stable: bool = False) -> Tensor:
    """The positions along ``dim`` that put the elements in order; equal ones keep theirs, NaN is largest."""
    axis = ax.one(dim, input.ndim)
    if not input.ndim:
        return _zero()
    return APPLY["sort_order"](input, axis=axis, descending=bool(descending))


def _zero() -> Tensor:
    return wrap(op_module.CONTEXT.get().xp.full(0, shape=(), dtype=_INT))


def sort(input: Tensor, dim: int = -1, descending: bool = False, *, stable: bool = False) -> Any:
    """(the elements in order along ``dim``, where they came from)"""
    return _at(input, ax.one(dim, input.ndim), argsort(input, dim, descending), "sort")


def _at(input: Tensor, axis: int, places: Tensor, name: str) -> Any:
    values = APPLY["gather"](input, places, axis=axis) if input.ndim else input.clone()
    return RESULTS[name](values, places)


def msort(input: Tensor) -> Tensor:
    """The elements in order along the first dim."""
    return sort(input, 0)[0]


def topk(input: Tensor, k: int, dim: int = -1, largest: bool = True, sorted: bool = True) -> Any:
    """(the ``k`` largest or smallest elements along ``dim``, in order; where they came from)"""
    axis = ax.one(dim, input.ndim)
    n = input._data.shape[axis] if input.ndim else 1
    if not 0 <= k <= n:
        raise RuntimeError("selected index k out of range")
    if not input.ndim:
        return _at(input, axis, _zero(), "topk")
    k = index(ax.integer("topk", "k", k))
    return RESULTS["topk"](*APPLY["top"](input, axis=axis, k=k, largest=bool(largest)))


def kthvalue(input: Tensor, k: int, dim: int = -1, keepdim: bool = False) -> Any:
    """(the ``k``-th smallest element along ``dim``, counted from 1; where it is)"""
    axis = ax.one(dim, input.ndim)
    n = input.shape[axis] if input.ndim else 1
    if not n:
        raise IndexError(f"kthvalue(): Expected reduction dim {axis} to have non-zero size.")
    if not 1 <= k <= n:
        raise RuntimeError(f"kthvalue(): selected number k out of range for dimension {axis}")
    order = argsort(input, dim)
    return _single(input, axis, order.narrow(axis, k - 1, 1) if input.ndim else order, keepdim, "kthvalue")


def _single(input: Tensor, axis: int, places: Tensor, keepdim: bool, name: str) -> Any:
    """The elements at one place along ``axis``, whose length ``places`` has as 1."""
    ax.flag(keepdim)
    found = _at(input, axis, places, name)
    return found if keepdim or not input.ndim else RESULTS[name](*(t.squeeze(axis) for t in found))


def median(input: Tensor, dim: int | None = None, keepdim: bool = False) -> Any:
    """The element in the middle, the lower of two, NaN if there is any; along ``dim`` with its place."""
    return _middle(input, dim, keepdim, "median")


def nanmedian(input: Tensor, dim: int | None = None, keepdim: bool = False) -> Any:
    """``median`` of all that is no NaN."""
    return _middle(input, dim, keepdim, "nanmedian")


def _middle(input: Tensor, dim: int | None, keepdim: bool, name: str) -> Any:
    ax.flag(keepdim)
    if dim is None:
        if not input.numel():
            return input.sum() / 0.0 if input.is_floating_point() else _lowest(input)
        value = _middle(input.detach().reshape(-1), 0, False, name)[0]
        if not (input._requires_grad and op_module.CONTEXT.get().grad):
            return value
        elements = input.detach()
        holes = APPLY["logical_and"](APPLY["isnan"](elements), APPLY["isnan"](value))
        return APPLY["picked"](input, APPLY["logical_or"](APPLY["eq"](elements, value), holes))
    axis = ax.one(dim, input.ndim)
    if not input.ndim:
        return RESULTS[name](input.clone(), _zero())
    if not input.shape[axis]:
        raise IndexError(f"{name}(): Expected reduction dim {axis} to have non-zero size.")
    place = APPLY["median_place"](input, axis=axis, of_numbers=name == "nanmedian")
    return _single(input, axis, place, keepdim, name)


def _lowest(input: Tensor) -> Tensor:
    info: Any = np.iinfo(input.dtype.numpy)
    return wrap(op_module.CONTEXT.get().xp.full(int(info.min), shape=(), dtype=input.dtype.numpy))


def mode(input: Tensor, dim: int = -1, keepdim: bool = False) -> Any:
    """(the most frequent element along ``dim``, the smallest of several; its last place)"""
    axis = ax.one(dim, input.ndim)
    if not input.ndim:
        return RESULTS["mode"](input.clone(), _zero())
    if not input.shape[axis]:
        raise IndexError(f"mode(): Expected reduction dim {axis} to have non-zero size.")
    return _single(input, axis, APPLY["mode_place"](input, axis=axis), keepdim, "mode")


_INTERPOLATIONS = ("linear", "lower", "higher", "midpoint", "nearest")


@autocasts(cpu="float32")
def quantile(
    input: Tensor, q: Any, dim: int | None = None, keepdim: bool = False, *, interpolation: str = "linear"
) -> Tensor:
    """The values below which the shares ``q`` (a number or a vector) lie; NaN where there is any.

    Of shape (q, the other dims). Raises RuntimeError for integers and for q outside [0, 1].
    """
    return _quantile("quantile", input, q, dim, keepdim, interpolation)


@autocasts(cpu="float32")
def nanquantile(
    input: Tensor, q: Any, dim: int | None = None, keepdim: bool = False, *, interpolation: str = "linear"
) -> Tensor:
    """``quantile`` of all that is no NaN."""
    return _quantile("nanquantile", input, q, dim, keepdim, interpolation)


def _quantile(name: str, input: Tensor, q: Any, dim: int | None, keepdim: bool, interpolation: str) -> Tensor:
    ax.flag(keepdim)
    if input._data.dtype not in (np.float32, np.float64):
        raise RuntimeError(f"{name}() input tensor must be either float or double dtype")
    if interpolation not in _INTERPOLATIONS:
        raise RuntimeError(
            f"{name}() interpolation must be one of linear, lower, higher, midpoint or nearest, but got "
            f"{interpolation}"
        )
    ranks_at = beside(input, _shares(name, q, input))
    axis = None if dim is None else ax.one(dim, input.ndim)
    lead = (1,) * input.ndim
    line = input.reshape(-1) if axis is None or not input.ndim else input.movedim(axis, -1)
    if not line.numel():
        raise RuntimeError(f"{name}() input tensor must be non-empty")
    found = _interpolated(sort(line)[0], ranks_at.reshape(-1), interpolation, name == "nanquantile")
    if axis is None or not input.ndim:
        out = found.reshape((-1, *lead) if keepdim else (-1,))
    else:  # (the other dims in their order, q)
        out = found.movedim(-1, 0)
        out = out.unsqueeze(axis + 1) if keepdim else out
    return out if ranks_at.ndim else out.squeeze(0)


def _shares(name: str, q: Any, input: Tensor) -> Tensor:
    if isinstance(q, Tensor):
        if q.ndim > 1:
            raise RuntimeError(f"{name}() q must be a scalar or 1D tensor")
        if q.dtype is not input.dtype:
            raise RuntimeError(f"{name}() q tensor must be same dtype as the input tensor")
        return q
    if not 0 <= q <= 1:
        raise RuntimeError(f"{name}() q must be in the range [0, 1] but got {q:g}")
    return wrap(op_module.CONTEXT.get().xp.full(q, shape=(), dtype=input.dtype.numpy))


def _interpolated(line: Tensor, q: Tensor, interpolation: str, without_nan: bool) -> Tensor:
    """``line`` (..., n), sorted, at the shares ``q``: (..., len(q))"""
    n = line.shape[-1]
    numbers = APPLY["logical_not"](APPLY["isnan"](line.detach())).sum(-1, True)
    last = (numbers - 1).clamp(min=0).to(line.dtype) if without_nan else n - 1
    ranks = q * last
    if not without_nan:  # NaN come last: any of them is the answer
        ranks = APPLY["where"](numbers < n, real(n - 1), ranks)
    if interpolation in ("lower", "higher", "nearest"):
        rounded = {"lower": "floor", "higher": "ceil", "nearest": "round"}[interpolation]
        return line.gather(-1, APPLY[rounded](ranks.detach()).long())
    below = APPLY["floor"](ranks.detach())
    weight = 0.5 if interpolation == "midpoint" else ranks - below
    above = APPLY["ceil"](ranks.detach()).long()
    return APPLY["lerp"](line.gather(-1, below.long()), line.gather(-1, above), weight)


FUNCTIONS: dict[str, Callable] = {
    f.__name__: f
    for f in (
        argsort, sort, msort, topk, kthvalue, median, nanmedian, mode, quantile, nanquantile,
    )
}  # fmt: skip
METHODS = FUNCTIONS
