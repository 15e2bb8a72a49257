"""What a translated function finds in its record, and in the structs of objects."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from jtorch.native.immortal import live_forever

MOST_DIMS = 4
LAST_DTYPE, LAST_NDIM, LAST_DIMS = 8, 16, 24  # behind the last tuple of ``shape_and_dtype``


class Field(NamedTuple):
    """A pointer to an object in the struct of a class."""

    of: str  # the name of the class
    place: int  # in bytes
    holds: str = ""  # the class of what is usual there: a function that meets another gives None


class Words:
    """What a record holds: objects that all functions share, and a function's own.

    ``shared`` are the objects by the names under which the text knows them: a literal by its ``repr``, the
    string ``attr`` of an attribute as ``.attr``; ``own`` are the names of those that each record has for
    itself.
    """

    def __init__(self, shared: Mapping[str, Any], own: tuple[str, ...]) -> None:
        self._shared, self._own = dict(shared), own
        for thing in self._shared.values():
            live_forever(thing)
        self.places = {name: 8 * k for k, name in enumerate((*self._shared, *own))}
        self.last = 8 * len(self.places)  # what ``shape_and_dtype`` keeps in each record

    def place(self, name: str) -> int:
        """Where ``name`` lies in a record, in bytes. SyntaxError where it has no place."""
        if name not in self.places:
            raise SyntaxError(f"machine code knows nothing called {name}")
        return self.places[name]

    def record(self, **own: Any) -> np.ndarray:
        """One for a function, with the objects of its own, which live as long as the process."""
        mine = [live_forever(own[name]) for name in self._own]
        last = [0, 0, -1, *[0] * MOST_DIMS]
        return np.array([*map(id, self._shared.values()), *map(id, mine), *last], np.int64)
