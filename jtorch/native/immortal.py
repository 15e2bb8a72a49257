"""What must outlive everything: machine code, and what machine code and C structures point to.

While an interpreter shuts down it empties one module after the other, and objects of other modules still
run destructors, or are destroyed themselves: a builtin function reads its definition then. What only a list
in a module holds may be gone by that time. Source: ``finalize_modules`` in CPython's
``Python/pylifecycle.c``.
"""

from __future__ import annotations

import ctypes
from typing import TypeVar

T = TypeVar("T")


def live_forever(thing: T) -> T:
    """``thing``, never to be destroyed: its memory is given back when the process ends."""
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(thing))
    return thing
