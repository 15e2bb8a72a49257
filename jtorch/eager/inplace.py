"""In-place ops: compute the new value, write it over the old memory, advance the version, move the tape.

The tensor's place on the tape becomes the op that made the new value. What autograd can't follow is an
error before anything is written: a leaf that requires grad, and (for now) views on the tape.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from jtorch import op as op_module
from jtorch.eager.binding import APPLY
from jtorch.eager.tensor import Tensor, wrap
from jtorch.op import Op

_BOOL = np.dtype(np.bool_)


def in_place(op: Op, function: Callable) -> Callable:
    """The method ``op_``: ``function`` with its result written over its first argument."""
    saves_input = op.arrays[0] in op.save_list

    def method(self: Tensor, *args: Any, **kwargs: Any) -> Tensor:
        context = op_module.CONTEXT.get()
        before = self
        if context.grad:
            check_allowed(self, args)
            if saves_input and any(
                isinstance(a, Tensor) and a._requires_grad for a in (self, *args)
            ):
                before = _before(self)
        overwrite(self, function(before, *args, **kwargs))
        return self

    method.__name__ = f"{op.public}_"
    return method


def _before(tensor: Tensor) -> Tensor:
    """The same value in memory of its own and at the same place on the tape, for the gradient to keep."""
    xp = op_module.CONTEXT.get().xp
    edge = (tensor._node or tensor, tensor._index) if tensor._requires_grad else None
    return wrap(xp.clone(tensor._data), edge)


def check_allowed(tensor: Tensor, others: tuple = ()) -> None:
    """Raise where writing over ``tensor`` would leave the tape wrong."""
    if tensor._node is None and tensor._requires_grad:
        raise RuntimeError(
            "a leaf Variable that requires grad is being used in an in-place operation."
        )
    base = tensor._base
    if base is not None and base._requires_grad and base._node is None:
        raise RuntimeError(
            "a view of a leaf Variable that requires grad is being used in an in-place operation."
        )
    tracked = tensor._requires_grad or any(
        isinstance(o, Tensor) and o._requires_grad for o in others
    )
    views = [v for v in (r() for r in tensor._cell[1:]) if v is not None and v is not tensor]
    if tracked and (base is not None or views):
        raise NotImplementedError(
            "an in-place operation on a tensor that has views, or is one, where gradients flow through "
            "it. Write the result to a new tensor instead, e.g. y = y + 1 for y += 1."
        )


def overwrite(tensor: Tensor, result: Tensor) -> None:
    """Give ``tensor`` the elements of ``result``, and its place on the tape."""
    data, new = tensor._data, result._data
    if new.shape != data.shape and _broadcast_grows(new.shape, data.shape):
        raise RuntimeError(
            f"output with shape {list(data.shape)} doesn't match the broadcast shape {list(new.shape)}"
        )
    if new.dtype is not data.dtype:
        if new.dtype.kind == "f" and data.dtype.kind != "f":
            from jtorch.eager.messages import long_name

            raise RuntimeError(
                f"result type {long_name(new.dtype)} can't be cast to the desired output type "
                f"{long_name(data.dtype)}"
            )
        result = APPLY["cast"](result, dtype=data.dtype)
    if result._data.shape != data.shape:
        result = APPLY["expand"](result, shape=tuple(data.shape))
    op_module.CONTEXT.get().evaluator.write(tensor, result._data)
    tensor._cell[0] += 1
    if result._requires_grad:
        tensor._node, tensor._index, tensor._requires_grad = result._node, result._index, True


def _broadcast_grows(new: tuple, old: tuple) -> bool:
    last = zip(reversed(new), reversed(old), strict=False)
    return len(new) > len(old) or any(n not in (1, m) for n, m in last)


def copy_(self: Tensor, source: Any, non_blocking: bool = False) -> Tensor:
    """Overwrite with the elements of ``source``, broadcast and cast to this tensor's shape and dtype."""
    if not isinstance(source, Tensor):
        return fill_(self, source)
    recorded = op_module.CONTEXT.get().grad
    if recorded:
        check_allowed(self, (source,))
    if source._data.dtype is not self._data.dtype:
        source = APPLY["cast"](source, dtype=self._data.dtype)
    if recorded and self._requires_grad:
        source = _replaced(self, source)
    overwrite(self, APPLY["clone"](source) if source._requires_grad else source)
    return self


def _replaced(tensor: Tensor, source: Any) -> Tensor:
    """The elements of ``source`` as an op on ``tensor``, whose own gradient becomes zeros."""
    never = op_module.CONTEXT.get().xp.full(False, shape=tuple(tensor._data.shape), dtype=_BOOL)
    return APPLY["where"](wrap(never), tensor, source)


def fill_(self: Tensor, value: Any) -> Tensor:
    """Overwrite every element with a number."""
    if isinstance(value, Tensor):
        return copy_(self, value)
    context = op_module.CONTEXT.get()
    if context.grad:
        check_allowed(self)
    full = wrap(context.xp.full(value, shape=tuple(self._data.shape), dtype=self._data.dtype))
    overwrite(self, _replaced(self, full) if context.grad and self._requires_grad else full)
    return self


def zero_(self: Tensor) -> Tensor:
    """Overwrite every element with 0."""
    return fill_(self, 0)
