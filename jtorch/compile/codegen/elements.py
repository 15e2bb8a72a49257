"""What a kernel's pointer is where its text runs as Python."""

from __future__ import annotations

from typing import Any

import numpy as np


class Elements:
    """One variable's elements, counted from ``start`` in both directions.

    An address outside the variable, which compiled code would read without a word, is an IndexError.
    """

    __slots__ = ("elements", "name", "start")

    def __init__(self, elements: np.ndarray, start: int, name: str) -> None:
        self.elements = elements
        self.start = start
        self.name = name

    def __getitem__(self, k: int) -> Any:
        return self.elements[self._place(k)]

    def __setitem__(self, k: int, value: Any) -> None:
        self.elements[self._place(k)] = value

    def _place(self, k: int) -> int:
        place = self.start + int(k)
        if not 0 <= place < self.elements.size:
            raise IndexError(f"a kernel addresses element {place} of {self.elements.size} of {self.name}")
        return place
