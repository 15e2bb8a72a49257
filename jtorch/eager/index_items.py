"""What stands between the brackets of ``x[...]``, sorted into a view and integer arrays.

The basic part (slices, ints and new axes) makes a view; lists, arrays, tensors and bools make at most one
gather of integer arrays that broadcast together. Masks become integer arrays. The placement of the result's
axes is NumPy's and PyTorch's.

Source: https://docs.pytorch.org/docs/stable/tensors.html and
https://numpy.org/doc/stable/user/basics.indexing.html
"""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np

from jtorch.core import op as op_module
from jtorch.core.dim import is_symbolic
from jtorch.core.dtypes import bool_, int64, uint8
from jtorch.core.errors import CompileError, user_source
from jtorch.core.number_ranges import number_type
from jtorch.core.sizes import slice_bounds
from jtorch.eager.binding import APPLY
from jtorch.eager.nested import composed, is_recorded, tensor_of
from jtorch.eager.placement import beside
from jtorch.eager.python_values import as_tensor_data
from jtorch.eager.tensor import Tensor, _concrete, wrap

_NON_TUPLE = (
    "Using a non-tuple sequence for multidimensional indexing is deprecated and will be changed in "
    "pytorch 2.9; use x[tuple(seq)] instead of x[seq]. In pytorch 2.9 this will be interpreted as tensor "
    "index, x[torch.tensor(seq)], which will result either in an error or a different result"
)
_INT64 = np.dtype(np.int64)
Advanced = list[tuple[int, Tensor]]  # (axis of the view, array or mask)


def position(k: int, n: int, axis: int) -> int:
    """``k``, counted from the end where it is negative. Raises IndexError out of range."""
    if not -n <= k < n:
        raise IndexError(f"index {k} is out of bounds for dimension {axis} with size {n}")
    return k + n if k < 0 else k


def parts_of(item: Any) -> list[Any]:
    """The entries of an item; what is no slice, int, None or Ellipsis as a tensor or a bool."""
    if isinstance(item, list) and len(item) < 32 and any(map(_makes_a_tuple, item)):
        warnings.warn(_NON_TUPLE, UserWarning, stacklevel=4)
        item = tuple(item)
    return [_entry(p) for p in (item if isinstance(item, tuple) else (item,))]


def _makes_a_tuple(part: Any) -> bool:
    sequences = (slice, list, tuple, range, np.ndarray, Tensor)
    return part is None or part is Ellipsis or isinstance(part, sequences)


def _entry(part: Any) -> Any:
    if isinstance(part, (list, tuple, range, np.ndarray)):
        part = _as_index(part)
    elif getattr(part, "as_runtime_scalar", None).__class__ is int or is_recorded(
        part
    ):  # which only a replay knows
        part = tensor_of(part)
    if isinstance(part, np.bool_):
        return bool(part)
    if isinstance(part, str):
        raise TypeError("new(): invalid data type 'str'")
    if not isinstance(part, Tensor):
        return part
    if part.dtype is uint8:  # a mask, also without dims
        warnings.warn(
            "indexing with dtype torch.uint8 is now deprecated, please use a dtype torch.bool instead.",
            UserWarning,
            stacklevel=4,
        )
        part = part.to(bool_)
    if part._data.dtype.kind not in "biu":
        raise IndexError("tensors used as indices must be long, int, byte or bool tensors")
    if part._data.dtype.kind == "b" and not part.ndim:
        return bool(part)
    return part


def _as_index(part: Any) -> Tensor:
    made = composed(part)
    if made is not None:
        return made
    data = as_tensor_data(list(part) if isinstance(part, range) else part)
    if not isinstance(part, np.ndarray) and not data.size:
        data = data.astype(np.int64)
    return wrap(data)


def is_mask(part: Any) -> bool:
    return isinstance(part, Tensor) and part._data.dtype.kind == "b"


def is_array(part: Any) -> bool:
    """Whether an entry is gathered: a 0-d tensor is an int, except where its element is not known."""
    if not isinstance(part, Tensor):
        return False
    if part.ndim or part._data.__class__ is not np.ndarray:
        return True
    return not op_module.CONTEXT.get().evaluator.reads_elements


def _width(part: Any) -> int:
    """How many axes of the tensor an entry takes."""
    if part is None or part is Ellipsis or part.__class__ is bool:
        return 0
    return part.ndim if is_mask(part) else 1


def _filled(parts: list[Any], ndim: int) -> list[Any]:
    """The entries with slices for what Ellipsis, or nothing, stands for."""
    used = sum(map(_width, parts))
    if used > ndim:
        raise IndexError(f"too many indices for tensor of dimension {ndim}")
    whole = [slice(None)] * (ndim - used)
    dots = [k for k, p in enumerate(parts) if p is Ellipsis]
    if not dots:
        return parts + whole
    rest = [p for p in parts[dots[0] + 1 :] if p is not Ellipsis]  # further ones stand for nothing
    return parts[: dots[0]] + whole + rest


def basic(self: Tensor, item: Any, view_only: bool = False) -> tuple[Tensor, Advanced]:
    """(the view that slices, ints and None make, what is still to be gathered from it).

    A whole tensor comes back as a view of its own unless ``view_only`` is enough.
    """
    parts = parts_of(item)
    if not self.ndim and any(p.__class__ is not bool and _width(p) for p in parts):
        raise IndexError(
            "invalid index of a 0-dim tensor. Use `tensor.item()` in Python or `tensor.item<T>()` in C++ to "
            "convert a 0-dim tensor to a number"
        )
    parts = _filled(parts, self.ndim)
    view = _sliced(self, parts)
    advanced: Advanced = []
    drop, new, axis, place = [], [], 0, 0
    for part in parts:
        width = _width(part)
        if part is None or part.__class__ is bool:
            new.append(place)
            if part is not None:  # one new axis of size 1, read once or not at all
                advanced.append((place, wrap(np.zeros(int(part), np.int64))))
            place += 1
        elif is_array(part):
            advanced.append((place, part))
            place += width
        elif isinstance(part, slice):
            place += 1
        else:
            drop.append(axis)
        axis += width
    if drop:
        view = APPLY["squeeze"](view, axes=tuple(drop))
    if new:
        view = APPLY["unsqueeze"](view, axes=tuple(new))
    if view is self and not advanced and not view_only:
        ones = (1,) * self.ndim
        view = APPLY["slice"](view, start=(0,) * self.ndim, stop=tuple(self.shape), step=ones)
    return view, advanced


def _sliced(self: Tensor, parts: list[Any]) -> Tensor:
    """The view that slices and ints cut out; ints leave an axis of size 1."""
    bounds: list[tuple[int, int, int]] = []
    for part in parts:
        for _ in range(_width(part)):
            axis = len(bounds)
            bounds.append(_range(part, self.shape[axis], axis))
    if all(b == 0 and e == n and s == 1 for (b, e, s), n in zip(bounds, self.shape, strict=True)):
        return self
    start, stop, step = zip(*bounds, strict=True)
    return APPLY["slice"](self, start=start, stop=stop, step=step)


def _range(part: Any, n: int, axis: int) -> tuple[int, int, int]:
    if isinstance(part, slice):
        if part.step is not None and part.step.__index__() < 0:
            raise ValueError("step must be greater than zero")
        return slice_bounds(part, n)
    if is_array(part):
        return 0, n, 1
    try:
        k = part if is_symbolic(part) else part.__index__()
    except (AttributeError, TypeError):
        raise IndexError(
            "only integers, slices (`:`), ellipsis (`...`), None and long or byte Variables are valid "
            f"indices (got {number_type(part).__name__})"
        ) from None
    k = position(k, n, axis)
    return k, k + 1, 1


# -- the advanced part -----------------------------------------------------------------------------


def gathered(view: Tensor, advanced: Advanced) -> tuple[Tensor, list[Tensor], tuple[int, ...]]:
    """(view with the indexed axes adjacent, arrays of one shape, those axes)."""
    axes: list[int] = []
    arrays: list[Tensor] = []
    for axis, part in advanced:
        if is_mask(part):
            check_mask(view, axis, part)
            arrays += places_of(part)
            axes += range(axis, axis + part.ndim)
        else:
            arrays.append(_wrapped(part, view.shape[axis]))
            axes.append(axis)
    _check_apart(axes, arrays)
    arrays = _of_one_shape(arrays)
    if axes != list(range(axes[0], axes[0] + len(axes))):  # apart: the result's axes come first
        order = (*axes, *(k for k in range(view.ndim) if k not in axes))
        view = APPLY["permute"](view, axes=order)
        axes = list(range(len(axes)))
    return view, arrays, tuple(axes)


def places_of(mask: Tensor) -> list[Tensor]:
    """Where ``mask`` is not 0: an int64 vector for each of its axes."""
    evaluator = op_module.CONTEXT.get().evaluator
    if evaluator.reads_elements:
        found = np.nonzero(_concrete(mask, "indexing with a boolean mask"))
        return [beside(mask, wrap(places)) for places in found]
    holds = mask if mask.dtype is bool_ else APPLY["ne"](mask.detach(), 0)
    flat = wrap(evaluator.places_of_mask(holds.reshape(-1)._data))
    columns: list[Tensor] = []
    for n in reversed(tuple(mask.shape)[1:]):
        columns.append(APPLY["remainder"](flat, n))
        flat = APPLY["floor_divide"](flat, n)
    return [flat, *reversed(columns)]


def _check_apart(axes: list[int], arrays: list[Tensor]) -> None:
    """Raise where a 0-d tensor beside arrays, with an axis between them, would move the result's axes, which
    the int that it is in eager mode does not."""
    ndims = {a.ndim for a in arrays}
    if 0 in ndims and len(ndims) > 1 and axes != list(range(axes[0], axes[0] + len(axes))):
        raise CompileError(
            f"{user_source()}: an index that is a 0-d tensor, beside an array and with an axis between them, "
            "can't be followed while a function is compiled: index in two steps."
        )


def _of_one_shape(arrays: list[Tensor]) -> list[Tensor]:
    shapes = [tuple(a.shape) for a in arrays]
    if all(s == shapes[0] for s in shapes):
        return arrays
    try:
        shape = np.broadcast_shapes(*shapes)
    except ValueError:
        names = ", ".join(str(list(s)) for s in shapes)
        raise IndexError(
            f"shape mismatch: indexing tensors could not be broadcast together with shapes {names}"
        ) from None
    return [a if tuple(a.shape) == shape else a.expand(*shape) for a in arrays]


def check_mask(view: Tensor, axis: int, mask: Tensor) -> None:
    for k, n in enumerate(mask.shape):
        if view.shape[axis + k] != n:
            raise IndexError(
                f"The shape of the mask {list(mask.shape)} at index {k} does not match the shape of the "
                f"indexed tensor {list(view.shape)} at index {axis + k}"
            )


def _wrapped(index: Tensor, n: int) -> Tensor:
    """Indices as int64 with the negative ones counted from the end."""
    data = index._data
    known = data.__class__ is np.ndarray and op_module.CONTEXT.get().evaluator.reads_elements
    if known and data.dtype is _INT64 and (not data.size or np.minimum.reduce(data, None) >= 0):
        return index
    index = index.to(int64)
    return APPLY["where"](index < 0, index + n, index)


def out_of_range(error: IndexError, axes: tuple[int, ...]) -> IndexError:
    """The error of a gather in PyTorch's words: the index as written, counted among the arrays."""
    words = str(error).split()
    if len(words) < 3 or not words[1].lstrip("-").isdigit():
        return error
    k, axis, n = int(words[1]), int(words[-4]), int(words[-1])
    k = k - n if k < 0 else k
    return IndexError(f"index {k} is out of bounds for dimension {axis - axes[0]} with size {n}")
