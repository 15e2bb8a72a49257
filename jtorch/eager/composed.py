"""Functions that are only other functions put together: no op, no node of their own."""

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


def split(
    tensor: Tensor, split_size_or_sections: int | Sequence[int], dim: int = 0
) -> tuple[Tensor, ...]:
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


def clamp(input: Tensor, min: Any = None, max: Any = None) -> Tensor:
    """Elements limited to [min, max]; either bound may be a number, a tensor or None."""
    if min is None and max is None:
        raise RuntimeError("torch.clamp: At least one of 'min' or 'max' must not be None")
    if min is not None:
        input = APPLY["clamp_min"](input, min)
    return input if max is None else APPLY["clamp_max"](input, max)


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


def square(input: Tensor) -> Tensor:
    return input * input


def _logical(name: str, *tensors: Tensor) -> Tensor:
    for t in tensors:
        if isinstance(t, Tensor) and t._data.dtype.kind != "b":
            raise NotImplementedError(f"{name} of {t.dtype} is not there yet: only bool tensors")
    return APPLY[f"logical_{name}"](*tensors)


def bitwise_not(self: Tensor) -> Tensor:
    return _logical("not", self)


def bitwise_and(self: Tensor, other: Tensor) -> Tensor:
    return _logical("and", self, other)


def bitwise_or(self: Tensor, other: Tensor) -> Tensor:
    return _logical("or", self, other)


def contiguous(self: Tensor) -> Tensor:
    """This tensor where its memory is in order, else a copy that is."""
    return self if self.is_contiguous() else self.clone()


FUNCTIONS: dict[str, Callable] = {
    "matmul": matmul, "flatten": flatten, "stack": stack, "narrow": narrow, "split": split,
    "chunk": chunk, "clamp": clamp, "max": max_, "min": min_, "std": std, "square": square,
}  # fmt: skip
METHODS: dict[str, Any] = FUNCTIONS | {"view": view, "contiguous": contiguous}
METHODS.pop("stack")
METHODS["float"] = lambda self: self.to(_dtype("float32"))
METHODS["double"] = lambda self: self.to(_dtype("float64"))
METHODS["long"] = lambda self: self.to(_dtype("int64"))
METHODS["int"] = lambda self: self.to(_dtype("int32"))
METHODS["bool"] = lambda self: self.to(_dtype("bool_"))
METHODS["type_as"] = lambda self, other: self.to(other.dtype)
METHODS["view_as"] = lambda self, other: view(self, other.shape)
METHODS["reshape_as"] = lambda self, other: self.reshape(other.shape)
METHODS["expand_as"] = lambda self, other: self.expand(other.shape)
METHODS["T"] = property(lambda self: APPLY["permute"](self, axes=tuple(range(self.ndim - 1, -1, -1))))
METHODS["mT"] = property(lambda self: self.transpose(-2, -1))


def _dtype(name: str) -> Any:
    from jtorch import dtypes as dt

    return getattr(dt, name)
