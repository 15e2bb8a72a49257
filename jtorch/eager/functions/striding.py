"""Views that go through memory in steps of their own: sliding windows and named strides.

Source: https://docs.pytorch.org/docs/stable/torch.html#indexing-slicing-joining-mutating-ops
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any

import numpy as np

from jtorch.core import op as op_module
from jtorch.core.device_array import DeviceArray
from jtorch.core.errors import CompileError, user_source
from jtorch.eager import storage
from jtorch.eager.binding import APPLY
from jtorch.eager.duals import is_dual
from jtorch.eager.empty_views import layout
from jtorch.eager.functions.reordering import movedim
from jtorch.eager.grad_mode import no_grad
from jtorch.eager.tensor import Tensor, has_elements, wrap
from jtorch.ops import axes as ax

_UNKNOWN = (
    "{}: as_strided() of a part of another tensor, of which nothing is known while a function is compiled: "
    "use .contiguous() first, or slices, unfold() and transpose()"
)


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
    last = self if axis == self.ndim - 1 else movedim(self, axis, -1)
    seen = APPLY["windows"](last, kernel=(size,), stride=(step,), dilation=(1,))
    return seen if last is self else movedim(seen, -2, axis)


def as_strided(input: Tensor, size: Any, stride: Any, storage_offset: int | None = None) -> Tensor:
    """The memory of ``input`` under other strides (in elements), as a view; an offset counts from the begin
    of that memory, and is that of ``input`` where it is left out.

    Where gradients flow only a contiguous tensor that has all of its memory has such views here. Raises
    RuntimeError for places outside of it.
    """
    size, stride = ax.sizes((size,)), ax.sizes((stride,))
    if any(n < 0 for n in size):
        raise RuntimeError(f"Trying to create tensor with negative dimension {min(size)}: {list(size)}")
    if len(size) != len(stride):
        raise RuntimeError("mismatch in length of strides and shape")
    if any(s < 0 for s in stride):
        raise RuntimeError(
            f"as_strided: Negative strides are not supported at the moment, got strides: {list(stride)}"
        )
    start = None if storage_offset is None else ax.integer("as_strided", "storage_offset", storage_offset)
    owner = _owner(input, start is not None)
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
    # a view that was made under no_grad is no way to its base's gradient
    with no_grad() if owner.requires_grad and not input.requires_grad else contextlib.nullcontext():
        flat = owner if owner.ndim == 1 else owner.reshape(-1)
        return APPLY["strided"](flat, size=size, steps=stride, start=start)


def _owner(input: Tensor, from_the_begin: bool) -> Tensor:
    """The tensor whose elements, in order, are the memory behind ``input``; where places are not counted
    ``from_the_begin``, it may have a part of that memory."""
    owner = input if input._base is None else input._base
    followed = input.requires_grad or is_dual(input)
    if from_the_begin and _lies_behind(owner):  # what is made of .detach(), or set_(), has no base
        if not followed:
            return _all_of(owner)
    elif owner.is_contiguous() and (owner is input or not followed):
        return owner
    elif input.is_contiguous() and followed and input.numel() == owner.numel():
        return input
    raise NotImplementedError(
        "as_strided() of a view whose gradient is wanted, or of memory that is not in order: use "
        ".contiguous() first, or slices, unfold() and transpose()"
    )


def _lies_behind(tensor: Tensor) -> bool:
    """Whether there are other elements before the first one of ``tensor`` in its memory."""
    value = tensor._data
    if value.__class__ is DeviceArray:
        return value.offset > 0
    if value.__class__ is np.ndarray:
        return storage.offset_of(value) > 0
    memory = getattr(value, "storage", None)  # of a recording
    if memory is None:
        return False
    return value.offset > 0 or (memory.source is not None and storage.offset_of(memory.source.array) > 0)


def _all_of(tensor: Tensor) -> Tensor:
    """All elements of the memory that ``tensor`` lies in, in order."""
    value = tensor._data
    if value.__class__ is not np.ndarray and value.__class__ is not DeviceArray:
        raise CompileError(_UNKNOWN.format(user_source()))
    memory = storage.untyped_storage(tensor)
    count = memory.nbytes() // tensor.element_size()
    whole = wrap(storage.window(memory, value.dtype, (count,), (1,), 0))
    whole._cell = tensor._cell
    return whole


def _offset(view: Tensor, owner: Tensor) -> int:
    if has_elements(view) and not view.numel() and owner.numel():
        found = layout(view)
        if found is None:
            raise NotImplementedError(
                "as_strided() of a view of no elements, where what made it doesn't tell where it begins: "
                "give storage_offset"
            )
        return found[0]
    window = op_module.CONTEXT.get().evaluator.window
    (memory, first), (of_owner, start) = window(view._data), window(owner._data)
    if memory is not of_owner:  # of an argument another call may pass another part
        raise CompileError(_UNKNOWN.format(user_source()))
    return (first - start) // owner.element_size()


FUNCTIONS: dict[str, Callable] = {"as_strided": as_strided}
METHODS: dict[str, Any] = FUNCTIONS | {"unfold": unfold}
