"""Who owns which reference while a translated function runs.

References lie in places of a frame on the stack: first the locals, then what statements own for a while. A
value is owned by its statement, or by something that outlives the statement, or it is *fragile*: read from a
struct, so that any call may let go of it. Any call may run any Python.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from jtorch.native.llvm_text import NULL, Value, integer
from jtorch.native.subset.runtime import Code

_FRAME = Value("ptr", "%frame")


class Frame(Code):
    """A function with places for references."""

    def __init__(self, name: str, parameters: dict[str, str]) -> None:
        super().__init__(name, parameters)
        self._size = 0
        self._places: dict[str, int] = {}  # name -> which
        self._free: list[Value] = []  # places that own nothing
        self._open: dict[str, Value] = {}  # those of this statement, by what they own: value -> place
        self._unsure: list[Value] = []  # those that may own something, where a condition decides
        self._held: list[Value] = []  # those of one reference more
        self._fragile: set[str] = set()  # values
        self._conditions = 0  # of those around an expression

    def _prologue(self) -> list[str]:
        size = max(1, self._size)
        return [
            f"  {_FRAME.name} = alloca ptr, i64 {size}",
            f"  call void @llvm.memset.p0.i64({_FRAME}, i8 0, i64 {8 * size}, i1 false)",
        ]

    def at(self, place: Value, offset: int) -> Value:
        """A place of the frame is computed where it is used: kept, each would need a register."""
        index = self._places.get(place.name)
        return super().at(place, offset) if index is None else super().at(_FRAME, 8 * index + offset)

    def new_place(self) -> Value:
        """One that is never given back: a local."""
        place = Value("ptr", f"%place_{self._size}")
        self._places[place.name] = self._size
        self._size += 1
        return place

    def place(self) -> Value:
        """One for a while, see ``own_in``."""
        return self._free.pop() if self._free else self.new_place()

    def drop(self, place: Value) -> None:
        value = self.load(place)
        with self.when(self.negated(self.same(value, NULL))):
            self.store(NULL, place)
            self.api("Py_DecRef", value)

    def drop_first(self, count: int) -> None:
        if count:
            self.runtime("drop_all", _FRAME, integer(count), gives="void")

    def drop_from(self, first: int) -> None:
        if self._size > first:
            places = self.at(_FRAME, 8 * first)
            self.runtime("drop_all", places, integer(self._size - first), gives="void")

    # -- what a statement owns -------------------------------------------------------------------------

    def new(self, value: Value) -> Value:
        """A new reference, or null after an error: this statement owns it."""
        self.leave_if(self.same(value, NULL), "raised")
        place = self.place()
        self.store(value, place)
        return self.own_in(place, value)

    def own_in(self, place: Value, value: Value) -> Value:
        """This statement owns ``value`` by way of ``place``, where it was stored."""
        self._open[value.name] = place
        self._fragile.discard(value.name)
        if self._conditions:
            self._unsure.append(place)
        return value

    def kept(self, value: Value) -> Value:
        """What something else owns, owned by this statement, too."""
        if value.name not in self._open:
            self.keep(value)
            place = self.place()
            self.store(value, place)
            self.own_in(place, value)
        return value

    def fragile(self, value: Value) -> Value:
        """Read from a struct."""
        self._fragile.add(value.name)
        return value

    def steady(self, value: Value) -> Value:
        """What outlives the calls that follow in this statement."""
        return self.kept(value) if value.name in self._fragile else value

    def taken(self, value: Value) -> Value:
        """A reference that whoever asks must own: the statement's own, where it has one."""
        place = self._open.get(value.name)
        if place is None or (self._conditions and place not in self._unsure):  # the other branch owns it, too
            self.keep(value)
            return value
        del self._open[value.name]
        self.store(NULL, place)
        if place not in self._unsure:
            self._free.append(place)
        return value

    def hold(self, value: Value) -> None:
        """One more reference to it, until the end of this statement."""
        self.keep(value)
        place = self.place()
        self.store(value, place)
        self._held.append(place)

    def end_statement(self) -> None:
        sure = [place for place in self._open.values() if place not in self._unsure]
        for place in (*sure, *self._unsure, *self._held):  # of what is null nothing is dropped
            self.drop(place)
            self._free.append(place)
        self._held.clear()
        self._open.clear()
        self._unsure.clear()
        self._fragile.clear()

    @contextmanager
    def maybe(self, condition: Value) -> Iterator[None]:
        """A part of an expression that is only reached under a condition."""
        with self.when(condition):
            self._conditions += 1
            yield
            self._conditions -= 1

    def not_negative(self, answer: Value) -> Value:
        self.leave_if(self.less(answer, integer(0, answer.kind)), "raised")
        return answer
