"""The NumPy arrays of one recording: each tensor's own, those made of lists, and what may not change."""

from __future__ import annotations

from typing import Any

import numpy as np

from jtorch.compile.record.numpy_arrays import DTYPES, NumpyArray
from jtorch.core.errors import CompileError, user_source
from jtorch.eager.binding import APPLY
from jtorch.eager.nested import leaves_of, stacked
from jtorch.eager.tensor import wrap

_TAKEN = 256  # elements that a recording may take out of arrays, one by one


class NumpyArrays:
    """Those of one recording."""

    def __init__(self) -> None:
        self._of: dict[int, tuple[Any, NumpyArray]] = {}
        self._noted: list[tuple[Any, int, Any]] = []
        self._taken = 0
        self.in_use = False  # whether there is one

    def take(self, array: NumpyArray) -> None:
        """An element is taken out of ``array``. Raises where a recording would hold too many steps."""
        self._taken += 1
        if self._taken > _TAKEN:
            raise array.refuse(f"taking more than {_TAKEN} elements")

    def of(self, memory: Any) -> NumpyArray:
        """The array that a tensor over ``memory`` has: one, however often it is asked for."""
        return self._of.setdefault(id(memory), (memory, NumpyArray(memory)))[1]

    def made_of(self, values: Any) -> NumpyArray:
        """``numpy.array(values)`` of nested lists of numbers, arrays and what stands for them."""
        leaves = leaves_of(values)
        target = np.result_type(*(_dtype_of(leaf) for leaf in leaves))
        few = all(getattr(leaf, "few", True) and getattr(leaf, "decides", True) for leaf in leaves)
        return NumpyArray(stacked(values, target)._data, few=few)

    def joined(self, name: str, arrays: Any, axis: Any = 0) -> NumpyArray:
        """``numpy.stack``, or ``concatenate``, of arrays and what stands for them."""
        first = next(a for a in arrays if type(a) is NumpyArray)
        is_plain = all(
            type(a) in (NumpyArray, np.ndarray) and not getattr(a, "is_number", False) for a in arrays
        )
        most = first.ndim - (name != "stack")
        fits = type(axis) is int and -1 <= axis <= most and all(a.ndim == first.ndim for a in arrays)
        at = most if axis == -1 else axis
        if not (is_plain and fits) or len({_beside(a.shape, at, name != "stack") for a in arrays}) > 1:
            raise first.refuse(f"np.{name}() of these")
        target = np.result_type(*(a.dtype for a in arrays))
        if target not in DTYPES:
            raise first.refuse(f"np.{name}() in {target}")
        parts = [wrap(first.in_dtype(a, target)) for a in arrays]
        made = [part.unsqueeze(at) for part in parts] if name == "stack" else parts
        found = APPLY["cat"](*made, axis=at)
        return NumpyArray(found._data, few=all(a.few for a in arrays if type(a) is NumpyArray))

    def copied(self, memory: Any) -> None:
        """An array lies in memory of its own here, and would share this one, to which nobody may write."""
        self._noted.append((memory.storage, memory.storage.version, user_source()))

    def check(self, name: str) -> None:
        """Raise CompileError where somebody has written to what is ``copied``."""
        for storage, version, source in self._noted:
            if storage.version != version:
                raise CompileError(
                    f"{source}: '{name}' turns the array of a tensor round, and writes to that tensor later, "
                    "which the array would show: take a .copy() of it."
                )


def _beside(shape: tuple, axis: int, along: bool) -> tuple:
    """The sizes that must be equal, ``along`` or across ``axis``."""
    return shape[:axis] + shape[axis + along :]


def _dtype_of(number: Any) -> np.dtype:
    """The dtype that NumPy gives a list of such numbers."""
    kind = getattr(number, "as_runtime_scalar", number)
    return number.dtype if hasattr(number, "dtype") else np.dtype(type(kind))
