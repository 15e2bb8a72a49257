"""NumPy arrays as arguments: tensors over their memory, to all but the function, which sees arrays.

So they are guarded, marshalled and written as tensor arguments are. What the function gets while it is
recorded is an array over the same memory, that the tracer knows for an input wherever it meets a tensor.
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


def lend(array: np.ndarray) -> Lent:
    made: Any = from_numpy(array)
    made.__class__ = Lent
    made.lent = array
    return made


def lend_if_possible(array: np.ndarray) -> Any:
    """The tensor, or ``array`` itself where there is none (of negative strides): no plan is for that."""
    try:
        return lend(array)
    except (TypeError, ValueError):
        return array


def lend_all(leaves: list[Any], name: str) -> list[Any]:
    """``leaves`` with a tensor for each array. Raises CompileError for arrays that no tensor can be."""
    if not any(isinstance(leaf, np.ndarray) for leaf in leaves):
        return leaves
    return [_checked(leaf, name) if isinstance(leaf, np.ndarray) else leaf for leaf in leaves]


def _checked(array: np.ndarray, name: str) -> Lent:
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
    return leaf.lent if leaf.__class__ is Lent else leaf
