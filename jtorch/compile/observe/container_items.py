"""Items of containers: which they are, and what becomes of a write to one."""

from __future__ import annotations

from collections import deque
from typing import Any

import numpy as np

from jtorch.compile.observe.attributes import changes_unseen, read_special
from jtorch.compile.observe.effects import Place
from jtorch.compile.observe.guards import MISSING, PLAIN, LengthRead
from jtorch.compile.observe.kinds import Kind, kind_of
from jtorch.compile.observe.questions import see_hashed
from jtorch.compile.observe.reading import source_of
from jtorch.compile.observe.stand_ins import is_stand_in
from jtorch.compile.observe.stepping import Stop
from jtorch.core import watch
from jtorch.eager.tensor import Tensor, is_held_outside


def see_index(stop: Stop, key: Any) -> None:
    """A list, a tuple, a text or a range may be asked by arrays of one number, or by slices of them."""
    for part in (key.start, key.stop, key.step) if type(key) is slice else (key,):
        if kind_of(type(part)) is Kind.ARRAY:
            stop.observer.array(stop.frame, part)


def see_indices(stop: Stop, key: Any, *others: Any) -> None:
    """A tensor is asked by ``key``: arrays that are arguments are to it as tensors are, of others, and what
    lies in lists, the elements are read."""
    observer, parts = stop.observer, key if type(key) is tuple else (key,)
    read = [p for p in parts if not (type(p) is np.ndarray and p.ndim and id(p) in observer.places)]
    for part in read:
        see_index(stop, part)
    observer.deep(stop.frame, (*read, *others), objects=False)


def item_of(container: Any, key: Any) -> Any:
    if isinstance(container, dict):
        return dict.get(container, key, MISSING)
    if isinstance(container, (list, bytearray, deque)) and hasattr(type(key), "__index__"):
        return container[key] if -len(container) <= key < len(container) else MISSING
    return MISSING


def from_the_front(container: Any, key: Any) -> Any:
    """An index of a list, of which those from the end are other names."""
    return key + len(container) if isinstance(container, list) and isinstance(key, int) and key < 0 else key


def write_item(stop: Stop, container: Any, key: Any, value: Any) -> None:
    """``container[key] = value`` is about to run, or ``del container[key]`` where ``value`` is MISSING."""
    kind = kind_of(type(container))
    if kind is not Kind.TENSOR:
        see_index(stop, key)
    stop.observer.change_given(stop.frame, container)
    if kind is not Kind.TENSOR and isinstance(key, (Tensor, tuple)):
        known = container if isinstance(container, dict) else iter(())
        see_hashed(stop.observer, stop.frame, key, known)
    if kind is Kind.MODULE and stop.observer.is_outside(container):
        stop.observer.noted.note(container, source_of(stop.frame), "__setitem__")
    elif kind is Kind.OBJECT:
        method = "__delitem__" if value is MISSING else "__setitem__"
        read_special(stop.observer, stop.frame, container, method)
    elif kind is Kind.TENSOR:
        see_indices(stop, key, value)
    elif kind in (Kind.CONTAINER, Kind.ARRAY) and id(container) in stop.observer.outside:
        before = item_of(container, key) if kind is Kind.CONTAINER else MISSING
        if before is MISSING and type(container) is list and isinstance(key, int):  # which is an IndexError
            stop.observer.read(LengthRead, stop.frame, container, None, len(container))
            return
        key = from_the_front(container, key)
        place = item_place(container, key, before, value)
        if place is not None and isinstance(container, list):
            stop.observer.hold_length(stop.frame, container)
        stop.observer.write(stop.frame, container, key, before, value, place)
    elif kind in (Kind.FOREIGN, Kind.OURS, Kind.OBJECT):
        name = "__delitem__" if value is MISSING else "__setitem__"
        changes_unseen(stop.observer, stop.frame, container, key, name)


def item_place(container: Any, key: Any, before: Any, value: Any) -> Place | None:
    """An item that a replay can write: of a list that is there, or of a dict; of an optimizer's group only
    rates and other numbers for such, by which its step goes then (``Tracer.scalar``)."""
    if isinstance(container, watch.DefaultDict) and isinstance(key, Tensor) and value is not MISSING:
        return Place(container, key) if is_held_outside(key) else None
    if value is MISSING or not isinstance(key, PLAIN):
        return None
    if type(container) is list and isinstance(key, int) and before is not MISSING:
        return Place(container, key)
    plain = isinstance(container, dict) and type(container).__setitem__ is dict.__setitem__
    if plain and "params" in container:
        plain = (type(before) is int or _is_rate(before)) and _is_rate(value)
    return Place(container, key) if plain else None


def _is_rate(value: Any) -> bool:
    return type(value) is float or is_stand_in(value)
