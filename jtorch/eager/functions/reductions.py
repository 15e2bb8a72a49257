"""Functions that reduce dims, put together from ops.

Source: https://docs.pytorch.org/docs/stable/torch.html#reduction-ops
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from jtorch.eager.binding import APPLY
from jtorch.eager.tensor import Tensor
from jtorch.ops import axes as ax


def max_(input: Tensor, dim: Any = None, keepdim: bool = False) -> Any:
    """The largest element; with ``dim`` the largest along it and their indices; or of two tensors."""
    return _extreme(input, dim, keepdim, "max", "maximum")


def min_(input: Tensor, dim: Any = None, keepdim: bool = False) -> Any:
    """The smallest element; with ``dim`` the smallest along it and their indices; or of two tensors."""
    return _extreme(input, dim, keepdim, "min", "minimum")


class MaxMin(tuple):
    """(values, indices), as names too."""

    __slots__ = ()
    values = property(lambda self: self[0])
    indices = property(lambda self: self[1])


def _extreme(input: Tensor, dim: Any, keepdim: bool, name: str, pairwise: str) -> Any:
    if isinstance(dim, Tensor):
        return APPLY[pairwise](input, dim)
    ax.not_empty(input, name, dim)
    if dim is None:
        return APPLY[name](input, axis=tuple(range(input.ndim)), keepdims=False)
    axis = ax.many(dim, input.ndim)
    return MaxMin(APPLY[f"{name}_along"](input, axis=axis, keepdims=keepdim))


def std(input: Tensor, dim: Any = None, **options: Any) -> Tensor:
    """The square root of ``var``."""
    return input.var(dim, **options).sqrt()


def norm(input: Tensor, p: Any = 2, dim: Any = None, keepdim: bool = False) -> Tensor:
    """The ``p``-norm over ``dim`` (all dims for None): a number, inf, -inf or "fro"."""
    if p in ("fro", 2, None):
        return (input * input).sum(dim, keepdim).sqrt()
    if p == math.inf:
        return input.abs().amax(dim if dim is not None else (), keepdim)
    if p == -math.inf:
        return input.abs().amin(dim if dim is not None else (), keepdim)
    if p == 1:
        return input.abs().sum(dim, keepdim)
    if p == 0:
        return APPLY["ne"](input, 0).to(input.dtype).sum(dim, keepdim)
    return (input.abs() ** p).sum(dim, keepdim) ** (1.0 / p)


def logsumexp(input: Tensor, dim: Any, keepdim: bool = False) -> Tensor:
    """log(sum(exp(input))) without overflow; -inf where all elements are."""
    top = input.detach().amax(dim, True)
    top = APPLY["where"](APPLY["isfinite"](top), top, 0.0)
    total = (input - top).exp().sum(dim, True).log() + top
    return total if keepdim else total.squeeze(dim)


FUNCTIONS: dict[str, Callable] = {
    "max": max_, "min": min_, "std": std, "norm": norm, "logsumexp": logsumexp,
}  # fmt: skip
METHODS = FUNCTIONS
