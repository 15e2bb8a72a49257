"""What the public faces of ops share: PyTorch's dims and sizes as the tuples that bodies take."""

from __future__ import annotations

import math
import operator
from typing import Any

import numpy as np

from jtorch.core.number_ranges import number_type
from jtorch.core.sizes import has_negative

Numbers = Any
"""The annotation of ``*sizes`` that may also be given as one sequence by keyword: ``sizes=(2, 3)``."""


def one(dim: int, ndim: int) -> int:
    """A dim that may be negative as an axis >= 0. Raises PyTorch's IndexError out of range, TypeError for a
    bool."""
    if type(dim) is not int:
        dim = operator.index(integer("", "dim", dim))  # a tensor of one integer, a size
    bound = ndim or 1
    if not -bound <= dim < bound:
        raise IndexError(
            f"Dimension out of range (expected to be in range of [{-bound}, {bound - 1}], but got {dim})"
        )
    return dim + bound if dim < 0 else dim


def integer(function: str, argument: str, value: Any) -> Any:
    """``value`` where an int is asked for: one of NumPy's, a tensor of one, what a recording handles as one.
    PyTorch's TypeError for a bool, a float and all else."""
    known = getattr(value, "as_runtime_scalar", value)
    if isinstance(known, bool) or not hasattr(known, "__index__"):
        prefix = f"{function}(): " if function else ""
        raise TypeError(f"{prefix}argument '{argument}' must be int, not {type(known).__name__}")
    return int(value) if isinstance(value, np.integer) else value


def flag(keepdim: Any) -> bool:
    """``keepdim``, or PyTorch's TypeError for what is no bool."""
    if keepdim is not True and keepdim is not False:
        raise TypeError(f"argument 'keepdim' must be bool, not {type(keepdim).__name__}")
    return keepdim


ALL = tuple(tuple(range(n)) for n in range(65))  # NumPy's arrays have at most 64 axes


def many(dim: int | tuple[int, ...] | list[int] | None, ndim: int) -> tuple[int, ...]:
    """The axes to reduce: all for None. Raises RuntimeError where one is named twice."""
    if dim is None:
        return ALL[ndim]
    if not isinstance(dim, (int, tuple, list)) and hasattr(dim, "__index__") and not getattr(dim, "ndim", 0):
        dim = operator.index(dim)  # a tensor of one integer, which is false where it is 0
    if isinstance(dim, int):
        return (one(dim, ndim),) if ndim else _scalar_axis(dim)
    if number_type(dim) is float:
        raise TypeError("argument 'dim' must be tuple of ints, not float")
    if not dim:
        return ALL[ndim]
    axes = tuple(sorted(one(d, ndim) for d in dim))
    if len(set(axes)) != len(axes):
        raise RuntimeError(f"dim {axes[0]} appears multiple times in the list of dims")
    return axes if ndim else ()


def _scalar_axis(dim: int) -> tuple[int, ...]:
    """A 0-d tensor has one dim to name, 0 or -1, and no axis behind it."""
    one(dim, 0)
    return ()


def sizes(given: tuple) -> tuple[int, ...]:
    """``f(2, 3)`` and ``f((2, 3))`` alike."""
    if len(given) == 1 and given[0].__class__ is not int:
        first = given[0]
        given = (first,) if hasattr(first, "__index__") or number_type(first) is float else tuple(first)
    for n in given:
        if n.__class__ is not int:
            return tuple(operator.index(integer("", "size", n)) for n in given)
    return given


def infer_size(shape: tuple[int, ...], size: int) -> tuple[int, ...]:
    """``shape`` with its -1 replaced so that it holds ``size`` elements, or PyTorch's error."""
    if -1 not in shape and math.prod(shape) == size and not has_negative(shape):
        return shape
    known = 1
    unknown = None
    for k, n in enumerate(shape):
        if n == -1:
            if unknown is not None:
                raise RuntimeError("only one dimension can be inferred")
            unknown = k
        elif n < 0:
            raise RuntimeError(f"invalid shape dimension {n}")
        else:
            known *= n
    if unknown is None:
        if known != size:
            raise RuntimeError(f"shape '{list(shape)}' is invalid for input of size {size}")
        return shape
    if known == 0 or size % known:
        raise RuntimeError(f"shape '{list(shape)}' is invalid for input of size {size}")
    return shape[:unknown] + (size // known,) + shape[unknown + 1 :]


def pair(value: int | tuple[int, int]) -> tuple[int, int]:
    """``3`` and ``(3, 3)`` alike: kernel sizes, strides, paddings."""
    return (value, value) if isinstance(value, int) else (int(value[0]), int(value[1]))


def not_empty(input, name, dim):
    """``input``, or PyTorch's error where there is nothing to take an extreme of."""
    if input.numel() == 0:
        axes = many(dim, input.ndim)
        if dim is None and input.ndim:
            raise RuntimeError(
                f"{name}(): Expected reduction dim to be specified for input.numel() == 0. "
                "Specify the reduction dim with the 'dim' argument."
            )
        if any(input.shape[a] == 0 for a in axes):
            raise IndexError(f"{name}(): Expected reduction dim {axes[0]} to have non-zero size.")
    return input
