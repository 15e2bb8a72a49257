"""NumPy's arrays and numbers as arguments: tensors over their memory, to all but the function, which sees
arrays and numbers.

So they are guarded, marshalled and written as tensor arguments are. What the function gets for an array while
it is recorded is one over the same memory, that the tracer knows for an input wherever it meets a tensor; for
a number it gets what stands for an element of an array (``numpy_arrays``).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from jtorch.core.errors import CompileError, user_source
from jtorch.eager.exchange import from_numpy
from jtorch.eager.tensor import Tensor


class Lent(Tensor):
    """A tensor over the memory of ``lent``, an array that was passed."""

    __slots__ = ()
    lent: np.ndarray


class LentNumber(Lent):
    """A tensor without axes that holds ``lent``, a number that was passed."""

    __slots__ = ()


NUMBERS = frozenset({np.float32, np.float64, np.int32, np.int64})  # the classes of those that are lent


def lend(value: Any) -> Lent:
    is_number = type(value) in NUMBERS
    made: Any = from_numpy(np.array(value) if is_number else value)
    made.__class__ = LentNumber if is_number else Lent
    made.lent = value
    return made


def can_be_lent(value: Any) -> bool:
    return isinstance(value, np.ndarray) or type(value) in NUMBERS


def lend_if_possible(value: Any) -> Any:
    """The tensor, or ``value`` itself where there is none (of negative strides): no plan is for that."""
    try:
        return lend(value)
    except (TypeError, ValueError):
        return value


def lend_all(leaves: list[Any], name: str) -> list[Any]:
    """``leaves`` with a tensor for each array and number of NumPy's. Raises CompileError for arrays that no
    tensor can be."""
    if not any(map(can_be_lent, leaves)):
        return leaves
    return [_checked(leaf, name) if can_be_lent(leaf) else leaf for leaf in leaves]


def _checked(array: Any, name: str) -> Lent:
    if type(array) in NUMBERS:
        return lend(array)
    if type(array) not in (np.ndarray, np.memmap):
        problem = f"of the class {type(array).__name__}"
    else:
        try:
            return lend(array)
        except (TypeError, ValueError) as error:
            problem = f"of dtype {array.dtype} (from_numpy: {error})"
    raise CompileError(
        f"{user_source()}: '{name}' got a NumPy array {problem} as an argument, which compiled code cannot "
        "follow: pass a plain array of numbers, whose strides are not negative, or a tensor."
    )


def given(leaf: Any) -> Any:
    """What the caller passed for ``leaf``."""
    return leaf.lent if is_lent(leaf) else leaf


def is_lent(leaf: Any) -> bool:
    return issubclass(type(leaf), Lent)
