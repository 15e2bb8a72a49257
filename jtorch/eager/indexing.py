"""``x[...]`` and ``x[...] = value``: ints, slices, None, Ellipsis, and integer or boolean arrays.

An item is split into a basic part (slices, ints and new axes: a view) and at most one advanced part (integer
arrays that broadcast together: a gather). Boolean masks become integer arrays. The placement of the result's
axes is NumPy's and PyTorch's.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from jtorch import op as op_module
from jtorch.dtypes import int64
from jtorch.eager import inplace
from jtorch.eager.binding import APPLY
from jtorch.eager.tensor import Tensor, as_tensor_data

_WHOLE = slice(None)


def getitem(self: Tensor, item: Any) -> Tensor:
    """A view for ints, slices, None and Ellipsis; a copy where tensors or lists take part."""
    if item.__class__ is int:
        return _select(self, 0, item)
    view = _plain(self, item if item.__class__ is tuple else (item,))
    if view is not None:
        return view
    view, advanced = _basic(self, item)
    if not advanced:
        return view
    moved, arrays, axes, _ = _gathered(view, advanced)
    return APPLY["index"](moved, *arrays, axes=axes)


def _plain(self: Tensor, item: tuple) -> Tensor | None:
    """The view that ints and slices alone make, without the general way; None for other items."""
    shape = self._data.shape
    if not item or len(item) > len(shape):
        return None
    start, stop, step = [0] * len(shape), list(shape), [1] * len(shape)
    ints, cut = [], False
    for k, part in enumerate(item):
        if part.__class__ is slice:
            if part == _WHOLE:
                continue
            b, e, s = part.indices(shape[k])
            if s < 1:
                return None
            start[k], stop[k], step[k] = b, max(b, e), s
            cut = True
        elif part.__class__ is int:
            ints.append((k, part))
        else:
            return None
    view = self
    if cut or not ints:
        view = APPLY["slice"](self, start=tuple(start), stop=tuple(stop), step=tuple(step))
    for k, part in reversed(ints):
        view = APPLY["select"](view, axis=k, index=_position(part, shape[k], k))
    return view


def setitem(self: Tensor, item: Any, value: Any) -> None:
    """Write ``value``, broadcast and cast, into the places that ``item`` names."""
    if op_module.CONTEXT.get().grad:
        inplace.check_allowed(self, (value,))
    if not isinstance(value, Tensor):
        value = Tensor(as_tensor_data(value, self.dtype))
    if value._data.dtype is not self._data.dtype:
        value = value.to(self.dtype)
    recorded = op_module.CONTEXT.get().grad and (self._requires_grad or value._requires_grad)
    if recorded:
        _set_recorded(self, item, value)
        return
    view, advanced = _basic(self.detach(), item)
    if advanced:
        moved, arrays, axes, _ = _gathered(view, advanced)
        shape = moved.shape[: axes[0]] + arrays[0].shape + moved.shape[axes[-1] + 1 :]
        written = APPLY["index_put"](moved, _fit(value, shape), *arrays, axes=axes)
        view, value = moved, written
    inplace.overwrite(view, _fit(value, view.shape).detach())


def _set_recorded(self: Tensor, item: Any, value: Tensor) -> None:
    """The write as an op on the tape: the whole tensor becomes its result."""
    source = Tensor(self._data) if not self._requires_grad else inplace._before(self)
    view, advanced = _basic(source, item, view_only=True)
    if advanced:
        moved, arrays, axes, order = _gathered(view, advanced)
        if view is not source:
            raise NotImplementedError(
                "assigning through slices and arrays at once where gradients flow: use one of them at a time"
            )
        shape = moved.shape[: axes[0]] + arrays[0].shape + moved.shape[axes[-1] + 1 :]
        result = APPLY["index_put"](moved, _fit(value, shape), *arrays, axes=axes)
        back = tuple(sorted(range(len(order)), key=order.__getitem__))
        inplace.overwrite(self, result.permute(back))
        return
    where, kept = _slices(source, item)
    target = tuple(_length(b, e, s) for b, e, s in zip(*where, strict=True))
    squeezed = tuple(n for k, n in enumerate(target) if k in kept)
    value = _fit(value, view.shape).reshape(squeezed).reshape(target)
    start, stop, step = where
    inplace.overwrite(self, APPLY["slice_put"](source, value, start=start, stop=stop, step=step))


def _length(start: int, stop: int, step: int) -> int:
    return max(0, -(-(stop - start) // step))


def _fit(value: Tensor, shape: Any) -> Tensor:
    """``value`` broadcast to ``shape``; leading axes of size 1 may be too many."""
    shape = tuple(shape)
    if tuple(value.shape) == shape:
        return value
    extra = value.ndim - len(shape)
    if extra > 0 and all(n == 1 for n in value.shape[:extra]):
        value = value.reshape(value.shape[extra:])
    try:
        return value.expand(*shape) if shape else value.reshape(())
    except RuntimeError:
        raise RuntimeError(
            f"shape mismatch: value tensor of shape {list(value.shape)} cannot be broadcast to indexing "
            f"result of shape {list(shape)}"
        ) from None


# -- the basic part ----------------------------------------------------------------------------------------


def _parts(self: Tensor, item: Any) -> list[Any]:
    """The item as a list with one entry per axis (and None for new axes), Ellipsis filled in."""
    parts = list(item) if isinstance(item, tuple) else [item]
    parts = [_mask_or_array(p) for p in parts]
    used = sum(p.ndim if _is_mask(p) else 1 for p in parts if p is not None and p is not Ellipsis)
    if used > self.ndim:
        raise IndexError(f"too many indices for tensor of dimension {self.ndim}")
    fill = [slice(None)] * (self.ndim - used)
    dots = [k for k, p in enumerate(parts) if p is Ellipsis]
    if len(dots) > 1:
        raise IndexError("an index can only have a single ellipsis ('...')")
    if dots:
        return parts[: dots[0]] + fill + parts[dots[0] + 1 :]
    return parts + fill


def _mask_or_array(part: Any) -> Any:
    if isinstance(part, (list, np.ndarray)):
        return Tensor(as_tensor_data(part))
    if isinstance(part, (bool, np.bool_)):
        raise NotImplementedError(
            "indexing with one bool: use a boolean tensor of the indexed shape"
        )
    if isinstance(part, Tensor) and part.is_floating_point():
        raise IndexError("tensors used as indices must be long, int, byte or bool tensors")
    return part


def _is_mask(part: Any) -> bool:
    return isinstance(part, Tensor) and part._data.dtype.kind == "b"


def _basic(
    self: Tensor, item: Any, view_only: bool = False
) -> tuple[Tensor, list[tuple[int, Tensor]]]:
    """(the view that slices, ints and None make, [(its axis, array)...] still to be gathered)."""
    parts = _parts(self, item)
    view, advanced, axis = self, [], 0
    start, stop, step = [], [], []
    for part in parts:
        if part is None:
            continue
        width = part.ndim if _is_mask(part) else 1
        for k in range(axis, axis + width):
            b, e, s = _range(part, self.shape[k], k)
            start.append(b)
            stop.append(e)
            step.append(s)
        axis += width
    if any(
        b != 0 or e != n or s != 1 for b, e, s, n in zip(start, stop, step, self.shape, strict=True)
    ):
        view = APPLY["slice"](view, start=tuple(start), stop=tuple(stop), step=tuple(step))
    drop, new, axis, place = [], [], 0, 0
    for part in parts:
        if part is None:
            new.append(place)
            place += 1
        elif isinstance(part, Tensor) and (part.ndim or part._data.dtype.kind == "b"):
            advanced.append((place, part))
            axis += part.ndim if _is_mask(part) else 1
            place += part.ndim if _is_mask(part) else 1
        elif isinstance(part, slice):
            axis += 1
            place += 1
        else:
            drop.append(axis)
            axis += 1
    if drop:
        view = APPLY["squeeze"](view, axes=tuple(drop))
    if new:
        view = APPLY["unsqueeze"](view, axes=tuple(new))
    if view is self and not advanced and not view_only:
        view = APPLY["slice"](
            view, start=(0,) * self.ndim, stop=tuple(self.shape), step=(1,) * self.ndim
        )
    return view, advanced


def _slices(self: Tensor, item: Any) -> tuple[tuple, list[int]]:
    """((starts, stops, steps), the axes that ints don't drop) of a basic item."""
    start, stop, step, kept = [], [], [], []
    for axis, part in enumerate(p for p in _parts(self, item) if p is not None):
        b, e, s = _range(part, self.shape[axis], axis)
        start.append(b)
        stop.append(e)
        step.append(s)
        if isinstance(part, slice):
            kept.append(axis)
    return (tuple(start), tuple(stop), tuple(step)), kept


def _range(part: Any, n: int, axis: int) -> tuple[int, int, int]:
    if isinstance(part, slice):
        if part.step is not None and int(part.step) <= 0:
            raise ValueError("step must be greater than zero")
        b, e, s = part.indices(n)
        return b, max(b, e), s
    if isinstance(part, Tensor) and (part.ndim or part._data.dtype.kind == "b"):
        return 0, n, 1
    try:
        k = part.__index__()
    except (AttributeError, TypeError):
        raise IndexError(
            "only integers, slices (`:`), ellipsis (`...`), None and long or byte Variables are valid "
            f"indices (got {type(part).__name__})"
        ) from None
    k = _position(k, n, axis)
    return k, k + 1, 1


def _position(k: int, n: int, axis: int) -> int:
    if not -n <= k < n:
        raise IndexError(f"index {k} is out of bounds for dimension {axis} with size {n}")
    return k + n if k < 0 else k


def _select(self: Tensor, axis: int, k: int) -> Tensor:
    if not self.ndim:
        raise IndexError(
            "invalid index of a 0-dim tensor. Use `tensor.item()` in Python or `tensor.item<T>()` in C++ to "
            "convert a 0-dim tensor to a number"
        )
    return APPLY["select"](self, axis=axis, index=_position(k, self._data.shape[axis], axis))


# -- the advanced part -------------------------------------------------------------------------------------


def _gathered(
    view: Tensor, advanced: list[tuple[int, Tensor]]
) -> tuple[Tensor, list[Tensor], tuple[int, ...], tuple[int, ...]]:
    """(view with the indexed axes adjacent, arrays of one shape, those axes, the view's order)."""
    axes: list[int] = []
    arrays: list[Tensor] = []
    for axis, part in advanced:
        if _is_mask(part):
            _check_mask(view, axis, part)
            places = np.nonzero(_values(part))
            arrays += [Tensor(p) for p in places]
            axes += range(axis, axis + part.ndim)
        else:
            arrays.append(_wrapped(part, view.shape[axis]))
            axes.append(axis)
    shape = np.broadcast_shapes(*(tuple(a.shape) for a in arrays))
    arrays = [a if tuple(a.shape) == shape else a.expand(*shape) for a in arrays]
    order = tuple(range(view.ndim))
    if axes != list(range(axes[0], axes[0] + len(axes))):  # apart: the result's axes come first
        order = (*axes, *(k for k in order if k not in axes))
        view = APPLY["permute"](view, axes=order)
        axes = list(range(len(axes)))
    return view, arrays, tuple(axes), order


def _values(mask: Tensor) -> np.ndarray:
    from jtorch.eager.tensor import _concrete

    return _concrete(mask, "indexing with a boolean mask")


def _check_mask(view: Tensor, axis: int, mask: Tensor) -> None:
    for k, n in enumerate(mask.shape):
        if view.shape[axis + k] != n:
            raise IndexError(
                f"The shape of the mask {list(mask.shape)} at index {k} does not match the shape of the "
                f"indexed tensor {list(view.shape)} at index {axis + k}"
            )


def _wrapped(index: Tensor, n: int) -> Tensor:
    """Indices as int64 with the negative ones counted from the end."""
    index = index.to(int64)
    return APPLY["where"](index < 0, index + n, index)
