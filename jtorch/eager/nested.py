"""Tensors of nested lists: of plain numbers at once, of tensors and numbers that change by recorded ops."""

from __future__ import annotations

from typing import Any

import numpy as np

from jtorch.core import dtypes as dt, op as op_module
from jtorch.core.dim import is_symbolic
from jtorch.core.number_ranges import fits
from jtorch.eager.binding import APPLY
from jtorch.eager.python_values import as_tensor_data
from jtorch.eager.tensor import Tensor, wrap


def tensor_of(data: Any, dtype: Any = None) -> Tensor:
    """A tensor of its own memory from nested numbers, arrays and tensors, see ``as_tensor_data``."""
    made = composed(data, dtype)
    if made is None:
        made = wrap(op_module.CONTEXT.get().evaluator.new(as_tensor_data(data, dtype)))
    return made


def composed(data: Any, dtype: Any = None) -> Tensor | None:
    """The elements put beside each other by ops, which a later call does again, where that is asked for.

    None where nothing among them changes, and where tensors may not fit into integers: eager mode looks at
    each element, and so must a recording, which it says. Raises RuntimeError for a number that does not fit.
    """
    if op_module.CONTEXT.get().evaluator.reads_elements:
        return None
    if isinstance(data, np.ndarray) and op_module.CONTEXT.get().evaluator.follows(data):
        return wrap(data).to(dtype=dtype, copy=True)
    leaves = leaves_of(data)
    if not any(map(_changes, leaves)):
        return None
    kinds = {_dtype_of(leaf) for leaf in leaves}
    target = dt.to_numpy(dtype) or dt.of(dt.promote((kind, 1) for kind in kinds)).numpy
    if target.kind in "iu" and not all(np.can_cast(kind, target) for kind in kinds):
        if any(hasattr(leaf, "dtype") for leaf in leaves):
            for leaf in leaves:
                if isinstance(leaf, np.ndarray) and _changes(leaf):
                    op_module.CONTEXT.get().evaluator.concrete(leaf, "a cast that may not fit")
            return None
        numbers = [leaf for leaf in leaves if hasattr(leaf, "as_runtime_scalar") or is_symbolic(leaf)]
        if not all(fits(number, target) for number in numbers):
            raise RuntimeError(f"value cannot be converted to type {target.name} without overflow")
    return stacked(data, target)


def _changes(leaf: Any) -> bool:
    """Whether it is another one at a later call."""
    if isinstance(leaf, np.ndarray):
        return op_module.CONTEXT.get().evaluator.lends(leaf)
    if isinstance(leaf, Tensor) or hasattr(leaf, "as_runtime_scalar"):
        return True
    return is_recorded(leaf) or is_symbolic(leaf)


def leaves_of(data: Any) -> list[Any]:
    """What is in nested lists and tuples."""
    if isinstance(data, (list, tuple)):
        return [leaf for part in data for leaf in leaves_of(part)]
    return [data]


def _dtype_of(leaf: Any) -> np.dtype:
    if isinstance(leaf, Tensor):
        return leaf._data.dtype
    if isinstance(leaf, (np.ndarray, np.generic)) or is_recorded(leaf):
        return leaf.dtype
    return dt.of_number(getattr(leaf, "as_runtime_scalar", leaf))


def stacked(part: Any, target: np.dtype) -> Tensor:
    """Nested lists of numbers, arrays and tensors as one tensor of a dtype, by ops."""
    if isinstance(part, (list, tuple)):
        rows = len(part) > 0 and _is_row(part[0])
        made = [stacked(p, target) if rows else _element(p, target) for p in part]
        shapes = [tuple(t.shape) for t in made]
        if any(shape != shapes[0] for shape in shapes):
            raise ValueError(f"expected sequences of one shape, got {list(map(list, shapes))}")
        if not made:
            return wrap(op_module.CONTEXT.get().evaluator.new(np.zeros(0, target)))
        return APPLY["cat"](*(APPLY["unsqueeze"](t, axes=(0,)) for t in made), axis=0)
    if is_recorded(part) or (isinstance(part, np.ndarray) and _changes(part)):
        part = wrap(op_module.CONTEXT.get().evaluator.as_value(part))
    if isinstance(part, Tensor):
        part = part.detach()
        return APPLY["clone"](part) if part._data.dtype == target else APPLY["cast"](part, dtype=target)
    if hasattr(part, "as_runtime_scalar") or is_symbolic(part):
        return wrap(op_module.CONTEXT.get().xp.full(part, shape=(), dtype=target))
    return wrap(op_module.CONTEXT.get().evaluator.new(as_tensor_data(part, dt.of(target))))


def _is_row(part: Any) -> bool:
    return isinstance(part, (list, tuple, np.ndarray)) or (is_recorded(part) and part.ndim > 0)


def is_recorded(value: Any) -> bool:
    """Whether ``value`` stands for an array, or an element of one, while a graph is recorded."""
    return hasattr(value, "lies_in")


def _element(part: Any, target: np.dtype) -> Tensor:
    """One number of a list: ``tensor([tensor([1.0]), 2.0])`` has two."""
    made = stacked(part, target)
    if isinstance(part, Tensor) and made.ndim:
        if made._data.size != 1:
            raise ValueError("only one element tensors can be converted to Python scalars")
        return made.reshape(())
    return made
