"""Matrix products of all ranks.

Source: https://docs.pytorch.org/docs/stable/generated/torch.matmul.html
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from jtorch.eager.binding import APPLY, public_function
from jtorch.eager.tensor import Tensor
from jtorch.op import BY_NAME

_mm_unchecked = APPLY["mm"]
_mm = public_function(BY_NAME["mm"])
_bmm = public_function(BY_NAME["bmm"])


def matmul(input: Tensor, other: Tensor) -> Tensor:
    """Matrix product of vectors, matrices or batches of them, with broadcast batch dims.

    Source: https://docs.pytorch.org/docs/stable/generated/torch.matmul.html
    """
    if isinstance(input, Tensor) and isinstance(other, Tensor):
        x, y = input._data, other._data
        if x.ndim == 2 == y.ndim and x.dtype is y.dtype and x.shape[1] == y.shape[0]:  # the hot case
            return _mm_unchecked(input, other)
    else:
        raise TypeError(f"matmul(): expected Tensors, got {type(input).__name__} and {type(other).__name__}")
    n, m = input.ndim, other.ndim
    if n == 0 or m == 0:
        raise RuntimeError(f"both arguments to matmul need to be at least 1D, but they are {n}D and {m}D")
    if n == 2 and m == 2:
        return _mm(input, other)
    if n == 1:
        return matmul(input.unsqueeze(0), other).squeeze(-2 if m > 1 else 0)
    if m == 1:
        return matmul(input, other.unsqueeze(1)).squeeze(-1)
    if m == 2:
        rows = _mm(input.reshape(math.prod(input.shape[:-1]), input.shape[-1]), other)
        return rows.reshape(*input.shape[:-1], other.shape[-1])
    batch = _broadcast(input.shape[:-2], other.shape[:-2])
    a = input.expand(*batch, *input.shape[-2:]).reshape(math.prod(batch), *input.shape[-2:])
    b = other.expand(*batch, *other.shape[-2:]).reshape(math.prod(batch), *other.shape[-2:])
    return _bmm(a, b).reshape(*batch, input.shape[-2], other.shape[-1])


def _broadcast(a: Sequence[int], b: Sequence[int]) -> tuple[int, ...]:
    n = max(len(a), len(b))
    a, b = (1,) * (n - len(a)) + tuple(a), (1,) * (n - len(b)) + tuple(b)
    for x, y in zip(a, b, strict=True):
        if x != y and 1 not in (x, y):
            raise RuntimeError(f"The batch dims {list(a)} and {list(b)} of matmul do not broadcast")
    return tuple(y if x == 1 else x for x, y in zip(a, b, strict=True))


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


FUNCTIONS: dict[str, Callable] = {
    f.__name__: f
    for f in (
        matmul, dot, mv, outer,
    )
}  # fmt: skip
METHODS = FUNCTIONS
