"""In-place ops refuse memory whose content would depend on the order of writing, in PyTorch's words.

That is memory in which several elements of the written tensor are one (an expanded tensor), and memory that
another argument reads at shifted places (``x[1:] = x[:-1]``). Filling with one number is free of both.

Source: ``assert_no_internal_overlap`` and ``assert_no_partial_overlap`` of PyTorch's MemoryOverlap.cpp
"""

from __future__ import annotations

from typing import Any

import numpy as np

from jtorch.core import op as op_module
from jtorch.core.dim import is_symbolic
from jtorch.core.strides import has_spread_axis, is_crowded
from jtorch.eager.tensor import Tensor

_WITHIN = (
    "unsupported operation: more than one element of the written-to tensor refers to a single memory "
    "location. Please clone() the tensor before performing the operation."
)
_BETWEEN = (
    "unsupported operation: some elements of the input tensor and the written-to tensor refer to a single "
    "memory location. Please clone() the tensor before performing the operation."
)


def check_written(tensor: Tensor) -> None:
    """Raise RuntimeError where elements of ``tensor`` share memory with each other."""
    data = tensor._data
    shape, strides = data.shape, data.strides
    if data.__class__ is np.ndarray and data.flags.forc:
        return
    if any(map(is_symbolic, (*shape, *strides))):  # which are asked no more than has to be
        shared = has_spread_axis(shape, strides) and bool(data.size)
    else:
        shared = is_crowded(shape, strides) and _is_shared(shape, strides)
    if shared:
        raise RuntimeError(_WITHIN)


def _is_shared(shape: tuple[int, ...], strides: tuple[int, ...]) -> bool:
    """Whether two elements do lie at one place."""
    if has_spread_axis(shape, strides):
        return True
    places = np.zeros((), np.int64)
    for step, n in zip(strides, shape, strict=True):
        places = places[..., None] + step * np.arange(n)
    return len(np.unique(places)) < places.size


def writeable(view: np.ndarray) -> np.ndarray | None:
    """What is written to for a part of windows that lie on each other: those are read-only, and their memory
    is not. None where it is, too. Raises RuntimeError where elements of ``view`` share memory."""
    if view.flags.writeable:
        return None
    base = view.base
    while base is not None and not (
        isinstance(base, np.ndarray) and base.flags.writeable and base.flags.forc
    ):
        base = getattr(base, "base", None)
    if base is None:
        return None
    if is_crowded(view.shape, view.strides):
        raise RuntimeError(_WITHIN)
    offset = view.__array_interface__["data"][0] - base.__array_interface__["data"][0]
    return np.ndarray(view.shape, view.dtype, base, offset, view.strides)


def check_out(out: Tensor, read: Any) -> None:
    """Raise RuntimeError where ``out`` lies in part in the memory of a tensor that was ``read``."""
    for value in read:
        if value.__class__ is Tensor:  # nearly all, and nearly none shares memory with ``out``
            if value._cell is out._cell:
                check_read(out, value)
        elif isinstance(value, (tuple, list)):
            check_out(out, value)
        else:
            check_read(out, value)


def check_read(tensor: Tensor, other: Any) -> None:
    """Raise RuntimeError where ``other``, read while ``tensor`` is written, lies in part in its memory."""
    if not isinstance(other, Tensor) or other is tensor or other._cell is not tensor._cell:
        return
    if _overlap_in_part(tensor, other):
        raise RuntimeError(_BETWEEN)


def _overlap_in_part(a: Tensor, b: Tensor) -> bool:
    """As PyTorch decides it: of tensors with gaps nothing is known, so they pass."""
    x, y = a._data, b._data
    if not x.size or not y.size or not (_is_dense(x) and _is_dense(y)):
        return False
    evaluator = op_module.CONTEXT.get().evaluator
    (memory, first), (other, start) = evaluator.window(x), evaluator.window(y)
    if memory is not other or first >= start + _bytes(y) or start >= first + _bytes(x):
        return False
    return first != start or _bytes(x) != _bytes(y) or _steps(x) != _steps(y)


def _bytes(x: Any) -> int:
    return x.size * x.dtype.itemsize


def _steps(x: Any) -> list[int]:
    return [s for s, n in zip(x.strides, x.shape, strict=True) if n > 1]


def _is_dense(x: Any) -> bool:
    """Whether the elements fill one block of memory, in any order of the axes."""
    expected = x.dtype.itemsize
    for step, n in sorted((s, n) for s, n in zip(x.strides, x.shape, strict=True) if n > 1):
        if step != expected:
            return False
        expected *= n
    return True
