"""Tensors put together at once: the usual case of ``cat`` and ``stack``, without looking at each of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from jtorch.core import op as op_module
from jtorch.eager.tensor import Tensor, wrap


def joined(tensors: Sequence[Any], dim: Any) -> Tensor | None:
    """``cat`` where NumPy puts together what is there; None where there is anything to be seen to: other
    classes, dtypes, sizes that differ, gradients, a recording."""
    data = _arrays_of(tensors)
    if not data or dim.__class__ is not int:
        return None
    try:
        out = np.concatenate(data, dim)
    except ValueError:
        return None
    return wrap(out) if out.flags.c_contiguous else None


def _arrays_of(tensors: Sequence[Any]) -> list[np.ndarray] | None:
    """What a list of ``tensors`` holds, where that is arrays of one dtype, nothing is recorded and no
    gradient wanted."""
    context = op_module.CONTEXT.get()
    if (
        context.autocast is not None
        or context.level is not None
        or not context.evaluator.reads_elements
        or tensors.__class__ not in (list, tuple)
    ):
        return None
    data = []
    for t in tensors:
        if t.__class__ is not Tensor or (t._requires_grad and context.grad):
            return None
        data.append(t._data)
    dtype = data[0].dtype if data else None
    for array in data:
        if array.__class__ is not np.ndarray or array.dtype is not dtype:
            return None
    return data


def stacked(tensors: Sequence[Any], dim: Any) -> Tensor | None:
    """The same for ``stack``: a new dim is one in which the arrays lie behind each other, seen in parts."""
    data = _arrays_of(tensors)
    if not data or dim.__class__ is not int:
        return None
    shape = data[0].shape
    axis = dim + len(shape) + 1 if dim < 0 else dim
    if not 0 <= axis < len(shape):
        return None
    for array in data:
        if array.shape != shape:
            return None
    before, n, after = shape[:axis], shape[axis], shape[axis + 1 :]
    out = np.empty((*before, len(data), n, *after), data[0].dtype)
    np.concatenate(data, axis, out.reshape(*before, len(data) * n, *after))
    return wrap(out)
