"""NumPy arrays that the function makes and a tensor is computed with, or made over.

Their elements become part of the recording, as they are when it ends. NumPy writes into arrays unseen: what
an array was when it met a tensor is kept, and another thing by the next time or by the end is an error.
"""

from __future__ import annotations

import numpy as np

from jtorch.core.errors import CompileError, Source


class MadeArrays:
    """The arrays that met tensors, and what they were."""

    def __init__(self) -> None:
        self._met: dict[int, tuple[np.ndarray, bytes, Source | None]] = {}

    def meet(self, array: np.ndarray, source: Source | None, function: str) -> None:
        """A tensor is about to be computed with ``array`` or made over it. Raises as ``check`` does."""
        if array.dtype.hasobject:
            return
        self.check(function, array)
        self._met.setdefault(id(array), (array, array.tobytes(), source))

    def check(self, function: str, one: np.ndarray | None = None) -> None:
        """Raise CompileError if an array, or just ``one``, is not what it was."""
        for array, before, source in [*self._met.values()] if one is None else self._of(one):
            if array.tobytes() != before:
                raise CompileError(
                    f"{source}: '{function}' computes with a NumPy array that it made and later changes: a "
                    "recording would take the later elements. Compute with jtorch.tensor(array), a copy, or "
                    "change it before."
                )

    def _of(self, array: np.ndarray) -> list[tuple[np.ndarray, bytes, Source | None]]:
        return [self._met[id(array)]] if id(array) in self._met else []
