"""Functions that put tensors together.

Source: https://docs.pytorch.org/docs/stable/torch.html#indexing-slicing-joining-mutating-ops
"""

from __future__ import annotations

import itertools
import warnings
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from jtorch.core import op as op_module
from jtorch.core.op import BY_NAME
from jtorch.core.sizes import broadcast
from jtorch.eager.binding import APPLY, public_function
from jtorch.eager.functions.shape import atleast_1d, atleast_2d, atleast_3d
from jtorch.eager.joined import stacked
from jtorch.eager.tensor import Size, Tensor, wrap
from jtorch.ops import axes as ax

_cat = public_function(BY_NAME["cat"])


def concat(tensors: Sequence[Tensor], dim: int = 0) -> Tensor:
    """``cat``"""
    return _cat(tensors, dim)


def concatenate(tensors: Sequence[Tensor], axis: int = 0, *, dim: int | None = None) -> Tensor:
    """``cat``"""
    return _cat(tensors, axis if dim is None else dim)


def stack(tensors: Sequence[Tensor], dim: int = 0) -> Tensor:
    """Tensors of one shape along a new dim."""
    tensors = tuple(tensors)
    if not tensors:
        raise RuntimeError("stack expects a non-empty TensorList")
    at_once = stacked(tensors, dim)
    if at_once is not None:
        return at_once
    first = tensors[0]._data.shape
    for k, t in enumerate(tensors):
        if t._data.shape != first:
            raise RuntimeError(
                f"stack expects each tensor to be equal size, but got {list(first)} at entry 0 "
                f"and {list(t.shape)} at entry {k}"
            )
    axis = ax.one(dim, len(first) + 1)
    return _cat([APPLY["unsqueeze"](t, axes=(axis,)) for t in tensors], axis)


def _not_empty(tensors: Sequence[Tensor], name: str) -> tuple[Tensor, ...]:
    tensors = tuple(tensors)
    if not tensors:
        raise RuntimeError(f"{name} expects a non-empty TensorList")
    return tensors


def hstack(tensors: Sequence[Tensor]) -> Tensor:
    """Side by side: along dim 1, vectors along dim 0."""
    many = atleast_1d(_not_empty(tensors, "hstack"))
    return _cat(many, 0 if many[0].ndim == 1 else 1)


def vstack(tensors: Sequence[Tensor]) -> Tensor:
    """On top of each other: along dim 0, vectors as rows."""
    return _cat(atleast_2d(_not_empty(tensors, "vstack")), 0)


def row_stack(tensors: Sequence[Tensor]) -> Tensor:
    """``vstack``"""
    return vstack(tensors)


def dstack(tensors: Sequence[Tensor]) -> Tensor:
    """Along dim 2; vectors and matrices get dims of size 1 first."""
    return _cat(atleast_3d(_not_empty(tensors, "dstack")), 2)


def column_stack(tensors: Sequence[Tensor]) -> Tensor:
    """Side by side, vectors as columns."""
    many = _not_empty(tensors, "column_stack")
    return hstack([t.reshape(t.numel(), 1) if t.ndim <= 1 else t for t in many])


def block_diag(*tensors: Any) -> Tensor:
    """Matrices along the diagonal of one, zeros elsewhere; vectors count as rows."""
    blocks = [atleast_2d(t) for t in tensors]
    for k, (block, given) in enumerate(zip(blocks, tensors, strict=True)):
        if block.ndim > 2:
            raise RuntimeError(
                f"torch.block_diag: Input tensors must have 2 or fewer dimensions. Input {k} has "
                f"{given.ndim} dimensions"
            )
    width = sum(b.shape[1] for b in blocks)
    rows, before = [], 0
    for block in blocks:
        m = block.shape[1]
        after = width - before - m
        rows.append(APPLY["pad"](block, low=(0, before), high=(0, after), interior=(0, 0)))
        before += m
    return _cat(rows, 0) if rows else wrap(np.zeros((1, 0), np.float32))


# -- broadcasting ----------------------------------------------------------------------------------


def broadcast_shapes(*shapes: Any) -> Size:
    """The shape that tensors of ``shapes`` broadcast to. Raises RuntimeError where there is none."""
    given = [(s,) if isinstance(s, int) else tuple(s) for s in shapes]
    out = [1] * max((len(s) for s in given), default=0)
    for shape in given:
        for k in range(1, len(shape) + 1):
            n = shape[-k]
            if n < 0:
                raise RuntimeError(f"Trying to create tensor with negative dimension ({n}): ({n})")
            if n != 1 and out[-k] not in (1, n):
                raise RuntimeError(
                    f"Attempting to broadcast a dimension of length {n} at {-k}! Mismatching argument at "
                    f"index {given.index(shape)} had {shape}; but expected shape should be broadcastable to "
                    f"{out}"
                )
            out[-k] = n if n != 1 else out[-k]
    return Size(out)


def broadcast_tensors(*tensors: Any) -> tuple[Tensor, ...]:
    """Views of all tensors in their common shape."""
    many = tensors[0] if len(tensors) == 1 and isinstance(tensors[0], (tuple, list)) else tensors
    shape: tuple[int, ...] = ()
    for t in many:
        shape = _common(shape, tuple(t.shape))
    return tuple(t.expand(*shape) if shape else t for t in many)


def _common(a: tuple[int, ...], b: tuple[int, ...]) -> tuple[int, ...]:
    from jtorch.eager.messages import broadcast_mismatch

    mismatch = broadcast_mismatch([a, b])
    if mismatch is not None:
        raise RuntimeError(mismatch)
    return broadcast(a, b)


def meshgrid(*tensors: Any, indexing: str | None = None) -> tuple[Tensor, ...]:
    """The coordinates of a grid over vectors: "ij" counts rows first, "xy" exchanges the first two dims."""
    many = tensors[0] if len(tensors) == 1 and isinstance(tensors[0], (tuple, list)) else tensors
    if not many:
        raise RuntimeError("meshgrid expects a non-empty TensorList")
    if any(t.ndim > 1 for t in many):
        wrong = next(t for t in many if t.ndim > 1)
        raise RuntimeError(
            f"torch.meshgrid: Expected 0D or 1D tensor in the tensor list but got: {list(wrong.shape)}"
        )
    if indexing is None:
        warnings.warn(
            "torch.meshgrid: in an upcoming release, it will be required to pass the indexing argument.",
            UserWarning,
            stacklevel=2,
        )
    elif indexing not in ("ij", "xy"):
        raise RuntimeError(f'torch.meshgrid: indexing must be one of "xy" or "ij", but received: {indexing}')
    if any(t.dtype is not many[0].dtype for t in many):
        raise RuntimeError("torch.meshgrid expects all tensors to have the same dtype")
    swapped = indexing == "xy" and len(many) >= 2
    lines = [many[1], many[0], *many[2:]] if swapped else list(many)
    shape = tuple(t.numel() for t in lines)
    grids = [
        t.reshape([-1 if k == axis else 1 for k in range(len(shape))]).expand(*shape)
        for axis, t in enumerate(lines)
    ]
    return (grids[1], grids[0], *grids[2:]) if swapped else tuple(grids)


def cartesian_prod(*tensors: Tensor) -> Tensor:
    """All combinations of one element of each vector, as rows."""
    for t in tensors:
        if t.ndim != 1:
            raise RuntimeError(f"Expect a 1D vector, but got shape {list(t.shape)}")
    if len(tensors) == 1:
        return tensors[0]
    return stack([g.reshape(-1) for g in meshgrid(*tensors, indexing="ij")], 1)


def combinations(input: Tensor, r: int = 2, with_replacement: bool = False) -> Tensor:
    """All choices of ``r`` elements of a vector in their order, as rows."""
    if input.ndim != 1:
        raise RuntimeError(f"Expect a 1D vector, but got shape {list(input.shape)}")
    if r < 0:
        raise RuntimeError(f"Expect a non-negative number, but got {r}")
    if r == 0:
        return wrap(op_module.CONTEXT.get().xp.full(0, shape=(0,), dtype=input._data.dtype))
    choose = itertools.combinations_with_replacement if with_replacement else itertools.combinations
    rows = np.array(list(choose(range(input.numel()), r)), np.int64).reshape(-1, r)
    return input[wrap(op_module.CONTEXT.get().evaluator.new(rows))]


FUNCTIONS: dict[str, Callable] = {
    f.__name__: f
    for f in (
        concat, concatenate, stack, hstack, vstack, row_stack, dstack, column_stack, block_diag,
        broadcast_shapes, broadcast_tensors, meshgrid, cartesian_prod, combinations,
    )
}  # fmt: skip
METHODS: dict[str, Any] = {}
