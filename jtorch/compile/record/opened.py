"""Numbers outside, and containers of numbers, that somebody changes between calls: ``self.rewards = [...]``.

A guard has a function recorded for each content that such a container gets. So where a later recording finds
another content at a place than an earlier one did, what is there becomes an argument that nobody passes, as
tensors do that a function replaces: opened into leaves, each with the guards of an argument. Integers in
there are read at each call, too. While it is recorded the function finds a copy there, which it may read;
where it changes that, gives it away or asks which object it is, it is recorded once more with the container
as it is.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from types import MemberDescriptorType
from typing import Any

import numpy as np

from jtorch.compile.observe.attributes import find
from jtorch.compile.observe.effects import Cell, Length, Place, Slot
from jtorch.compile.observe.guards import (
    MISSING,
    AttributeRead,
    CellRead,
    ContentsRead,
    ItemRead,
    LengthRead,
    Read,
)
from jtorch.compile.observe.kinds import is_users
from jtorch.compile.observe.stand_ins import Closed
from jtorch.compile.record.arrays import NUMBERS, lend_if_possible
from jtorch.eager.tensor import Tensor

_LIMIT = 256  # leaves of one container: each that is a number is an input of its own
_DEPTH = 4  # of containers in containers
_CLASSES = (list, tuple, dict, deque)
_SIZED, _INDEXED = (list, deque, dict, set), (list, deque)
_LEAVES = (bool, int, float, str, type(None), Tensor, np.ndarray)
LEAF = "*"


@dataclass(frozen=True)
class Opened:
    """What is at ``place``: ``n`` leaves, those of the call from ``start`` on, in containers of ``form``."""

    place: Any  # a Place, or a Draw
    start: int
    form: Any
    n: int

    def leaves(self, apart: frozenset[int] = frozenset(), given: Any = ()) -> list[Any] | None:
        """The leaves that are there now, or are drawn by a call that has been ``given`` others; None where
        the form is another one, or a container is one of those that must be ``apart``: what the function
        writes."""
        found = open_up(self.place.find(given) if self.brought else self.place.find())
        if found is None or found[0] != self.form or not apart.isdisjoint(map(id, found[2])):
            return None
        return found[1]

    @property
    def brought(self) -> list[int]:
        """The positions of the arguments by which it draws."""
        return getattr(self.place, "brought", [])

    def build(self, leaves: Sequence[Any]) -> tuple[Any, list[Any]]:
        """(what the function finds there, the containers in it)"""
        made: list[Any] = []
        return _built(self.form, iter(leaves[self.start : self.start + self.n]), made), made

    def change(self) -> tuple[str, str]:
        """The form, and what is there now, as messages say it."""
        found = open_up(self.place.find())
        return _text(self.form), "what cannot be opened" if found is None else _text(found[0])


def open_all(places: Iterable[Place], start: int) -> list[tuple[Opened, list[Any], list[Any]]]:
    """For each of ``places`` that can be opened: it, its leaves from position ``start`` of a call's on, and
    its containers that can be changed."""
    found = []
    for place in places:
        now = open_up(place.find())
        if now is not None and all(map(_can_be_leaf, now[1])):
            form, leaves, containers = now
            found.append((Opened(place, start, form, len(leaves)), lend_some(leaves), containers))
            start += len(leaves)
    return found


def with_opened(leaves: list[Any], opened: Iterable[Opened]) -> list[Any]:
    """``leaves``, and those of what is at the places that were opened."""
    for each in opened:
        leaves += lend_some(each.leaves(given=leaves) or ())
    return leaves


def lend_some(leaves: Iterable[Any]) -> list[Any]:
    return [lend_if_possible(leaf) if type(leaf) in NUMBERS or _is_array(leaf) else leaf for leaf in leaves]


def _is_array(leaf: Any) -> bool:
    return type(leaf) is np.ndarray and leaf.dtype.kind in "fiub"


def _can_be_leaf(leaf: Any) -> bool:
    if not isinstance(leaf, _LEAVES):
        return type(leaf) in NUMBERS
    return type(leaf) is not np.ndarray or type(lend_if_possible(leaf)) is not np.ndarray


def varying(plans: Iterable[Any]) -> list[Place]:
    """The places at which another content is found than when ``plans`` were recorded, and those that are open
    in one of them; not those that a recording had to close."""
    found: dict[Any, Place] = {}
    closed: set[Any] = set()
    for plan in plans:
        capture = plan.capture
        closed |= capture.closed
        found |= {each.place.identity: each.place for each in capture.opened}
        changed = [read for read in capture.plain if not read.holds()]
        written = {place.identity for place in capture.written}
        whole = {id(r.container) for r in capture.plain if isinstance(r, ContentsRead)}
        inside = {id(r.container) for r in changed if _shows_change(r, whole)}
        for read in capture.plain if changed else ():
            place = _place_of(read, whole)
            if place is not None and _varies(read, place.find(), inside, place.identity in written):
                found[place.identity] = place
    return [place for identity, place in found.items() if identity not in closed]


def _shows_change(read: Read, whole: set[int]) -> bool:
    """Whether the container of a read that holds no more may be opened whole: a list or deque that was read
    as a ``whole``. Where the function asked for its length alone, or for single entries, as the latest of a
    buffer is, these are places of their own."""
    if type(read) is LengthRead or (isinstance(read, ItemRead) and type(read.container) in _INDEXED):
        return id(read.container) in whole
    return isinstance(read, (ContentsRead, ItemRead))


def _place_of(read: Read, whole: set[int]) -> Place | None:
    if isinstance(read, CellRead):
        return Cell(read.container, read.key)
    if type(read) is AttributeRead:
        on_class = find(type(read.container), read.key)
        is_slot = isinstance(on_class, MemberDescriptorType) and is_users(on_class.__objclass__)
        return Slot(read.container, read.key) if is_slot else None
    if type(read) is ItemRead and type(read.container) is dict and type(read.key) is str:
        if "params" in read.container:  # an optimizer's group, whose rates are read at each call anyway
            return None
        return Place(read.container, read.key, of_module=not read.guarded)
    if id(read.container) in whole:
        return None
    if type(read) is ItemRead and type(read.container) in _INDEXED and type(read.key) is int:
        return Place(read.container, read.key)
    if type(read) is LengthRead and isinstance(read.container, _SIZED):
        return Length(read.container, "__len__")
    return None


def _varies(read: Read, now: Any, changed: set[int], is_written: bool) -> bool:
    """Whether another number, or a container with another content, not of tensors alone unless the function
    itself puts it there, is where ``read`` found one; ``changed`` are containers whose entries are others
    than those that were read."""
    before = read.value
    if now is MISSING or type(now) is not type(before):
        return False
    if type(now) in (int, float, Tensor, np.ndarray) or type(now) in NUMBERS:
        counts = (
            is_written and type(now) is not float
        )  # or replaces it, which is no argument: see ``attempts``
        return not counts and not read.holds()
    found = open_up(now) if type(now) in _CLASSES else None
    if found is None:
        return False
    if not is_written and found[1] and all(isinstance(leaf, (Tensor, np.ndarray)) for leaf in found[1]):
        return False
    return now is not before or not changed.isdisjoint(map(id, found[2]))


def open_up(value: Any) -> tuple[Any, list[Any], list[Any]] | None:
    """(form, leaves, containers that can be changed); None where there are too many leaves."""
    leaves: list[Any] = []
    containers: list[Any] = []
    form = _open(value, leaves, containers, _DEPTH)
    return None if form is None or len(leaves) > _LIMIT else (form, leaves, containers)


def _open(value: Any, leaves: list[Any], containers: list[Any], depth: int) -> Any:
    cls = value.__class__
    if cls not in _CLASSES:
        leaves.append(value)
        return LEAF
    if not depth or len(value) > _LIMIT or len(leaves) > _LIMIT:
        return None
    if cls is not tuple:
        containers.append(value)
    extra: Any = None
    if cls is dict:
        if any(key.__class__ is not str for key in value):
            return None
        extra = tuple(value)
    elif cls is deque:
        extra = value.maxlen
    parts = [_open(v, leaves, containers, depth - 1) for v in (value.values() if cls is dict else value)]
    return None if None in parts else (cls, extra, tuple(parts))


def _built(form: Any, leaves: Iterator[Any], made: list[Any]) -> Any:
    if form == LEAF:
        return next(leaves)
    cls, extra, parts = form
    values = [_built(part, leaves, made) for part in parts]
    if cls is dict:
        value: Any = dict(zip(extra, values, strict=True))
    else:
        value = deque(values, extra) if cls is deque else cls(values)
    made.append(value)
    return value


def _text(form: Any) -> str:
    if form == LEAF:
        return "a value"
    cls, extra, parts = form
    if all(part == LEAF for part in parts):
        return f"a {cls.__name__} of {len(parts)}" + (f" ({', '.join(extra)})" if cls is dict else "")
    inner = ", ".join(map(_text, parts))
    return f"a {cls.__name__} of {len(parts)} ({inner if len(inner) < 60 else inner[:57] + '...'})"


class StandIns:
    """What a recording finds at the places that are open."""

    def __init__(self) -> None:
        self.held: list[tuple[Any, tuple, Place]] = []  # a container, what is in it, the place
        self.real: list[tuple[Any, Place]] = []  # the containers that are there
        self.by_id: dict[int, Place] = {}

    def add(self, opened: Opened, made: Iterable[Any], real: Iterable[Any]) -> None:
        for container in made:
            self.held.append((container, _entries(container), opened.place))
            self.by_id[id(container)] = opened.place
        self.real += [(container, opened.place) for container in real]

    def check(self, observer: Any, given: Iterable[Any], others_change: bool) -> None:
        """Raise Closed where the function has changed one, or has reached the real one by another way, or
        ``others_change`` what may be one."""
        for container, before, place in self.held:
            now = _entries(container)
            if len(now) != len(before) or any(a is not b for a, b in zip(now, before, strict=True)):
                raise Closed(place)
        known = set(map(id, given))
        for container, place in self.real:
            if others_change or id(container) in observer.outside or id(container) in known:
                raise Closed(place)


def _entries(container: Any) -> tuple:
    return (*container, *container.values()) if isinstance(container, dict) else tuple(container)
