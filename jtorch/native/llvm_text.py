"""Writes one function of LLVM IR from top to bottom, where text with gaps would be hard to follow.

Values know their type. A condition is a block of Python under ``when``, a loop one under ``repeat``; what
changes over time lives in a ``slot``, which LLVM turns into a register.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple


class Value(NamedTuple):
    kind: str  # an LLVM type: ptr, i64, i32 or i1
    name: str

    def __str__(self) -> str:
        return f"{self.kind} {self.name}"


NULL = Value("ptr", "null")


def integer(number: int, kind: str = "i64") -> Value:
    return Value(kind, str(int(number)))


class Writer:
    """The text of one function, which gives a pointer unless ``gives`` says otherwise.

    ``internal`` ones are called by others of the same text only.
    """

    def __init__(
        self, name: str, parameters: dict[str, str], gives: str = "ptr", internal: bool = False
    ) -> None:
        self.name, self._gives = name, gives
        self._head = f"define {'internal ' if internal else ''}{gives} @{name}"
        self.parameters = {p: Value(kind, f"%{p}") for p, kind in parameters.items()}
        self._slots: list[str] = []
        self._lines: list[str] = []
        self._count = 0

    def text(self) -> str:
        """The finished function."""
        head = f"{self._head}({', '.join(map(str, self.parameters.values()))}) {{\nentry:\n"
        return head + "\n".join([*self._prologue(), *self._slots, *self._lines]) + "\n}\n"

    def declaration(self) -> str:
        """For a text that calls it and does not hold it."""
        kinds = ", ".join(value.kind for value in self.parameters.values())
        return f"declare {self._gives} @{self.name}({kinds})"

    def _prologue(self) -> list[str]:
        """Lines before all others."""
        return []

    # -- memory ----------------------------------------------------------------------------------------

    def slot(self, initial: Value) -> Value:
        """A place on the stack, set where the function begins."""
        place = self.array(initial.kind, 1)
        self._slots.append(f"  store {initial}, {place}")
        return place

    def array(self, kind: str, count: int, align: int = 0) -> Value:
        """Places on the stack, side by side, the first at a multiple of ``align`` bytes."""
        place = Value("ptr", self._fresh("slot"))
        aligned = f", align {align}" if align else ""
        self._slots.append(f"  {place.name} = alloca {kind}, i64 {count}{aligned}")
        return place

    def at(self, place: Value, offset: int) -> Value:
        """The place so many bytes further on."""
        return self._set("ptr", f"getelementptr i8, {place}, {integer(offset)}") if offset else place

    def at_bytes(self, place: Value, offset: Value) -> Value:
        """The same for an offset that is only known when it runs."""
        return self._set("ptr", f"getelementptr i8, {place}, {offset}")

    def load(self, place: Value, offset: int = 0, kind: str = "ptr") -> Value:
        """What lies so many bytes behind ``place``."""
        return self._set(kind, f"load {kind}, {self.at(place, offset)}")

    def store(self, value: Value, place: Value, offset: int = 0) -> None:
        self._line(f"store {value}, {self.at(place, offset)}")

    def nth(self, words: Value, index: Value) -> Value:
        """The place of one of the words, of eight bytes each, that lie side by side at ``words``."""
        return self._set("ptr", f"getelementptr i64, {words}, {index}")

    def load_nth(self, words: Value, index: Value, kind: str = "ptr") -> Value:
        return self._set(kind, f"load {kind}, {self.nth(words, index)}")

    def store_nth(self, value: Value, words: Value, index: Value) -> None:
        self._line(f"store {value}, {self.nth(words, index)}")

    # -- arithmetic ------------------------------------------------------------------------------------

    def call(self, function: Value, *arguments: Value, gives: str = "ptr") -> Value:
        passed = f"call {gives} {function.name}({', '.join(map(str, arguments))})"
        if gives == "void":
            self._line(passed)
            return NULL
        return self._set(gives, passed)

    def same(self, a: Value, b: Value) -> Value:
        return self._set("i1", f"icmp eq {a}, {b.name}")

    def either(self, first: Value, *others: Value) -> Value:
        for other in others:
            first = self._set("i1", f"or {first}, {other.name}")
        return first

    def both(self, first: Value, *others: Value) -> Value:
        for other in others:
            first = self._set("i1", f"and {first}, {other.name}")
        return first

    def true(self, word: Value) -> Value:
        return self.negated(self.same(word, integer(0, word.kind)))

    def negated(self, a: Value) -> Value:
        return self._set("i1", f"xor {a}, true")

    def masked(self, a: Value, mask: int) -> Value:
        return self._set(a.kind, f"and {a}, {mask}")

    def plus(self, a: Value, b: Value) -> Value:
        return self._set(a.kind, f"add {a}, {b.name}")

    def minus(self, a: Value, b: Value) -> Value:
        return self._set(a.kind, f"sub {a}, {b.name}")

    def times(self, a: Value, b: Value) -> Value:
        return self._set(a.kind, f"mul {a}, {b.name}")

    def quotient(self, a: Value, b: Value) -> Value:
        return self._set(a.kind, f"sdiv {a}, {b.name}")

    def remainder(self, a: Value, b: Value) -> Value:
        return self._set(a.kind, f"srem {a}, {b.name}")

    def least(self, a: Value, b: Value) -> Value:
        return self.chosen(self.less(a, b), a, b)

    def operation(self, kind: str, text: str) -> Value:
        """Any other instruction, which gives a ``kind``."""
        return self._set(kind, text)

    def instruction(self, text: str) -> None:
        """Any other that gives nothing, or a value that is named in it."""
        self._line(text)

    def less(self, a: Value, b: Value) -> Value:
        return self._set("i1", f"icmp slt {a}, {b.name}")

    def widened(self, a: Value) -> Value:
        return self._set("i64", f"sext {a} to i64")

    def chosen(self, condition: Value, a: Value, b: Value) -> Value:
        return self._set(a.kind, f"select {condition}, {a}, {b}")

    # -- the way through -------------------------------------------------------------------------------

    @contextmanager
    def when(self, condition: Value) -> Iterator[None]:
        then, after = self._fresh("then"), self._fresh("after")
        self._line(f"br {condition}, label {then}, label {after}")
        self.begin(then[1:])
        yield
        self.leave(after[1:])
        self.begin(after[1:])

    @contextmanager
    def repeat(self, count: Value) -> Iterator[Value]:
        """The block ``count`` times; what it gets is how often it ran."""
        counter = self.slot(integer(0))
        self.store(integer(0), counter)
        again, body, after = self._fresh("again"), self._fresh("body"), self._fresh("after")
        self.leave(again[1:])
        self.begin(again[1:])
        index = self.load(counter, kind="i64")
        self._line(f"br {self.same(index, count)}, label {after}, label {body}")
        self.begin(body[1:])
        yield index
        self.store(self.plus(index, integer(1)), counter)
        self.leave(again[1:])
        self.begin(after[1:])

    def label(self, hint: str) -> str:
        """A new one, to begin and to leave to."""
        return self._fresh(hint)[1:]

    def begin_unreached(self) -> None:
        """What follows a way out belongs to no way in."""
        self.begin(self.label("unreached"))

    def begin(self, label: str) -> None:
        self._lines.append(f"{label}:")

    def leave(self, label: str) -> None:
        self._line(f"br label %{label}")

    def leave_if(self, condition: Value, label: str) -> None:
        on = self._fresh("on")
        self._line(f"br {condition}, label %{label}, label {on}")
        self.begin(on[1:])

    def give(self, value: Value) -> None:
        self._line(f"ret {value}")

    def give_nothing(self) -> None:
        self._line("ret void")

    def give_if(self, condition: Value, value: Value) -> None:
        with self.when(condition):
            self.give(value)
            self.begin_unreached()

    # -- writing ---------------------------------------------------------------------------------------

    def _fresh(self, hint: str) -> str:
        self._count += 1
        return f"%{hint}_{self._count}"

    def _set(self, kind: str, text: str) -> Value:
        name = self._fresh("v")
        self._line(f"{name} = {text}")
        return Value(kind, name)

    def _line(self, text: str) -> None:
        self._lines.append(f"  {text}")
