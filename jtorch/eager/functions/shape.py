"""Functions that give elements another shape: views wherever PyTorch's are.

Source: https://docs.pytorch.org/docs/stable/torch.html#indexing-slicing-joining-mutating-ops
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from jtorch.core import dtypes as dt, memory_formats as formats
from jtorch.core.op import BY_NAME
from jtorch.eager.binding import APPLY
from jtorch.eager.messages import long_name
from jtorch.eager.signatures import whole
from jtorch.eager.tensor import Tensor, _concrete, wrap
from jtorch.ops import axes as ax

_reshape = APPLY["reshape"]


def view(self: Tensor, *shape: Any, dtype: Any = None, size: Any = None) -> Tensor:
    """The same memory in another shape, or its bytes as another dtype.

    Raises RuntimeError where only a copy would have that shape.
    """
    if size is not None:
        shape = whole("size", shape, size)
    if dtype is not None or (len(shape) == 1 and isinstance(shape[0], dt.dtype)):
        return _reinterpreted(self, dtype or shape[0])
    target = ax.infer_size(ax.sizes(shape), self.numel())
    if not self.is_contiguous() and not _viewable(self, target):
        raise RuntimeError(
            "view size is not compatible with input tensor's size and stride (at least one dimension spans "
            "across two contiguous subspaces). Use .reshape(...) instead."
        )
    return _reshape(self, shape=target)


def _viewable(tensor: Tensor, shape: tuple[int, ...]) -> bool:
    data = tensor._data
    strides = tuple(s // data.dtype.itemsize for s in data.strides)
    return BY_NAME["reshape"].affine(data.shape, strides, shape=shape) is not None  # type: ignore[misc]


def _reinterpreted(self: Tensor, dtype: dt.dtype) -> Tensor:
    """The bytes as another dtype, off the tape: no gradient has a meaning there."""
    if dtype is self.dtype:
        return view(self, self.shape)
    data = _concrete(self, "view(dtype)")
    old, new = data.dtype.itemsize, dtype.itemsize
    names = f"to view {long_name(data.dtype)} as {long_name(dtype.numpy)} (different element sizes)"
    if old != new:
        if not data.ndim:
            raise RuntimeError(f"self.dim() cannot be 0 {names}")
        if data.strides[-1] != old and data.shape[-1] != 1:
            raise RuntimeError(f"self.stride(-1) must be 1 {names}, but got {data.strides[-1] // old}")
        if new > old and data.shape[-1] % (new // old):
            raise RuntimeError(
                f"self.size(-1) must be divisible by {new // old} {names}, but got {data.shape[-1]}"
            )
    out = wrap(data.view(dtype.numpy))
    out._cell = self._cell
    out._base = self if self._base is None else self._base
    out._how = None
    return out


def flatten(input: Tensor, start_dim: int = 0, end_dim: int = -1) -> Tensor:
    """Dims ``start_dim`` to ``end_dim`` as one."""
    if input.ndim == 0:
        return input.reshape(1)
    a, b = ax.one(start_dim, input.ndim), ax.one(end_dim, input.ndim)
    if a > b:
        raise RuntimeError("flatten() has invalid args: start_dim cannot come after end_dim")
    if a == b:
        return input
    shape = input.shape
    return _reshape(input, shape=(*shape[:a], math.prod(shape[a : b + 1]), *shape[b + 1 :]))


def unflatten(input: Tensor, dim: int, sizes: Sequence[int]) -> Tensor:
    """Dim ``dim`` as several; one of ``sizes`` may be -1."""
    axis, sizes = ax.one(dim, input.ndim), tuple(sizes)
    if not sizes:
        raise RuntimeError("unflatten: sizes must be non-empty")
    n = input.shape[axis]
    try:
        sizes = ax.infer_size(sizes, n)
    except RuntimeError as error:
        if "invalid for" not in str(error):
            raise
        raise RuntimeError(
            f"unflatten: Provided sizes {list(sizes)} don't multiply up to the size of dim {dim} ({n}) in "
            "the input tensor"
        ) from None
    return view(input, *input.shape[:axis], *sizes, *input.shape[axis + 1 :])


def ravel(input: Tensor) -> Tensor:
    """All elements in one dim: a view where possible."""
    return input.reshape(-1)


def contiguous(self: Tensor, memory_format: Any = None) -> Tensor:
    """This tensor where its memory is in that order, row by row unless told otherwise; else a copy that is.

    Source: https://docs.pytorch.org/docs/stable/generated/torch.Tensor.contiguous.html
    """
    if memory_format is None:
        return self if self.is_contiguous() else APPLY["clone"](self)
    wanted = formats.asked(memory_format, "contiguous()")
    if wanted is None:
        raise RuntimeError("preserve memory format is unsupported by the contiguous operator")
    axes = formats.order(wanted, self.ndim)
    if self.is_contiguous(memory_format=wanted):
        return self
    if axes is None:
        return APPLY["clone"](self)
    return APPLY["clone"](self.permute(axes)).permute([axes.index(axis) for axis in range(len(axes))])


def _at_least(tensors: tuple, shaped: Callable[[Tensor], Tensor]) -> Any:
    if len(tensors) == 1 and isinstance(tensors[0], Tensor):
        return shaped(tensors[0])
    many = tensors[0] if len(tensors) == 1 else tensors
    return tuple(shaped(t) for t in many)


def atleast_1d(*tensors: Any) -> Any:
    """Tensors without dims get one."""
    return _at_least(tensors, lambda t: t if t.ndim else t.reshape(1))


def atleast_2d(*tensors: Any) -> Any:
    """Vectors become rows, numbers (1, 1) matrices."""
    return _at_least(tensors, lambda t: t if t.ndim > 1 else t.reshape(1, t.numel()))


def atleast_3d(*tensors: Any) -> Any:
    """Vectors become (1, n, 1), matrices (n, m, 1)."""

    def shaped(t: Tensor) -> Tensor:
        if t.ndim > 2:
            return t
        return t.unsqueeze(-1) if t.ndim == 2 else t.reshape(1, t.numel(), 1)

    return _at_least(tensors, shaped)


def view_as(self: Tensor, other: Tensor) -> Tensor:
    """``view`` in the shape of ``other``."""
    return view(self, other.shape)


def reshape_as(self: Tensor, other: Tensor) -> Tensor:
    """``reshape`` to the shape of ``other``."""
    return self.reshape(other.shape)


def sum_to_size(self: Tensor, *size: ax.Numbers) -> Tensor:
    """The sum over all dims that broadcasting ``size`` would stretch: a tensor of that size.

    Raises RuntimeError where ``size`` does not broadcast to this shape.
    """
    wanted, shape = ax.sizes(size), tuple(self.shape)
    ahead = len(shape) - len(wanted)
    fits = ahead >= 0 and all(n in (1, m) for n, m in zip(wanted, shape[ahead:], strict=True))
    if not fits:
        raise RuntimeError(f"size {{{list(wanted)}}} is not expandable to size {{{list(shape)}}}.")
    if not wanted:  # a sum in any case, so one of integers is int64
        return self.sum()
    dims = tuple(k for k in range(len(shape)) if k < ahead or (wanted[k - ahead] == 1 and shape[k] != 1))
    found = self.sum(dims, keepdim=True) if dims else self
    return found.reshape(wanted) if ahead else found


FUNCTIONS: dict[str, Callable] = {
    f.__name__: f for f in (flatten, unflatten, ravel, atleast_1d, atleast_2d, atleast_3d)
}
METHODS: dict[str, Any] = {
    "view": view, "view_as": view_as, "reshape_as": reshape_as, "contiguous": contiguous,
    "flatten": flatten, "unflatten": unflatten, "ravel": ravel, "sum_to_size": sum_to_size,
}  # fmt: skip
