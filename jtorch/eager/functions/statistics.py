"""Covariance, correlation and distances.

Source: https://docs.pytorch.org/docs/stable/torch.html#reduction-ops
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from jtorch.core.number_ranges import rounded_number
from jtorch.eager.autocasting import autocasts
from jtorch.eager.binding import APPLY
from jtorch.eager.functions.norms import vector_norm
from jtorch.eager.inplace import in_place_function
from jtorch.eager.messages import check_tensors
from jtorch.eager.sixteen_bits import in_float32, is_half, widened
from jtorch.eager.tensor import Tensor
from jtorch.ops import axes as ax

_DIMENSIONS = "{}(): expected input to have two or fewer dimensions but got an input with {} dimensions"


def cov(input: Tensor, *, correction: int = 1, fweights: Any = None, aweights: Any = None) -> Tensor:
    """The covariances of the rows (variables) over the columns (observations), weighted if asked."""
    if input.ndim > 2:
        raise RuntimeError(_DIMENSIONS.format("cov", input.ndim))
    x = input.reshape(1, -1) if input.ndim < 2 else input
    n = x.shape[1]
    weight: Any = None
    for given in (fweights, aweights):
        if given is not None:
            if tuple(given.shape) != (n,):
                raise RuntimeError(f"cov(): expected {n} weights, one a row of data, got {list(given.shape)}")
            weight = given if weight is None else weight * given
    total: Any = n if weight is None else weight.sum()
    mean = (x if weight is None else x * weight).sum(1, True) / total
    centred = x - mean
    if aweights is None or not correction:
        degrees: Any = total - correction
    else:
        degrees = total - correction * (weight * aweights).sum() / total
    degrees = degrees.clamp(min=0) if isinstance(degrees, Tensor) else max(degrees, 0)
    weighted = centred if weight is None else centred * weight
    found = APPLY["matmul"](weighted, centred.t().conj()) / degrees
    return found.squeeze() if input.ndim < 2 or x.shape[0] == 1 else found


def corrcoef(input: Tensor) -> Tensor:
    """The correlations of the rows (variables) over the columns (observations), within [-1, 1]."""
    if input.ndim > 2:
        raise RuntimeError(_DIMENSIONS.format("corrcoef", input.ndim))
    if is_half(input._data):  # its gradient is the difference of nearly equal parts
        return in_float32(corrcoef, input)
    c = cov(input)
    if not c.ndim:
        return c / c
    deviation = c.diagonal().sqrt()
    return (c / deviation.unsqueeze(-1) / deviation.unsqueeze(0)).clamp(-1, 1)


@autocasts(cuda="float32")
def dist(input: Tensor, other: Tensor, p: float = 2) -> Tensor:
    """The ``p``-norm of input - other over all elements."""
    check_tensors("dist", input=input, other=other)
    return vector_norm(input - other, p)


_MODES = ("use_mm_for_euclid_dist_if_necessary", "use_mm_for_euclid_dist", "donot_use_mm_for_euclid_dist")


@autocasts("float32")
def cdist(x1: Tensor, x2: Tensor, p: float = 2.0, compute_mode: str | None = None) -> Tensor:
    """The ``p``-norm between each row of x1 (..., P, M) and each of x2 (..., R, M): (..., P, R)."""
    for name, x in (("X1", x1), ("X2", x2)):
        if x.ndim < 2:
            raise RuntimeError(f"cdist only supports at least 2D tensors, {name} got: {x.ndim}D")
    if x1.shape[-1] != x2.shape[-1]:
        raise RuntimeError(
            f"X1 and X2 must have the same number of columns. X1: {x1.shape[-1]} X2: {x2.shape[-1]}"
        )
    if not p >= 0:
        raise RuntimeError("cdist only supports non-negative p values")
    if compute_mode is not None and compute_mode not in _MODES:
        raise ValueError(f"{compute_mode} is not a valid value for compute_mode")
    difference = x1.unsqueeze(-2) - x2.unsqueeze(-3)
    if not difference.shape[-1]:
        return difference.sum(-1)
    return vector_norm(difference, rounded_number(p, difference._data.dtype), -1)


@autocasts(cuda="float32")
def pdist(input: Tensor, p: float = 2.0) -> Tensor:
    """The ``p``-norm between all pairs of rows (N, M), as a vector of N (N - 1) / 2 in the order of pairs."""
    if input.ndim != 2:
        raise RuntimeError(f"pdist only supports 2D tensors, got: {input.ndim}D")
    if not input.is_floating_point():
        raise RuntimeError("pdist only supports floating-point dtypes")
    if not p >= 0:
        raise RuntimeError("pdist only supports non-negative p values")
    n = input.shape[0]
    after = [input.narrow(0, k + 1, n - k - 1) - input.narrow(0, k, 1) for k in range(n - 1)]
    if not after:
        return input.narrow(0, 0, 0).sum(1)
    return vector_norm(APPLY["cat"](*after, axis=0), rounded_number(p, input._data.dtype), 1)


@autocasts(cuda="float32")
def renorm(input: Tensor, p: float, dim: int, maxnorm: float) -> Tensor:
    """Each slice along ``dim`` whose ``p``-norm is above ``maxnorm`` shortened to it."""
    if not p > 0:
        raise RuntimeError("renorm: non-positive-norm not supported")
    if input.ndim < 2:
        raise RuntimeError(f"renorm: input needs at least 2 dimensions, got {input.ndim} dimensions")
    axis = ax.one(dim, input.ndim)
    if not maxnorm >= 0:
        raise RuntimeError(f"renorm: expected maxnorm to be >= 0 but got {maxnorm:g}")
    others, wide = tuple(k for k in range(input.ndim) if k != axis), widened(input)
    too_long = vector_norm(wide.detach(), p, others, True) > maxnorm
    norms = vector_norm(
        wide.where(too_long, 1.0), p, others, True
    )  # no gradient from the others: of NaN, NaN
    return input * (maxnorm / (norms + 1e-7)).where(too_long, 1.0).to(input.dtype)


FUNCTIONS: dict[str, Callable] = {f.__name__: f for f in (cov, corrcoef, dist, cdist, pdist, renorm)}
METHODS: dict[str, Any] = {name: FUNCTIONS[name] for name in ("cov", "corrcoef", "dist", "renorm")}
METHODS["renorm_"] = in_place_function(renorm)
