"""In-place ops: compute the new value, write it over the old memory, advance the version, move the tape.

The tensor's place on the tape becomes the op that made the new value (see ``rebase.py`` for views). What
autograd can't follow is an error before anything is written.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np

from jtorch.core import op as op_module
from jtorch.core.number_ranges import check_scalar, element, require_number
from jtorch.core.op import Op
from jtorch.eager import creation
from jtorch.eager.autocasting import uncast
from jtorch.eager.binding import APPLY
from jtorch.eager.captured import UNDER_WAY, refuse_captured
from jtorch.eager.duals import OUT, carry, is_dual, refuse_written, tangent_of, written
from jtorch.eager.messages import long_name
from jtorch.eager.node import Node
from jtorch.eager.overlap import check_out, check_read, check_written
from jtorch.eager.rebase import (
    NOTED,
    CopyBackwards,
    check_allowed,
    edge_of,
    edge_past_hooks,
    is_tracked,
    move,
    refuse_use,
    tell_noted,
)
from jtorch.eager.tensor import Tensor, wrap

_CLONE = op_module.BY_NAME["clone"]
_CATEGORIES = {"b": 0, "i": 1, "u": 1, "f": 2, "V": 2, "c": 3}


def in_place(op: Op, function: Callable) -> Callable:
    """The method ``op_``: ``function`` with its result written over its first argument."""
    saves_input = op.arrays[0] in op.save_list
    return _method(function if op.autocast is None else uncast(function), f"{op.public}_", saves_input)


def in_place_function(function: Callable, name: str | None = None) -> Callable:
    """The method ``f_`` of a composed function: its result written over its first argument."""
    name = name or f"{function.__name__}_"
    return _method(uncast(function) if hasattr(function, "declared") else function, name, True)


def _method(function: Callable, name: str, saves_input: bool) -> Callable:
    fills = name.endswith("fill_")

    def method(input: Tensor, *args: Any, **kwargs: Any) -> Tensor:
        before = input
        others = args
        if UNDER_WAY:
            refuse_captured(input, name)
        if kwargs:
            if "axis" in kwargs:  # NumPy's name
                kwargs["dim"] = kwargs.pop("axis")
            others = (*args, *kwargs.values())
        data = input._data
        if data.__class__ is not np.ndarray or not data.flags.forc:  # asked here: nearly no call has more
            check_written(input)
        for other in others:
            if isinstance(other, Tensor) and other._cell is input._cell and not (fills and not other.ndim):
                _check_read(input, other, lambda: function(input, *args, **kwargs))
        if op_module.CONTEXT.get().grad:
            check_allowed(input, others)
            if (saves_input or NOTED) and is_tracked(input, *others):
                before = before_write(input)
        overwrite(input, function(before, *args, **kwargs))
        return input

    method.__name__ = method.__qualname__ = name
    method.__doc__ = f"``{name[:-1]}``, written over this tensor's memory."
    return method


def before_write(tensor: Tensor) -> Tensor:
    """The same value in memory of its own and at the same place on the tape, for the gradient to keep."""
    return carry(tensor, wrap(op_module.bind(_CLONE, tensor._data), edge_past_hooks(tensor)))


def overwrite(tensor: Tensor, result: Tensor) -> None:
    """Give ``tensor`` the elements of ``result``, and its place on the tape."""
    result = _fitted(tensor, result)
    _write(tensor, result)
    if op_module.CONTEXT.get().grad:
        edge = edge_of(result)
        if edge is None and tensor._requires_grad:  # y.eq_(0): nothing flows through, zeros to what was there
            edge = _copied(tensor, result)
        move(tensor, edge)


def _write(tensor: Tensor, result: Tensor) -> None:
    """The elements of ``result`` for ``tensor``, with its tangent."""
    if UNDER_WAY:
        refuse_captured(tensor, "copy_")
    tangent = tangent_of(result)
    _write_raw(tensor, result._data)
    written(tensor, tangent)


def write(tensor: Tensor, value: Any) -> None:
    """New elements for ``tensor``, computed by what carries no tangents along: memory and version, not the
    tape."""
    refuse_written(tensor)
    _write_raw(tensor, value)


def _write_raw(tensor: Tensor, value: Any) -> None:
    op_module.CONTEXT.get().evaluator.write(tensor, value)
    tensor._cell[0] += 1
    if NOTED:
        tell_noted(tensor._cell)
    base = tensor._base
    if base is not None and base._requires_grad and tensor._how is None:
        refuse_use(tensor)


def _fitted(tensor: Tensor, result: Tensor) -> Tensor:
    """``result`` in the dtype and shape of ``tensor``, or PyTorch's error."""
    data, new = tensor._data, result._data
    if new.shape != data.shape and _broadcast_grows(new.shape, data.shape):
        raise RuntimeError(
            f"output with shape {list(data.shape)} doesn't match the broadcast shape {list(new.shape)}"
        )
    if new.dtype is not data.dtype:
        if _CATEGORIES[new.dtype.kind] > _CATEGORIES[data.dtype.kind]:
            raise RuntimeError(
                f"result type {long_name(new.dtype)} can't be cast to the desired output type "
                f"{long_name(data.dtype)}"
            )
        result = APPLY["cast"](result, dtype=data.dtype)
    if result._data.shape != data.shape:
        result = APPLY["expand"](result, shape=tuple(data.shape))
    return result


def _check_read(input: Tensor, other: Tensor, compute: Callable) -> None:
    """Refuse what reads memory that it writes, unless its arguments are an error of their own, which is
    PyTorch's to tell first. (What a fill reads is one number, read before.)"""
    try:
        check_read(input, other)
    except RuntimeError:
        compute()
        raise


def _broadcast_grows(new: tuple, old: tuple) -> bool:
    last = zip(reversed(new), reversed(old), strict=False)
    return len(new) > len(old) or any(n not in (1, m) for n, m in last)


def copy_(self: Tensor, other: Any, non_blocking: bool = False) -> Tensor:
    """Overwrite with the elements of ``other``, broadcast and cast to this tensor's shape and dtype. It has
    been read when this returns, ``non_blocking`` or not."""
    if not isinstance(other, Tensor):
        return fill_(self, other)
    check_written(self)
    check_read(self, other)
    return _copy(self, other)


def _copy(self: Tensor, source: Tensor) -> Tensor:
    recorded = op_module.CONTEXT.get().grad
    if recorded:
        check_allowed(self, (source,))
    if source._data.dtype is not self._data.dtype:
        source = APPLY["cast"](source, dtype=self._data.dtype)
    fitted = _fitted(self, source)
    tracked = recorded and is_tracked(self, source)
    edge = _copied(self, fitted) if tracked else None
    _write(self, fitted)
    if recorded:
        move(self, edge)
    return self


def _copied(tensor: Tensor, source: Tensor) -> Any:
    """What becomes of the place of ``tensor`` when ``source`` is copied over it."""
    edge = edge_of(source)
    if tensor._base is not None:  # CopySlices gives the old base its zeros
        return edge
    if not tensor._requires_grad and (edge is None or isinstance(edge[0], Node)):  # a leaf's copy is no leaf
        return edge
    metadata = (tensor._data.shape, tensor._data.dtype)
    return CopyBackwards((edge_of(tensor), edge), (), (), metadata), 0


def fill_(input: Tensor, value: Any) -> Tensor:
    """Overwrite every element with a number."""
    if UNDER_WAY:
        refuse_captured(input, "fill_")
    if isinstance(value, Tensor):
        if value.ndim:
            raise RuntimeError(
                f"fill_ only supports 0-dimension value tensor but got tensor with {value.ndim} dimensions."
            )
        check_written(input)
        return _copy(input, value)
    require_number(value, "fill_(): argument 'value'")
    data = input._data
    if not data.ndim and data.dtype.kind not in "iu":
        check_scalar(value, data.dtype)
    else:
        value = element(value, data.dtype)
    target = _once(input) if 0 in data.strides and not is_tracked(input) else input
    shape = tuple(target._data.shape)
    xp = op_module.CONTEXT.get().evaluator.namespace(data)
    _copy(target, wrap(xp.full(value, shape=shape, dtype=data.dtype)))
    return input


def _once(tensor: Tensor) -> Tensor:
    """The elements of an expanded tensor, each once: every one of them may get the same value."""
    for dim, (stride, n) in enumerate(zip(tensor._data.strides, tensor._data.shape, strict=True)):
        if not stride and n > 1:
            tensor = tensor.narrow(dim, 0, 1)
    return tensor


def zero_(input: Tensor) -> Tensor:
    """Overwrite every element with 0."""
    if UNDER_WAY:
        refuse_captured(input, "zero_")
    return fill_(input, 0)


def zero_gradient(grad: Tensor) -> None:
    """Overwrite a gradient with zeros where it lies, off the tape. A sparse one has no elements then."""
    if grad.is_sparse:
        grad.zero_()
        return
    if grad._node is not None:
        grad.detach_()
    else:
        grad.requires_grad_(False)
    zero_(grad)


# -- out= --------------------------------------------------------------------------------------------


def write_out(out: Any, result: Any, name: str, read: tuple = ()) -> Any:
    """``result`` written into ``out`` (a tensor, or a tuple of them), which is returned. Raises RuntimeError
    where that overlaps in part with a tensor that was ``read``."""
    if isinstance(result, tuple):
        if not isinstance(out, (tuple, list)) or len(out) != len(result):
            raise TypeError(f"{name}(): out must be a tuple of {len(result)} tensors")
        written = [_write_one(o, r, name, read) for o, r in zip(out, result, strict=True)]
        return type(result)(*written) if hasattr(result, "_fields") else tuple(written)
    return _write_one(out, result, name, read)


def _write_one(out: Any, result: Tensor, name: str, read: tuple) -> Tensor:
    if not isinstance(out, Tensor):
        raise TypeError(f"{name}(): argument 'out' must be Tensor, not {type(out).__name__}")
    if not isinstance(result, Tensor):
        raise TypeError(f"{name}() got an unexpected keyword argument 'out': its result is no tensor")
    if (out._requires_grad or result._requires_grad) and op_module.CONTEXT.get().grad:
        raise RuntimeError(
            f"{name}(): functions with out=... arguments don't support automatic differentiation, but one of "
            "the arguments requires grad."
        )
    if is_dual(out, result):
        raise NotImplementedError(OUT.format(name=name))
    if out._data.shape != result._data.shape:
        _resize(out, tuple(result._data.shape))
    check_written(out)
    check_out(out, read)
    write(out, _fitted(out, result)._data)
    return out


def _resize(out: Tensor, shape: tuple[int, ...]) -> None:
    if out._data.size:
        warnings.warn(
            f"An output with one or more elements was resized since it had shape {list(out._data.shape)}, "
            f"which does not match the required output shape {list(shape)}. This behavior is deprecated, and "
            "in a future PyTorch release outputs will not be resized unless they have zero elements. You can "
            "explicitly reuse an out tensor t by resizing it, inplace, to zero elements with t.resize_(0).",
            UserWarning,
            stacklevel=4,
        )
    count, data = math.prod(shape), out._data
    if data.flags.c_contiguous and count <= data.size:
        # the same memory: views of it see the result
        out.data = APPLY["reshape"](out.detach().reshape(-1)[:count], shape=shape)
    else:
        out.data = creation.empty(shape, dtype=out.dtype)
