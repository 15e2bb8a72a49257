"""Functions that give elements another shape or order: views wherever PyTorch's are.

Source: https://docs.pytorch.org/docs/stable/torch.html#indexing-slicing-joining-mutating-ops
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from jtorch import dtypes as dt
from jtorch.eager.binding import APPLY, public_function
from jtorch.eager.messages import long_name
from jtorch.eager.tensor import Tensor, _concrete, wrap
from jtorch.op import BY_NAME
from jtorch.ops import axes as ax

_reshape = APPLY["reshape"]
_cat = public_function(BY_NAME["cat"])


def view(self: Tensor, *shape: Any, dtype: Any = None) -> Tensor:
    """The same memory in another shape, or its bytes as another dtype.

    Raises RuntimeError where only a copy would have that shape.
    """
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
    """This tensor where its memory is in order, else a copy that is."""
    _only_contiguous("contiguous", memory_format)
    return self if self.is_contiguous() else APPLY["clone"](self)


def _only_contiguous(name: str, memory_format: Any) -> None:
    if memory_format is not None and "channels_last" in str(memory_format):
        raise NotImplementedError(f"{name}(): memory_format={memory_format}: memory is row by row")


# -- order of dims
# ---------------------------------------------------------------------------------------------


def movedim(input: Tensor, source: Any, destination: Any) -> Tensor:
    """The dims ``source`` at the places ``destination``, the others in their order; a view."""
    n = input.ndim
    source, destination = (
        (d,) if isinstance(d, int) else tuple(d) for d in (source, destination)
    )
    if len(source) != len(destination):
        raise RuntimeError(
            "movedim: Invalid source or destination dims: source (" + f"{list(source)} dims) should contain "
            f"the same number of dims as destination ({list(destination)} dims)"
        )
    old, new = ([ax.one(d, n) for d in dims] for dims in (source, destination))
    for given, dims, name in ((source, old, "source"), (destination, new, "destination")):
        if len(set(dims)) != len(dims):
            raise RuntimeError(f"movedim: repeated dim in `{name}` ({list(given)})")
    order = [k for k in range(n) if k not in old]
    for place, axis in sorted(zip(new, old, strict=True)):
        order.insert(place, axis)
    return APPLY["permute"](input, axes=tuple(order))


def moveaxis(input: Tensor, source: Any, destination: Any) -> Tensor:
    """``movedim``"""
    return movedim(input, source, destination)


def swapaxes(input: Tensor, axis0: int, axis1: int) -> Tensor:
    """``transpose``"""
    return input.transpose(axis0, axis1)


def swapdims(input: Tensor, dim0: int, dim1: int) -> Tensor:
    """``transpose``"""
    return input.transpose(dim0, dim1)


def adjoint(input: Tensor) -> Tensor:
    """The last two dims exchanged, and complex numbers conjugated."""
    if input.ndim < 2:
        raise RuntimeError(
            f"tensor.adjoint() is only supported on matrices or batches of matrices. Got {input.ndim}-D "
            "tensor."
        )
    turned = input.transpose(-2, -1)
    return turned.conj() if input.is_complex() else turned


def _transposed(self: Tensor) -> Tensor:
    return APPLY["permute"](self, axes=tuple(range(self.ndim - 1, -1, -1)))


def _matrix_transposed(self: Tensor) -> Tensor:
    if self.ndim < 2:
        raise RuntimeError(
            f"tensor.mT is only supported on matrices or batches of matrices. Got {self.ndim}-D tensor."
        )
    return self.transpose(-2, -1)


def _hermitian(self: Tensor) -> Tensor:
    if self.ndim not in (0, 2):
        raise RuntimeError(f"tensor.H is only supported on matrices (2-D tensors). Got {self.ndim}-D tensor.")
    return adjoint(self) if self.ndim else self


# -- order of elements
# -------------------------------------------------------------------------------------------


def fliplr(input: Tensor) -> Tensor:
    """Columns in reverse order."""
    if input.ndim < 2:
        raise RuntimeError("Input must be >= 2-d.")
    return input.flip(1)


def flipud(input: Tensor) -> Tensor:
    """Rows in reverse order."""
    if input.ndim < 1:
        raise RuntimeError("Input must be >= 1-d.")
    return input.flip(0)


def roll(input: Tensor, shifts: Any, dims: Any = None) -> Tensor:
    """Elements moved by ``shifts`` along ``dims``, what leaves at the end coming back in front."""
    if dims is None or (not isinstance(dims, int) and len(dims) == 0):
        if not isinstance(shifts, int) and len(tuple(shifts)) != 1:
            raise RuntimeError(f"shifts and dimensions must align. shifts: {len(shifts)}, dims:0")
        return roll(input.reshape(-1), shifts, 0).reshape(input.shape)
    shifts, dims = ((v,) if isinstance(v, int) else tuple(v) for v in (shifts, dims))
    if not shifts:
        raise RuntimeError("`shifts` required")
    if len(shifts) != len(dims):
        raise RuntimeError(
            f"shifts and dimensions must align. shifts: {len(shifts)}, dims:{len(dims)}"
        )
    out = input
    for shift, dim in zip(shifts, dims, strict=True):
        axis = ax.one(dim, input.ndim)
        n = input.shape[axis] if input.ndim else 0
        if n and shift % n:
            cut = n - shift % n
            out = _cat([_cut(out, axis, cut, n), _cut(out, axis, 0, cut)], axis)
    return APPLY["clone"](input) if out is input else out


def _cut(input: Tensor, axis: int, start: int, stop: int) -> Tensor:
    """Positions ``start`` to ``stop`` of ``axis``, as a view."""
    begin = tuple(start if k == axis else 0 for k in range(input.ndim))
    end = tuple(stop if k == axis else n for k, n in enumerate(input.shape))
    return APPLY["slice"](input, start=begin, stop=end, step=(1,) * input.ndim)


def rot90(input: Tensor, k: int = 1, dims: Sequence[int] = (0, 1)) -> Tensor:
    """The plane of ``dims`` turned ``k`` times by 90 degrees, from the first dim towards the second."""
    if len(dims) != 2:
        raise RuntimeError(f"expected total rotation dims == 2, but got dims = {len(dims)}")
    if input.ndim < 2:
        raise RuntimeError(f"expected total dims >= 2, but got total dims = {input.ndim}")
    a, b = (ax.one(d, input.ndim) for d in dims)
    if a == b:
        raise RuntimeError(
            f"expected rotation dims to be different, but got dim0 = {dims[0]} and dim1 = {dims[1]}"
        )
    turns = k % 4
    if turns == 0:
        return APPLY["clone"](input)
    if turns == 1:
        return input.flip(b).transpose(a, b)
    return input.flip(a, b) if turns == 2 else input.flip(a).transpose(a, b)


# -- repeated elements
# -------------------------------------------------------------------------------------------


def repeat(input: Tensor, *repeats: Any) -> Tensor:
    """``input`` tiled ``repeats`` times along its dims, of which more may come in front."""
    times = ax.sizes(repeats)
    new = len(times) - input.ndim
    if new < 0:
        raise RuntimeError(
            "Number of dimensions of repeat dims can not be smaller than number of dimensions of tensor"
        )
    if any(t < 0 for t in times):
        raise RuntimeError(
            f"Trying to create tensor with negative dimension {min(times)}: {list(times)}"
        )
    shape = (1,) * new + tuple(input.shape)
    paired = input.reshape([m for n in shape for m in (1, n)])
    wide = paired.expand([m for t, n in zip(times, shape, strict=True) for m in (t, n)])
    out = wide.reshape([t * n for t, n in zip(times, shape, strict=True)])
    return APPLY["clone"](out) if all(t == 1 for t in times) else out


def tile(input: Tensor, *dims: Any) -> Tensor:
    """``repeat``, with ones in front of ``dims`` where they are fewer than those of ``input``."""
    times = ax.sizes(dims)
    return repeat(input, (1,) * (input.ndim - len(times)) + times)


def repeat_interleave(
    input: Tensor, repeats: Any = None, dim: int | None = None, *, output_size: int | None = None
) -> Tensor:
    """Each position of ``dim`` repeated: an int, or a tensor of one count per position.

    Without ``dim`` the elements of the flattened input; of counts alone, their positions.
    """
    if repeats is None:
        _check_counts(input, None)
        return wrap(np.repeat(np.arange(input.numel()), _concrete(input, "repeat_interleave()")))
    if dim is None:
        input, dim = input.reshape(-1), 0
    axis = ax.one(dim, input.ndim)
    if not isinstance(repeats, Tensor) and not isinstance(repeats, int):
        raise TypeError("repeat_interleave(): argument 'repeats' must be int or Tensor")
    if isinstance(repeats, int) or repeats.numel() == 1:
        count = repeats if isinstance(repeats, int) else int(repeats.item())
        if count < 0:
            raise RuntimeError("Repeats must be non-negative")
        shape = input.shape
        wide = input.unsqueeze(axis + 1).expand(*shape[: axis + 1], count, *shape[axis + 1 :])
        out = wide.reshape(*shape[:axis], shape[axis] * count, *shape[axis + 1 :])
        return APPLY["clone"](out) if count == 1 else out
    _check_counts(repeats, input.shape[axis])
    places = np.repeat(np.arange(input.shape[axis]), _concrete(repeats, "repeat_interleave()"))
    if output_size is not None and places.size != output_size:
        raise RuntimeError("allocated size does not match required size")
    return APPLY["index_select"](input, wrap(places), axis=axis)


def _check_counts(repeats: Tensor, n: int | None) -> None:
    if repeats.ndim > 1 or (n is None and repeats.ndim != 1):
        raise RuntimeError(
            "repeats must be 0-dim or 1-dim tensor" if n is not None else
            "repeat_interleave only accept 1D vector as repeat"
        )  # fmt: skip
    if repeats.dtype not in (dt.int64, dt.int32):
        raise RuntimeError("repeats has to be Long or Int tensor")
    if n is not None and repeats.numel() != n:
        raise RuntimeError(
            "repeats must have the same size as input along dim, but got repeats.size(0) = "
            f"{repeats.numel()} and input.size(0) = {n}"
        )
    if (_concrete(repeats, "repeat_interleave()") < 0).any():
        raise RuntimeError("repeats can not be negative")


def broadcast_to(input: Tensor, size: Any) -> Tensor:
    """``expand``"""
    return input.expand(*size)


# -- windows
# -----------------------------------------------------------------------------------------------------


def unfold(self: Tensor, dimension: int, size: int, step: int) -> Tensor:
    """All windows of ``size`` positions of a dim, ``step`` apart, as a view with a new last dim."""
    axis = ax.one(dimension, self.ndim)
    n = self.shape[axis] if self.ndim else 1
    if size < 0:
        raise RuntimeError(f"size is {size} but must be >= 0")
    if size > n:
        raise RuntimeError(f"maximum size for tensor at dimension {axis} is {n} but size is {size}")
    if step <= 0:
        raise RuntimeError(f"step is {step} but must be > 0")
    if not self.ndim:
        return self.reshape(1) if size else self.reshape(1)[:0]
    last = movedim(self, axis, -1)
    seen = APPLY["windows"](last, kernel=(size,), stride=(step,), dilation=(1,))
    return movedim(seen, -2, axis)


def as_strided(input: Tensor, size: Any, stride: Any, storage_offset: int | None = None) -> Tensor:
    """The memory of ``input`` under other strides (in elements), as a view.

    Only a contiguous tensor that owns all of its memory has such views here: an offset counts from its first
    element. Raises RuntimeError for places outside of it.
    """
    size, stride = tuple(size), tuple(stride)
    if len(size) != len(stride):
        raise RuntimeError("mismatch in length of strides and shape")
    if any(s < 0 for s in stride):
        raise RuntimeError(
            f"as_strided: Negative strides are not supported at the moment, got strides: {list(stride)}"
        )
    owner = _owner(input)
    start = storage_offset
    if start is None:
        start = 0 if owner is input else _offset(input, owner)
    last = start + sum((n - 1) * s for n, s in zip(size, stride, strict=True))
    if start < 0 or (0 not in size and last >= owner.numel()):
        width = input.element_size()
        raise RuntimeError(
            f"setStorage: sizes {list(size)}, strides {list(stride)}, storage offset {start}, and itemsize "
            f"{width} requiring a storage size of {(last + 1) * width} are out of bounds for storage of size "
            f"{owner.numel() * width}"
        )
    flat = owner if owner.ndim == 1 else owner.reshape(-1)
    return APPLY["strided"](flat, size=size, steps=stride, start=start)


def _owner(input: Tensor) -> Tensor:
    """The tensor whose elements, in order, are the memory behind ``input``."""
    owner = input if input._base is None else input._base
    if owner.is_contiguous() and (owner is input or not input.requires_grad):
        return owner
    if input.is_contiguous() and input.requires_grad and input.numel() == owner.numel():
        return input
    raise NotImplementedError(
        "as_strided() of a view whose gradient is wanted, or of memory that is not in order: use "
        ".contiguous() first, or slices, unfold() and transpose()"
    )


def _offset(view_: Tensor, owner: Tensor) -> int:
    return (view_.data_ptr() - owner.data_ptr()) // owner.element_size()


# -- more dims
# ---------------------------------------------------------------------------------------------------


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


FUNCTIONS: dict[str, Callable] = {
    f.__name__: f
    for f in (
        flatten, unflatten, ravel, movedim, moveaxis, swapaxes, swapdims, adjoint, fliplr, flipud, roll,
        rot90, tile, repeat_interleave, broadcast_to, as_strided, atleast_1d, atleast_2d, atleast_3d,
    )
}  # fmt: skip
METHODS: dict[str, Any] = {k: f for k, f in FUNCTIONS.items() if not k.startswith("atleast")}
METHODS |= {"view": view, "contiguous": contiguous, "repeat": repeat, "unfold": unfold}
METHODS["view_as"] = lambda self, other: view(self, other.shape)
METHODS["reshape_as"] = lambda self, other: self.reshape(other.shape)
METHODS["expand_as"] = lambda self, other: self.expand(other.shape)
METHODS |= {"T": property(_transposed), "mT": property(_matrix_transposed)}
METHODS |= {"H": property(_hermitian), "mH": property(adjoint)}
