"""Triangles and diagonals of matrices.

Source: https://docs.pytorch.org/docs/stable/generated/torch.tril.html
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from jtorch.core import devices, dtypes as dt, op as op_module
from jtorch.eager.autocasting import autocasts
from jtorch.eager.binding import APPLY
from jtorch.eager.factory import check_layout
from jtorch.eager.functions.places import positions
from jtorch.eager.inplace import in_place_function
from jtorch.eager.tensor import Tensor, wrap
from jtorch.ops import axes as ax


def _triangle(input: Tensor, diagonal: int, name: str) -> Tensor:
    if input.ndim < 2:
        raise RuntimeError(f"{name}: input tensor must have at least 2 dimensions")
    return APPLY[name](input, diagonal=ax.integer(name, "diagonal", diagonal))


def tril(input: Tensor, diagonal: int = 0) -> Tensor:
    """Zeros above the ``diagonal``-th diagonal of the last two dims."""
    return _triangle(input, diagonal, "tril")


def triu(input: Tensor, diagonal: int = 0) -> Tensor:
    """Zeros below the ``diagonal``-th diagonal of the last two dims."""
    return _triangle(input, diagonal, "triu")


def _indices(row: int, col: int, offset: int, dtype: Any, upper: bool, **asked: Any) -> Tensor:
    place = devices.chosen(asked["device"])
    check_layout(asked["layout"], asked["pin_memory"], "triu_indices" if upper else "tril_indices")
    if row < 0 or col < 0:
        name, n = ("row", row) if row < 0 else ("col", col)
        raise RuntimeError(f"{name} must be non-negative, got{name}={n}".replace("got", "got "))
    found = np.triu_indices(row, offset, col) if upper else np.tril_indices(row, offset, col)
    array = np.stack(found).astype(dt.to_numpy(dtype) or np.int64)
    made = wrap(op_module.CONTEXT.get().evaluator.new(array))
    return made.to(place).requires_grad_(asked["requires_grad"])


def tril_indices(
    row: int, col: int, offset: int = 0, *, dtype: Any = None, device: Any = None, layout: Any = None,
    pin_memory: Any = None, requires_grad: bool = False,
) -> Tensor:  # fmt: skip
    """The rows and columns, (2, count), of the lower triangle of a (row, col) matrix."""
    asked = {"device": device, "layout": layout, "pin_memory": pin_memory, "requires_grad": requires_grad}
    return _indices(row, col, offset, dtype, False, **asked)


def triu_indices(
    row: int, col: int, offset: int = 0, *, dtype: Any = None, device: Any = None, layout: Any = None,
    pin_memory: Any = None, requires_grad: bool = False,
) -> Tensor:  # fmt: skip
    """The rows and columns, (2, count), of the upper triangle of a (row, col) matrix."""
    asked = {"device": device, "layout": layout, "pin_memory": pin_memory, "requires_grad": requires_grad}
    return _indices(row, col, offset, dtype, True, **asked)


def diag_embed(input: Tensor, offset: int = 0, dim1: int = -2, dim2: int = -1) -> Tensor:
    """Matrices with the last dim of ``input`` on a diagonal and zeros elsewhere."""
    n = input.ndim + 1
    axis1, axis2 = ax.one(dim1, n), ax.one(dim2, n)
    if axis1 == axis2:
        raise RuntimeError(f"diagonal dimensions cannot be identical {dim1}, {dim2}")
    width = input.shape[-1] + abs(offset)
    outer = iter(input.shape[:-1])
    shape = tuple(width if k in (axis1, axis2) else next(outer) for k in range(n))
    zeros = wrap(op_module.CONTEXT.get().xp.full(0, shape=shape, dtype=input._data.dtype))
    return APPLY["diagonal_put"](zeros, input, offset=offset, axis1=axis1, axis2=axis2)


def diag(input: Tensor, diagonal: int = 0) -> Tensor:
    """A copy of the diagonal of a matrix; of a vector the matrix that has it."""
    if input.ndim == 1:
        return diag_embed(input, diagonal)
    if input.ndim != 2:
        raise RuntimeError(f"diag(): Supports 1D or 2D tensors. Got {input.ndim}D")
    return APPLY["clone"](input.diagonal(diagonal))


def diagflat(input: Tensor, offset: int = 0) -> Tensor:
    """The matrix with all elements of ``input`` on a diagonal."""
    return diag_embed(input.reshape(-1), offset)


@autocasts(cuda="as_is")
def vander(x: Tensor, N: int | None = None, increasing: bool = False) -> Tensor:
    """Powers 0 to N-1 of a vector, as columns; the highest first unless ``increasing``."""
    if x.ndim != 1:
        raise RuntimeError("x must be a one-dimensional tensor.")
    if N is not None and N < 0:
        raise RuntimeError("N must be non-negative.")
    return powers(x, N, increasing)


def powers(x: Tensor, count: int | None, increasing: bool) -> Tensor:
    """Powers 0 to ``count`` - 1 (the length of the last dim for None), in a new last dim."""
    count = x.shape[-1] if count is None else count
    exponents = positions((count,), 0).to(x.device)
    if not increasing:
        exponents = exponents.flip(0)
    x = x if x.is_floating_point() or x.is_complex() else x.to(dt.int64)
    return x.unsqueeze(-1) ** exponents


FUNCTIONS: dict[str, Callable] = {
    f.__name__: f
    for f in (
        tril, triu, tril_indices, triu_indices, diag_embed, diag, diagflat, vander,
    )
}  # fmt: skip
METHODS: dict[str, Any] = {k: FUNCTIONS[k] for k in ("tril", "triu", "diag_embed", "diag", "diagflat")}
METHODS |= {f"{k}_": in_place_function(FUNCTIONS[k]) for k in ("tril", "triu")}
