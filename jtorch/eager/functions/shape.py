"""Functions that give elements another shape, or join and part them.

Source: https://docs.pytorch.org/docs/stable/torch.html#indexing-slicing-joining-mutating-ops
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from jtorch.eager.binding import APPLY, public_function
from jtorch.eager.tensor import Tensor
from jtorch.op import BY_NAME
from jtorch.ops import axes as ax

_reshape = APPLY["reshape"]
_cat = public_function(BY_NAME["cat"])


def view(self: Tensor, *shape: Any) -> Tensor:
    """The same memory in another shape. Raises RuntimeError where only a copy would do."""
    if len(shape) == 1 and not isinstance(shape[0], (int, tuple, list)):
        raise TypeError("view() takes a shape; to reinterpret a dtype use .to(dtype)")
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


def flatten(input: Tensor, start_dim: int = 0, end_dim: int = -1) -> Tensor:
    """Dims ``start_dim`` to ``end_dim`` as one."""
    if input.ndim == 0:
        return input.reshape(1)
    a, b = ax.one(start_dim, input.ndim), ax.one(end_dim, input.ndim)
    if a > b:
        raise RuntimeError("flatten() has invalid args: start_dim cannot come after end_dim")
    shape = input.shape
    return _reshape(input, shape=(*shape[:a], math.prod(shape[a : b + 1]), *shape[b + 1 :]))


def stack(tensors: Sequence[Tensor], dim: int = 0) -> Tensor:
    """Tensors of one shape along a new dim."""
    tensors = tuple(tensors)
    if not tensors:
        raise RuntimeError("stack expects a non-empty TensorList")
    for k, t in enumerate(tensors):
        if t.shape != tensors[0].shape:
            raise RuntimeError(
                f"stack expects each tensor to be equal size, but got {list(tensors[0].shape)} at entry 0 "
                f"and {list(t.shape)} at entry {k}"
            )
    axis = ax.one(dim, tensors[0].ndim + 1)
    return _cat([APPLY["unsqueeze"](t, axes=(axis,)) for t in tensors], axis)


def narrow(input: Tensor, dim: int, start: int, length: int) -> Tensor:
    """``length`` positions of ``dim`` from ``start`` on, as a view."""
    axis, shape = ax.one(dim, input.ndim), input.shape
    if start < 0:
        start += shape[axis]
    if length < 0 or start < 0 or start + length > shape[axis]:
        raise RuntimeError(f"start ({start}) + length ({length}) exceeds dimension size ({shape[axis]}).")
    begin = tuple(start if k == axis else 0 for k in range(input.ndim))
    end = tuple(start + length if k == axis else n for k, n in enumerate(shape))
    return APPLY["slice"](input, start=begin, stop=end, step=(1,) * input.ndim)


def split(tensor: Tensor, split_size_or_sections: int | Sequence[int], dim: int = 0) -> tuple[Tensor, ...]:
    """Views of ``split_size`` positions each (the last may be smaller), or of the given lengths."""
    n = tensor.shape[ax.one(dim, tensor.ndim)]
    if isinstance(split_size_or_sections, int):
        size = split_size_or_sections
        if size <= 0:
            raise RuntimeError(f"split expects split_size be non-negative, but got split_size={size}")
        lengths = [min(size, n - start) for start in range(0, n, size)] or [0]
    else:
        lengths = list(split_size_or_sections)
        if sum(lengths) != n:
            raise RuntimeError(
                f"split_with_sizes expects split_sizes to sum exactly to {n} (input tensor's size at "
                f"dimension {dim}), but got split_sizes={lengths}"
            )
    starts = [sum(lengths[:k]) for k in range(len(lengths))]
    return tuple(narrow(tensor, dim, a, k) for a, k in zip(starts, lengths, strict=True))


def chunk(input: Tensor, chunks: int, dim: int = 0) -> tuple[Tensor, ...]:
    """At most ``chunks`` views of equal length."""
    if chunks <= 0:
        raise RuntimeError(f"chunk expects `chunks` to be greater than 0, got: {chunks}")
    n = input.shape[ax.one(dim, input.ndim)]
    return split(input, max(-(-n // chunks), 1), dim)


def contiguous(self: Tensor) -> Tensor:
    """This tensor where its memory is in order, else a copy that is."""
    return self if self.is_contiguous() else self.clone()


def unbind(input: Tensor, dim: int = 0) -> tuple[Tensor, ...]:
    """One view per position of ``dim``."""
    axis = ax.one(dim, input.ndim)
    return tuple(APPLY["select"](input, axis=axis, index=k) for k in range(input.shape[axis]))


def repeat(input: Tensor, *sizes: Any) -> Tensor:
    """``input`` tiled ``sizes`` times along its dims, of which more may come in front."""
    times = ax.sizes(sizes)
    new = len(times) - input.ndim
    if new < 0:
        raise RuntimeError(
            "Number of dimensions of repeat dims can not be smaller than number of dimensions of tensor"
        )
    shape = (1,) * new + tuple(input.shape)
    paired = input.reshape([m for n in shape for m in (1, n)])
    wide = paired.expand([m for t, n in zip(times, shape, strict=True) for m in (t, n)])
    return wide.reshape([t * n for t, n in zip(times, shape, strict=True)])


FUNCTIONS: dict[str, Callable] = {
    f.__name__: f
    for f in (
        flatten, stack, narrow, split, chunk, unbind,
    )
}  # fmt: skip
METHODS: dict[str, Any] = FUNCTIONS | {"view": view, "contiguous": contiguous, "repeat": repeat}
METHODS.pop("stack")
METHODS["view_as"] = lambda self, other: view(self, other.shape)
METHODS["reshape_as"] = lambda self, other: self.reshape(other.shape)
METHODS["expand_as"] = lambda self, other: self.expand(other.shape)
METHODS["T"] = property(lambda self: APPLY["permute"](self, axes=tuple(range(self.ndim - 1, -1, -1))))
METHODS["mT"] = property(lambda self: self.transpose(-2, -1))
