"""``x[...]`` and ``x[...] = value``: ints, slices, None, Ellipsis, and integer or boolean arrays.

``index_items.py`` splits an item into a basic part (slices, ints and new axes: a view) and at most one
advanced part (integer arrays that broadcast together: a gather).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from jtorch.core import dtypes as dt, op as op_module
from jtorch.core.dim import is_symbolic
from jtorch.core.errors import user_source
from jtorch.core.number_ranges import check_scalar
from jtorch.eager import inplace
from jtorch.eager.autocasting import autocasts
from jtorch.eager.binding import APPLY
from jtorch.eager.duals import is_dual
from jtorch.eager.factory import like
from jtorch.eager.index_items import (
    Advanced,
    basic,
    check_mask,
    gathered,
    is_mask,
    out_of_range,
    position,
)
from jtorch.eager.messages import long_name
from jtorch.eager.nested import tensor_of
from jtorch.eager.overlap import check_read, check_written
from jtorch.eager.plain_views import steps_by_item, view_at_once
from jtorch.eager.python_values import as_tensor_data
from jtorch.eager.rebase import VIEW_OF_LEAF
from jtorch.eager.selection import Places, Selection, refused, selected
from jtorch.eager.tensor import Tensor, wrap

_WHOLE = slice(None)
_INT64 = np.dtype(np.int64)
_select_unchecked, _with_axes = APPLY["select"], APPLY["unsqueeze"]


def getitem(self: Tensor, item: Any) -> Tensor:
    """A view for ints, slices, None and Ellipsis; a copy where tensors or lists take part."""
    if item.__class__ is int:
        shape = self._data.shape
        if shape and -1 < item < shape[0]:
            return _select_unchecked(self, axis=0, index=item)
        return _select(self, 0, item)
    if item is None:
        return _with_axes(self, axes=(0,))
    if item.__class__ is Tensor and _is_of_first_axes(item._data, self._data.ndim):
        if item._data.dtype is _INT64 and op_module.CONTEXT.get().evaluator.reads_elements:
            try:
                return APPLY["index"](self, item, axes=(0,))
            except IndexError:  # some count from the end, or are out of range
                pass
        view, advanced = self, [(0, item)]
    else:
        items = item if item.__class__ is tuple else (item,)
        plain = view_at_once(self, items)
        if plain is None:
            plain = _plain(self, items)
        if plain is not None:
            return plain
        view, advanced = basic(self, item)
    if not advanced:
        return view
    evaluator = op_module.CONTEXT.get().evaluator
    if not (evaluator.reads_elements or evaluator.counts_masks) and _is_one_mask(advanced):
        axis, mask = advanced[0]
        check_mask(view, axis, mask)
        return selected(view, axis, mask)
    moved, arrays, axes = gathered(view, advanced)
    try:
        found = APPLY["index"](moved, *arrays, axes=axes)
    except IndexError as error:
        raise out_of_range(error, axes) from None
    if not arrays[0].ndim:
        op_module.CONTEXT.get().evaluator.picked(found, moved, tuple(a._data for a in arrays), axes)
    return found


def _is_of_first_axes(index: Any, ndim: int) -> bool:
    """Whether it is an array of integers, or a mask, and nothing is to be sorted out."""
    kind = index.dtype.kind
    return (kind == "i" and index.ndim > 0 and ndim > 0) or (kind == "b" and 0 < index.ndim <= ndim)


def _plain(self: Tensor, item: tuple) -> Tensor | None:
    """The view that ints, slices and None alone make, without the general way; None for other items."""
    steps = steps_by_item(self._data.shape, item) if item else None
    if steps is None:
        return None
    view = self
    for op, statics in steps:
        view = APPLY[op.name](view, **statics)
    return view


def setitem(self: Tensor, item: Any, value: Any) -> None:
    """Write ``value``, broadcast and cast, into the places that ``item`` names."""
    if op_module.CONTEXT.get().grad:
        if self._requires_grad and self._node is None and self._base is None:
            raise RuntimeError(VIEW_OF_LEAF)
        inplace.check_allowed(self, (value.everywhere if value.__class__ is Selection else value,))
    picked: Places | None = None
    if value.__class__ is Selection:
        value, picked = value.everywhere, value.places
    elif not isinstance(value, Tensor):
        value = _as_value(self, value)
    if value._data.dtype is not self._data.dtype:
        value = value.to(self.dtype)
    _assign(self, item, value, accumulate=False, picked=picked)


def _as_value(self: Tensor, value: Any) -> Tensor:
    number = isinstance(value, (bool, int, float, complex, np.generic))
    if not number and not hasattr(value, "as_runtime_scalar"):
        kind = "numpy.ndarray" if isinstance(value, np.ndarray) else type(value).__name__
        raise TypeError(f"can't assign a {kind} to a torch.{long_name(self._data.dtype)}Tensor")
    check_scalar(dt.plain(value), self._data.dtype)
    changes = hasattr(value, "as_runtime_scalar") or is_symbolic(value)
    return tensor_of(value, self.dtype) if changes else wrap(as_tensor_data(value, self.dtype))


def _assign(self: Tensor, item: Any, value: Tensor, accumulate: bool, picked: Places | None = None) -> None:
    """Write ``value`` (or add it, repeated places several times) where ``item`` says; ``picked``: of which
    places it is what stands at all of them."""
    target = self if inplace.is_tracked(self, value) or is_dual(self, value) else self.detach()
    view, advanced = basic(target, item, view_only=True)
    check_written(view)
    if picked is not None and not (_is_one_mask(advanced) and picked.fit(view, *advanced[0])):
        raise refused(user_source())
    if not advanced:
        if not value.ndim and not accumulate:
            inplace.fill_(view, value)
            return
        value = _fit(value, view.shape, indexed=False)
        inplace.copy_(view, view + value if accumulate else value)
        return
    if not _is_filled(advanced, value):
        check_read(view, value)
    masked = None if accumulate else _masked(view, advanced, value, picked is not None)
    if masked is not None:
        before = inplace.before_write(view) if target is self else view
        inplace.overwrite(view, APPLY["mask_put"](before, *masked))
        return
    view, arrays, axes = gathered(view, advanced)
    shape = view.shape[: axes[0]] + arrays[0].shape + view.shape[axes[-1] + 1 :]
    before = inplace.before_write(view) if target is self else view
    value = _fit(value, shape, indexed=True)
    try:
        if accumulate:
            written = before + APPLY["index_add"](value, *arrays, axes=axes, shape=tuple(view.shape))
        else:
            written = APPLY["index_put"](before, value, *arrays, axes=axes)
    except IndexError as error:
        raise out_of_range(error, axes) from None
    inplace.overwrite(view, written)


def _is_filled(advanced: Advanced, value: Tensor) -> bool:
    """Whether PyTorch reads ``value`` before it writes: one number where masks hold; and what is written to
    the one place that 0-d tensors name, which is a view of it, wherever that is."""
    if not any(part.ndim for _, part in advanced):
        return True
    return value.numel() == 1 and all(is_mask(part) for _, part in advanced)


def _is_one_mask(advanced: Advanced) -> bool:
    return len(advanced) == 1 and is_mask(advanced[0][1])


def _masked(view: Tensor, advanced: Advanced, value: Tensor, whole: bool) -> tuple[Tensor, Tensor] | None:
    """(``value``, mask) in the shape of ``view`` where there is one mask and each place it names gets the
    same value, or has its own in ``value``, which is ``whole``: how many places there are need not be known.
    None otherwise."""
    if not _is_one_mask(advanced):
        return None
    (axis, mask), shape = advanced[0], tuple(view.shape)
    check_mask(view, axis, mask)
    after = len(shape) - axis - mask.ndim
    if value.ndim > after and not whole:
        before = value.ndim - after - 1
        if before > axis or value.shape[before] != 1:
            return None
        value = value.reshape(*value.shape[:before], *(1,) * mask.ndim, *value.shape[before + 1 :])
    if not _broadcasts(value, shape):
        return None
    mask = mask.reshape(*mask.shape, *(1,) * after)
    return tuple(t if tuple(t.shape) == shape else t.expand(*shape) for t in (value, mask))  # type: ignore


def index_put_(input: Tensor, indices: Any, values: Tensor, accumulate: bool = False) -> Tensor:
    """``input[indices] = values`` for a tuple of tensors; ``accumulate`` adds, repeated places several times.

    Raises RuntimeError where the dtypes differ.
    """
    if values.dtype is not input.dtype:
        raise RuntimeError(
            "Index put requires the source and destination dtypes match, got "
            f"{long_name(input._data.dtype)} for the destination and {long_name(values._data.dtype)} for the "
            "source."
        )
    if op_module.CONTEXT.get().grad:
        inplace.check_allowed(input, (values,))
    item = tuple(slice(None) if i is None else i for i in indices)
    _assign(input, item, values, accumulate)
    return input


@autocasts(cuda="promote")
def index_put(input: Tensor, indices: Any, values: Tensor, accumulate: bool = False) -> Tensor:
    """A copy of ``input`` with ``values`` at ``indices``, see ``index_put_``."""
    made, shared = APPLY["clone"](input), wrap(np.False_)
    each = shared
    for given in (values, *indices):
        each = each if given is None else like(given, each)
    if each is not shared:  # those of a batch's examples go into a copy for each example
        made = APPLY["where"](each, made, made)
    return index_put_(made, indices, values, accumulate)


def _fit(value: Tensor, shape: Any, indexed: bool) -> Tensor:
    """``value`` broadcast to ``shape``; leading axes of size 1 may be too many."""
    shape = tuple(shape)
    if tuple(value.shape) == shape:
        return value
    short = value
    extra = value.ndim - len(shape)
    if extra > 0 and all(n == 1 for n in value.shape[:extra]):
        short = value.reshape(value.shape[extra:])
    try:
        return APPLY["expand"](short, shape=shape) if _broadcasts(short, shape) else short.expand(*shape)
    except RuntimeError:
        if not indexed:
            raise
        raise RuntimeError(
            f"shape mismatch: value tensor of shape {list(value.shape)} cannot be broadcast to indexing "
            f"result of shape {list(shape)}"
        ) from None


def _broadcasts(value: Tensor, shape: tuple[int, ...]) -> bool:
    new = len(shape) - value.ndim
    return new >= 0 and all(n in (1, m) for n, m in zip(value.shape, shape[new:], strict=True))


def _select(self: Tensor, axis: int, k: int) -> Tensor:
    if not self.ndim:
        raise IndexError(
            "invalid index of a 0-dim tensor. Use `tensor.item()` in Python or `tensor.item<T>()` in C++ to "
            "convert a 0-dim tensor to a number"
        )
    return APPLY["select"](self, axis=axis, index=position(k, self._data.shape[axis], axis))
