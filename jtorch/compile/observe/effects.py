"""What a function does to plain Python state outside: ``self.n += 1``, ``losses.append(loss.item())``.

While it is recorded such a write happens, with traced values, is noted, and is taken back when the recording
ends. A replay does it again after its kernels have run: what was written is one more result of the graph.

A number that a function reads and then replaces is a count of something. A guard on it would have each call
recorded; so it is recorded once more with the number as an input that each call reads (``Counting``), unless
its digits are needed. A tensor that is read and then replaced by another (``self.h = self.cell(x, self.h)``)
becomes an argument that nobody passes (``Replacing``), with all the guards that arguments have.
"""

from __future__ import annotations

import sys
import types
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any

import numpy as np

from jtorch.compile.observe.guards import GONE, MISSING, PLAIN, told
from jtorch.compile.observe.scalar import StandIn
from jtorch.core import watch
from jtorch.core.dim import is_symbolic
from jtorch.core.errors import Restart
from jtorch.core.sizes import settled
from jtorch.eager.evaluate import EAGER
from jtorch.eager.tensor import Tensor


class Counting(Restart):
    """The function replaces the number at ``place``, which it has read: record it with that as an input."""

    def __init__(self, place: Place) -> None:
        super().__init__(place)
        self.place = place


class Replacing(Restart):
    """The function puts another tensor at ``place``, whose tensor it has read: record it with that one as
    one more argument, which each call finds there."""

    def __init__(self, place: Place) -> None:
        super().__init__(place)
        self.place = place


class Filling(Restart):
    """The function keeps ``value``, an object that it made, at ``place``, where nothing was: in a cache.
    Eager mode does so once: the call runs as that, since what it does may be something else, and a later one
    is recorded, which finds it. Where it must be recorded now, the object is put there for good."""

    def __init__(self, place: Place, value: Any) -> None:
        super().__init__(place)
        self.place = place
        self.value = value


class Kept:
    """What ``functools.cached_property`` keeps under ``name`` in the dict of an object, with the interface of
    what ``functools.cache`` gives."""

    def __init__(self, facts: dict[str, Any], name: str, function: Any) -> None:
        self.facts, self.__name__, self.__wrapped__ = facts, name, function

    def cache_clear(self) -> None:
        self.facts.pop(self.__name__, None)


@dataclass(frozen=True, eq=False)
class Place:
    """Something outside that is written: ``container[key]``, which may be the dict of an object; where it is
    the dict of a module, others are told."""

    container: Any
    key: Any
    of_module: bool = False

    def __post_init__(self) -> None:
        object.__setattr__(self, "key", settled(self.key))

    @property
    def identity(self) -> tuple[int, Any]:
        return id(self.container), self.key

    def label(self) -> str:
        """How a message names it."""
        whose = {Cell: "an enclosing function", Slot: f"a {type(self.container).__name__}"}
        return f"{told(self.key)} of {whose.get(type(self), told(self.container))}"

    def get(self) -> Any:
        if isinstance(self.container, dict):
            return dict.get(self.container, self.key, MISSING)
        return self.container[self.key]

    def find(self) -> Any:
        """What is there, or MISSING."""
        try:
            return self.get()
        except GONE:
            return MISSING

    def put(self, value: Any) -> None:
        before = self.get() if self.of_module else value
        if value is MISSING:
            self.container.pop(self.key, None)
        else:
            self.container[self.key] = value
        if before is not value:
            watch.tell(self.container, self.key, before)

    def snapshot(self) -> Callable[[], None]:
        """What makes it again as it is now."""
        before = self.get()
        return lambda: self.put(before)

    def undoing(self, value: Any) -> Callable[[], None]:
        """What takes back that ``value`` is put there next."""
        return self.snapshot()


class Cell(Place):
    """The variable ``key`` of an enclosing function, in the cell ``container``."""

    def get(self) -> Any:
        try:
            return self.container.cell_contents
        except ValueError:
            return MISSING

    def put(self, value: Any) -> None:
        if value is MISSING:
            del self.container.cell_contents
        else:
            self.container.cell_contents = value


class Slot(Place):
    """The slot ``key`` of the object ``container``."""

    def get(self) -> Any:
        return getattr(self.container, self.key, MISSING)

    def put(self, value: Any) -> None:
        if value is MISSING:
            delattr(self.container, self.key)
        else:
            setattr(self.container, self.key, value)


class Length(Place):
    """How much the list, deque, dict or set ``container`` holds. While it is another number that a function
    finds there, ``len()`` gives it: see ``Effects.lengths``."""

    def label(self) -> str:
        return f"the length of {told(self.container)}"

    def get(self) -> Any:
        return len(self.container)

    def put(self, value: Any) -> None:
        """Nothing: no container can be told."""

    def snapshot(self) -> Callable[[], None]:
        return lambda: None


class End(Place):
    """The end of the list or deque ``container``."""

    def label(self) -> str:
        return f"the end of {told(self.container)}"

    def put(self, value: Any) -> None:
        self.container.append(value)

    def snapshot(self) -> Callable[[], None]:
        container, n = self.container, len(self.container)
        if getattr(container, "maxlen", None) is not None:  # whose first entry an append may drop
            before = list(container)
            return lambda: _refill(container, before)

        def restore() -> None:
            while len(container) > n:
                container.pop()

        return restore

    def undoing(self, value: Any) -> Callable[[], None]:
        container, n = self.container, len(self.container)
        if getattr(container, "maxlen", None) is not None:
            return self.snapshot()

        def take_back() -> None:  # others may have appended meanwhile
            for k in range(len(container) - 1, n - 1, -1):
                if container[k] is value:
                    del container[k]
                    return

        return take_back


@dataclass(frozen=True, eq=False)
class Afterwards(Place):
    """A call of the function ``key`` with ``container`` that each call of the compiled function ends with.
    ``changes`` gives the dicts in which it changes something."""

    changes: Callable[[], list[dict[str, Any]]] = list

    def label(self) -> str:
        return f"what {self.key.__name__}() of a {type(self.container).__name__} sets"

    def put(self, value: Any) -> None:
        arguments, named = value
        self.key(self.container, *arguments, **named)

    def snapshot(self) -> Callable[[], None]:
        before = [(facts, dict(facts)) for facts in self.changes()]

        def restore() -> None:
            for facts, content in before:
                facts.clear()
                facts.update(content)

        return restore

    def undoing(self, value: Any) -> Callable[[], None]:
        return lambda: None  # while the function is recorded it does not happen


def _refill(container: Any, values: list[Any]) -> None:
    container.clear()
    container.extend(values)


def may_be_written(value: Any) -> bool:
    """Whether a replay can write ``value`` again: numbers, texts, tensors, and plain containers of them."""
    if isinstance(value, (*PLAIN, Tensor, np.generic)) or issubclass(type(value), StandIn):
        return True
    if type(value) in (tuple, list):
        return all(map(may_be_written, value))
    return type(value) is dict and all(map(may_be_written, value.values()))


def is_computed(value: Any) -> bool:
    """Whether each call computes what is written: it is no number or text, or a number made of sizes."""
    return is_symbolic(value) or not isinstance(value, PLAIN)


class Effects:
    """Those of one recording, in the order in which they happened."""

    def __init__(self) -> None:
        self.written: list[tuple[Place, Any]] = []
        self.plain: set[tuple[int, Any]] = set()  # places of numbers whose digits the function needs
        self.known: set[tuple[int, Any]] = set()  # places of which a read is no read from outside
        self.stood_in: dict[tuple[int, Any], Place] = {}  # those whose value each call brings as an input
        self.lengths: dict[int, Any] = {}  # of containers, by id, that each call brings
        self.changed: dict[int, Any] = {}  # containers that are not what they were
        self.grown: dict[int, Any] = {}  # those that have more entries than before
        self.called_out = False  # whether a function that is disabled for compiling has run, or is about to
        self._appended: dict[int, tuple[int, list[Any]]] = {}  # to those: (how many there were, what)
        self.unsettled: dict[int, Any] = {}  # containers that what is put off to the end of the call changes
        self.writers: set[Any] = set()  # the code of all functions during whose calls something was written
        self.leave_turn: Callable[[str], None] = lambda does: None  # raises in the turn of a loop
        self._undo = ExitStack()  # which goes on where one part cannot be undone

    def write(self, place: Place, value: Any, changes: bool = True) -> None:
        """``value`` is about to be written to ``place``; not ``changes`` where it is there already, so that
        reading the whole container finds what it finds before each call."""
        self.leave_turn("changes what is outside")
        if place.identity not in self.known or isinstance(place, End):
            self._undo.callback(place.undoing(value))
        self.known.add(place.identity)
        if changes:
            self.changed[id(place.container)] = place.container
        if isinstance(place, End):
            self.grown[id(place.container)] = place.container
            _, values = self._appended.setdefault(id(place.container), (len(place.container), []))
            values.append(value)
        self.written.append((place, value))
        frame: types.FrameType | None = sys._getframe(1)
        while frame is not None:
            self.writers.add(frame.f_code)
            frame = frame.f_back

    def appended(self, container: Any) -> int | None:
        """How much the function has appended to a list from outside, which is then at its end and all that
        was done to it; None where nobody knows what it holds, as after code that nobody watches."""
        if id(container) not in self.changed and id(container) not in self.unsettled:
            return 0
        before, values = self._appended.get(id(container), (0, []))
        if self.called_out or id(container) in self.unsettled or len(container) != before + len(values):
            return None
        only = all(type(place) is End for place in self.places if place.container is container)
        is_there = all(a is b for a, b in zip(container[before:], values, strict=True))
        return len(values) if only and is_there else None

    def put_off(self, place: Place, value: Any, containers: list[Any]) -> None:
        """Have each call end with what putting ``value`` there does, which will change these containers."""
        self.write(place, value, changes=False)
        self.unsettled.update((id(container), container) for container in containers)

    def replace(self, place: Place, value: Any) -> None:
        """Have the function find ``value`` at ``place``."""
        self._undo.callback(place.snapshot())
        self.known.add(place.identity)
        self.stood_in[place.identity] = place
        if type(place) is Length:
            self.lengths[id(place.container)] = value
        place.put(value)

    def callback(self, undo: Callable[[], None]) -> None:
        """Have ``undo`` take back something else."""
        self._undo.callback(undo)

    def undo(self) -> None:
        """Make everything what it was before."""
        self._undo.close()

    @property
    def places(self) -> list[Place]:
        return [place for place, _ in self.written]

    @property
    def constants(self) -> list[Any]:
        """For each write the number or text that it writes; MISSING where each call computes it."""
        return [MISSING if is_computed(value) else value for _, value in self.written]

    @property
    def computed(self) -> list[Any]:
        """What else is written."""
        return [value for _, value in self.written if is_computed(value)]


def finisher(places: list[Place], constants: list[Any], sets_grads: bool) -> Callable[[Any], Any]:
    """From (what the function returned, what it computed to be written, tensors it made with their gradients)
    to what it returned, after writing that; from what it returned alone where there is nothing but
    ``constants``."""
    pairs = list(zip(places, constants, strict=True))

    def write_constants(returned: Any) -> Any:
        for place, value in pairs:
            place.put(value)
        return returned

    def finish(made: Any) -> Any:
        returned, values, grads = made
        for tensor, grad in grads:
            EAGER.set_grad(tensor, grad)
        computed = iter(values)
        for place, value in pairs:
            place.put(next(computed) if value is MISSING else value)
        return returned

    return finish if sets_grads or any(value is MISSING for value in constants) else write_constants
