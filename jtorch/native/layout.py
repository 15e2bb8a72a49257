"""Where things lie in the objects of CPython and NumPy, in bytes, and whether that is so here.

Slots lie behind an object's header in the order of their names. It is tried on real objects before any is
read by way of it.
"""

from __future__ import annotations

import ctypes
import sys
from typing import Any

import numpy as np

TYPE, SIZE = 8, 16  # in the header of every object, and of those with a length
COUNT_BITS = 64 if sys.version_info < (3, 12) else 32  # of references, where an object begins
LIST_ITEMS = object.__basicsize__ + 8  # a pointer to them
TUPLE_ITEMS = tuple.__basicsize__  # they themselves
ARRAY_NDIM, ARRAY_DIMS, ARRAY_BASE, ARRAY_DTYPE = 24, 32, 48, 56

Slots = dict[str, int]


def unusual() -> str:
    """What is not as machine code takes it to be, in a sentence; "" where all is."""
    if sys.implementation.name != "cpython":
        return f"it is made for CPython, and this is {sys.implementation.name}"
    if not getattr(sys, "_is_gil_enabled", lambda: True)():
        return "threads run side by side"
    return "" if _is_as_expected() else "objects of Python or NumPy are laid out otherwise"


def facts() -> str:
    """All that code which reads structs was written by: another version of Python has another text."""
    places = (TYPE, SIZE, LIST_ITEMS, TUPLE_ITEMS, ARRAY_NDIM, ARRAY_DIMS, ARRAY_BASE, ARRAY_DTYPE)
    return f"{sys.implementation.cache_tag} {np.__version__} {object.__basicsize__} {places}"


def slots(cls: Any) -> Slots:
    """Where each slot of ``cls`` lies; nothing where one is not where it is expected."""
    names = sorted(name for name in cls.__slots__ if not name.startswith("__"))
    places = {name: object.__basicsize__ + 8 * k for k, name in enumerate(names)}
    tried = object.__new__(cls)
    for name, place in places.items():
        if place + 8 > cls.__basicsize__ or _word(tried, place) != 0:  # an empty slot is null
            return {}
        mark = object()
        setattr(tried, name, mark)
        if _word(tried, place) != id(mark):
            return {}
    return places


def _is_as_expected() -> bool:
    array, one = np.ones((2, 3), np.float32), object()
    before = _count(one)
    view, items, pair = array[1], [one], (None, one)
    return (
        _count(one) == before + 2
        and (_count(None) < 0) == (COUNT_BITS == 32)
        and _word(array, TYPE) == id(np.ndarray)
        and ctypes.c_int32.from_address(id(array) + ARRAY_NDIM).value == 2
        and _at(_word(array, ARRAY_DIMS) + 8) == 3
        and (_word(array, ARRAY_BASE), _word(view, ARRAY_BASE)) == (0, id(array))
        and _word(array, ARRAY_DTYPE) == id(array.dtype) == id(np.dtype(np.float32))
        and _word(items, SIZE) == 1
        and _at(_word(items, LIST_ITEMS)) == id(one)
        and _word(pair, SIZE) == 2
        and (_word(pair, TUPLE_ITEMS), _word(pair, TUPLE_ITEMS + 8)) == (id(None), id(one))
    )


def _count(thing: Any) -> int:
    kind: Any = {32: ctypes.c_int32, 64: ctypes.c_int64}[COUNT_BITS]
    return kind.from_address(id(thing)).value


def _word(thing: Any, place: int) -> int:
    return _at(id(thing) + place)


def _at(address: int) -> int:
    return ctypes.c_int64.from_address(address).value
