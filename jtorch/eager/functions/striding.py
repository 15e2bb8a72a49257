"""Views that go through memory in steps of their own: sliding windows and named strides.

Source: https://docs.pytorch.org/docs/stable/torch.html#indexing-slicing-joining-mutating-ops
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any

import numpy as np

from jtorch.core import op as op_module
from jtorch.core.device_array import ARRAYS, DeviceArray
from jtorch.core.errors import CompileError, user_source
from jtorch.core.strides import memory_order
from jtorch.eager import storage
from jtorch.eager.binding import APPLY
from jtorch.eager.duals import is_dual
from jtorch.eager.empty_views import layout
from jtorch.eager.functions.reordering import movedim
from jtorch.eager.grad_mode import no_grad
from jtorch.eager.rebase import FromFunction, note_for_writes
from jtorch.eager.results import note_view
from jtorch.eager.tensor import Tensor, has_elements, reads_elements, wrap
from jtorch.ops import axes as ax

_UNKNOWN = (
    "{}: as_strided() of a part of another tensor, of which nothing is known while a function is compiled: "
    "use .contiguous() first, or slices, unfold() and transpose()"
)
_WRITTEN = (
    "as_strided() made a view of memory that its input has not, or not side by side, so gradients can't "
    "follow what is written to that memory: write to the input, or to a .clone()"
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

    The gradient is that of the elements of ``input``: what lies beside them in memory has none by this view.
    Raises RuntimeError for places outside of the memory.
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
    source = _source(input)
    if start is None:
        start = 0 if source is input else _offset(input, source)
    else:
        start -= _begin(source)
    last = start + sum((n - 1) * s for n, s in zip(size, stride, strict=True))
    order = _order(source)
    if order is None or start < 0 or (0 not in size and last >= source.numel()):
        return _beyond(input, source, size, stride, start)
    # a view that was made under no_grad is no way to its base's gradient
    with no_grad() if source.requires_grad and not input.requires_grad else contextlib.nullcontext():
        return APPLY["strided"](_flat(source, order), size=size, steps=stride, start=start)


def _source(input: Tensor) -> Tensor:
    """What such a view is taken of: the base, by which writes are followed, unless a gradient is wanted,
    which is that of the elements of ``input`` alone."""
    followed = input.requires_grad or is_dual(input)
    return input if input._base is None or followed else input._base


def _order(source: Tensor) -> tuple[int, ...] | None:
    """The axes in which the elements of ``source`` lie side by side in memory; None where they don't."""
    if source.is_contiguous():
        return tuple(range(source.ndim))
    return memory_order(tuple(source.shape), source.stride())


def _flat(source: Tensor, order: tuple[int, ...]) -> Tensor:
    """The elements of ``source`` as a vector, in the order of memory."""
    if order != tuple(range(source.ndim)):
        source = source.permute(order)
    if source.ndim == 1 and source.stride(0) != 1:  # of one element: further strides count in these
        source = source.squeeze()
    return source if source.ndim == 1 else source.reshape(-1)


def _begin(source: Tensor) -> int:
    """Elements before the first one of ``source`` in its memory."""
    value = source._data
    if value.__class__ in ARRAYS and reads_elements():
        return storage.storage_offset(source)
    if value.__class__ is np.ndarray:
        return _none_before(storage.offset_of(value))
    if value.__class__ is DeviceArray:
        return _none_before(value.offset)
    memory = getattr(value, "storage", None)
    if memory is None:  # of one example of many
        if source._base is not None:
            raise NotImplementedError(
                "as_strided() from storage_offset on, of a view whose gradient is wanted, in a function that "
                "vmap() maps: leave storage_offset out, or use slices"
            )
        return 0
    if memory.source is not None:
        _none_before(storage.offset_of(memory.source.array))
    return value.offset


def _none_before(offset: int) -> int:
    """Raise where what is recorded has elements before it, which another call may have elsewhere."""
    if offset:
        raise CompileError(_UNKNOWN.format(user_source()))
    return 0


def _beyond(input: Tensor, source: Tensor, size: Any, stride: Any, start: int) -> Tensor:
    """The same of all the memory that ``source`` is a part of, from ``start`` elements after its first one
    on: places that it has not, or whose elements are not side by side."""
    from jtorch.eager.strided_gradient import AsStrided  # which needs what makes tensors, and that this

    value = source._data
    if value.__class__ not in ARRAYS or not reads_elements():
        raise _no_elements(source, size, stride, start)
    memory, start = storage.untyped_storage(source), start + storage.storage_offset(source)
    storage.check_bounds(size, stride, start, value.dtype.itemsize, memory.nbytes())

    def window() -> Tensor:
        made = wrap(storage.window(memory, value.dtype, size, stride, start))
        made._cell = source._cell
        note_view(made, source, (source,))
        return made

    if (input.requires_grad and op_module.CONTEXT.get().grad) or is_dual(input):
        made = AsStrided.apply(input, window, size, stride, start)
    else:
        made = window()
        made._how = FromFunction((source,))
        note_for_writes(made)
    made._how.reason = _WRITTEN
    return made


def _no_elements(source: Tensor, size: Any, stride: Any, start: int) -> Exception:
    """The error where nobody has the memory behind ``source``."""
    memory = getattr(source._data, "storage", None)
    if memory is None and source._data.__class__ not in ARRAYS:
        return NotImplementedError(
            "as_strided() in a function that vmap() maps, of what is not in order or has not all of these "
            "places: use .contiguous() first, or slices, unfold() and transpose()"
        )
    # what the function has made has no more memory than it shows
    if memory is not None and memory.source is None:
        width, start = source.element_size(), start + source._data.offset
        storage.check_bounds(size, stride, start, width, memory.current.type.size * width)
    return CompileError(_UNKNOWN.format(user_source()))


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
