"""Formulas over ops that have names of their own in PyTorch.

Source: https://docs.pytorch.org/docs/stable/torch.html#math-operations
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from jtorch.eager.binding import APPLY
from jtorch.eager.composed import matmul
from jtorch.eager.tensor import Tensor, _concrete


def dot(input: Tensor, tensor: Tensor) -> Tensor:
    """The inner product of two vectors."""
    if input.ndim != 1 or tensor.ndim != 1:
        raise RuntimeError(f"1D tensors expected, but got {input.ndim}D and {tensor.ndim}D tensors")
    return matmul(input, tensor)


def mv(input: Tensor, vec: Tensor) -> Tensor:
    """Matrix times vector."""
    if input.ndim != 2 or vec.ndim != 1:
        raise RuntimeError(f"vector + matrix @ vector expected, got {input.ndim}, {vec.ndim}")
    return matmul(input, vec)


def outer(input: Tensor, vec2: Tensor) -> Tensor:
    """All products of the elements of two vectors."""
    return input.unsqueeze(1) * vec2.unsqueeze(0)


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


def isinf(input: Tensor) -> Tensor:
    """Whether elements are inf or -inf."""
    return input.abs() == math.inf if input.is_floating_point() else APPLY["ne"](input, input)


def reciprocal(input: Tensor) -> Tensor:
    """1 / input"""
    return APPLY["div"](1.0, input)


def log2(input: Tensor) -> Tensor:
    """The logarithm to base 2."""
    return input.log() * (1.0 / math.log(2.0))


def log10(input: Tensor) -> Tensor:
    """The logarithm to base 10."""
    return input.log() * (1.0 / math.log(10.0))


def lerp(input: Tensor, end: Tensor, weight: Any) -> Tensor:
    """input + weight (end - input)"""
    return input + weight * (end - input)


def addcmul(input: Tensor, tensor1: Tensor, tensor2: Tensor, *, value: float = 1) -> Tensor:
    """input + value tensor1 tensor2"""
    return input + value * tensor1 * tensor2


def addcdiv(input: Tensor, tensor1: Tensor, tensor2: Tensor, *, value: float = 1) -> Tensor:
    """input + value tensor1 / tensor2"""
    return input + value * tensor1 / tensor2


def isclose(
    input: Tensor, other: Tensor, rtol: float = 1e-5, atol: float = 1e-8, equal_nan: bool = False
) -> Tensor:
    """Whether |input - other| <= atol + rtol |other|, element by element."""
    near = APPLY["le"]((input - other).abs(), rtol * other.abs() + atol)
    finite = APPLY["isfinite"](other)
    close = APPLY["logical_or"](APPLY["logical_and"](near, finite), APPLY["eq"](input, other))
    if not equal_nan:
        return close
    return APPLY["logical_or"](close, APPLY["logical_and"](APPLY["isnan"](input), APPLY["isnan"](other)))


def allclose(
    input: Tensor, other: Tensor, rtol: float = 1e-5, atol: float = 1e-8, equal_nan: bool = False
) -> bool:
    """Whether all elements are close, see ``isclose``."""
    return bool(isclose(input, other, rtol, atol, equal_nan).all())


def equal(input: Tensor, other: Tensor) -> bool:
    """Whether both have one shape and the same elements."""
    return np.array_equal(_concrete(input, "equal()"), _concrete(other, "equal()"))


FUNCTIONS: dict[str, Callable] = {
    f.__name__: f
    for f in (
        dot, mv, outer, norm, logsumexp, isinf, reciprocal, log2, log10, lerp, addcmul, addcdiv, isclose,
        allclose, equal,
    )
}  # fmt: skip
METHODS = FUNCTIONS
