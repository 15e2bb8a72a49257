"""Norms of vectors and matrices: ``linalg.vector_norm``, ``matrix_norm`` and ``norm``.

Source: https://docs.pytorch.org/docs/stable/generated/torch.linalg.norm.html
"""

from __future__ import annotations

import math
from typing import Any

from jtorch.eager.autocasting import autocasts
from jtorch.eager.binding import APPLY
from jtorch.eager.functions.reordering import movedim
from jtorch.eager.functions.solvers import check_floats
from jtorch.eager.messages import long_name
from jtorch.eager.tensor import Tensor
from jtorch.ops import axes as ax


def _floating(name: str, x: Tensor, dtype: Any) -> Tensor:
    if not (x.is_floating_point() or x.is_complex()):
        raise RuntimeError(
            f"{name}: Expected a floating point or complex tensor as input. Got {long_name(x._data.dtype)}"
        )
    return x if dtype is None else x.to(dtype)


@autocasts(cuda="float32")
def vector_norm(
    x: Tensor, ord: Any = 2, dim: Any = None, keepdim: bool = False, *, dtype: Any = None
) -> Tensor:
    """The ``ord``-norm over ``dim`` (all dims for None) of the elements as one vector; ``ord`` is any "
    "number."""
    ax.flag(keepdim)
    x = _floating("linalg.vector_norm", x, dtype)
    x = x.abs() if x.is_complex() else x
    axis = ax.many(dim, x.ndim)
    ord = float(ord)
    if any(x.shape[a] == 0 for a in axis) and (ord < 0 or ord == math.inf):
        kind = "inf" if ord == math.inf else f"{ord:g}"
        if dim is None:
            raise RuntimeError(
                f"linalg.vector_norm cannot compute the {kind} norm on an empty tensor because the operation "
                "does not have an identity"
            )
        empty = next(a for a in axis if x.shape[a] == 0)
        raise RuntimeError(
            f"linalg.vector_norm cannot compute the {kind} norm on the dimension {empty} because this "
            "dimension is empty and the operation does not have an identity"
        )
    return APPLY["vector_norm"](x, order=ord, axis=axis, keepdims=keepdim)


@autocasts(cuda="float32")
def matrix_norm(
    A: Tensor, ord: Any = "fro", dim: Any = (-2, -1), keepdim: bool = False, *, dtype: Any = None
) -> Tensor:
    """The norm of the matrices in the two dims ``dim``: "fro", "nuc", inf, -inf, 1, -1, 2 or -2."""
    if A.ndim < 2:
        raise RuntimeError("linalg.matrix_norm: The input tensor A must have at least 2 dimensions.")
    A = _floating("linalg.matrix_norm", A, dtype)
    dims = tuple(dim)
    if len(dims) != 2:
        raise RuntimeError(f"linalg.matrix_norm: dim must be a 2-tuple. Got {' '.join(map(str, dims))}")
    rows, columns = (ax.one(d, A.ndim) for d in dims)
    if rows == columns:
        raise RuntimeError(f"linalg.matrix_norm: dims must be different. Got ({dims[0]}, {dims[1]})")
    if ord == "fro":
        return vector_norm(A, 2, (rows, columns), keepdim)
    if ord == "nuc" or (not isinstance(ord, str) and abs(ord) == 2):
        return _spectral(A, ord, rows, columns, keepdim)
    if isinstance(ord, str) or abs(ord) not in (1, math.inf):
        raise RuntimeError(f"linalg.matrix_norm: Order {ord} not supported.")
    inner, outer = (rows, columns) if abs(ord) == 1 else (columns, rows)
    sums = vector_norm(A, 1, inner, True)
    found = _largest(sums, outer, True) if ord > 0 else sums.amin(outer, True)
    return found if keepdim else APPLY["squeeze"](found, axes=tuple(sorted((rows, columns))))


def _largest(values: Tensor, dim: int, keepdim: bool) -> Tensor:
    """The largest of numbers >= 0 along ``dim``: 0 where there are none."""
    return values.amax(dim, keepdim) if values.shape[dim] else values.sum(dim, keepdim)


def _spectral(A: Tensor, ord: Any, rows: int, columns: int, keepdim: bool) -> Tensor:
    check_floats("linalg.matrix_norm", A)
    values = APPLY["svdvals"](movedim(A, (rows, columns), (-2, -1)))
    if ord == "nuc":
        found = values.sum(-1)
    else:
        found = _largest(values, -1, False) if ord > 0 else values.amin(-1)
    return APPLY["unsqueeze"](found, axes=tuple(sorted((rows, columns)))) if keepdim else found


def norm(
    input: Tensor, ord: Any = None, dim: Any = None, keepdim: bool = False, *, dtype: Any = None
) -> Tensor:
    """``vector_norm`` or ``matrix_norm``, as ``ord`` and the number of dims say."""
    if ord is None:
        return vector_norm(input, 2, dim, keepdim, dtype=dtype)
    if dim is not None:
        dims = (dim,) if isinstance(dim, int) else tuple(dim)
        if len(dims) not in (1, 2):
            raise RuntimeError(
                f"linalg.norm: If dim is specified, it must be of length 1 or 2. Got {list(dims)}"
            )
    elif input.ndim not in (1, 2):
        raise RuntimeError(
            f"linalg.norm: If dim is not specified but ord is, the input must be 1D or 2D. Got {input.ndim}D."
        )
    else:
        dims = tuple(range(input.ndim))
    if len(dims) == 2:
        return matrix_norm(input, ord, dims, keepdim, dtype=dtype)
    if isinstance(ord, str):
        raise RuntimeError(f"linalg.matrix_norm: dim must be a 2-tuple. Got {dims[0]}")
    return vector_norm(input, ord, dims, keepdim, dtype=dtype)
