"""NumPy arrays that the function makes and a tensor is computed with, or made over.

Their elements become part of the recording, as they are when it ends. NumPy writes into arrays unseen: what
an array was when it met a tensor is kept, and another thing by the next time or by the end is an error.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from jtorch.core.errors import CompileError, Source


class _Met(NamedTuple):
    array: np.ndarray
    before: bytes
    source: Source | None


class MadeArrays:
    """The arrays of ``function`` that met tensors, and what they were."""

    def __init__(self, function: str) -> None:
        self.function = function
        self._met: dict[int, _Met] = {}

    def meet(self, array: np.ndarray, source: Source | None) -> None:
        """A tensor is about to be computed with ``array`` or made over it. Raises as ``check`` does."""
        known = self._met.get(id(array))
        if known is not None:
            self._check(known)
        elif not array.dtype.hasobject:
            self._met[id(array)] = _Met(array, array.tobytes(), source)

    def check(self) -> None:
        """Raise CompileError if an array is not what it was."""
        for met in self._met.values():
            self._check(met)

    def _check(self, met: _Met) -> None:
        if met.array.tobytes() != met.before:
            raise CompileError(
                f"{met.source}: '{self.function}' computes with a NumPy array that it made and later "
                "changes: a recording would take the later elements. Compute with jtorch.tensor(array), a "
                "copy, or change it before."
            )
