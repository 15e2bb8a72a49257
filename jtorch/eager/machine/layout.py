"""Where things lie in the objects of CPython and NumPy, in bytes, and whether that is so here.

Slots lie behind an object's header in the order of their names. It is tried on real objects before any is
read or made by way of it.

What cannot be tried is how references are counted: the machine code adds to the count itself, as CPython
3.11 does. From 3.12 on some objects are immortal, and their count must not be touched; 3.14 borrows
references that 3.11 counts. So it runs on the versions in `KNOWN` alone, and all others take Python's way.
"""

from __future__ import annotations

import ctypes
import logging
import sys
from typing import Any, NamedTuple

import numpy as np

from jtorch.core.op import Context
from jtorch.eager.node import Node
from jtorch.eager.tensor import Tensor

TYPE, SIZE = 8, 16  # in the header of every object, and of those with a length
LIST_ITEMS = TUPLE_ITEMS = object.__basicsize__ + 8  # a pointer to them, and they themselves
ARRAY_NDIM, ARRAY_DIMS, ARRAY_BASE, ARRAY_DTYPE = 24, 32, 48, 56

KNOWN = ((3, 11),)  # versions of CPython

_log = logging.getLogger("jtorch.shortcuts")

Slots = dict[str, int]


class Places(NamedTuple):
    """Where the slots of our own classes lie."""

    tensor: Slots
    node: Slots
    context: Slots


def places() -> Places | None:
    """None, and a line in the log, where objects are laid out or counted otherwise, or threads run side by
    side.
    """
    unusual = _unusual()
    if unusual:
        _log.info("eager ops take Python's way, without machine code: %s", unusual)
        return None
    return Places(_slots(Tensor), _slots(Node), _slots(Context))


def _unusual() -> str:
    """What is not as the machine code takes it to be; "" where all is."""
    version = sys.version_info[:2]
    if sys.implementation.name != "cpython" or version not in KNOWN:
        return f"it is made for CPython 3.11, and this is {sys.implementation.name} {version[0]}.{version[1]}"
    if not getattr(sys, "_is_gil_enabled", lambda: True)():
        return "threads run side by side"
    if not _is_as_expected():
        return "objects of Python or NumPy are laid out otherwise"
    moved = [cls.__name__ for cls in (Tensor, Node, Context) if not _slots(cls)]
    return f"the slots of {', '.join(moved)} lie elsewhere" if moved else ""


def _slots(cls: Any) -> Slots:
    """Nothing where one is not where it is expected."""
    names = sorted(name for name in cls.__slots__ if not name.startswith("__"))
    slots = {name: object.__basicsize__ + 8 * k for k, name in enumerate(names)}
    tried = object.__new__(cls)
    for name, place in slots.items():
        if place + 8 > cls.__basicsize__ or _word(tried, place) != 0:  # an empty slot is null
            return {}
        mark = object()
        setattr(tried, name, mark)
        if _word(tried, place) != id(mark):
            return {}
    return slots


def _is_as_expected() -> bool:
    array, one = np.ones((2, 3), np.float32), object()
    view, items, pair = array[1], [one], (None, one)
    return (
        _word(array, TYPE) == id(np.ndarray)
        and ctypes.c_int32.from_address(id(array) + ARRAY_NDIM).value == 2
        and _at(_word(array, ARRAY_DIMS) + 8) == 3
        and (_word(array, ARRAY_BASE), _word(view, ARRAY_BASE)) == (0, id(array))
        and _word(array, ARRAY_DTYPE) == id(array.dtype) == id(np.dtype(np.float32))
        and _word(items, SIZE) == 1
        and _at(_word(items, LIST_ITEMS)) == id(one)
        and _word(pair, TUPLE_ITEMS + 8) == id(one)
    )


def _word(thing: Any, place: int) -> int:
    return _at(id(thing) + place)


def _at(address: int) -> int:
    return ctypes.c_int64.from_address(address).value
