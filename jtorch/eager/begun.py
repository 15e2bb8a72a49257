"""Which tensors begin over plain memory while a recording runs: made inside, e.g. by ``detach()``, they are
each call's own, though their memory is from outside.
"""

from __future__ import annotations

import weakref
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

Begun = dict[
    int, tuple[weakref.ref[Any], list]
]  # id of a tensor -> it, weakly, and the version cell that it began with
BEGUN: list[Begun] = []
"""Those of each recording under way; asked before ``note`` is called, as mostly there is none."""


def note(tensor: Any) -> None:
    """``tensor`` begins."""
    if tensor._data.__class__ is np.ndarray:
        for begun in BEGUN:
            begun[id(tensor)] = weakref.ref(tensor), tensor._cell


@contextmanager
def noting(begun: Begun) -> Iterator[None]:
    """What begins meanwhile goes into ``begun``."""
    BEGUN.append(begun)
    try:
        yield
    finally:
        BEGUN[:] = [other for other in BEGUN if other is not begun]
