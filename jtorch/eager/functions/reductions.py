"""Functions that reduce dims, put together from ops.

Source: https://docs.pytorch.org/docs/stable/torch.html#reduction-ops
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from jtorch.core.op import CONTEXT
from jtorch.core.return_types import ALL as RESULTS
from jtorch.eager.autocasting import autocasts
from jtorch.eager.binding import APPLY
from jtorch.eager.functions.norms import matrix_norm, vector_norm
from jtorch.eager.messages import long_name
from jtorch.eager.results import needs_no_op
from jtorch.eager.tensor import Tensor
from jtorch.ops import axes as ax

_BYTE = np.dtype(np.uint8)  # what masks were once: PyTorch answers in it


def max_(input: Tensor, dim: Any = None, keepdim: bool = False, *, other: Any = None) -> Any:
    """The largest element; with ``dim`` the largest along it and their indices; or of two tensors."""
    return _extreme(input, dim if other is None else other, keepdim, "max", "maximum")


def min_(input: Tensor, dim: Any = None, keepdim: bool = False, *, other: Any = None) -> Any:
    """The smallest element; with ``dim`` the smallest along it and their indices; or of two tensors."""
    return _extreme(input, dim if other is None else other, keepdim, "min", "minimum")


def largest_integer(input: Tensor) -> int:
    """The largest of some integers."""
    at_once = needs_no_op(input, CONTEXT.get())
    return int(input._data.max() if at_once else max_(input).item())


def _extreme(input: Tensor, dim: Any, keepdim: bool, name: str, pairwise: str) -> Any:
    if isinstance(dim, Tensor):
        return APPLY[pairwise](input, dim)
    ax.not_empty(input, name, dim)
    if dim is None:
        return APPLY[f"{name}_all"](input, axis=tuple(range(input.ndim)), keepdims=False)
    if not isinstance(dim, int):
        raise TypeError(f"{name}(): argument 'dim' must be int, not {type(dim).__name__}")
    axis = ax.many(dim, input.ndim)
    return RESULTS[name](*APPLY[f"{name}_along"](input, axis=axis, keepdims=ax.flag(keepdim)))


def aminmax(input: Tensor, *, dim: int | None = None, keepdim: bool = False) -> Any:
    """(the smallest, the largest) of all elements or along ``dim``."""
    if dim is None and input.numel() == 0:
        raise RuntimeError(
            "aminmax(): cannot compute aminmax over an empty dimension as the operation has no identity."
        )
    ax.not_empty(input, "aminmax", dim)
    axis = ax.many(dim, input.ndim)
    return RESULTS["aminmax"](
        APPLY["min"](input, axis=axis, keepdims=ax.flag(keepdim)),
        APPLY["max"](input, axis=axis, keepdims=ax.flag(keepdim)),
    )


def any_(input: Tensor, dim: Any = None, keepdim: bool = False) -> Tensor:
    """Whether any element (along ``dim``, an int or several) is not 0: bool, of uint8 a uint8."""
    return _logical("any", input, dim, keepdim)


def all_(input: Tensor, dim: Any = None, keepdim: bool = False) -> Tensor:
    """Whether no element (along ``dim``, an int or several) is 0: bool, of uint8 a uint8."""
    return _logical("all", input, dim, keepdim)


def _logical(name: str, input: Tensor, dim: Any, keepdim: bool) -> Tensor:
    if isinstance(dim, (tuple, list)) and not dim:  # of no dims each element by itself, unlike a sum
        found = APPLY["ne"](input, 0)
    else:
        found = APPLY[name](input, axis=ax.many(dim, input._data.ndim), keepdims=ax.flag(keepdim))
    return APPLY["cast"](found, dtype=_BYTE) if input._data.dtype is _BYTE else found


def var_mean(input: Tensor, dim: Any = None, unbiased: Any = None, keepdim: bool = False, *,
             correction: Any = None) -> tuple[Tensor, Tensor]:  # fmt: skip
    """(variance, mean) over ``dim``."""
    variance = input.var(dim, unbiased, keepdim, correction=correction)
    return variance, input.mean(None if dim.__class__ is bool else dim, keepdim)


def std_mean(input: Tensor, dim: Any = None, unbiased: Any = None, keepdim: bool = False, *,
             correction: Any = None) -> tuple[Tensor, Tensor]:  # fmt: skip
    """(standard deviation, mean) over ``dim``."""
    deviation = input.std(dim, unbiased, keepdim, correction=correction)
    return deviation, input.mean(None if dim.__class__ is bool else dim, keepdim)


@autocasts(cuda="float32")
def norm(input: Tensor, p: Any = "fro", dim: Any = None, keepdim: bool = False, dtype: Any = None) -> Tensor:
    """The ``p``-norm over ``dim`` (all dims for None): a number, inf, -inf or "fro"."""
    if dtype is not None:
        input = input.to(dtype)
    if p == "nuc":
        return matrix_norm(input, "nuc", (-2, -1) if dim is None else dim, keepdim)
    if isinstance(p, str) and p != "fro":
        raise RuntimeError(f"expected p to be a number, 'fro' or 'nuc', but got '{p}'")
    return vector_norm(input, 2.0 if p in ("fro", None) else p, dim, keepdim)


def logsumexp(input: Tensor, dim: Any, keepdim: bool = False) -> Tensor:
    """log(sum(exp(input))) without overflow; -inf where all elements are."""
    return APPLY["logsumexp"](input, axis=ax.many(dim, input.ndim), keepdims=ax.flag(keepdim))


@autocasts(cuda="as_is")
def nansum(input: Tensor, dim: Any = None, keepdim: bool = False, *, dtype: Any = None) -> Tensor:
    """The sum of all that is no NaN. Raises RuntimeError for complex elements."""
    if input.is_complex():
        raise RuntimeError(
            f"nansum() does not support complex inputs, but got {long_name(input._data.dtype)}"
        )
    if input.is_floating_point():
        input = APPLY["without_nan"](input)  # which integers could not be
    return (input if dtype is None else input.to(dtype)).sum(dim, keepdim)


@autocasts(cuda="as_is")
def nanmean(input: Tensor, dim: Any = None, keepdim: bool = False, *, dtype: Any = None) -> Tensor:
    """The mean of all that is no NaN."""
    if not input.is_floating_point():
        raise RuntimeError(
            "nanmean(): expected input to have floating point or complex dtype but got "
            f"{long_name(input._data.dtype)}"
        )
    count = APPLY["logical_not"](APPLY["isnan"](input)).sum(dim, keepdim)
    return nansum(input, dim, keepdim, dtype=dtype) / count


def count_nonzero(input: Tensor, dim: Any = None) -> Tensor:
    """How many elements are not 0."""
    return APPLY["ne"](input, 0).sum(dim)


FUNCTIONS: dict[str, Callable] = {
    "any": any_, "all": all_, "max": max_, "min": min_, "aminmax": aminmax, "var_mean": var_mean,
    "std_mean": std_mean, "norm": norm, "logsumexp": logsumexp, "nansum": nansum, "nanmean": nanmean,
    "count_nonzero": count_nonzero,
}  # fmt: skip
METHODS = {name: f for name, f in FUNCTIONS.items() if name not in ("var_mean", "std_mean")}
